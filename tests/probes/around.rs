//! Starts a program on a machine that lacks something. `guard-around WHAT [ARG]… PROGRAM [ARG]…`; itself may be the
//! program, for a second WHAT.
//!
//! * `landlock`: its calls answer ENOSYS, for the program and all it starts
//! * `directory DIR`: it is empty
//! * `file OTHER FILE`: what is in FILE is what is in the other
//! * `securityfs`: it is mounted where it belongs
//! * `rights`: root without a capability
//! * `cgroups`: no cgroup hierarchy is mounted
//! * `user UID GID`: an ordinary user
//! * `user-namespaces UID GID`: that user, in a user namespace with every id in which no further one can be made

use std::{
    ffi::OsString,
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
    sock_filter,
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{Gid, Uid, setgroups, setresgid, setresuid},
};

fn statement(code: u32, k: u32) -> Result<sock_filter> {
    Ok(sock_filter {
        code: u16::try_from(code)?,
        jt: 0,
        jf: 0,
        k,
    })
}

/// Answers the calls of `missing` with ENOSYS.
fn lacks(missing: &[libc::c_long]) -> Result<Vec<sock_filter>> {
    // The number is the first field of `seccomp_data`.
    let mut filter = vec![statement(BPF_LD | BPF_W | BPF_ABS, 0)?];
    for (index, number) in missing.iter().enumerate() {
        let mut compare = statement(BPF_JMP | BPF_JEQ | BPF_K, u32::try_from(*number)?)?;
        // To the last instruction.
        compare.jt = u8::try_from(missing.len() - index)?;
        filter.push(compare);
    }
    filter.push(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)?);
    filter.push(statement(
        BPF_RET | BPF_K,
        SECCOMP_RET_ERRNO | u32::try_from(libc::ENOSYS)?,
    )?);
    Ok(filter)
}

fn without_landlock() -> Result<()> {
    let filter = lacks(&[
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ])?;
    // An ordinary user may install one only with this.
    nix::sys::prctl::set_no_new_privs()?;
    guard_agent::sys::seccomp::install(&filter).context("failed to install the filter")
}

/// Mounts of this process's own.
fn own_mounts() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("failed to make a mount namespace; is this root?")?;
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    Ok(mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?)
}

fn filesystem(kind: &str, at: &Path) -> Result<()> {
    own_mounts()?;
    mount(Some(kind), at, Some(kind), MsFlags::MS_NOSUID, None::<&str>)
        .with_context(|| format!("failed to mount a {kind} on `{}`", at.display()))
}

fn instead(other: &Path, file: &Path) -> Result<()> {
    own_mounts()?;
    mount(Some(other), file, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("failed to mount `{}` on `{}`", other.display(), file.display()))
}

fn without_cgroups() -> Result<()> {
    own_mounts()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let points: Vec<&str> = mounts
        .lines()
        .filter(|line| line.contains(" - cgroup2 ") || line.contains(" - cgroup "))
        .filter_map(|line| line.split(' ').nth(4))
        .collect();
    for point in points.iter().rev() {
        umount2(*point, MntFlags::MNT_DETACH).with_context(|| format!("failed to take `{point}` off"))?;
    }
    Ok(())
}

fn become_user(uid: u32, gid: u32) -> Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    Ok(setresuid(uid, uid, uid)?)
}

/// Every id as outside, and a ceiling of none for further namespaces.
fn no_user_namespaces() -> Result<()> {
    // Only a process outside may map more than one id: it waits until there is something to map.
    let mut outside = Command::new(std::env::current_exe()?)
        .args(["map", &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .spawn()?;
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // The end of its input is the sign.
    drop(outside.stdin.take());
    if !outside.wait()?.success() {
        bail!("failed to map the ids");
    }
    fs::write("/proc/sys/user/max_user_namespaces", "0")?;
    Ok(())
}

fn map(pid: &str) -> Result<()> {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    for file in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{pid}/{file}"), format!("0 0 {}", u32::MAX))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let mut next = |what: &'static str| words.next().with_context(|| format!("no {what}"));
    let number = |word: OsString| -> Result<u32> { Ok(word.to_str().context("no number")?.parse()?) };
    match next("what")?.to_str() {
        Some("landlock") => without_landlock()?,
        Some("directory") => filesystem("tmpfs", Path::new(&next("directory")?))?,
        Some("file") => instead(Path::new(&next("other file")?), Path::new(&next("file")?))?,
        Some("securityfs") if Path::new("/sys/kernel/security/lsm").exists() => {}
        Some("securityfs") => filesystem("securityfs", Path::new("/sys/kernel/security"))?,
        Some("rights") => guard_agent::sys::process::drop_bounding_set()?,
        Some("cgroups") => without_cgroups()?,
        Some("user") => become_user(number(next("uid")?)?, number(next("gid")?)?)?,
        Some("map") => return map(next("pid")?.to_str().context("no pid")?),
        Some("user-namespaces") => {
            let ids = (number(next("uid")?)?, number(next("gid")?)?);
            no_user_namespaces()?;
            become_user(ids.0, ids.1)?;
        }
        other => bail!("what is missing? not {other:?}"),
    }
    let program = next("program")?;
    let mut command = Command::new(program);
    Err(command.args(words).exec().into())
}
