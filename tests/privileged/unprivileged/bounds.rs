//! What nothing but our own care bounds where there are no namespaces; and the same where there are.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use guard_tests::inside::py;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use super::{Place, bare};

/// A process of the same user, outside.
struct Neighbour(Child);

impl Neighbour {
    fn start(place: &Place) -> Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let child = Command::new("/usr/bin/python3")
            .args(["-c", "import time; print('up', flush=True); time.sleep(600)"])
            .uid(place.user.uid)
            .gid(place.user.gid)
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }
    fn pid(&self) -> u32 {
        self.0.id()
    }
    fn lives(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Real signals, by every call there is, to a process of the same uid; and its limits and priority.
#[test]
fn the_users_other_processes_are_out_of_reach() -> Result<()> {
    let place = Place::new("reach")?;
    let mut neighbour = Neighbour::start(&place)?;
    let mut inside = place.inside()?;
    let pid = neighbour.pid();
    let refused = &["EPERM", "ESRCH"];
    for signal in [9, 15, 19] {
        inside.fails(&format!("os.kill({pid}, {signal})"), refused)?;
    }
    let libc = "ctypes.CDLL(None, use_errno=True)";
    for (name, number, args) in [
        ("tkill", 200, format!("{pid}, 9")),
        ("tgkill", 234, format!("{pid}, {pid}, 9")),
        (
            "prlimit64",
            302,
            format!("{pid}, 7, ctypes.byref((ctypes.c_ulong * 2)(3, 3)), None"),
        ),
        ("setpriority", 141, format!("0, {pid}, 19")),
        (
            "sched_setaffinity",
            203,
            format!("{pid}, 8, ctypes.byref(ctypes.c_ulong(1))"),
        ),
        ("ptrace", 101, format!("16, {pid}, 0, 0")),
    ] {
        let call = format!("(lambda l: [l.syscall({number}, {args}), ctypes.get_errno()])({libc})");
        let answer = inside.works(&call)?;
        ensure!(
            answer == json!([-1, libc::EPERM]) || answer == json!([-1, libc::ESRCH]),
            "`{name}` gave {answer}"
        );
    }
    // To all it may signal: that must not be anybody outside. Its own end is allowed.
    drop(inside.ask("(os.kill(-1, 15), 1)[1] if os.fork() == 0 else os.wait()[1]"));
    std::thread::sleep(Duration::from_millis(50));
    ensure!(neighbour.lives()?, "the neighbour is dead");
    Ok(())
}

/// What Landlock does not judge is refused by seccomp where no mount holds it.
#[test]
fn metadata_outside_writable_roots_stays() -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new("metadata")?;
    let mut inside = place.inside()?;
    let secret = place.path("outside/secret");
    let before = secret.metadata()?;
    for path in [secret.clone(), place.path("r/read")] {
        let path = py(path);
        for call in [
            format!("os.chmod({path}, 0o777)"),
            format!("os.utime({path}, (1, 1))"),
            format!("os.setxattr({path}, 'user.x', b'1')"),
            format!("os.truncate({path}, 0)"),
            format!("os.close(os.open({path}, os.O_RDONLY | os.O_TRUNC))"),
            format!("os.chown({path}, os.getuid(), os.getgid())"),
        ] {
            inside.fails(&call, &["EPERM", "EACCES", "ENOENT", "EROFS"])?;
        }
    }
    inside.fails(&format!("text({})", py(&secret)), &["EACCES", "ENOENT"])?;
    inside.end()?;
    let after = secret.metadata()?;
    ensure!(
        (before.mode(), before.mtime(), before.len(), before.ctime())
            == (after.mode(), after.mtime(), after.len(), after.ctime()),
        "{before:?} became {after:?}"
    );
    ensure!(
        std::fs::read_to_string(place.path("r/read"))? == "readable",
        "a read-only root changed"
    );
    Ok(())
}

/// The view's own trees have the server's uid there; a read-only mount stands for root's.
#[test]
fn trees_of_its_own_uid_are_closed() -> Result<()> {
    if bare()? {
        return Ok(());
    }
    let place = Place::new("trees")?;
    let mut inside = place.inside()?;
    for directory in ["/", "/dev", "/run", "/etc"] {
        inside.fails(&format!("os.mkdir({directory:?} + '/x')"), &["EROFS", "EACCES"])?;
        inside.fails(&format!("os.chmod({directory:?}, 0o777)"), &["EROFS"])?;
    }
    Ok(())
}

fn all_of(user: u32, mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(mark)
            && std::fs::read_to_string(entry.path().join("status"))
                .is_ok_and(|text| text.contains(&format!("Uid:\t{user}\t")) && !text.contains("State:\tZ"))
        {
            found.push(pid);
        }
    }
    found
}

