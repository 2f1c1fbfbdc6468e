//! Where an ordinary user's warden lives when nobody says, and what it does not take.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use guard_tests::agent::AgentBuilder;

use super::{LONG, Place, refusal};

fn agent(place: &Place, home: &Path) -> Result<AgentBuilder> {
    Ok(AgentBuilder::bare()
        .started(place.start()?)
        .flag("--allow-unenforced")
        .outer_env("HOME", &home.display().to_string())
        .outer_env("GUARD_AGENT_IDLE_MS", "100")
        .command(["/bin/cat"]))
}

fn gone(socket: &Path) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    while socket.exists() {
        ensure!(Instant::now() < until, "`{}` stays", socket.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn the_runtime_directory_and_the_state_home() -> Result<()> {
    let place = Place::new("places")?;
    let (runtime, home) = (place.dir("runtime")?, place.dir("home")?);
    let run = || -> Result<()> {
        let finished = agent(&place, &home)?
            .outer_env("XDG_RUNTIME_DIR", &runtime.display().to_string())
            .run("x\n", LONG)?;
        ensure!(finished.stdout == "x", "{finished:?}");
        Ok(())
    };
    run()?;
    let state = runtime.join("guard-agent");
    let meta = state.metadata()?;
    ensure!(
        meta.mode() & 0o777 == 0o700 && meta.uid() == place.user.uid,
        "{meta:?}"
    );
    let audit = home.join(".local/state/guard-agent");
    let meta = audit.metadata()?;
    ensure!(
        meta.mode() & 0o777 == 0o700 && meta.uid() == place.user.uid,
        "{meta:?}"
    );
    let records = guard_tests::records::read(&audit)?;
    ensure!(
        records.iter().any(|record| record.kind == "launch"),
        "{records:?}"
    );
    // A second one finds what the first left, and may be served by the same warden.
    run()?;
    gone(&state.join("warden.sock"))
}

/// `/tmp/guard-agent-UID` may be anybody's.
#[test]
fn a_directory_in_tmp_is_looked_at() -> Result<()> {
    let place = Place::new("tmp")?;
    let home = place.dir("home")?;
    let path = PathBuf::from(format!("/tmp/guard-agent-{}", place.user.uid));
    ensure!(!path.exists(), "`{}` is there already", path.display());
    let clean = |path: &Path| {
        drop(fs::remove_file(path));
        drop(fs::remove_dir_all(path));
    };
    let outcome = (|| -> Result<()> {
        let target = place.dir("elsewhere")?;
        symlink(&target, &path)?;
        let [what, why, fix] = refusal(&agent(&place, &home)?, 2)?;
        ensure!(what.contains("cannot use state directory"), "{what}");
        ensure!(why.contains("it is a symbolic link"), "{why}");
        ensure!(fix.contains("--state"), "{fix}");
        ensure!(
            fs::read_dir(&target)?.next().is_none(),
            "something was made in it"
        );
        fs::remove_file(&path)?;

        fs::create_dir(&path)?;
        chown(&path, Some(place.user.uid + 1), None)?;
        let [_, why, _] = refusal(&agent(&place, &home)?, 2)?;
        ensure!(
            why.contains(&format!("it belongs to uid {}", place.user.uid + 1)),
            "{why}"
        );

        chown(&path, Some(place.user.uid), None)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        let [_, why, _] = refusal(&agent(&place, &home)?, 2)?;
        ensure!(why.contains("others may write it"), "{why}");
        fs::remove_dir(&path)?;

        let finished = agent(&place, &home)?.run("x\n", LONG)?;
        ensure!(finished.stdout == "x", "{finished:?}");
        ensure!(path.metadata()?.mode() & 0o777 == 0o700, "not ours alone");
        gone(&path.join("warden.sock"))
    })();
    clean(&path);
    outcome
}

/// The warden's socket, where somebody else could reach it: only its user is heard.
#[test]
fn another_user_is_not_served() -> Result<()> {
    use std::io::Read as _;
    let place = Place::new("peer")?;
    let mut inside = place.inside()?;
    let state = place.bench.state();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(state.join("warden.sock"), fs::Permissions::from_mode(0o777))?;
    let hello = |uid: u32| -> Result<String> {
        let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.settimeout(5)\n\
                      s.connect(sys.argv[1])\ns.send(b'{\"type\":\"hello\",\"link\":0,\"build\":\"x\"}')\n\
                      print(s.recv(65536).decode() or 'closed')";
        use std::os::unix::process::CommandExt as _;
        let mut child = std::process::Command::new("/usr/bin/python3")
            .args(["-c", script])
            .arg(state.join("warden.sock"))
            .uid(uid)
            .gid(place.user.gid)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()?;
        let (mut out, mut err) = (String::new(), String::new());
        if let (Some(stdout), Some(stderr)) = (&mut child.stdout, &mut child.stderr) {
            stdout.read_to_string(&mut out)?;
            stderr.read_to_string(&mut err)?;
        }
        child.wait()?;
        Ok(out + err.lines().last().unwrap_or_default())
    };
    let own = hello(place.user.uid)?;
    ensure!(
        own.contains("cannot use the running warden"),
        "its user hears `{own}`"
    );
    let other = hello(place.user.uid + 1)?;
    ensure!(
        other.trim() == "closed" || other.contains("ConnectionReset") || other.contains("BrokenPipe"),
        "another user hears `{other}`"
    );
    inside.gives("1 + 1", 2)?;
    Ok(())
}
