//! Calls that kill: of other architectures, and what the gateway never makes.

use std::os::unix::process::ExitStatusExt;

use anyhow::Result;

use crate::{EPERM, harness::probe};

#[test]
fn other_architectures_are_killed() -> Result<()> {
    for mode in ["int80", "x32"] {
        let control = probe::<&str>("none", mode, &[])?;
        assert!(control.output.status.success(), "{mode}");
        for confinement in ["open", "strict", "silent", "gateway"] {
            let run = probe::<&str>(confinement, mode, &[])?;
            assert_eq!(
                run.output.status.signal(),
                Some(libc::SIGSYS),
                "{confinement} {mode}"
            );
            assert_eq!(run.stdout(), "");
        }
    }
    Ok(())
}

#[test]
fn the_gateway_dies_of_what_only_an_intruder_asks_for() -> Result<()> {
    for (name, call) in [
        ("execve", "59,@/bin/true,0,0"),
        ("execveat", "322,-1,@/bin/true,0,0,0"),
        ("socket", "41,2,1,0"),
        ("socket", "41,1,1,0"),
        ("connect", "42,-1,0,0"),
        ("ptrace", "101,0,0"),
        ("fork", "57"),
        ("clone as fork", "56,17"),
        ("kill", "62,1,0"),
        ("tgkill of another", "234,1,1,0"),
        ("memfd_create", "319,@x,0"),
        ("bpf", "321,0,0,0"),
        ("unshare", "272,0"),
        ("mount", "165,1,1,1,0,0"),
        ("mprotect exec", "10,0,0,5"),
        ("mmap exec", "9,0,4096,7,0x22,-1,0"),
        ("io_uring_setup", "425,1,0"),
        ("seccomp listener", "317,1,8,0"),
    ] {
        let run = probe("gateway", "raw", &[call, "39"])?;
        assert_eq!(run.output.status.signal(), Some(libc::SIGSYS), "{name}");
        assert_eq!(run.stdout(), "", "{name}");
    }
    // What libc may ask for on its own is refused and survived.
    let calls = [
        "257,-100,@/etc/passwd,0,0",
        "2,@/etc/passwd,0,0",
        "437,-100,@/,1,24",
        "302,0,7,@0123456789abcdef,0",
        "89,@/x,0,0",
    ];
    let run = probe("gateway", "raw", &calls)?;
    run.assert_ok();
    assert_eq!(run.errnos(), vec![EPERM; calls.len()]);
    Ok(())
}
