//! Two servers at once: neither sees, signals, reads or reaches the other, our sockets or our files.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench, Live},
    control::User,
    guards::Scratch,
    programs,
    suite::Answer,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

struct Pair {
    scratch: Scratch,
    bench: Bench,
    user: User,
}

impl Pair {
    fn new() -> Result<Self> {
        let (scratch, bench, user) = (Scratch::new("two")?, Bench::new("two-bench")?, User::of_tests()?);
        for dir in ["bin", "left", "right"] {
            fs::create_dir(scratch.path().join(dir))?;
        }
        for dir in ["left", "right"] {
            let dir = scratch.path().join(dir);
            fs::write(dir.join("secret"), "GUARD-SECRET of a server")?;
            fs::set_permissions(dir.join("secret"), fs::Permissions::from_mode(0o644))?;
            std::os::unix::fs::chown(&dir, Some(user.uid), Some(user.gid))?;
        }
        fs::copy(programs::probe()?, scratch.path().join("bin/guard-probe"))?;
        Ok(Self { scratch, bench, user })
    }
    fn place(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
    /// A server that has one side's root, and waits for attempts to make.
    fn start(&self, side: &str, view: &str) -> Result<Live> {
        let probe = self.place("bin/guard-probe");
        AgentBuilder::new(&self.bench)
            .user(&self.user.name)
            .view(view)
            .runtime("static")
            .option("--name", side)
            .root(&self.place(side), "rw")
            .root(&self.place("bin"), "rx")
            .command([probe.into_os_string(), "batch".into()])
            .spawn()
    }
}

fn ask(server: &mut Live, probe: &str, args: &Value) -> Result<Answer> {
    server.send(&json!({"probe": probe, "args": args}).to_string())?;
    let line = server.line(PATIENCE)?;
    serde_json::from_str(&line).with_context(|| format!("unreadable: `{line}`"))
}

/// Pids of the host whose command line is that of a sandboxed batch of this test.
fn pids(pair: &Pair) -> Vec<(u32, PathBuf)> {
    let probe = pair.place("bin/guard-probe").display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if words.starts_with(probe.as_bytes()) {
            found.push((
                pid,
                fs::read_link(entry.path().join("ns/pid")).unwrap_or_default(),
            ));
        }
    }
    found
}

fn apart(view: &str) -> Result<()> {
    let mut pair = Pair::new()?;
    attempts(&pair, view).inspect_err(|_| pair.bench.keep())
}

fn attempts(pair: &Pair, view: &str) -> Result<()> {
    let (mut left, mut right) = (pair.start("left", view)?, pair.start("right", view)?);
    for (server, side) in [(&mut left, "left"), (&mut right, "right")] {
        let own = ask(server, "open-read", &json!({"outside": pair.place(side)}))?;
        ensure!(own.outcome == "ok", "{side} cannot read its own root: {own:?}");
    }
    let seen = pids(pair);
    ensure!(seen.len() == 2, "two servers run: {seen:?}");
    ensure!(seen[0].1 != seen[1].1, "both live in one pid namespace: {seen:?}");
    for (server, other) in [(&mut left, "right"), (&mut right, "left")] {
        files(server, &pair.place(other))?;
        ours(server, pair)?;
        for (pid, _) in &seen {
            // Its own host pid is as foreign to it as the other's.
            processes(server, *pid)?;
        }
    }
    shared_memory(&mut left, &mut right)?;
    for server in [left, right] {
        let finished = server.finish(PATIENCE)?;
        ensure!(
            finished.status.success(),
            "ended with {}: {}",
            finished.status,
            finished.stderr
        );
    }
    Ok(())
}

fn refused(server: &mut Live, probe: &str, args: &Value, outcomes: &[&str]) -> Result<()> {
    let answer = ask(server, probe, args)?;
    ensure!(
        outcomes.contains(&answer.outcome.as_str()),
        "`{probe}` on {args} gave {answer:?}"
    );
    Ok(())
}

fn files(server: &mut Live, other: &Path) -> Result<()> {
    for (probe, outcomes) in [
        ("open-read", &["ENOENT", "EACCES"][..]),
        ("readdir", &["ENOENT", "EACCES"]),
        ("create", &["ENOENT", "EACCES", "EROFS"]),
    ] {
        refused(server, probe, &json!({"outside": other}), outcomes)?;
    }
    ensure!(!other.join("new").exists(), "a file was made in the other's root");
    Ok(())
}

/// Our state, audit and sockets.
fn ours(server: &mut Live, pair: &Pair) -> Result<()> {
    for place in [pair.bench.state(), pair.bench.audit()] {
        refused(
            server,
            "readdir",
            &json!({"outside": place}),
            &["ENOENT", "EACCES"],
        )?;
        refused(
            server,
            "create",
            &json!({"outside": place}),
            &["ENOENT", "EACCES", "EROFS"],
        )?;
    }
    for socket in sockets(&pair.bench.state()) {
        refused(
            server,
            "unix-outside",
            &json!({"unix": socket}),
            &["ENOENT", "EACCES", "EPERM"],
        )?;
    }
    Ok(())
}

fn sockets(dir: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::FileTypeExt as _;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .map(|entry| entry.path())
        .collect()
}

fn processes(server: &mut Live, pid: u32) -> Result<()> {
    let args = json!({"neighbour": pid.to_string(), "outside": "/"});
    for (probe, outcomes) in [
        ("kill-neighbour", &["ESRCH", "EPERM"][..]),
        ("pidfd-open-neighbour", &["ESRCH", "EPERM", "ENOSYS"]),
        ("ptrace-seize", &["EPERM"]),
        ("vm-readv", &["EPERM"]),
        ("proc-neighbour", &["ENOENT", "EACCES"]),
        ("proc-neighbour-environ", &["ENOENT", "EACCES"]),
        ("host-processes", &["absent", "EACCES"]),
    ] {
        refused(server, probe, &args, outcomes)?;
    }
    Ok(())
}

/// Both make a segment of one key: each gets its own.
fn shared_memory(left: &mut Live, right: &mut Live) -> Result<()> {
    let key = json!({"shm_key": "1195724"});
    let made = ask(left, "ipc-make", &key)?;
    ensure!(
        ["ok", "EPERM", "ENOSYS"].contains(&made.outcome.as_str()),
        "{made:?}"
    );
    refused(right, "shm-key", &key, &["ENOENT", "EPERM", "ENOSYS"])?;
    let abstract_name = json!({"abstract": "guard-two-servers"});
    refused(
        right,
        "unix-abstract",
        &abstract_name,
        &["EPERM", "EACCES", "ECONNREFUSED"],
    )
}

#[test]
fn apart_in_private_view() -> Result<()> {
    apart("private")
}

#[test]
fn apart_in_host_view() -> Result<()> {
    apart("host")
}
