//! Runs a probe outside any sandbox, as root or as the uid the sandbox will have.

use std::{
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    require::{Row, is_absence},
    suite::{Answer, Declared, Identity},
    world::World,
};

/// Runs it and says whether it reached its target as declared.
///
/// # Errors
/// When the control did not succeed although the kernel has what it needs: the refusal inside would prove nothing.
pub fn run(world: &World, probe: &Declared) -> Result<Row> {
    let args = world.prepare(probe)?;
    let before = world.seen(probe)?;
    let mut command = Command::new(world.public_probe());
    command
        .arg(&probe.name)
        .args(args.iter().map(|(key, value)| format!("{key}={value}")));
    command
        .env(world.planted_name(), "GUARD-SECRET")
        .stdin(Stdio::null());
    if probe.identity == Identity::User {
        command.uid(world.user.uid).gid(world.user.gid);
    }
    let output = command.output().context("failed to start the probe program")?;
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the probe said `{}`", String::from_utf8_lossy(&output.stderr)))?;
    if probe.control.contains(&answer.outcome) {
        if probe.mutates && world.seen(probe)? == before {
            bail!(
                "control did not succeed: `{}` says `{}` and changed nothing",
                probe.name,
                answer.outcome
            );
        }
        return Ok(Row::Ran(answer.outcome));
    }
    match &probe.needs {
        Some(feature) if is_absence(&answer.outcome) => Ok(Row::NotApplicable(format!(
            "this kernel has no `{feature}`: {} {}",
            answer.outcome, answer.detail
        ))),
        _ => bail!(
            "control did not succeed: `{}` as {:?} gave `{}` ({}), declared {:?}",
            probe.name,
            probe.identity,
            answer.outcome,
            answer.detail,
            probe.control
        ),
    }
}

/// A user of the machine that is not root.
#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// `GUARD_TEST_USER`, or `games`: an account of every Debian that owns nothing and runs nothing.
    ///
    /// # Errors
    /// When the machine has no such user.
    pub fn of_tests() -> Result<Self> {
        let name = std::env::var("GUARD_TEST_USER").unwrap_or_else(|_| "games".into());
        let users = std::fs::read_to_string("/etc/passwd").context("failed to read the list of users")?;
        let fields = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.first() == Some(&name.as_str()))
            .with_context(|| format!("no user `{name}` here"))?;
        let number = |at: usize| {
            fields
                .get(at)
                .and_then(|text| text.parse().ok())
                .context("unreadable line of the user list")
        };
        let (uid, gid) = (number(2)?, number(3)?);
        Ok(Self { name, uid, gid })
    }

    /// An account that the sandbox has no business with.
    ///
    /// # Errors
    /// When the list of users is unreadable.
    pub fn another_of_the_host(of_tests: &Self) -> Result<Option<String>> {
        let users = std::fs::read_to_string("/etc/passwd").context("failed to read the list of users")?;
        let mut names = users.lines().filter_map(|line| line.split(':').next());
        let own = ["root", "nobody", &of_tests.name];
        Ok(names.find(|name| !own.contains(name)).map(str::to_owned))
    }
}
