//! What each of our processes is, seen from outside while a session runs; and what a gateway that was taken over
//! could do with its link.

#[path = "roles/calls.rs"]
mod calls;
#[path = "roles/forged.rs"]
mod forged;

use std::{
    collections::BTreeMap,
    fs,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::{
    link::{
        channel::{Channel, ChannelError},
        message::{
            FromWarden, Isolation, LaunchRequest, Limits, OverBudget, Protocol, ToWarden, User, VERSION, View,
        },
    },
    runtime::{Runtime, RuntimeKind},
};
use guard_tests::{
    agent::{AgentBuilder, Bench, Live},
    programs,
};

const LONG: Duration = Duration::from_secs(30);

/// Fields of `/proc/PID/status`.
fn status(pid: i32) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields
        .map(|(name, value)| {
            (
                name.to_owned(),
                value.split_whitespace().collect::<Vec<_>>().join(" "),
            )
        })
        .collect())
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

fn argument(pid: i32, index: usize) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let word = bytes.split(|byte| *byte == 0).nth(index).unwrap_or_default();
    String::from_utf8_lossy(word).into_owned()
}

/// Where each descriptor of a process leads.
fn descriptors(pid: i32) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        found.push(fs::read_link(entry?.path())?.display().to_string());
    }
    found.sort();
    Ok(found)
}

/// The processes of one session.
#[derive(Debug)]
struct Cast {
    gateway: i32,
    warden: i32,
    reaper: i32,
    init: i32,
    child: i32,
}

struct Stage {
    bench: Bench,
    live: Live,
    cast: Cast,
}

/// A session with `guard-probe wait` as its server.
fn stage(name: &str) -> Result<Stage> {
    stage_around(name, &[])
}

/// The same, the agent started by these words.
fn stage_around(name: &str, around: &[&str]) -> Result<Stage> {
    stage_of(name, |agent| agent.around(around.iter().copied()))
}

fn stage_of(name: &str, with: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Result<Stage> {
    let bench = Bench::new(name)?;
    let program = bench.path().join("guard-probe");
    fs::copy(programs::probe()?, &program)?;
    let mut live = with(AgentBuilder::new(&bench))
        .outer_env("PLANTED_SECRET", "planted-value")
        .command([program.into_os_string(), "echo".into()])
        .spawn()?;
    live.send("ready")?;
    live.line(LONG)?;
    let gateway = i32::try_from(live.child.id())?;
    let state = bench.state().display().to_string();
    let warden = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| argument(*pid, 1) == "warden" && argument(*pid, 3) == state)
        .context("no warden of this state directory")?;
    let role = |wanted: &str| {
        children(warden)
            .into_iter()
            .find(|pid| argument(*pid, 0) == wanted)
            .with_context(|| format!("no {wanted}"))
    };
    let init = role("guard-agent-init")?;
    let child = *children(init).first().context("init has no child")?;
    let cast = Cast {
        gateway,
        warden,
        reaper: role("guard-agent-reaper")?,
        init,
        child,
    };
    Ok(Stage { bench, live, cast })
}

const NO_CAPABILITIES: &str = "0000000000000000";

fn powerless(pid: i32, who: &str) -> Result<u32> {
    let status = status(pid)?;
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        ensure!(status[set] == NO_CAPABILITIES, "{who}: {set} is {}", status[set]);
    }
    ensure!(
        status["NoNewPrivs"] == "1",
        "{who}: no_new_privs is {}",
        status["NoNewPrivs"]
    );
    ensure!(
        status["Seccomp"] == "2",
        "{who}: seccomp is {}",
        status["Seccomp"]
    );
    ensure!(status["Groups"].is_empty(), "{who}: groups {}", status["Groups"]);
    let ids: Vec<u32> = status["Uid"]
        .split(' ')
        .filter_map(|id| id.parse().ok())
        .collect();
    ensure!(
        ids.len() == 4 && ids.iter().all(|id| *id == ids[0]),
        "{who}: uids {}",
        status["Uid"]
    );
    ensure!(
        ids[0] > 2_000_000_000,
        "{who}: uid {} may be an account's",
        ids[0]
    );
    ensure!(status["Gid"] == status["Uid"], "{who}: gid {}", status["Gid"]);
    Ok(ids[0])
}

/// Not dumpable: the process's files in /proc belong to root whatever its uid.
fn not_dumpable(pid: i32, who: &str) -> Result<()> {
    let owner = fs::metadata(format!("/proc/{pid}/environ"))?.uid();
    ensure!(owner == 0, "{who}: its /proc files belong to uid {owner}");
    Ok(())
}

