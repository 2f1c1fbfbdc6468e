//! What it costs to read and judge a list: `cargo test --release -p guard-agent --lib -- --ignored --nocapture
//! pins::tests::measure`.

use std::time::Instant;

use super::*;

/// 43 tools, about 60 KB: the largest of the honest lists, some with a long description.
fn large() -> String {
    let mut tools: Vec<Value> = honest::LISTS
        .iter()
        .filter(|(server, ..)| *server != "fetch-modern")
        .flat_map(|(_, text, _)| {
            serde_json::from_str::<Value>(text).unwrap()["tools"]
                .as_array()
                .unwrap()
                .clone()
        })
        .collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.to_string().len()));
    tools.truncate(43);
    let long = tools[0]["description"].as_str().unwrap().to_owned();
    for tool in tools.iter_mut().rev() {
        if page(std::slice::from_ref(tool)).len() < 900 && !long.is_empty() {
            tool["description"] = Value::from(&long[..1200]);
        }
    }
    json!({ "tools": tools }).to_string()
}

#[test]
#[ignore = "a measurement"]
fn a_list_of_43_tools() {
    const ROUNDS: u32 = 300;
    let text = large();
    let list = Definitions::default().page(text.as_bytes()).unwrap();
    let names = Names::new(list.tools().iter().map(Definition::name), []);
    let time = |what: &str, run: &mut dyn FnMut()| {
        run();
        let begin = Instant::now();
        (0..ROUNDS).for_each(|_| run());
        println!("{what}: {} µs", (begin.elapsed() / ROUNDS).as_micros());
    };
    println!("{} tools, {} bytes", list.tools().len(), text.len());
    time("read and hash", &mut || {
        Definitions::default().page(text.as_bytes()).unwrap();
    });
    time("look at the texts", &mut || {
        for tool in list.tools() {
            assert_eq!(looks::texts(tool, &names), []);
        }
    });
    time("look at the names", &mut || {
        let names = Names::new(list.tools().iter().map(Definition::name), []);
        for tool in list.tools() {
            assert_eq!(looks::name(tool.name(), &names), []);
        }
    });
    let mut store = Memory::default();
    time("read and judge, as before", &mut || {
        let list = Definitions::default().page(text.as_bytes()).unwrap();
        judge(&mut store, "s", &list, &[], false, at(0)).unwrap();
    });
    time("leave out one", &mut || {
        Filter::Tools
            .apply(text.as_bytes(), |name| name != "fetch")
            .unwrap();
    });
}
