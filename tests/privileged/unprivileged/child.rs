//! Who the server is, and what ordinary servers do.

use anyhow::{Context as _, Result, ensure};
use guard_tests::inside::py;
use serde_json::json;

use super::{Place, bare, landlock};

#[test]
fn it_is_the_caller_without_a_privilege() -> Result<()> {
    let place = Place::new("who")?;
    let mut inside = place.inside()?;
    let (uid, gid) = (place.user.uid, place.user.gid);
    inside.gives("os.getresuid()", json!([uid, uid, uid]))?;
    inside.gives("os.getresgid()", json!([gid, gid, gid]))?;
    let field = |name: &str| {
        format!("[l.split(':')[1].split() for l in open('/proc/self/status') if l.startswith('{name}:')][0]")
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        inside.gives(&field(set), json!(["0000000000000000"]))?;
    }
    inside.gives(&field("NoNewPrivs"), json!(["1"]))?;
    inside.gives(&field("Seccomp"), json!(["2"]))?;
    // Nothing of it can be had again.
    inside.fails("os.setuid(0)", &["EPERM", "EINVAL"])?;
    inside.fails("os.setgid(0)", &["EPERM", "EINVAL"])?;
    inside.gives(
        "attempt(lambda: ctypes.CDLL(None, use_errno=True).unshare(0x10000000))",
        json!(-1),
    )?;
    if !bare()? {
        let map = "[open('/proc/self/%s_map' % kind).read().split() for kind in ('uid', 'gid')]";
        inside.gives(
            map,
            json!([
                [uid.to_string(), uid.to_string(), "1"],
                [gid.to_string(), gid.to_string(), "1"]
            ]),
        )?;
        inside.gives(&field("CapBnd"), json!(["0000000000000000"]))?;
        inside.gives("open('/proc/sys/user/max_user_namespaces').read().strip()", "0")?;
        inside.gives("open('/proc/self/setgroups').read().strip()", "deny")?;
        inside.gives("os.uname().nodename", "sandbox")?;
        inside.gives("os.getpid() < 10", true)?;
    }
    inside.end()?;

    let launch = place.launch()?;
    let field = |name: &str| launch.field(name).cloned().unwrap_or_default();
    ensure!(field("tier") == "T3", "{launch:?}");
    ensure!(field("observation") == "none", "{launch:?}");
    ensure!(field("user")["uid"] == json!(uid), "{launch:?}");
    ensure!(
        field("view") == if bare()? { "host" } else { "private" },
        "{launch:?}"
    );
    Ok(())
}

/// What holds is said in the record, and what does not on stderr too.
#[test]
fn it_is_said_what_holds() -> Result<()> {
    let place = Place::new("said")?;
    let finished = place.inside()?.end()?;
    let said = |text: &str| finished.stderr.contains(text);
    ensure!(said("contained at tier T3"), "{}", finished.stderr);
    ensure!(
        said("not observed: without root no eBPF program can be loaded"),
        "{}",
        finished.stderr
    );
    ensure!(
        said("resources: not enforced: without root"),
        "{}",
        finished.stderr
    );
    let launch = place.launch()?;
    let layers = |facet: &str| {
        let layers = launch
            .field("enforcement")
            .map(|all| all[facet]["layers"].clone());
        layers.unwrap_or_default()
    };
    let missing = |facet: &str| {
        let all = launch
            .field("enforcement")
            .map(|all| all[facet]["missing"].to_string());
        all.unwrap_or_default()
    };
    if bare()? {
        ensure!(
            said("no namespaces and no private view: user namespaces are refused: "),
            "{}",
            finished.stderr
        );
        ensure!(layers("fs") == json!(["seccomp", "landlock"]), "{launch:?}");
        ensure!(
            missing("fs").contains("user namespaces are refused"),
            "{launch:?}"
        );
        let scoped = landlock()? >= 6;
        let ipc = if scoped {
            json!(["seccomp", "landlock"])
        } else {
            json!(["seccomp"])
        };
        ensure!(layers("ipc") == ipc, "{launch:?}");
        ensure!(said("ipc: not enforced: ") != scoped, "{}", finished.stderr);
        ensure!(layers("resources") == json!([]), "{launch:?}");
    } else {
        ensure!(
            layers("fs") == json!(["namespaces", "view", "landlock"]),
            "{launch:?}"
        );
        ensure!(layers("ipc")[0] == "namespaces", "{launch:?}");
        ensure!(!said("ipc: not enforced"), "{}", finished.stderr);
        let pids = launch.field("resources").map(|report| report["enforced"].clone());
        ensure!(pids == Some(json!(["pids"])), "{launch:?}");
    }
    let mut net = vec!["seccomp"];
    net.extend((!bare()?).then_some("namespaces"));
    // It can take TCP from ABI 4 on.
    net.extend((landlock()? >= 4).then_some("landlock"));
    net.sort_unstable();
    let mut found: Vec<String> = serde_json::from_value(layers("net"))?;
    found.sort_unstable();
    ensure!(found == net, "net is held by {found:?}: {launch:?}");
    ensure!(missing("net").contains("eBPF programs need root"), "{launch:?}");
    Ok(())
}

