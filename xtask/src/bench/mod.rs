//! `cargo xtask bench`: what the agent costs, each figure beside its peer, measured in turns in one run.
//!
//! A figure never passes or fails: machines differ. Ratios of neighbours in one run are what to look at.

mod call;
mod calls;
mod counted;
mod flood;
mod host;
mod launch;
mod memory;
mod open;
mod page;
mod report;
mod server;
mod walk;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;

use crate::{cargo, setup};
use report::Table;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// From the start of a command to its answer to `initialize`: bare, bubblewrap, the agent, a call's own sandbox;
    /// memory of sessions
    Launch(Options),
    /// Opening files inside and outside of a sandbox, and a flood of refused attempts
    Open(Open),
    /// One `tools/call` over stdio: direct, through the agent, and through the `mcp-proxy` and `fastmcp` proxies
    Call(Options),
}

#[derive(clap::Args)]
struct Open {
    #[command(flatten)]
    options: Options,
    /// Instructions instead of time, in a virtual machine: with the security hooks of tier T1, which not every
    /// machine takes
    #[arg(long)]
    vm: bool,
    /// Series of the machine's kernel; may be given more than once
    #[arg(long, default_value = "6.1,6.12", value_delimiter = ',', requires = "vm")]
    kernel: Vec<String>,
}

#[derive(clap::Args)]
struct Options {
    /// One object a row
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How often each is measured, in turns
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// Put the table into `docs/benchmarks.md`
    #[arg(long)]
    docs: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (name, options) = match &args.what {
        What::Launch(options) => ("launch", options),
        What::Open(open) if open.vm => ("open-vm", &open.options),
        What::Open(open) => ("open", &open.options),
        What::Call(options) => ("call", options),
    };
    ensure!(options.rounds >= 3, "quartiles need at least three rounds");
    let mut table = Table::new(name);
    match &args.what {
        // The machine brings its own root.
        What::Open(open) if open.vm => counted::measure(&open.kernel, options.rounds, &mut table)?,
        What::Open(_) => {
            let place = Place::new()?;
            open::measure(&place, options.rounds, &mut table)?;
            walk::measure(&place, options.rounds, &mut table)?;
            host::measure(&place, options.rounds, &mut table)?;
            flood::measure(&place, &mut table)?;
        }
        What::Launch(_) => {
            let place = Place::new()?;
            launch::measure(&place, options.rounds, &mut table)?;
            memory::measure(&place, &mut table)?;
        }
        What::Call(_) => {
            let place = Place::new()?;
            call::measure(&place, options.rounds, &mut table)?;
        }
    }
    println!("{}", table.text());
    if let Some(file) = &options.json {
        fs::write(file, table.json()).with_context(|| format!("write `{}`", file.display()))?;
    }
    if options.docs {
        page::put(&crate::workspace(), &table)?;
    }
    Ok(())
}

/// Programs as they are shipped, and a directory that everybody can reach; removed at the end.
struct Place {
    agent: PathBuf,
    bench: PathBuf,
    /// Plays the gateway of a session with a sandbox a call.
    caller: PathBuf,
    dir: tempfile::TempDir,
    /// Whether this build can turn observation on and off.
    observes: bool,
}

impl Place {
    fn new() -> Result<Self> {
        setup::root("cargo xtask bench")?;
        println!("[bench] building release programs");
        let built = build()?;
        let dir = tempfile::Builder::new()
            .prefix("guard-bench-")
            .tempdir_in("/var/tmp")
            .context("make a directory in `/var/tmp`")?;
        open_to_all(dir.path())?;
        let copy = |name: &str| -> Result<PathBuf> {
            let to = dir.path().join(name);
            fs::copy(built.join(name), &to).with_context(|| format!("copy `{name}`"))?;
            Ok(to)
        };
        let (agent, bench, caller) = (copy("guard-agent")?, copy("guard-bench")?, copy("guard-caller")?);
        copy("guard-bench-hooks")?;
        copy("guard-echo")?;
        let help = std::process::Command::new(&agent)
            .args(["run", "--help"])
            .stdin(Stdio::null())
            .output()
            .context("ask the agent for its flags")?;
        let observes = String::from_utf8_lossy(&help.stdout).contains("--observe");
        Ok(Self {
            agent,
            bench,
            caller,
            dir,
            observes,
        })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A new directory that everybody can use.
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        Ok(path)
    }
}

fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).context("let others in")
}

/// Builds and returns the directory of the programs.
fn build() -> Result<PathBuf> {
    let agent = {
        let mut build = cargo::command();
        build.args([
            "build",
            "--release",
            "--package",
            "guard-agent",
            "--bin",
            "guard-agent",
        ]);
        build
    };
    let bench = {
        let mut build = cargo::command();
        build.args([
            "build",
            "--release",
            "--package",
            "guard-tests",
            "--bin",
            "guard-bench",
            "--bin",
            "guard-bench-hooks",
            "--bin",
            "guard-caller",
            "--bin",
            "guard-echo",
        ]);
        build
    };
    for mut build in [agent, bench] {
        let status = build.status().context("start `cargo`")?;
        ensure!(status.success(), "the release build ended with {status}");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::workspace().join("target"), PathBuf::from);
    Ok(target.join(cargo::PLATFORM).join("release"))
}
