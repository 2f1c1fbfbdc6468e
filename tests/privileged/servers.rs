//! The hostile MCP servers: direct they succeed, under the agent the same calls are refused.

use std::{net::TcpListener, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control::User,
    guards::Scratch,
    mcp::Client,
    programs,
    require::skip,
    tier::{Tier, deny_user_namespaces},
};
use serde_json::json;

const TOOLS: [&str; 6] = [
    "connect",
    "env",
    "exec",
    "follow_link",
    "read_secret",
    "write_file",
];

/// Native code is node's alone.
fn tools(kind: &str) -> Vec<&'static str> {
    let mut tools = TOOLS.to_vec();
    if kind == "node" {
        tools.insert(4, "load_addon");
    }
    tools
}

struct Server {
    program: std::path::PathBuf,
    script: std::path::PathBuf,
    runtime: &'static str,
}

/// The distribution's own interpreters: the dynamic uid must be able to reach them.
fn server(kind: &str) -> Option<Server> {
    let (names, script, runtime): (&[&str], _, _) = match kind {
        "node" => (
            &["/usr/bin/node", "/usr/local/bin/node"],
            "servers/hostile.mjs",
            "node",
        ),
        _ => (
            &["/usr/bin/python3", "/usr/local/bin/python3"],
            "servers/hostile.py",
            "python",
        ),
    };
    let program = names.iter().map(Path::new).find(|path| path.is_file())?;
    Some(Server {
        program: program.to_owned(),
        script: programs::source(script),
        runtime,
    })
}

struct Ground {
    scratch: Scratch,
    listener: TcpListener,
}

impl Ground {
    fn new() -> Result<Self> {
        use std::os::unix::fs::chown;
        let scratch = Scratch::new("servers")?;
        let user = User::of_tests()?;
        for dir in ["root", "outside", "code"] {
            std::fs::create_dir(scratch.path().join(dir))?;
        }
        for dir in ["root", "outside"] {
            chown(scratch.path().join(dir), Some(user.uid), Some(user.gid))?;
        }
        std::fs::write(scratch.path().join("outside/secret"), "GUARD-SECRET")?;
        std::fs::write(scratch.path().join("root/note"), "a note")?;
        Ok(Self {
            scratch,
            listener: TcpListener::bind("127.0.0.1:0")?,
        })
    }
    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }
    fn script(&self, server: &Server) -> Result<String> {
        let name = server.script.file_name().context("a script has a name")?;
        let place = self.scratch.path().join("code").join(name);
        std::fs::copy(&server.script, &place)?;
        Ok(place.display().to_string())
    }
    /// Each attempt of the server: tool, arguments.
    fn attempts(&self) -> Result<Vec<(&'static str, serde_json::Value)>> {
        let port = self.listener.local_addr()?.port().to_string();
        Ok(vec![
            ("read_secret", json!({"path": self.path("outside/secret")})),
            (
                "follow_link",
                json!({"dir": self.path("root"), "path": self.path("outside/secret")}),
            ),
            ("write_file", json!({"path": self.path("outside/new")})),
            ("connect", json!({"host": "127.0.0.1", "port": port})),
            ("exec", json!({"cmd": "echo GUARD-SECRET"})),
        ])
    }
}

fn direct(kind: &str) -> Result<()> {
    let server = server(kind);
    if skip(
        server
            .is_none()
            .then_some("no interpreter in the distribution's place"),
        kind,
    ) {
        return Ok(());
    }
    let server = server.context("checked above")?;
    let ground = Ground::new()?;
    let script = ground.script(&server)?;
    let mut client = Client::start(
        Command::new(&server.program)
            .arg(script)
            .env("GUARD_PLANTED_1", "GUARD-SECRET"),
    )?;
    client.initialize()?;
    let mut tools = client.tools()?;
    tools.sort();
    ensure!(tools == self::tools(kind), "tools are {tools:?}");
    for (tool, arguments) in ground.attempts()? {
        let (failed, text) = client.call(tool, &arguments)?;
        ensure!(!failed, "control did not succeed: `{tool}` said `{text}`");
    }
    ensure!(
        client.call("env", &json!({}))?.1.contains("GUARD-SECRET"),
        "the planted variable is there outside"
    );
    ensure!(
        client.call("no_such_tool", &json!({})).is_err(),
        "an unknown tool is an error"
    );
    ensure!(client.close()?.success(), "the server leaves well");
    Ok(())
}

fn guarded(kind: &str) -> Result<()> {
    let server = server(kind);
    if skip(
        server
            .is_none()
            .then_some("no interpreter in the distribution's place"),
        kind,
    ) {
        return Ok(());
    }
    let server = server.context("checked above")?;
    let ground = Ground::new()?;
    let bench = Bench::new("servers")?;
    let script = ground.script(&server)?;
    let tier = Tier::current()?;
    if tier == Tier::T3Bare {
        deny_user_namespaces()?;
    }
    let mut command = AgentBuilder::at_tier(&bench)?
        .runtime(server.runtime)
        .root(Path::new(&ground.path("root")), "rw")
        .root(Path::new(&ground.path("code")), "r")
        .command([server.program.as_os_str(), script.as_ref()])
        .outer_env("GUARD_PLANTED_1", "GUARD-SECRET")
        .mcp()
        .process(true)?;
    let mut client = Client::start(&mut command)?;
    client.initialize()?;
    ensure!(client.tools()?.len() == tools(kind).len(), "the tools pass");
    let (failed, text) = client.call("read_secret", &json!({"path": ground.path("root/note")}))?;
    ensure!(!failed && text == "a note", "an allowed read works: `{text}`");
    let (failed, text) = client.call(
        "write_file",
        &json!({"path": ground.path("root/new"), "content": "x"}),
    )?;
    ensure!(!failed, "an allowed write works: `{text}`");
    for (tool, arguments) in ground.attempts()? {
        let (failed, text) = client.call(tool, &arguments)?;
        ensure!(failed, "`{tool}` succeeded inside: `{text}`");
        let refused = ["ENOENT", "EACCES", "EPERM", "EROFS"]
            .iter()
            .any(|errno| text.contains(errno));
        ensure!(refused, "`{tool}` failed for another reason: `{text}`");
    }
    ensure!(
        !Path::new(&ground.path("outside/new")).exists(),
        "a refused write left a file"
    );
    let (_, environment) = client.call("env", &json!({}))?;
    ensure!(
        !environment.contains("GUARD-SECRET"),
        "the planted variable came through: {environment}"
    );
    client.close()?;
    let records = bench.records()?;
    for kind in ["launch", "exit"] {
        ensure!(
            records.iter().any(|record| record.kind == kind),
            "no `{kind}` record"
        );
    }
    let (op, layer) = tier.record("connect", "cgroup-bpf");
    let connect = records
        .iter()
        .filter_map(guard_tests::records::Record::kernel)
        .find(|record| record.op == op);
    ensure!(
        connect.is_some_and(|record| record.layer == layer),
        "the connect left no record"
    );
    Ok(())
}

#[test]
fn node_direct() -> Result<()> {
    direct("node")
}
#[test]
fn python_direct() -> Result<()> {
    direct("python")
}
#[test]
fn node_guarded() -> Result<()> {
    guarded("node")
}
#[test]
fn python_guarded() -> Result<()> {
    guarded("python")
}
