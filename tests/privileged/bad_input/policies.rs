//! Policy files that say nothing usable.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::{Result, ensure};
use guard_tests::refused::{PATIENCE, Stage, Status, text};

struct Case {
    stage: Stage,
    policy: PathBuf,
}

impl Case {
    fn new(name: &str, content: &str) -> Result<Self> {
        let stage = Stage::new(name)?;
        let policy = stage.path("policy.toml");
        let command = format!("command = [\"/usr/bin/touch\", \"{}\"]", text(&stage.marker()));
        let roots = format!(
            "roots = [{{ path = \"{}\", rights = \"rw\" }}]",
            text(&stage.path("mark"))
        );
        let content = content.replace("COMMAND", &command).replace("ROOTS", &roots);
        fs::write(&policy, content)?;
        Ok(Self { stage, policy })
    }
    fn refused(&self, what: &str, why: &str, fix: &str) -> Result<()> {
        let run = self.stage.plain().option("--policy", &self.policy);
        let what = what.replace("POLICY", &text(&self.policy));
        self.stage.refused(&run, Status::Usage, [&what, why, fix])
    }
}

#[test]
fn a_good_one_runs() -> Result<()> {
    let case = Case::new("policy", "[server.one]\nCOMMAND\nROOTS\n")?;
    let finished = case
        .stage
        .plain()
        .option("--policy", &case.policy)
        .run("", PATIENCE)?;
    ensure!(
        finished.status.success() && case.stage.marker().exists(),
        "{}",
        finished.stderr
    );
    Ok(())
}

#[test]
fn unreadable() -> Result<()> {
    let mut case = Case::new("unreadable", "[server.one]\nCOMMAND\nROOTS\n")?;
    fs::set_permissions(&case.policy, fs::Permissions::from_mode(0o666))?;
    let fix = format!("check what it says, then `chmod o-w {}`", text(&case.policy));
    case.refused(
        "cannot use policy `POLICY`",
        "everybody on this machine may change it",
        &fix,
    )?;
    fs::write(&case.policy, [0xff, 0xfe])?;
    fs::set_permissions(&case.policy, fs::Permissions::from_mode(0o644))?;
    let what = "cannot read policy `POLICY`";
    case.refused(what, "it is not UTF-8 text", "write the policy as TOML")?;
    case.policy = case.stage.directory("place")?;
    case.refused(what, "it is not a regular file", "name a policy file")?;
    case.policy = case.stage.path("gone");
    case.refused(
        what,
        "no such file or directory",
        "correct the path after `--policy`",
    )?;
    case.policy = case.stage.path("pipe");
    nix::unistd::mkfifo(&case.policy, nix::sys::stat::Mode::from_bits_truncate(0o600))?;
    case.refused(what, "it is not a regular file", "name a policy file")
}

/// By an ordinary user: root reads everything.
#[test]
fn closed_to_the_caller() -> Result<()> {
    let case = Case::new("closed-policy", "[server.one]\nCOMMAND\nROOTS\n")?;
    fs::set_permissions(&case.policy, fs::Permissions::from_mode(0o600))?;
    let run = case.stage.plain().option("--policy", &case.policy);
    let run = super::machine::as_user(&case.stage, run)?;
    let what = format!("cannot read policy `{}`", text(&case.policy));
    let fix = "let the user who runs guard-agent read it";
    case.stage
        .refused(&run, Status::Usage, [&what, "permission denied", fix])
}

#[test]
fn unknown_key() -> Result<()> {
    let case = Case::new("key", "[server.one]\nCOMMAND\nROOTS\nroot = []\n")?;
    case.refused(
        "cannot use policy `POLICY`, line 4",
        "unknown key `root`, expected one of `command`, `runtime`, `user`, `roots`, `network`, `limits`, `require`, \
         `view`, `isolation`, `env`, `directory`, `free_names`, `observe`, `over_budget`, `protocol`, `tool`, \
         `idle_rights`",
        "remove or correct the key; `docs/policy.md` explains each, and none is accepted that nothing enforces",
    )
}

#[test]
fn two_servers_and_no_name() -> Result<()> {
    let case = Case::new(
        "two",
        "[server.one]\nCOMMAND\nROOTS\n[server.two]\nCOMMAND\nROOTS\n",
    )?;
    case.refused(
        "cannot tell which server of policy `POLICY` to run",
        "it has `one`, `two`",
        "name one of these with `--name`",
    )?;
    let run = case
        .stage
        .plain()
        .option("--policy", &case.policy)
        .option("--name", "three");
    let what = format!("no server `three` in policy `{}`", text(&case.policy));
    let words = [
        what.as_str(),
        "it has `one`, `two`",
        "name one of these with `--name`",
    ];
    case.stage.refused(&run, Status::Usage, words)?;
    let run = case
        .stage
        .plain()
        .option("--policy", &case.policy)
        .option("--name", "two");
    let finished = run.run("", PATIENCE)?;
    ensure!(
        finished.status.success() && case.stage.marker().exists(),
        "{}",
        finished.stderr
    );
    Ok(())
}

/// Nothing is pretended: what is built of it is not enough for `run`.
#[test]
fn a_sandbox_a_call() -> Result<()> {
    let case = Case::new("a-call", "[server.one]\nCOMMAND\nROOTS\nisolation = \"call\"\n")?;
    case.refused(
        "cannot run `one` with `isolation = \"call\"`",
        "each call would need a server that has been greeted as the client greeted the first one, and `run` cannot repeat \
         a greeting yet",
        "write `isolation = \"session\"` in the policy, or leave it out",
    )
}

#[test]
fn beside_flags_that_say_otherwise() -> Result<()> {
    let case = Case::new("beside", "[server.one]\nCOMMAND\nROOTS\n")?;
    let run = case
        .stage
        .plain()
        .option("--policy", &case.policy)
        .root(&case.stage.path("mark"), "rw");
    let words = [
        "cannot use `--root` together with `--policy`",
        "the policy describes the whole server, so that its hash in the record tells what ran",
        "set `roots` in the policy, or leave `--policy` out",
    ];
    case.stage.refused(&run, Status::Usage, words)
}
