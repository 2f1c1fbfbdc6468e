//! What a gateway that was taken over could ask for is refused by the warden itself; and what whoever started the
//! agent has, reaches nobody.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::link::message::{FromWarden, Root, ToWarden, User};

use super::{LONG, greet, powerless, request, stage, stage_around};

fn root(path: &Path, rights: &str) -> Result<Root> {
    Ok(Root {
        path: path.into(),
        rights: rights.parse().map_err(anyhow::Error::msg)?,
    })
}

#[test]
fn what_no_root_may_be() -> Result<()> {
    let stage = stage("forged-roots")?;
    let outer = stage.bench.path().join("outer");
    let closed = stage.bench.path().join("closed");
    for path in [&outer.join("inner"), &closed] {
        fs::create_dir_all(path)?;
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    let cases = [
        (vec![root(Path::new("/run"), "r")?], "always the sandbox's own"),
        (
            vec![root(&outer, "rw")?, root(&outer.join("inner"), "r")?],
            "inner",
        ),
        // Root can open it, the child's user cannot.
        (vec![root(&closed, "r")?], "closed"),
        (vec![root(&stage.bench.audit(), "r")?], "audit"),
    ];
    for (roots, says) in cases {
        let channel = greet(&stage.bench.state())?;
        let mut forged = request(&stage.bench, User::Dynamic);
        forged.roots.clone_from(&roots);
        channel.send(&ToWarden::Launch(Box::new(forged)), &[])?;
        let (answer, _) = channel.receive_within::<FromWarden>(LONG)?;
        let FromWarden::Refused(refusal) = answer else {
            bail!("{roots:?}: {answer:?}")
        };
        ensure!(refusal.to_string().contains(says), "{roots:?}: {refusal}");
    }
    Ok(())
}

/// Whatever the socket's mode is: the kernel says who connects.
#[test]
fn another_uid_is_not_heard() -> Result<()> {
    let stage = stage("other-uid")?;
    let socket = stage.bench.state().join("warden.sock");
    fs::set_permissions(stage.bench.state(), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
    // Anything but a hello is answered, to those who are heard.
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  s.connect(sys.argv[1])\n\
                  try:\n s.send(b'{\"type\":\"kill\"}')\n print(len(s.recv(65536)))\n\
                  except (ConnectionResetError, BrokenPipeError):\n print(0)";
    let answer = |words: &[&str]| -> Result<usize> {
        let done = Command::new(words[0])
            .args(&words[1..])
            .args(["/usr/bin/python3", "-I", "-c", script])
            .arg(&socket)
            .stdin(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        text.trim()
            .parse()
            .with_context(|| format!("`{text}` {}", String::from_utf8_lossy(&done.stderr)))
    };
    ensure!(answer(&["env"])? > 0, "root is not answered");
    let other = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ];
    ensure!(answer(&other)? == 0, "uid 65534 is answered");
    Ok(())
}

/// Groups and inheritable capabilities, which some service managers and containers leave to what they start.
#[test]
fn what_the_starter_has_reaches_nobody() -> Result<()> {
    let starter = [
        "setpriv",
        "--groups",
        "4,27",
        "--inh-caps",
        "+net_raw,+chown",
        "--",
    ];
    let stage = stage_around("starter", &starter)?;
    for (pid, who) in [
        (stage.cast.gateway, "gateway"),
        (stage.cast.init, "init"),
        (stage.cast.child, "child"),
    ] {
        powerless(pid, who)?;
    }
    let finished = stage.live.finish(LONG)?;
    ensure!(finished.status.success(), "{finished:?}");
    drop(stage.bench);
    Ok(())
}
