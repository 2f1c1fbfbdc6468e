//! Who may call what, and what a tool's call may do.

use anyhow::{Result, ensure};
use guard_tests::{life::stage::Stage, tier::Tier};
use serde_json::{Value, json};

use crate::{asker, by_policy, call, calls, duo::Duo, greet, of_path, on_stage};

pub(crate) fn rules(rights: bool) -> Result<String> {
    let uid = asker()?;
    let rights_of = |rights_of: &str| {
        if rights {
            format!("rights = \"{rights_of}\"\n")
        } else {
            String::new()
        }
    };
    Ok(format!(
        "[server.puppet.tool.\"read_*\"]\nimpact = \"low\"\nreversible = true\n{}\
         [server.puppet.tool.write]\nimpact = \"low\"\nreversible = true\n{}\
         [role.tester]\nallow = [\"puppet/read_*\", \"puppet/write\", \"puppet/risky\", \"resource:puppet/file:///srv/**\"]\n\
         [identity.peer.uid]\n{uid} = {{ user = \"tess\", tenant = \"acme\", roles = [\"tester\"] }}\n",
        rights_of("r"),
        rights_of("rw"),
    ))
}

fn tool(name: &str) -> impl Fn(&str) -> String {
    let params = json!({"name": name, "arguments": {"of": name}});
    move |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

fn answers(duo: &mut Duo, number: u64, id: &str) -> Result<()> {
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
    duo.server(answer(&number.to_string()))?;
    duo.client_gets(&answer(id))
}

#[test]
fn what_no_role_allows_reaches_nobody_and_is_on_record() -> Result<()> {
    on_stage(|stage| {
        let mut duo = by_policy(stage, &rules(false)?, &[])?;
        greet(&mut duo)?;
        let number = duo.forwarded("1", tool("read_file"))?;
        answers(&mut duo, number, "1")?;
        for (id, name, said) in [
            ("2", "delete", "unknown tool \\\"delete\\\" [identity unknown]"),
            ("3", "risky", "a person would have to approve this call"),
        ] {
            duo.client(tool(name)(id))?;
            let answer = duo.at_client()?;
            ensure!(
                answer.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\"")),
                "{answer}"
            );
            ensure!(
                answer.contains(said) && answer.contains("\"isError\":true"),
                "{answer}"
            );
        }
        duo.client(
            r#"{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"file:///etc/shadow"}}"#,
        )?;
        let answer = duo.at_client()?;
        ensure!(
            answer.contains("-31003") && answer.contains("unknown resource"),
            "{answer}"
        );
        // The list is what may be called; and the session goes on.
        let list = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        let number = duo.forwarded("5", list)?;
        let tools = |names: &[&str]| {
            let tools: Vec<Value> = names
                .iter()
                .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                .collect();
            json!(tools).to_string()
        };
        duo.server(format!(
            r#"{{"jsonrpc":"2.0","id":{number},"result":{{"tools":{}}}}}"#,
            tools(&["delete", "read_file", "write", "risk"])
        ))?;
        duo.client_gets(&format!(
            r#"{{"jsonrpc":"2.0","id":5,"result":{{"tools":{}}}}}"#,
            tools(&["read_file", "write"])
        ))?;
        let number = duo.forwarded("6", tool("write"))?;
        answers(&mut duo, number, "6")?;
        duo.leave()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        let who = &call(&records, "1", "begin")?.body;
        ensure!(
            who["identity"]["user"] == "tess"
                && who["identity"]["roles"] == json!(["tester"])
                && who["identity"]["tenant"] == "acme",
            "{who}"
        );
        let gates: Vec<&Value> = who["gates"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|gate| &gate["gate"])
            .collect();
        ensure!(gates == ["form", "identity", "impact"], "{gates:?}");
        ensure!(call(&records, "2", "begin")?.body["tool"] == "write");
        let denied: Vec<Value> = calls(&records)
            .into_iter()
            .filter(|record| record.body["status"] == "denied")
            .map(|record| {
                let body = &record.body;
                let gate = &body["gates"][0];
                json!([
                    body["method"],
                    body["tool"],
                    body["uri"],
                    body["arguments"],
                    gate["gate"],
                    gate["verdict"],
                    body["phase"]
                ])
            })
            .collect();
        let wanted = [
            json!([
                "tools/call",
                "delete",
                null,
                r#"{"of":"delete"}"#,
                "identity",
                "deny",
                "end"
            ]),
            json!([
                "tools/call",
                "risky",
                null,
                r#"{"of":"risky"}"#,
                "impact",
                "deny",
                "end"
            ]),
            json!([
                "resources/read",
                null,
                "file:///etc/shadow",
                null,
                "identity",
                "deny",
                "end"
            ]),
        ];
        ensure!(denied == wanted, "{denied:#?}");
        Ok(())
    })
}

