//! A stage with a warden, and on it a confined gateway that does what it is told.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::{
    life::{left::Role, stage::Stage},
    programs,
    tier::{Tier, in_a_guest},
};
use serde_json::{Value, json};

pub(crate) struct Calls {
    pub(crate) stage: Stage,
    warden: Child,
    gateway: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    pub(crate) session: String,
}

/// The server that does what each line says.
pub(crate) const ACTS: &[&str] = &["guard-probe", "acts"];

fn tier() -> Result<Option<&'static str>> {
    Ok(match Tier::current()? {
        Tier::T1 => Some("T1"),
        Tier::T2 if in_a_guest() => Some("T2"),
        _ => None,
    })
}

impl Calls {
    /// With a server of `bin/`, which may write to `work/`.
    pub(crate) fn begin(mut stage: Stage, server: &[&str], limit_ms: Option<u64>) -> Result<Self> {
        fs::copy(programs::probe()?, stage.path().join("bin/guard-probe"))?;
        let [program, arguments @ ..] = server else {
            bail!("no server");
        };
        let program = stage.path().join("bin").join(program).display().to_string();
        let command: Vec<&str> = [program.as_str()]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let policy = stage.path().join("policy.toml");
        fs::write(
            &policy,
            format!(
                "[server.caller]\ncommand = {command:?}\nruntime = \"static\"\nisolation = \"call\"\n\
                 roots = [{{ path = {:?}, rights = \"rw\" }}]\n",
                stage.path().join("work")
            ),
        )?;
        if in_a_guest() {
            // Longer than a program takes to start in an emulator.
            stage.idle = 5000;
        }
        let mut warden = stage.warden_command();
        if tier()? == Some("T2") {
            warden.arg("--no-hooks");
        }
        let mut warden = warden.spawn().context("failed to start the warden")?;
        let mut ready = [0; 1];
        warden
            .stdout
            .as_mut()
            .context("no output")?
            .read_exact(&mut ready)
            .context("the warden did not start")?;
        let mut gateway = Command::new(programs::caller()?);
        gateway.arg(stage.state()).arg(stage.audit()).arg(&policy);
        if let Some(tier) = tier()? {
            gateway.env("GUARD_CALLER_TIER", tier);
        }
        if let Some(limit) = limit_ms {
            gateway.env("GUARD_CALLER_LIMIT_MS", limit.to_string());
        }
        let mut gateway = gateway.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = gateway.stdin.take();
        let from = BufReader::new(gateway.stdout.take().context("no output")?);
        let mut calls = Self {
            stage,
            warden,
            gateway,
            to,
            from,
            session: String::new(),
        };
        let planned = calls.hear()?;
        ensure!(planned["uid"].as_u64() > Some(2_000_000_000), "{planned}");
        calls.session = planned["session"].as_str().context("no session")?.to_owned();
        Ok(calls)
    }

    fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        ensure!(
            self.from.read_line(&mut line)? > 0,
            "the gateway has ended{}",
            self.stage.log()
        );
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
    }

    /// Tells the gateway to do something; what it says of that.
    pub(crate) fn order(&mut self, order: &Value) -> Result<Value> {
        self.send(order)?;
        self.hear()
    }

    pub(crate) fn send(&mut self, order: &Value) -> Result<()> {
        let to = self.to.as_mut().context("the gateway is gone")?;
        Ok(writeln!(to, "{order}")?)
    }

    pub(crate) fn start(&mut self) -> Result<u64> {
        let answer = self.order(&json!({"do": "start"}))?;
        answer["call"]
            .as_u64()
            .with_context(|| format!("not started: {answer}"))
    }

    /// What came of an act of the server.
    pub(crate) fn act(&mut self, act: &Value) -> Result<String> {
        let answer = self.order(&json!({"do": "ask", "line": act.to_string()}))?;
        let line = answer["line"]
            .as_str()
            .with_context(|| format!("no answer: {answer}"))?;
        let outcome: Value = serde_json::from_str(line)?;
        Ok(outcome["outcome"].as_str().context("no outcome")?.to_owned())
    }

    pub(crate) fn end(&mut self) -> Result<Value> {
        let answer = self.order(&json!({"do": "end"}))?;
        ensure!(answer["exited"].is_object(), "{answer}");
        Ok(answer["exited"].clone())
    }

    /// The session ends as it does when a client leaves.
    pub(crate) fn leave(&mut self) -> Result<()> {
        drop(self.to.take());
        let status = self.gateway.wait()?;
        ensure!(status.success(), "the gateway ended with {status}");
        self.warden.wait()?;
        Ok(())
    }

    pub(crate) fn kill_gateway(&mut self) -> Result<()> {
        self.gateway.kill()?;
        self.gateway.wait()?;
        Ok(())
    }

    pub(crate) fn kill_warden(&mut self) -> Result<()> {
        self.warden.kill()?;
        self.warden.wait()?;
        Ok(())
    }

    /// The init of the one sandbox.
    pub(crate) fn init(&self) -> Result<i32> {
        let inits = self.stage.left().pids(Role::Init);
        let [init] = inits.as_slice() else {
            bail!("{} inits: {:?}", inits.len(), self.stage.left().lines());
        };
        Ok(*init)
    }

    /// Nothing of any sandbox is there, though the session goes on.
    pub(crate) fn between(&self) -> Result<()> {
        let left = self.stage.left();
        ensure!(
            left.sandboxes() == 0 && left.pids(Role::Init).is_empty() && left.pids(Role::Server).is_empty(),
            "{:?}",
            left.lines()
        );
        Ok(())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for child in [&mut self.gateway, &mut self.warden] {
            if matches!(child.try_wait(), Ok(None)) {
                drop(child.kill());
                drop(child.wait());
            }
        }
    }
}

/// The error of a call that gets no sandbox.
pub(crate) fn refused(calls: &mut Calls) -> Result<String> {
    let answer = calls.order(&json!({"do": "start"}))?;
    let error = answer["error"].as_str();
    error
        .map(str::to_owned)
        .with_context(|| format!("not refused: {answer}"))
}

/// While the audit directory lies in the one root of the plan, where it was not when that was opened.
pub(crate) fn with_audit_inside<T>(
    calls: &mut Calls,
    work: impl FnOnce(&mut Calls) -> Result<T>,
) -> Result<T> {
    let (audit, inside) = (calls.stage.audit(), calls.stage.work("audit"));
    fs::rename(&audit, &inside)?;
    std::os::unix::fs::symlink(&inside, &audit)?;
    let result = work(calls);
    fs::remove_file(&audit)?;
    fs::rename(&inside, &audit)?;
    result
}
