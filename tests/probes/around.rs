//! Starts a program on a kernel that lacks something: `guard-around landlock PROGRAM ARG…` makes the
//! Landlock calls answer ENOSYS for it and all it starts; `guard-around user-namespaces UID GID PROGRAM ARG…` starts
//! it as that user, in a user namespace with every id in which no further one can be made.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
    sock_filter,
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

/// Every id as outside, and a ceiling of none for further namespaces.
fn no_user_namespaces() -> Result<()> {
    // Only a process outside may map more than one id: it waits until there is something to map.
    let mut outside = Command::new(std::env::current_exe()?)
        .args(["map", &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .spawn()?;
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
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
    let what = words.next();
    let filter = match what.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("map") => return map(words.next().context("no pid")?.to_str().context("no pid")?),
        Some("user-namespaces") => {
            let ids: Vec<u32> = words
                .by_ref()
                .take(2)
                .filter_map(|word| word.to_str()?.parse().ok())
                .collect();
            let [uid, gid] = ids[..] else {
                bail!("no uid and gid")
            };
            no_user_namespaces()?;
            let program = words.next().context("no program")?;
            let mut command = Command::new(program);
            command.args(words).uid(uid).gid(gid);
            return Err(command.exec().into());
        }
        Some("landlock") => lacks(&[
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
        ])?,
        other => bail!("what is missing? not {other:?}"),
    };
    let program = words.next().context("no program")?;
    if !nix::unistd::geteuid().is_root() {
        guard_agent::sys::process::no_new_privileges()?;
    }
    guard_agent::sys::seccomp::install(&filter).context("failed to install the filter; is this root?")?;
    Err(Command::new(program).args(words).exec().into())
}
