//! Real servers say the same through the agent as directly, to the byte.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::mpsc::channel,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{agent::AgentBuilder, fixtures, life::limit, refused::Stage};
use serde_json::{Value, json};

use crate::expect;

/// Asks one thing after the other; every line that comes until the last answer.
fn lines(command: &mut Command, questions: &[Value]) -> Result<Vec<String>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("failed to start the server")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let stdout = child.stdout.take().context("no stdout")?;
    let (sender, from) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut got = Vec::new();
    for question in questions {
        writeln!(stdin, "{question}")?;
        while question.get("id").is_some() {
            let line: String = from
                .recv_timeout(limit(Duration::from_secs(60)))
                .with_context(|| format!("no answer to {question}"))?;
            let message: Value = serde_json::from_str(&line)?;
            got.push(line);
            if message["id"] == question["id"] {
                break;
            }
        }
    }
    drop(stdin);
    let status = child.wait()?;
    ensure!(status.success(), "it ended with {status}");
    Ok(got)
}

fn questions(calls: &[(&str, Value)]) -> Vec<Value> {
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "guard-tests", "version": "0"}});
    let mut all = vec![
        json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}),
        json!({"jsonrpc": "2.0", "id": "7", "method": "ping"}),
    ];
    for (at, (tool, arguments)) in calls.iter().enumerate() {
        let params = json!({"name": tool, "arguments": arguments});
        all.push(
            json!({"jsonrpc": "2.0", "id": format!("call-{at}"), "method": "tools/call", "params": params}),
        );
    }
    all.push(json!({"jsonrpc": "2.0", "id": -1, "method": "vendor/unknown"}));
    all
}

/// The same words, with and without us before them.
fn compare(run: AgentBuilder, words: &[std::ffi::OsString], calls: &[(&str, Value)]) -> Result<()> {
    let questions = questions(calls);
    let (program, arguments) = words.split_first().context("no words")?;
    let direct = lines(Command::new(program).args(arguments), &questions)?;
    let guarded = lines(&mut run.mcp().command(words).process(true)?, &questions)?;
    ensure!(
        direct.len() == guarded.len(),
        "{} lines directly, {} through us",
        direct.len(),
        guarded.len()
    );
    for (direct, guarded) in direct.iter().zip(&guarded) {
        expect::same("client", guarded, direct)?;
    }
    // What is the same is not the same emptiness.
    ensure!(
        direct.iter().any(|line| line.contains("\"inputSchema\"")),
        "no tools: {direct:?}"
    );
    Ok(())
}

#[test]
fn the_file_system_server_of_node() -> Result<()> {
    let script = fixtures::node_server_filesystem()?;
    let stage = Stage::new("protocol-node")?;
    let data = stage.directory("data")?;
    fs::write(data.join("note"), "a note: é ☃ \u{2028} \u{1f600}\r\n")?;
    fs::write(data.join("long"), "0123456789 \"quoted\" \\ \t\n".repeat(20_000))?;
    let at = |name: &str| json!({"path": data.join(name)});
    let calls = [
        ("read_text_file", at("note")),
        ("read_text_file", at("long")),
        ("read_text_file", at("absent")),
        ("list_directory", at("")),
        ("read_text_file", json!({"path": 7})),
        ("no_such_tool", json!({})),
    ];
    let run = stage.plain().root(&data, "r");
    let words = [
        "/usr/bin/node".into(),
        script.into_os_string(),
        data.into_os_string(),
    ];
    compare(run, &words, &calls)
}

#[test]
fn the_time_server_of_python() -> Result<()> {
    let venv = fixtures::python_venv(&["mcp-server-time"])?;
    let stage = Stage::new("protocol-python")?;
    let convert =
        |time: &str| json!({"source_timezone": "UTC", "time": time, "target_timezone": "Asia/Tokyo"});
    let calls = [
        ("convert_time", convert("12:00")),
        ("convert_time", convert("never")),
        ("no_such_tool", json!({})),
    ];
    let words = [
        venv.join("bin/python").into_os_string(),
        "-m".into(),
        "mcp_server_time".into(),
        "--local-timezone".into(),
        "UTC".into(),
    ];
    compare(stage.plain(), &words, &calls)
}
