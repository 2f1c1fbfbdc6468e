//! Starts a program on a kernel that lacks something: `guard-around landlock PROGRAM ARG…` makes the
//! Landlock calls answer ENOSYS for it and all it starts.

use std::os::unix::process::CommandExt as _;

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

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let filter = match words.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("landlock") => lacks(&[
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
        ])?,
        other => bail!("what is missing? not {other:?}"),
    };
    let program = words.next().context("no program")?;
    guard_agent::sys::seccomp::install(&filter).context("failed to install the filter; is this root?")?;
    Err(std::process::Command::new(program).args(words).exec().into())
}