/// It forks without a pause, leaves every session, ignores every signal, and forgets its parent: all the same nothing
/// of it is left when its client goes.
#[test]
fn a_server_that_forks_away_ends() -> Result<()> {
    const BOMB: &str = r"
import os, signal, sys, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
print('up', flush=True)
def away():
    os.setsid()
    while True:
        # A chain in which each lives for a moment: looking one by one comes too late.
        if os.fork(): os._exit(0)
        time.sleep(0.0005)
for _ in range(4):
    if os.fork() == 0:
        if os.fork() == 0: away()
        os.setsid()
        time.sleep(600)
time.sleep(600)
";
    let place = Place::new("bomb")?;
    let script = place.file("r/bomb.py", BOMB)?;
    let mut live = place
        .agent()?
        .command(["/usr/bin/python3", "-I", &script.display().to_string()])
        .spawn()?;
    ensure!(live.line(super::LONG)? == "up", "it did not start");
    let mark = script.display().to_string();
    std::thread::sleep(Duration::from_millis(300));
    ensure!(all_of(place.user.uid, &mark).len() >= 5, "it did not fork");
    let start = Instant::now();
    drop(live.finish(super::LONG)?);
    let mut last = Vec::new();
    for _ in 0..20 {
        last = all_of(place.user.uid, &mark);
        ensure!(
            last.is_empty(),
            "{last:?} live {:?} after the end",
            start.elapsed()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(last);
    place
        .bench
        .wait_record(Duration::from_secs(5), |record| record.kind == "exit")?;
    Ok(())
}

/// Whoever forks twice is adopted by the sandbox's init, not by the warden, which it could outlive there.
#[test]
fn orphans_stay_in_the_family() -> Result<()> {
    const TWICE: &str = "
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
    os.wait()
print('up', flush=True)
time.sleep(600)
";
    let place = Place::new("twice")?;
    let script = place.file("r/twice.py", TWICE)?;
    let mark = script.display().to_string();
    let mut live = place
        .agent()?
        .command(["/usr/bin/python3", "-I", &mark])
        .spawn()?;
    ensure!(live.line(super::LONG)? == "up", "it did not start");
    let mut parents = Vec::new();
    for pid in all_of(place.user.uid, &mark) {
        let is_python = std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| exe.to_string_lossy().contains("python"));
        let parent = guard_agent::sys::family::stat(pid).map(|stat| stat.parent);
        if let Some(parent) = parent.filter(|_| is_python) {
            let words = std::fs::read(format!("/proc/{parent}/cmdline"))?;
            parents.push(String::from_utf8_lossy(&words).replace('\0', " "));
        }
    }
    ensure!(
        parents.len() == 4 && parents.iter().all(|words| words.starts_with("guard-agent-init")),
        "the parents of the server and its three orphans: {parents:?}"
    );
    drop(live.finish(super::LONG)?);
    Ok(())
}

/// Somebody ends the sandbox's init: what it leaves is ended by the warden.
#[test]
fn orphans_of_a_dead_init_end() -> Result<()> {
    let place = Place::new("orphans")?;
    let script = place.file(
        "r/family.py",
        "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: pass\n        time.sleep(600)\nprint('up', flush=True)\ntime.sleep(600)\n",
    )?;
    let mark = script.display().to_string();
    let mut live = place
        .agent()?
        .command(["/usr/bin/python3", "-I", &mark])
        .spawn()?;
    ensure!(live.line(super::LONG)? == "up", "it did not start");
    std::thread::sleep(Duration::from_millis(200));
    let family: Vec<i32> = all_of(place.user.uid, &mark)
        .into_iter()
        .filter(|pid| {
            std::fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe.to_string_lossy().contains("python"))
        })
        .collect();
    ensure!(family.len() == 7, "{family:?}");
    let parents: Vec<i32> = family
        .iter()
        .filter_map(|pid| Some(guard_agent::sys::family::stat(*pid)?.parent))
        .filter(|parent| !family.contains(parent))
        .collect();
    let init = *parents.first().ok_or_else(|| anyhow::anyhow!("no init"))?;
    kill(Pid::from_raw(init), Signal::SIGKILL)?;
    let finished = live.finish(super::LONG)?;
    ensure!(finished.status.code() == Some(1), "{finished:?}");
    let left: Vec<_> = all_of(place.user.uid, &mark);
    ensure!(left.is_empty(), "left: {left:?}");
    let exit = place
        .bench
        .wait_record(super::LONG, |record| record.kind == "exit")?;
    ensure!(
        exit.field("reason").is_some_and(|reason| reason == "init-died"),
        "{exit:?}"
    );
    Ok(())
}

/// In a user namespace the kernel counts a sandbox's processes apart from the user's others.
#[test]
fn processes_have_a_ceiling_of_their_own() -> Result<()> {
    if bare()? {
        return Ok(());
    }
    let place = Place::new("ceiling")?;
    let mut inside = place.inside()?;
    // 64 by default, itself among them.
    inside.works("globals().update(pids=[])")?;
    let mut forked = 0;
    for _ in 0..200 {
        match inside.ask("(lambda p: (pids.append(p), p)[1] if p else (__import__('time').sleep(120), os._exit(0)))(os.fork()) > 0")? {
            guard_tests::inside::Answer::Ok(_) => forked += 1,
            guard_tests::inside::Answer::Errno(errno) => {
                ensure!(errno == "EAGAIN", "{errno}");
                break;
            }
        }
    }
    ensure!(forked == 63, "{forked} children of 64 processes");
    Ok(())
}
