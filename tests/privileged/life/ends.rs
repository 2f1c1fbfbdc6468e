//! The server goes by itself: what is said of it, and what is recorded.

use anyhow::{Context as _, Result, ensure};
use guard_tests::life::left::Role;
use guard_tests::tier::Tier;

use super::{ended, exit_record, on_stage};

#[test]
fn a_server_that_fails() -> Result<()> {
    on_stage(|stage| {
        // The input stays open: the server ends on its own.
        let session = stage.start(&mut stage.puppet(["complain=cannot find its database", "exit=3"]))?;
        let done = session.wait()?;
        ended(&done, 1)?;
        ensure!(
            done.stderr.contains("\n[puppet] cannot find its database\n"),
            "not passed on:\n{}",
            done.stderr
        );
        ensure!(
            done.stderr.contains(
                "error: the server `puppet` ended during its start\n  why: it exited with status 3 after "
            ),
            "{}",
            done.stderr
        );
        ensure!(
            done.stderr
                .ends_with("\n  its last words:\n    cannot find its database\n"),
            "{}",
            done.stderr
        );
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("stderr_tail").context("stderr_tail")? == "cannot find its database\n",
            "{exit:?}"
        );
        ensure!(
            exit.field("reason").context("reason")? == "exited" && exit.field("code").context("code")? == 3,
            "{exit:?}"
        );
        ensure!(
            exit.field("signal").is_none_or(serde_json::Value::is_null),
            "{exit:?}"
        );
        let duration = exit
            .field("duration_us")
            .and_then(serde_json::Value::as_u64)
            .context("no duration")?;
        ensure!(duration > 0 && duration < 60_000_000, "{duration} µs");
        Ok(())
    })
}

/// A person tries it without any input: the failure is told all the same.
#[test]
fn a_server_that_fails_without_input() -> Result<()> {
    on_stage(|stage| {
        let done = stage.finish(&mut stage.puppet(["complain=no configuration", "exit=3"]), b"")?;
        ended(&done, 1)?;
        ensure!(
            done.stderr.contains("exited with status 3 ")
                && done.stderr.ends_with("its last words:\n    no configuration\n"),
            "{}",
            done.stderr
        );
        Ok(())
    })
}

/// A client that writes at the moment of the crash is not the one who ended the session.
#[test]
fn a_server_that_fails_while_the_client_writes() -> Result<()> {
    on_stage(|stage| {
        for _ in 0..10 {
            let mut session = stage.start(&mut stage.puppet(["sleep=20", "exit=3"]))?;
            let mut stdin = session.stdin.take().context("no input")?;
            let writer = std::thread::spawn(move || {
                use std::io::Write as _;
                while stdin.write_all(&[b'x'; 8192]).is_ok() {}
            });
            let done = session.wait()?;
            drop(writer.join());
            ended(&done, 1)?;
        }
        Ok(())
    })
}

#[test]
fn a_server_that_crashes() -> Result<()> {
    on_stage(|stage| {
        let session = stage.start(&mut stage.puppet(["say=ready", "crash"]))?;
        let done = session.wait()?;
        ended(&done, 1)?;
        ensure!(
            done.stderr.contains("why: it ended by SIGKILL (signaled)"),
            "{}",
            done.stderr
        );
        let exit = exit_record(stage)?;
        ensure!(
            exit.field("reason").context("reason")? == "signaled"
                && exit.field("signal").context("signal")? == 9,
            "{exit:?}"
        );
        Ok(())
    })
}

#[test]
fn a_command_whose_interpreter_is_missing() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    on_stage(|stage| {
        let script = stage.path().join("bin/script");
        std::fs::write(&script, "#!/no/such/interpreter\n")?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        let mut command = stage.run_command([script.as_os_str()]);
        let done = stage.finish(&mut command, b"")?;
        ended(&done, 2)?;
        ensure!(
            done.stderr.contains("/no/such/interpreter"),
            "the cause is not named:\n{}",
            done.stderr
        );
        // One that works, so that there is a trail to look at.
        stage.works()
    })
}

/// What the server says reaches the terminal marked and without power over it.
#[test]
fn errors_are_marked_and_harmless() -> Result<()> {
    on_stage(|stage| {
        let done = stage.finish(&mut stage.puppet(["complain-control"]), b"")?;
        ended(&done, 0)?;
        ensure!(
            done.stderr
                .contains("[puppet] red\\u{1b}[31m\\u{7} bell\n[puppet] long\n"),
            "{:?}",
            done.stderr
        );
        ensure!(
            !done.stderr.contains('\x1b') && !done.stderr.contains('\x07'),
            "control characters: {:?}",
            done.stderr
        );
        Ok(())
    })
}

#[test]
fn orphans_are_fetched() -> Result<()> {
    on_stage(|stage| {
        let mut session = stage.start(&mut stage.puppet(["orphans=200", "forever"]))?;
        // 400 processes died, 200 of them children of pid 1. Left: it, and the server.
        let line = session.line()?;
        // Without a pid namespace it counts the machine's.
        let bare = Tier::current()? == Tier::T3Bare;
        ensure!(bare || line == "zombies 0 processes 2", "{line}");
        let servers = stage.left().pids(Role::Server).len();
        ensure!(
            servers == 1,
            "{servers} processes in the sandbox, seen from outside"
        );
        ended(&session.finish()?, 0)
    })
}

/// Nothing of what a client ignores or blocks reaches the server, nor of what our runtime ignores.
#[test]
fn signals_are_as_at_a_login() -> Result<()> {
    on_stage(|stage| {
        let inner = stage.run_command(["/bin/cat", "/proc/self/status"]);
        let mut command = std::process::Command::new("/bin/sh");
        command
            .args(["-c", "trap '' CHLD HUP INT USR1; umask 077; exec \"$@\"", "sh"])
            .arg(inner.get_program())
            .args(inner.get_args())
            .env("GUARD_AGENT_IDLE_MS", "20")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let done = stage.finish(&mut command, b"")?;
        ended(&done, 0)?;
        let text = done.text();
        for name in ["SigIgn", "SigBlk"] {
            let line = text
                .lines()
                .find(|line| line.starts_with(name))
                .with_context(|| format!("no {name} in {text}"))?;
            ensure!(line.ends_with("\t0000000000000000"), "{line}");
        }
        ensure!(text.contains("Umask:\t0022\n"), "{text}");
        Ok(())
    })
}
