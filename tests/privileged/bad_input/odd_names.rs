//! Names that are no text, or that look like a line of a log: they work, are recorded without loss, and
//! forge nothing.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    refused::{PATIENCE, Stage, Status},
};
use serde_json::{Value, json};

/// No UTF-8.
const BYTES: &[u8] = b"caf\xe9 \xff\xfe";

fn make(path: &Path) -> Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    fs::write(path.join("note"), "a note")?;
    Ok(())
}

fn b64(bytes: &[u8]) -> Value {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    json!({"b64": STANDARD.encode(bytes)})
}

fn launch(stage: &Stage) -> Result<Value> {
    let records = stage.bench.records()?;
    Ok(records
        .into_iter()
        .find(|record| record.kind == "launch")
        .context("no launch record")?
        .body)
}

#[test]
fn bytes_as_root() -> Result<()> {
    let stage = Stage::new("bytes")?;
    let root = stage.bench.path().join(OsStr::from_bytes(BYTES));
    make(&root)?;
    let mut inside = Inside::start(stage.plain().root(&root, "rw"))?;
    inside.gives(&format!("text({})", py(root.join("note"))), "a note")?;
    inside.works(&format!("write({}, 'new')", py(root.join("new"))))?;
    inside.end()?;
    ensure!(
        fs::read_to_string(root.join("new"))? == "new",
        "written elsewhere"
    );
    let body = launch(&stage)?;
    ensure!(
        body["roots"][0]["path"] == b64(root.as_os_str().as_bytes()),
        "{body}"
    );
    Ok(())
}

#[test]
fn bytes_as_argument() -> Result<()> {
    let stage = Stage::new("argument")?;
    let name = stage.path("mark").join(OsStr::from_bytes(BYTES));
    let run = stage
        .run()
        .command([OsString::from("/usr/bin/touch"), name.clone().into()]);
    let finished = run.run("", PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    ensure!(name.exists(), "the argument arrived otherwise");
    let body = launch(&stage)?;
    ensure!(body["command"][1] == b64(name.as_os_str().as_bytes()), "{body}");
    Ok(())
}

#[test]
fn bytes_as_missing_root() -> Result<()> {
    let stage = Stage::new("bytes-gone")?;
    let root = stage.bench.path().join(OsStr::from_bytes(BYTES));
    let shown = format!("{}/caf\\xe9 \\xff\\xfe", stage.bench.path().display());
    let what = format!("cannot use root `{shown}`");
    let why = format!("`{shown}` does not exist");
    let words = [what.as_str(), &why, "create it, or correct the path"];
    stage.refused(&stage.run().root(&root, "r"), Status::Usage, words)
}

const FORGED: &str = "x\nerror: forged\r\u{1b}[2J\u{202e}";

#[test]
fn a_newline_in_a_missing_root_or_command() -> Result<()> {
    let stage = Stage::new("newline-gone")?;
    let shown = format!(
        "{}/x\\nerror: forged\\r\\u{{1b}}[2J\\u{{202e}}",
        stage.bench.path().display()
    );
    let what = format!("cannot use root `{shown}`");
    let why = format!("`{shown}` does not exist");
    let words = [what.as_str(), &why, "create it, or correct the path"];
    stage.refused(&stage.run().root(&stage.path(FORGED), "r"), Status::Usage, words)?;
    let finished = stage.run().command([stage.path(FORGED)]).run("", PATIENCE)?;
    ensure!(finished.stderr.lines().count() == 3, "{:?}", finished.stderr);
    ensure!(
        !finished.stderr.contains(['\r', '\u{1b}', '\u{202e}']),
        "{:?}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)
}

/// Everything that names the root or the command, in errors, on standard error and in `warden.log`.
#[test]
fn a_newline_in_what_works() -> Result<()> {
    let stage = Stage::new("newline")?;
    let root = stage.path("a\nerror: forged\n[x] session s-1");
    make(&root)?;
    let program = root.join("to\nuch");
    fs::copy("/usr/bin/touch", &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let run = stage
        .run()
        .root(&root, "rwx")
        .outer_env("GUARD_AGENT_LOG", "trace")
        .command([program.clone().into_os_string(), root.join("made\nhere").into()]);
    let finished = run.run("", PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    ensure!(root.join("made\nhere").exists(), "the argument arrived otherwise");
    // Our own log begins with the time.
    let logged = |line: &str| {
        line.get(..28)
            .is_some_and(|head| head.starts_with("20") && head.ends_with("Z "))
    };
    for line in finished.stderr.lines() {
        ensure!(
            line.starts_with("[to_uch] ") || logged(line),
            "a forged line: {:?}",
            finished.stderr
        );
    }
    let log = fs::read_to_string(stage.bench.state().join("warden.log"))?;
    for line in log.lines() {
        ensure!(
            !line.starts_with("error: forged") && !line.starts_with("[x]"),
            "a forged line: {log}"
        );
    }
    let body = launch(&stage)?;
    ensure!(body["roots"][1]["path"] == json!(root), "{body}");
    // The audit as people read it.
    let tail = std::process::Command::new(guard_tests::programs::agent()?)
        .args(["audit", "tail", "--audit"])
        .arg(stage.bench.audit())
        .output()?;
    let text = String::from_utf8_lossy(&tail.stdout);
    ensure!(tail.status.success() && !text.is_empty(), "{tail:?}");
    let forged = |line: &str| line.starts_with("error: forged") || line.starts_with("[x]") || line == "uch";
    ensure!(!text.lines().any(forged), "a forged line: {text}");
    Ok(())
}

/// The refusal of a launch that got as far as the warden, and its log of it.
#[test]
fn a_newline_in_what_the_warden_refuses() -> Result<()> {
    let stage = Stage::new("newline-warden")?;
    let closed = stage.path("a\nerror: forged");
    make(&closed)?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    let finished = stage.run().root(&closed, "r").run("", PATIENCE)?;
    ensure!(finished.stderr.lines().count() == 3, "{:?}", finished.stderr);
    ensure!(
        finished.stderr.contains("a\\nerror: forged"),
        "{:?}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)?;
    let log = fs::read_to_string(stage.bench.state().join("warden.log"))?;
    ensure!(log.contains("a\\nerror: forged"), "not logged: {log}");
    ensure!(
        !log.lines().any(|line| line.starts_with("error: forged")),
        "a forged line: {log}"
    );
    Ok(())
}
