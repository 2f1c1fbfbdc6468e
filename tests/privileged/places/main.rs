//! Real MCP servers start from the places where people have node and Python: distribution packages, virtual
//! environments, nvm and pyenv under a home. Each answers `initialize`, `tools/list` and a call with the right
//! values; what the server's user cannot reach is refused by name.

mod closed;
mod homes;
mod open;

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    fixtures,
    mcp::Client,
    programs,
    refused::{Stage, text},
};
use serde_json::{Value, json};

/// Which server, and by what it is recognised.
#[derive(Debug, Clone, Copy)]
enum Server {
    /// npm's `@modelcontextprotocol/server-filesystem`.
    Filesystem,
    /// PyPI's `mcp-server-time`.
    Time,
    /// The one of `tests/servers`, which needs nothing but an interpreter.
    Plain,
}

struct Place {
    stage: Stage,
    /// A root with a note.
    data: PathBuf,
}

impl Place {
    fn new(name: &str) -> Result<Self> {
        let stage = Stage::new(name)?;
        let data = stage.directory("data")?;
        fs::write(data.join("note"), "a note")?;
        Ok(Self { stage, data })
    }

    /// The launch, with the root, by a client whose `PATH` is the system's.
    fn run(&self) -> AgentBuilder {
        self.stage
            .plain()
            .root(&self.data, "r")
            .outer_env("PATH", "/usr/local/bin:/usr/bin:/bin")
    }

    /// Starts it, speaks to it, and looks at what the record says of it.
    fn answers(&self, run: &AgentBuilder, server: Server) -> Result<()> {
        let said = self.stage.path("stderr");
        let result = self.conversation(run, server, &said);
        result.with_context(|| {
            format!(
                "the agent said: {}",
                fs::read_to_string(&said).unwrap_or_default()
            )
        })
    }

    fn conversation(&self, run: &AgentBuilder, server: Server, said: &Path) -> Result<()> {
        let mut process = run.clone().mcp().process(true)?;
        process.stderr(File::create(said)?);
        let mut client = Client::start(&mut process)?;
        let hello = client.initialize()?;
        ensure!(hello["serverInfo"]["name"].is_string(), "{hello}");
        let tools = client.tools()?;
        let (tool, arguments, wanted) = self.call(server);
        ensure!(
            tools.iter().any(|name| name == tool),
            "no tool `{tool}` in {tools:?}"
        );
        let (failed, answer) = client.call(tool, &arguments)?;
        ensure!(!failed && answer.contains(wanted), "`{tool}` answered `{answer}`");
        let status = client.close()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }

    fn call(&self, server: Server) -> (&'static str, Value, &'static str) {
        let note = json!({"path": self.data.join("note")});
        match server {
            Server::Filesystem => ("read_text_file", note, "a note"),
            Server::Plain => ("read_secret", note, "a note"),
            Server::Time => (
                "convert_time",
                json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
                "+9.0h",
            ),
        }
    }

    /// The plain server for Python, where everybody may read it. Its directory is not a root: the launch names it.
    fn plain(&self) -> Result<PathBuf> {
        let place = self.stage.directory("code")?.join("hostile.py");
        fs::copy(programs::source("servers/hostile.py"), &place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644))?;
        Ok(place)
    }
}

/// Command words from anything that is one.
macro_rules! words {
    ($($word:expr),+ $(,)?) => { vec![$(std::ffi::OsString::from($word)),+] };
}
pub(crate) use words;

/// Owner of everything below.
fn own(path: &Path, uid: u32) -> Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid))?;
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path)? {
            own(&entry?.path(), uid)?;
        }
    }
    Ok(())
}

/// A person of this machine, as far as the agent is told: an account in the file it reads.
struct Person {
    uid: u32,
    home: PathBuf,
    passwd: PathBuf,
}

impl Person {
    const NAME: &str = "guard-person";

    /// With an empty home that nobody else may enter.
    fn new(stage: &Stage) -> Result<Self> {
        let (uid, home, passwd) = (61_234, stage.directory("home")?, stage.path("passwd"));
        let mut accounts = fs::read_to_string("/etc/passwd")?;
        accounts.push_str(&format!(
            "{}:x:{uid}:{uid}:A Person:{}:/bin/sh\n",
            Self::NAME,
            text(&home)
        ));
        fs::write(&passwd, accounts)?;
        chown(&home, Some(uid), Some(uid))?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
        Ok(Self { uid, home, passwd })
    }

    /// Copies a fixture to where it would lie in the home.
    fn install(&self, fixture: &Path, name: &str) -> Result<PathBuf> {
        let place = self.home.join(name);
        let status = std::process::Command::new("cp")
            .arg("-a")
            .arg(fixture)
            .arg(&place)
            .status()?;
        ensure!(status.success(), "cannot copy `{}`", fixture.display());
        own(&place, self.uid)?;
        Ok(place)
    }

    /// The launch on a machine that has this account.
    fn around(&self, run: AgentBuilder) -> AgentBuilder {
        let setup = format!("mount --bind {} /etc/passwd", text(&self.passwd));
        run.around(guard_tests::refused::with_mounts(&setup))
    }
}

fn nvm_node(home: &Path) -> Result<PathBuf> {
    let versions = fs::read_dir(home.join(".nvm/versions/node"))?;
    let version = versions.flatten().next().context("no version")?;
    Ok(version.path().join("bin/node"))
}

fn pyenv_python(home: &Path) -> Result<PathBuf> {
    let versions = fs::read_dir(home.join(".pyenv/versions"))?;
    let version = versions.flatten().next().context("no version")?;
    Ok(version.path().join("bin/python3"))
}

fn time_venv() -> Result<PathBuf> {
    fixtures::python_venv(&["mcp-server-time"])
}

/// A console script as pip writes it.
fn console_script(path: &Path, interpreter: &Path) -> Result<()> {
    fs::write(
        path,
        format!(
            "#!{}\nfrom mcp_server_time import main\nmain()\n",
            text(interpreter)
        ),
    )?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
