//! What a client says of its roots: the server hears of those that it can use.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::{duo::Duo, greeting::Greeting, on_stage};

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
fn those_outside_are_cut() -> Result<()> {
    on_stage(|stage| {
        let (work, top) = (stage.work(""), stage.path().to_owned());
        let work = uri(Path::new(work.to_string_lossy().trim_end_matches('/')));
        let top = uri(&top);
        let inside = [
            json!({"uri": work, "name": "the root itself"}),
            json!({"uri": format!("{work}/"), "name": "with a slash", "vendor": 1}),
            json!({"uri": format!("{work}/sub/deep")}),
            json!({"uri": format!("{work}/with%20space"), "_meta": {"a": [1]}}),
            json!({"uri": format!("{top}/bin")}),
        ];
        let outside = [
            // A name that only begins alike, what is above, what is beside.
            json!({"uri": format!("{work}-evil")}),
            json!({"uri": top}),
            json!({"uri": "file:///"}),
            json!({"uri": "file:///etc"}),
            json!({"uri": format!("{top}/state")}),
            // Ways out.
            json!({"uri": format!("{work}/../state")}),
            json!({"uri": format!("{work}/sub/../../state")}),
            json!({"uri": format!("{work}/%2e%2e/state")}),
            // Other places than this machine's files.
            json!({"uri": format!("https://example.com{}", work.trim_start_matches("file://"))}),
            json!({"uri": format!("file://elsewhere{}", work.trim_start_matches("file://"))}),
            json!({"uri": "work"}),
            json!({"uri": ""}),
        ];
        let mut duo = Duo::start(stage)?;
        duo.greet(&Greeting {
            client: r#"{"roots":{"listChanged":true}}"#,
            ..Greeting::default()
        })?;
        let mut all = outside.to_vec();
        for (at, root) in inside.iter().enumerate() {
            all.insert(at * 3, root.clone());
        }
        for (id, said, wanted) in [
            ("\"r\"", &all[..], &inside[..]),
            ("1", &outside[..], &[][..]),
            ("2", &inside[..], &inside[..]),
            ("3", &[][..], &[][..]),
        ] {
            let question = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#);
            duo.server(&question)?;
            duo.client_gets(&question)?;
            let answer = |roots: &[Value]| {
                let id: Value = serde_json::from_str(id)?;
                anyhow::Ok(json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}}))
            };
            duo.client(answer(said)?.to_string())?;
            let got: Value = serde_json::from_str(&duo.at_server()?)?;
            let wanted = answer(wanted)?;
            anyhow::ensure!(got == wanted, "the server got\n  {got}\ninstead of\n  {wanted}");
        }
        // An error has no roots.
        let question = r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#;
        duo.server(question)?;
        duo.client_gets(question)?;
        let error = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no roots here"}}"#;
        duo.client(error)?;
        duo.server_gets(error)?;
        duo.works()?;
        duo.leave()
    })
}

/// What has no list of roots in it has nothing for the server.
#[test]
fn an_answer_without_a_list() -> Result<()> {
    on_stage(|stage| {
        let mut duo = Duo::start(stage)?;
        duo.greet(&Greeting {
            client: r#"{"roots":{}}"#,
            ..Greeting::default()
        })?;
        for (id, result) in [
            "null",
            r#"{"roots":"file:///etc"}"#,
            r#"{"roots":[{"name":"x"},"file:///etc",7]}"#,
        ]
        .into_iter()
        .enumerate()
        {
            let question = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#);
            duo.server(&question)?;
            duo.client_gets(&question)?;
            duo.client(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))?;
            // Whatever the server gets: no path of that.
            let got = duo.at_server()?;
            anyhow::ensure!(!got.contains("/etc"), "the server got {got}");
        }
        duo.works()?;
        duo.leave()
    })
}