#[test]
fn each_role_has_what_it_needs_and_nothing_more() -> Result<()> {
    // The words are no messages: each is answered by the gateway, which is what is looked at.
    let stage = stage_of("roles", AgentBuilder::mcp)?;
    let Cast {
        gateway,
        warden,
        reaper,
        init,
        child,
    } = stage.cast;

    let gateway_uid = powerless(gateway, "gateway")?;
    let init_uid = powerless(init, "init")?;
    let child_uid = powerless(child, "child")?;
    ensure!(init_uid == child_uid, "init {init_uid}, child {child_uid}");
    ensure!(
        gateway_uid != child_uid,
        "gateway and child share uid {child_uid}"
    );
    not_dumpable(gateway, "gateway")?;
    not_dumpable(init, "init")?;

    // The child has three pipes; init adds its one socket, to the warden.
    let child_has = descriptors(child)?;
    ensure!(
        child_has.len() == 3 && child_has.iter().all(|to| to.starts_with("pipe:")),
        "child: {child_has:?}"
    );
    let init_has = descriptors(init)?;
    let others: Vec<_> = init_has.iter().filter(|to| *to != "/dev/null").collect();
    ensure!(
        others.iter().filter(|to| to.starts_with("socket:")).count() == 1
            && others
                .iter()
                .all(|to| to.starts_with("socket:") || *to == "anon_inode:[signalfd]"),
        "init: {init_has:?}"
    );
    // Whoever holds a link's descriptor can detach it: no unprivileged process has one.
    for (pid, who) in [(gateway, "gateway"), (init, "init"), (child, "child")] {
        let bpf: Vec<_> = descriptors(pid)?
            .into_iter()
            .filter(|to| to.contains("bpf"))
            .collect();
        ensure!(bpf.is_empty(), "{who} holds {bpf:?}");
    }
    // A gateway has its call stamp: one page, mapped, and no way to another.
    for (pid, who, stamps) in [(gateway, "gateway", 1), (init, "init", 0), (child, "child", 0)] {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let mapped: Vec<_> = maps.lines().filter(|line| line.contains("bpf-map")).collect();
        ensure!(mapped.len() == stamps, "{who} has mapped {mapped:?}");
        for line in mapped {
            let (from, to) = line
                .split_once(' ')
                .and_then(|(range, _)| range.split_once('-'))
                .context("no range")?;
            let bytes = u64::from_str_radix(to, 16)? - u64::from_str_radix(from, 16)?;
            ensure!(bytes == 4096 && line.contains(" rw-s 00000000 "), "{who}: {line}");
        }
    }
    let held = descriptors(reaper)?
        .into_iter()
        .filter(|to| to.contains("bpf_link") || to.contains("bpf-link"))
        .count();
    ensure!(
        held >= 7,
        "the reaper holds {held} links: {:?}",
        descriptors(reaper)?
    );

    for namespace in ["mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let of = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/{namespace}"));
        ensure!(
            of(init)? != of(warden)?,
            "init shares the warden's {namespace} namespace"
        );
        ensure!(
            of(child)? == of(init)?,
            "child and init differ in their {namespace} namespace"
        );
    }
    for (pid, who) in [
        (warden, "warden"),
        (reaper, "reaper"),
        (init, "init"),
        (child, "child"),
    ] {
        let environment = fs::read(format!("/proc/{pid}/environ"))?;
        let text = String::from_utf8_lossy(&environment);
        ensure!(
            !text.contains("planted-value"),
            "{who} has the client's secret: {text}"
        );
    }
    // Nothing that is meant for the client's process group or terminal reaches the privileged ones.
    for (pid, who) in [
        (warden, "warden"),
        (reaper, "reaper"),
        (init, "init"),
        (child, "child"),
    ] {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let session = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(3))
            .unwrap_or_default()
            .to_owned();
        let gateway_stat = fs::read_to_string(format!("/proc/{gateway}/stat"))?;
        let gateways = gateway_stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(3))
            .unwrap_or_default();
        ensure!(session != gateways, "{who} is in the gateway's session");
        // Nor does what is meant for the warden's reach a sandbox, or for init's the child.
        ensure!(session == pid.to_string(), "{who} leads no session of its own");
    }
    let limits = fs::read_to_string(format!("/proc/{child}/limits"))?;
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap_or_default();
    ensure!(core.split_whitespace().nth(4) == Some("1"), "{core}");
    let finished = stage.live.finish(LONG)?;
    ensure!(finished.status.success(), "{finished:?}");
    drop(stage.bench);
    Ok(())
}

/// A connection to the warden of a running session, welcomed.
fn connect(state: &Path) -> Result<Channel> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    let socket: OwnedFd = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    connect(
        std::os::fd::AsRawFd::as_raw_fd(&socket),
        &UnixAddr::new(&state.join("warden.sock"))?,
    )?;
    Ok(Channel::new(socket)?)
}

fn greet(state: &Path) -> Result<Channel> {
    let channel = connect(state)?;
    channel.send(
        &ToWarden::Hello {
            link: VERSION,
            build: guard_agent::BUILD.into(),
        },
        &[],
    )?;
    match channel.receive_within(LONG)? {
        (FromWarden::Welcome { .. }, _) => Ok(channel),
        (other, _) => bail!("not welcomed: {other:?}"),
    }
}