#[test]
fn ordinary_work_works() -> Result<()> {
    let place = Place::new("work")?;
    let mut inside = place.inside()?;
    let (rw, r) = (place.path("rw"), place.path("r"));
    inside.gives(&format!("text({})", py(r.join("read"))), "readable")?;
    inside.gives(&format!("write({}, 'mine')", py(rw.join("new"))), 4)?;
    inside.gives(&format!("text({})", py(rw.join("new"))), "mine")?;
    ensure!(
        std::fs::read_to_string(rw.join("new"))? == "mine",
        "it is not where it was asked for"
    );
    inside.works(&format!("os.makedirs({}, exist_ok=True)", py(rw.join("a/b"))))?;
    inside.works(&format!(
        "os.rename({}, {})",
        py(rw.join("new")),
        py(rw.join("a/b/moved"))
    ))?;
    // Temporary files, in a place of its own.
    let temporary = inside.works(
        "(lambda t: [t.write(b'x'), t.flush(), t.name][2])(__import__('tempfile').NamedTemporaryFile(delete=False))",
    )?;
    let temporary = temporary.as_str().context("no name")?.to_owned();
    let seen_outside = std::path::Path::new(&temporary).exists();
    ensure!(
        seen_outside == bare()?,
        "`{temporary}` seen outside: {seen_outside}"
    );
    inside.gives(
        "run('/usr/bin/python3', '-c', 'print(6*7)')",
        json!([0, "42\n", ""]),
    )?;
    inside.gives(
        "(lambda out, t: [t.start(), t.join(), out][2])(*(lambda out: (out, __import__('threading').Thread(target=lambda: out.append(1))))([]))",
        json!([1]),
    )?;
    inside.gives(
        "__import__('asyncio').run(__import__('asyncio').sleep(0.01, 'slept'))",
        "slept",
    )?;
    // A child of its own can be ended, where that cannot reach anybody else.
    if !bare()? || landlock()? >= 6 {
        inside.gives(
            "(lambda p: [p.terminate(), p.wait()][1])(subprocess.Popen(['/usr/bin/python3', '-c', 'import time; time.sleep(60)']))",
            -15,
        )?;
    }
    inside.works("open('/dev/null', 'w').write('x') and open('/dev/urandom', 'rb').read(4).hex()")?;
    inside.end()?;
    ensure!(!std::path::Path::new(&temporary).exists(), "`{temporary}` stayed");
    place.agent()?;
    let left: Vec<_> = std::fs::read_dir(place.bench.state().join("tmp"))
        .map(|all| all.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    ensure!(left.is_empty(), "left: {left:?}");
    Ok(())
}

/// Sockets are refused by seccomp, and recorded.
#[test]
fn a_refused_call_is_recorded() -> Result<()> {
    let place = Place::new("socket")?;
    let mut inside = place.inside()?;
    for family in ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"] {
        inside.fails(
            &format!("socket.socket(socket.{family}, socket.SOCK_DGRAM)"),
            &["EPERM"],
        )?;
    }
    inside.works("[s.close() for s in socket.socketpair()]")?;
    inside.end()?;
    let denied: Vec<_> = place
        .bench
        .records()?
        .iter()
        .filter_map(guard_tests::records::Record::kernel)
        .filter(|record| record.op == "socket" && record.layer == "seccomp" && record.decision == "deny")
        .filter_map(|record| record.family().map(str::to_owned))
        .collect();
    for family in ["AF_INET", "AF_INET6", "AF_UNIX"] {
        ensure!(
            denied.iter().any(|found| found == family),
            "no record of {family}: {denied:?}"
        );
    }
    Ok(())
}

/// In a container `/proc` is often masked. The kernel then gives no new one, and the server has none.
#[test]
fn where_proc_is_masked_it_has_none() -> Result<()> {
    if bare()? {
        return Ok(());
    }
    let place = Place::new("masked")?;
    let mut start = place.start()?;
    let around = guard_tests::programs::around()?;
    let ids = [place.user.uid.to_string(), place.user.gid.to_string()];
    let mut words: Vec<std::ffi::OsString> = vec![
        around.clone().into(),
        "directory".into(),
        "/proc/bus".into(),
        around.into(),
        "user".into(),
    ];
    words.extend(ids.map(Into::into));
    words.append(&mut start.words);
    (start.words, start.by_words) = (words, true);
    let agent = guard_tests::agent::AgentBuilder::new(&place.bench)
        .started(start)
        .root(&place.path("r"), "r");
    let mut inside = guard_tests::inside::Inside::start(agent)?;
    inside.gives("os.listdir('/proc')", json!([]))?;
    inside.gives(&format!("text({})", py(place.path("r/read"))), "readable")?;
    let finished = inside.end()?;
    ensure!(
        finished.stderr.contains("the server has no `/proc`"),
        "{}",
        finished.stderr
    );
    Ok(())
}
