//! From the start of a command to its answer to `initialize`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    Place,
    calls::Calls,
    report::{Samples, Table},
    server::{Agent, INITIALIZE, Live, first_answer},
};
use crate::{apt, setup};

/// A server and how it is named in the table.
struct Server {
    name: &'static str,
    words: Vec<OsString>,
    /// What it may read besides its runtime.
    roots: Vec<PathBuf>,
}

/// The ways to start one, in the order of a round.
const WAYS: [&str; 5] = [
    "bare",
    "bubblewrap",
    "agent, warm",
    "agent, cold",
    "agent, a call",
];
const CALL: &str = WAYS[4];

pub(super) fn measure(place: &Place, rounds: u32, table: &mut Table) -> Result<()> {
    apt::ensure_programs(&[("bwrap", "bubblewrap")])?;
    setup::python()?;
    let servers = servers(place)?;
    // Its warden stays: the session keeps it busy.
    let warm = Agent::new(place, "warm", Duration::from_secs(60));
    let mut keeper = Live::start(warm.command([&place.bench]))?;
    keeper.ask(INITIALIZE)?;
    for server in &servers {
        let mut calls = Calls::begin(place, &warm, (server.name, &server.words, &server.roots))?;
        let mut samples: [Samples; 5] = Default::default();
        let mut ended = Samples::default();
        for round in 0..=rounds {
            // Each is as often behind each other.
            for at in (0..WAYS.len()).map(|at| (at + round as usize) % WAYS.len()) {
                let what = || format!("{} server, {}", server.name, WAYS[at]);
                let (took, end) = if WAYS[at] == CALL {
                    let (took, end) = calls.once().with_context(what)?;
                    (took, Some(end))
                } else {
                    (once(place, server, WAYS[at], &warm).with_context(what)?, None)
                };
                // The first of each fills the caches.
                if round > 0 {
                    samples[at].add(took);
                    end.into_iter().for_each(|end| ended.add(end));
                }
            }
        }
        for (way, own) in WAYS.iter().zip(&samples) {
            let row = table.add(format!("{} server, {way}", server.name), "ms", own);
            if *way != WAYS[0] {
                row.against("bare", own, &samples[0]);
            }
        }
        let added = samples[4].less(&samples[0]);
        table.add(
            format!("{} server, what a call's sandbox adds", server.name),
            "ms",
            &added,
        );
        table
            .add(
                format!("{} server, a call to the end of its sandbox", server.name),
                "ms",
                &ended,
            )
            .against("a call", &ended, &samples[4]);
        println!("[bench] {} server: done", server.name);
    }
    drop(keeper);
    Ok(())
}

fn servers(place: &Place) -> Result<Vec<Server>> {
    let copied = |name: &str| -> Result<PathBuf> {
        let to = place.path().join(name);
        std::fs::copy(crate::workspace().join("tests/servers").join(name), &to)
            .with_context(|| format!("copy `{name}`"))?;
        Ok(to)
    };
    let (python, node) = (copied("hostile.py")?, copied("hostile.mjs")?);
    Ok(vec![
        Server {
            name: "static",
            words: vec![place.bench.clone().into()],
            roots: vec![],
        },
        Server {
            name: "python",
            words: vec!["/usr/bin/python3".into(), python.clone().into()],
            roots: vec![python],
        },
        Server {
            name: "node",
            words: vec![setup::node()?.into(), node.clone().into()],
            roots: vec![node],
        },
    ])
}

fn once(place: &Place, server: &Server, way: &str, warm: &Agent) -> Result<f64> {
    let with_roots = |agent: Agent| {
        server
            .roots
            .iter()
            .fold(agent, |agent, root| agent.root(root, "r"))
            .command(&server.words)
    };
    match way {
        "bare" => {
            let mut command = Command::new(&server.words[0]);
            command.args(&server.words[1..]);
            first_answer(command)
        }
        "bubblewrap" => first_answer(bubblewrap(place.path(), server)),
        "agent, warm" => first_answer(with_roots(warm.clone())),
        _ => {
            // Leaves at once; the next cold start waits for that, untimed.
            let cold = Agent::new(place, "cold", Duration::from_millis(1));
            let took = first_answer(with_roots(cold.clone()));
            cold.gone()?;
            took
        }
    }
}

/// The same namespaces and a tree of the same kind; without Landlock, seccomp, network programs, another uid, records.
fn bubblewrap(place: &Path, server: &Server) -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup",
        "--hostname",
        "sandbox",
        "--new-session",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/usr",
        "/usr",
    ]);
    for dir in ["/bin", "/lib", "/lib64"] {
        if Path::new(dir).exists() {
            command.args(["--ro-bind", dir, dir]);
        }
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command.arg("--ro-bind").arg(place).arg(place);
    command.arg("--").args(&server.words);
    command
}
