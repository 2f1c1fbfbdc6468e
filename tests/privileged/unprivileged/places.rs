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