#[test]
fn who_is_not_known_gets_no_session() -> Result<()> {
    on_stage(|stage| {
        let rules = rules(false)?
            .lines()
            .map(|line| {
                if line.contains("tess") {
                    format!("4242 {}\n", &line[line.find('=').unwrap_or(0)..])
                } else {
                    format!("{line}\n")
                }
            })
            .collect::<String>();
        let mut duo = by_policy(stage, &rules, &[])?;
        let status = duo.ends()?;
        let said = duo.stderr();
        ensure!(status.code() == Some(1), "{status}: {said}");
        ensure!(
            said.contains("may call nothing of `puppet`") && said.contains("[identity.peer.uid]"),
            "{said}"
        );
        ensure!(
            !stage.audit().exists() || stage.records()?.is_empty(),
            "something was launched"
        );
        // There is no trail to verify.
        std::fs::create_dir_all(stage.audit())?;
        Ok(())
    })
}

/// At tier T1 the kernel holds a call to the rights of its tool; elsewhere nothing does, and nobody claims it.
#[test]
fn a_call_has_the_rights_of_its_tool() -> Result<()> {
    if Tier::current()? == Tier::T1 {
        return on_stage(enforced);
    }
    on_stage(|stage| {
        let mut duo = by_policy(stage, &rules(true)?, &[])?;
        let status = duo.ends()?;
        let said = duo.stderr();
        ensure!(status.code() == Some(3), "{status}: {said}");
        ensure!(
            said.contains("its tools have rights of their own") && said.contains("T1"),
            "{said}"
        );
        let mut duo = by_policy(stage, &rules(true)?, &["--allow-unenforced"])?;
        greet(&mut duo)?;
        let number = duo.forwarded("1", tool("write"))?;
        answers(&mut duo, number, "1")?;
        let said = duo.stderr();
        ensure!(said.contains("rights of tools: not enforced"), "{said}");
        duo.leave()?;
        stage.nothing_left()?;
        let records = stage.records()?;
        let launch = records.iter().find(|record| record.kind == "launch");
        ensure!(launch.is_some_and(|launch| launch.body["tool_rights"] == json!(false)));
        Ok(())
    })
}

fn enforced(stage: &Stage) -> Result<()> {
    let file = stage.work("file");
    std::fs::write(&file, "x")?;
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    let path = file.display().to_string();
    let writes = |duo: &Duo| duo.deed(&format!("write {}", path.len()), path.as_bytes());
    let mut duo = by_policy(stage, &rules(true)?, &[])?;
    greet(&mut duo)?;
    for (id, name) in [("1", "read_file"), ("2", "write"), ("3", "read_file")] {
        let number = duo.forwarded(id, tool(name))?;
        writes(&duo)?;
        answers(&mut duo, number, id)?;
    }
    // Between calls.
    writes(&duo)?;
    let number = duo.forwarded("4", tool("read_file"))?;
    answers(&mut duo, number, "4")?;
    duo.leave()?;
    stage.nothing_left()?;
    let records = stage.records()?;
    let launch = records.iter().find(|record| record.kind == "launch");
    ensure!(launch.is_some_and(|launch| launch.body["tool_rights"] == json!(true)));
    let told: Vec<Value> = of_path(&records, &path)
        .into_iter()
        .map(|record| {
            let body = &record.body;
            json!([
                body["decision"],
                body["layer"],
                body["reason"],
                body["calls"],
                body["attribution"]
            ])
        })
        .collect();
    let refused = |calls: Value, word: &str| json!(["deny", "bpf-lsm", "no-call-needs-it", calls, word]);
    ensure!(told.contains(&refused(json!(["1"]), "sole")), "{told:#?}");
    ensure!(told.contains(&refused(json!(["3"]), "sole")), "{told:#?}");
    ensure!(told.contains(&refused(json!([]), "idle")), "{told:#?}");
    let of_second: Vec<&Value> = told.iter().filter(|record| record[3] == json!(["2"])).collect();
    ensure!(of_second.len() == 1 && of_second[0][0] == "allow", "{told:#?}");
    Ok(())
}