fn request(bench: &Bench, user: User) -> LaunchRequest {
    let program = bench.path().join("guard-probe");
    LaunchRequest {
        server: "forged".into(),
        runtime: Runtime {
            kind: RuntimeKind::Static,
            program: program.as_path().into(),
            argv: vec![program.as_path().into(), "echo".into()],
            grants: vec![guard_agent::runtime::Grant {
                path: program.as_path().into(),
                exec: true,
                map: true,
                reason: "the program".into(),
            }],
            links: Vec::new(),
            environment: Vec::new(),
            notes: Vec::new(),
        },
        runtime_asked: RuntimeKind::Static,
        environment: Vec::new(),
        directory: "/".into(),
        roots: Vec::new(),
        free_names: Vec::new(),
        user,
        view: View::Private,
        view_asked: false,
        limits: Limits::default(),
        require: Vec::new(),
        allow_unenforced: false,
        audit: bench.audit().into(),
        policy_hash: "sha256:0".into(),
        observe: true,
        over_budget: OverBudget::Count,
        tier: None,
        isolation: Isolation::Session,
        protocol: Protocol::Mcp,
        tool_rights: false,
    }
}

#[test]
fn one_connection_gets_one_sandbox_and_a_broken_protocol_ends_it() -> Result<()> {
    let stage = stage("one-launch")?;
    let channel = greet(&stage.bench.state())?;
    let launch = ToWarden::Launch(Box::new(request(&stage.bench, User::Dynamic)));
    channel.send(&launch, &[])?;
    let (answer, pipes) = channel.receive_within::<FromWarden>(LONG)?;
    ensure!(matches!(answer, FromWarden::Launched(_)), "{answer:?}");
    // Three pipes, the socket for calls, and the call stamp.
    ensure!(pipes.len() == 5, "{} descriptors", pipes.len());
    channel.send(&launch, &[])?;
    // It is asked for the server's last words, and gives none: that holds nothing up.
    let (answer, more) = channel.receive_within::<FromWarden>(LONG)?;
    ensure!(
        matches!(answer, FromWarden::Ending) && more.is_empty(),
        "{answer:?}"
    );
    let (answer, more) = channel.receive_within::<FromWarden>(LONG)?;
    let FromWarden::Exited(exited) = answer else {
        bail!("{answer:?}")
    };
    ensure!(exited.reason == "killed" && more.is_empty(), "{exited:?}");
    let exit = stage.bench.wait_record(LONG, |record| {
        record.kind == "exit" && record.field("server").and_then(|name| name.as_str()) == Some("forged")
    })?;
    ensure!(
        exit.field("cause").and_then(|cause| cause.as_str()) == Some("gateway: it broke the protocol"),
        "{:?}",
        exit.body
    );
    // The other session never noticed.
    let mut live = stage.live;
    live.send("still")?;
    ensure!(live.line(LONG)? == "still", "the other session is gone");
    Ok(())
}

#[test]
fn a_request_for_root_is_refused_by_the_warden_itself() -> Result<()> {
    let stage = stage("root-request")?;
    let account = |uid, gid, groups| User::Account {
        name: "x".into(),
        uid,
        gid,
        groups,
        home: "/".into(),
    };
    for user in [
        account(0, 1, vec![]),
        account(1, 0, vec![]),
        account(1, 1, vec![4, 0]),
    ] {
        let channel = greet(&stage.bench.state())?;
        channel.send(
            &ToWarden::Launch(Box::new(request(&stage.bench, user.clone()))),
            &[],
        )?;
        let (answer, _) = channel.receive_within::<FromWarden>(LONG)?;
        let FromWarden::Refused(refusal) = answer else {
            bail!("{user:?}: {answer:?}")
        };
        ensure!(refusal.what == "cannot launch as root", "{refusal}");
    }
    Ok(())
}

#[test]
fn garbage_on_the_link_harms_nobody() -> Result<()> {
    let stage = stage("garbage")?;
    let state = stage.bench.state();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..300 {
        let channel = if round % 2 == 0 {
            connect(&state)?
        } else {
            greet(&state)?
        };
        let length = usize::try_from(next() % 2000)?;
        let bytes: Vec<u8> = (0..length).map(|_| next().to_le_bytes()[0]).collect();
        guard_agent::sys::seqpacket::send(channel.as_fd(), &bytes, &[])?;
        // It answers with a refusal or hangs up; it never launches.
        match channel.receive_within::<FromWarden>(LONG) {
            Ok((FromWarden::Refused(_), _)) | Err(ChannelError::Closed | ChannelError::Receive(_)) => {}
            other => bail!("round {round}: {other:?}"),
        }
    }
    let mut live = stage.live;
    let start = Instant::now();
    live.send("still")?;
    ensure!(
        live.line(LONG)? == "still" && start.elapsed() < LONG,
        "the session is gone"
    );
    Ok(())
}

#[test]
fn only_root_is_heard() -> Result<()> {
    let stage = stage("only-root")?;
    let socket = stage.bench.state().join("warden.sock");
    let meta = fs::metadata(&socket)?;
    ensure!(
        meta.mode() & 0o777 == 0o600 && meta.uid() == 0,
        "mode {:o} of uid {}",
        meta.mode(),
        meta.uid()
    );
    let directory = fs::metadata(stage.bench.state())?;
    ensure!(directory.mode() & 0o777 == 0o700, "mode {:o}", directory.mode());
    Ok(())
}
