//! Two builds of guard-agent at one state directory, and a warden that sees other files than its client.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, thread::JoinHandle, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::{
    BUILD,
    link::{
        channel::Channel,
        message::{FromWarden, ToWarden, VERSION},
    },
    warden::state::{self, SOCKET},
};
use guard_tests::{
    agent::AgentBuilder,
    inside::{Inside, py},
    refused::{PATIENCE, Stage, Status, with_mounts},
};
use socket2::{Domain, SockAddr, Socket, Type};

const WHAT: &str = "cannot use the running warden";
const FIX: &str =
    "end the sessions of the other build, or give this run a state directory of its own with `--state`";
const LIMIT: Duration = Duration::from_secs(20);

fn seqpacket() -> Result<Socket> {
    Ok(Socket::new(Domain::UNIX, Type::SEQPACKET, None)?)
}

/// A warden that only greets, as the build it says it is. Gives back what it was sent after the greeting.
fn pretend(path: &Path, build: &str, link: u32) -> Result<JoinHandle<Result<Option<ToWarden>>>> {
    let listener = seqpacket()?;
    listener.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.listen(1)?;
    let build = build.to_owned();
    Ok(std::thread::spawn(move || {
        let (client, _) = listener.accept()?;
        let channel = Channel::new(client.into())?;
        let (
            ToWarden::Hello {
                link: theirs,
                build: named,
            },
            _,
        ) = channel.receive_within(LIMIT)?
        else {
            bail!("the client did not greet first");
        };
        ensure!(
            theirs == VERSION && named == BUILD,
            "the client is {named} {theirs}"
        );
        let files = (0, 0);
        channel.send(&FromWarden::Welcome { link, build, files }, &[])?;
        Ok(channel.receive_within(LIMIT).ok().map(|(message, _)| message))
    }))
}

#[test]
fn the_warden_is_another_build() -> Result<()> {
    for (build, link) in [("0.0.1-other", VERSION), (BUILD, VERSION + 1)] {
        let stage = Stage::new("other-warden")?;
        let directory = state::prepare(&stage.bench.state())?;
        let warden = pretend(&directory.join(SOCKET), build, link)?;
        let why = format!(
            "it is build `{build}` with link version {link}, this program is build `{BUILD}` with link version {VERSION}"
        );
        stage.refused(&stage.run(), Status::Usage, [WHAT, &why, FIX])?;
        let Ok(sent) = warden.join() else {
            bail!("the warden panicked")
        };
        ensure!(sent?.is_none(), "it was asked to launch all the same");
    }
    Ok(())
}

/// What a real warden answers to one greeting.
fn greet(state: &Path, hello: &ToWarden) -> Result<FromWarden> {
    let client = seqpacket()?;
    client.connect(&SockAddr::unix(state.join(SOCKET))?)?;
    let channel = Channel::new(client.into())?;
    channel.send(hello, &[])?;
    Ok(channel.receive_within(LIMIT)?.0)
}

#[test]
fn the_client_is_another_build() -> Result<()> {
    let stage = Stage::new("other-client")?;
    let mut inside = Inside::start(stage.plain())?;
    for (link, build) in [(VERSION, "0.0.1-other"), (VERSION + 1, BUILD)] {
        let hello = ToWarden::Hello {
            link,
            build: build.into(),
        };
        let FromWarden::Refused(refusal) = greet(&stage.bench.state(), &hello)? else {
            bail!("not refused");
        };
        ensure!(refusal.exit as i32 == Status::Usage as i32, "{refusal:?}");
        ensure!(refusal.what == WHAT && refusal.hint == FIX, "{refusal}");
        let why = format!(
            "it is build `{BUILD}` with link version {VERSION}, this program is build `{build}` with link version {link}"
        );
        ensure!(refusal.why == why, "{refusal}");
    }
    let hello = ToWarden::Hello {
        link: VERSION,
        build: BUILD.into(),
    };
    let welcome = greet(&stage.bench.state(), &hello)?;
    ensure!(matches!(welcome, FromWarden::Welcome { .. }), "{welcome:?}");
    // Whose session was there is not disturbed.
    inside.gives("1 + 2", 3)?;
    inside.end()?;
    stage.no_session()
}

/// A client in another mount namespace means other files by the same names: its launch is not this warden's.
#[test]
fn the_warden_sees_other_files() -> Result<()> {
    let stage = Stage::new("other-files")?;
    let mark = stage.path("mark");
    let mut inside = Inside::start(stage.plain().root(&mark, "r"))?;
    let setup = format!("mount -t tmpfs -o mode=777 none {}", mark.display());
    let run = stage.run().around(with_mounts(&setup));
    let finished = run.run("", PATIENCE)?;
    let told = format!(
        "error: {WHAT}\n  why: it is in another mount namespace, where the same paths are other files\n  \
         fix: give this run a state directory of its own with `--state`, or start it where the warden was started\n"
    );
    ensure!(finished.stderr == told, "{}", finished.stderr);
    ensure!(
        finished.status.code() == Some(Status::Usage as i32),
        "{}",
        finished.status
    );
    inside.gives(&format!("os.listdir({})", py(&mark)), Vec::<String>::new())?;
    inside.end()?;
    stage.no_session()?;
    // With a state directory of its own the same launch works.
    let own = AgentBuilder::bare()
        .option("--state", stage.path("own-state"))
        .option("--audit", stage.path("own-audit"))
        .outer_env("GUARD_AGENT_IDLE_MS", "100")
        .root(&mark, "rw")
        .command(stage.touch())
        .around(with_mounts(&format!(
            "{setup}; touch {0}/seen; ls {0} >&2",
            mark.display()
        )));
    let finished = own.run("", PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    finished
        .stderr
        .lines()
        .next()
        .filter(|line| *line == "seen")
        .context("the mount is not there")?;
    ensure!(
        !stage.marker().exists(),
        "it was made in the other mount namespace"
    );
    Ok(())
}
