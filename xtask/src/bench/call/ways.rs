//! The same server, reached directly, through the agent, and through proxies that others made.

use std::{
    ffi::OsString,
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::driver::Driver;
use crate::{
    bench::{Place, server::Agent},
    fixtures,
};

const MCP_PROXY: &str = "mcp-proxy==0.13.0";
const FASTMCP: &str = "fastmcp==4.2.3";
const PATIENCE: Duration = Duration::from_secs(60);

/// In the order of a round.
pub(super) const WAYS: [&str; 4] = ["direct", "guard-agent", "mcp-proxy", "fastmcp"];
pub(super) const AGENT: usize = 1;
pub(super) const FAST: usize = 3;

pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) words: Vec<OsString>,
    /// What it may read besides its runtime.
    pub(super) roots: Vec<PathBuf>,
}

/// All four, running.
pub(super) struct Ways {
    pub(super) drivers: Vec<Driver>,
    pub(super) agent: Agent,
    relay: Relay,
}

impl Ways {
    pub(super) fn start(place: &Place, server: &Server) -> Result<Self> {
        let agent = Agent::new(place, server.name, Duration::from_millis(1));
        let guarded = server
            .roots
            .iter()
            .fold(agent.clone(), |agent, root| agent.root(root, "r"))
            .command(&server.words);
        let relay = Relay::start(server)?;
        let mut drivers = Vec::new();
        for (way, command) in
            WAYS.iter()
                .zip([direct(server), guarded, relay.client()?, fastmcp(place, server)?])
        {
            let what = || format!("{} server, {way}", server.name);
            drivers.push(Driver::start(command).with_context(what)?);
        }
        Ok(Self {
            drivers,
            agent,
            relay,
        })
    }

    /// Ends all of them. What is left is the agent's trail.
    pub(super) fn end(self) -> Result<Agent> {
        for (way, driver) in WAYS.iter().zip(self.drivers) {
            driver.end().with_context(|| format!("end {way}"))?;
        }
        drop(self.relay);
        self.agent.gone()?;
        Ok(self.agent)
    }
}

fn direct(server: &Server) -> Command {
    let mut command = Command::new(&server.words[0]);
    command.args(&server.words[1..]);
    command
}

fn fastmcp(place: &Place, server: &Server) -> Result<Command> {
    let words: Vec<_> = server.words.iter().map(|word| word.to_string_lossy()).collect();
    let config = serde_json::json!({"mcpServers": {server.name: {
        "transport": "stdio", "command": words[0], "args": words[1..],
    }}});
    let file = place.path().join(format!("{}.json", server.name));
    fs::write(&file, config.to_string()).with_context(|| format!("write `{}`", file.display()))?;
    let mut command = Command::new(fixtures::python_venv(&[FASTMCP])?.join("bin/fastmcp"));
    command.arg("run").arg(file).args([
        "--transport",
        "stdio",
        "--no-banner",
        "--log-level",
        "ERROR",
        "--skip-env",
    ]);
    Ok(command)
}

/// `mcp-proxy` has HTTP on one side of it: one makes HTTP of the server, another stdio of that.
struct Relay {
    program: PathBuf,
    child: Child,
    port: u16,
}

impl Relay {
    fn start(server: &Server) -> Result<Self> {
        let program = fixtures::python_venv(&[MCP_PROXY])?.join("bin/mcp-proxy");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(&program)
            .args(["--log-level", "ERROR", "--port", &port.to_string(), "--"])
            .args(&server.words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start `{}`", program.display()))?;
        let relay = Self { program, child, port };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < until, "`mcp-proxy` does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(relay)
    }

    fn client(&self) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(["--log-level", "ERROR", "--transport", "streamablehttp"]);
        command.arg(format!("http://127.0.0.1:{}/mcp", self.port));
        Ok(command)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both servers.
pub(super) fn servers(place: &Place) -> Result<Vec<Server>> {
    fixtures::keep_in(crate::setup::fixtures()?);
    let start = fixtures::node_server_everything()?;
    let modules = start
        .ancestors()
        .find(|path| path.ends_with("node_modules"))
        .and_then(Path::parent)
        .context("no `node_modules`")?;
    Ok(vec![
        Server {
            name: "echo",
            words: vec![place.path().join("guard-echo").into()],
            roots: vec![],
        },
        Server {
            name: "everything",
            words: vec![crate::setup::node()?.into(), start.clone().into(), "stdio".into()],
            roots: vec![modules.to_owned()],
        },
    ])
}
