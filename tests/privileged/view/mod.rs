//! The smallest root that a resolved runtime asks for, and a program run in it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a harness fails its test by panicking"
)]

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
};

use guard_agent::{octets::Octets, runtime::Runtime};
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::{Uid, chroot, setfsuid},
};

/// `nobody`: an ordinary user without files.
pub(super) const USER: u32 = 65534;

pub(super) struct Outcome {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs the program with nothing but its grants, its links, `/proc`, and the null and random devices.
pub(super) fn run(runtime: &Runtime, directory: &Path, path: &str, input: &str) -> Outcome {
    let place = tempfile::tempdir().unwrap();
    // A thread of its own: namespace, root and Landlock domain are per thread and go with it.
    thread::scope(|scope| {
        let place = place.path();
        scope
            .spawn(move || {
                enter(runtime, place, directory).and_then(|()| start(runtime, directory, path, input))
            })
            .join()
            .expect("the view thread panicked")
    })
    .unwrap()
}

/// Runs `work` with the file-system rights of an ordinary user, in a thread that ends afterwards.
pub(super) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope
            .spawn(move || {
                setfsuid(Uid::from_raw(uid));
                assert_eq!(
                    setfsuid(Uid::from_raw(u32::MAX)).as_raw(),
                    uid,
                    "file-system uid is set"
                );
                work()
            })
            .join()
            .expect("the user thread panicked")
    })
}

fn enter(runtime: &Runtime, root: &Path, directory: &Path) -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(
        Some("tmpfs"),
        root,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=0755"),
    )?;
    for grant in &runtime.grants {
        let path = grant.path.as_path();
        bind(path, &below(root, path), grant.exec || grant.map)?;
    }
    for link in &runtime.links {
        let place = below(root, link.path.as_path());
        fs::create_dir_all(place.parent().expect("a link is not `/`"))?;
        symlink(link.target.as_path(), place)?;
    }
    fs::create_dir_all(below(root, directory))?;
    for device in ["/dev/null", "/dev/urandom", "/dev/random"] {
        let place = below(root, Path::new(device));
        fs::create_dir_all(place.parent().expect("it has one"))?;
        fs::write(&place, "")?;
        mount(Some(device), &place, none, MsFlags::MS_BIND, none)?;
    }
    let proc = below(root, Path::new("/proc"));
    fs::create_dir_all(&proc)?;
    mount(
        Some("/proc"),
        &proc,
        none,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        none,
    )?;
    chroot(root)?;
    restrict(runtime)
}

fn bind(source: &Path, place: &Path, executable: bool) -> anyhow::Result<()> {
    if source.is_dir() {
        fs::create_dir_all(place)?;
    } else {
        fs::create_dir_all(place.parent().expect("a file is not `/`"))?;
        if !place.exists() {
            fs::write(place, "")?;
        }
    }
    let none = None::<&str>;
    mount(Some(source), place, none, MsFlags::MS_BIND, none)?;
    let mut flags =
        MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    if !executable {
        flags |= MsFlags::MS_NOEXEC;
    }
    mount(none, place, none, flags, none)?;
    Ok(())
}

/// Read everywhere (there is nothing else), `execve` only of what is marked.
fn restrict(runtime: &Runtime) -> anyhow::Result<()> {
    let abi = ABI::V1;
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .create()?;
    rules = rules.add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
    rules = rules.add_rule(PathBeneath::new(
        PathFd::new("/dev/null")?,
        AccessFs::ReadFile | AccessFs::WriteFile,
    ))?;
    for grant in runtime.grants.iter().filter(|grant| grant.exec) {
        let rights = AccessFs::Execute | AccessFs::ReadFile;
        rules = rules.add_rule(PathBeneath::new(PathFd::new(grant.path.as_path())?, rights))?;
    }
    let status = rules.restrict_self()?;
    anyhow::ensure!(
        status.ruleset == RulesetStatus::FullyEnforced,
        "Landlock is in force"
    );
    Ok(())
}

fn start(runtime: &Runtime, directory: &Path, path: &str, input: &str) -> anyhow::Result<Outcome> {
    let mut child = Command::new(runtime.program.as_path())
        .arg0(runtime.argv[0].as_os_str())
        .args(runtime.argv[1..].iter().map(Octets::as_os_str))
        .env_clear()
        .env("PATH", path)
        .env("HOME", directory)
        .current_dir(directory)
        .uid(USER)
        .gid(USER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // A start that fails is an outcome here: the negative cases want it.
    let child = match &mut child {
        Ok(_) => child?,
        Err(error) => {
            return Ok(Outcome {
                status: std::os::unix::process::ExitStatusExt::from_raw(127 << 8),
                stdout: String::new(),
                stderr: error.to_string(),
            });
        }
    };
    let mut child = child;
    // A program that ended early closes its input: its status tells.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    Ok(Outcome {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").expect("absolute"))
}
