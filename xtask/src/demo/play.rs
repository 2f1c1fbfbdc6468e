//! The demo itself: an ordinary server, a hostile one, and what is on record of both.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Claims,
    client::{self, Answer, Client},
    machine::Machine,
    programs::Programs,
    refusals::{self, Attempts},
    stage::{DOCUMENT, SECRET, Stage},
    tier,
    trail::Trail,
};

/// Whom servers run as under the guard when root starts it: a uid without an account.
const USER: &str = "dynamic";
/// One more such uid for the bare server, so that nothing but the guard is the difference.
const BARE_UID: &str = "2100000000";

pub(super) struct Demo<'a> {
    programs: &'a Programs,
    machine: &'a Machine,
    client: Client,
    stage: Stage,
    trail: Trail,
    claims: Claims,
}

impl<'a> Demo<'a> {
    pub(super) fn new(programs: &'a Programs, machine: &'a Machine) -> Result<Self> {
        let stage = Stage::new(&machine.tier.parent(), &programs.hostile, &programs.addon)?;
        Ok(Self {
            programs,
            machine,
            client: Client {
                node: programs.node.clone(),
                script: programs.client.clone(),
                sdk: programs.sdk.clone(),
                patience: machine.patience,
                idle: machine.idle,
            },
            trail: Trail {
                agent: programs.agent.clone(),
                directory: stage.audit(),
                patience: machine.patience,
            },
            stage,
            claims: Claims::default(),
        })
    }

    /// What a person writes before their server's command.
    fn guarded(&self, name: &str, options: &[&str], roots: &[PathBuf], command: &[String]) -> Vec<String> {
        let text = |path: &PathBuf| path.display().to_string();
        let mut all = vec![
            text(&self.programs.agent),
            "run".into(),
            "--name".into(),
            name.into(),
        ];
        for (flag, value) in [
            ("--user", USER.to_owned()),
            ("--state", text(&self.stage.state())),
            ("--audit", text(&self.stage.audit())),
        ] {
            all.extend([flag.to_owned(), value]);
        }
        all.extend(options.iter().map(|option| (*option).to_owned()));
        for root in roots {
            all.extend(["--root".to_owned(), format!("{}:r", root.display())]);
        }
        all.push("--".into());
        all.extend_from_slice(command);
        all
    }

    fn node(&self, args: &[&PathBuf]) -> Vec<String> {
        let mut all = vec![self.client.node.display().to_string()];
        all.extend(args.iter().map(|path| path.display().to_string()));
        all
    }

    /// A real client reads a real document through a real server, and notices nothing.
    pub(super) fn ordinary_use(&mut self) -> Result<()> {
        let root = self.stage.root();
        println!("\n1. An ordinary client and server, with the guard between them");
        println!(
            "   client  @modelcontextprotocol/sdk {}\n   server  @modelcontextprotocol/server-filesystem {}",
            client::version(&self.client.sdk, "@modelcontextprotocol/sdk")?,
            client::version(&self.programs.modules, "@modelcontextprotocol/server-filesystem")?
        );
        println!("   $ guard-agent run --root docs:r -- node server-filesystem/dist/index.js docs");
        let command = self.guarded(
            "filesystem",
            &[],
            std::slice::from_ref(&root),
            &self.node(&[&self.programs.server(), &root]),
        );
        let calls = [("read_text_file", json!({ "path": self.stage.document() }))];
        let report = self.client.run(&command, &calls)?;
        for line in &report.stderr {
            println!("   | {line}");
        }
        println!(
            "   {} {} has {} tools; `read_text_file docs/report.txt` gives {:?}",
            report.server.name,
            report.server.version,
            report.tools.len(),
            one_line(&report.answers)
        );
        let said = |text: &str| report.stderr.iter().any(|line| line.contains(text));
        self.claims.check(
            report.tools.iter().any(|tool| tool == "read_text_file"),
            "the client sees the server's tools",
        );
        self.claims.check(
            report
                .answers
                .first()
                .is_some_and(|a| !a.is_error && a.text.contains(DOCUMENT)),
            "the document in the root is read",
        );
        self.claims.check(
            said(&format!("contained at tier {}", self.machine.tier.name())),
            "the guard says its tier",
        );
        Ok(())
    }

    /// The same hostile server twice, as the same user: bare, then guarded.
    pub(super) fn hostile_server(&mut self) -> Result<()> {
        let address = self.stage.listener()?;
        let attempts: [(&str, &str, Value); 4] = [
            (
                "read a secret outside the root",
                "read_secret",
                json!({ "path": self.stage.secret() }),
            ),
            (
                "follow a link that leads out",
                "read_secret",
                json!({ "path": self.stage.link() }),
            ),
            (
                "load code from the root",
                "load_addon",
                json!({ "path": self.stage.addon() }),
            ),
            (
                "connect to a port on loopback",
                "connect",
                json!({ "host": address.ip().to_string(), "port": address.port().to_string() }),
            ),
        ];
        let calls = attempts.clone().map(|(_, tool, arguments)| (tool, arguments));
        let view = self.machine.tier.view();
        println!("\n2. A hostile server (tests/servers/hostile.mjs) and the same client");
        println!("   both times under a uid without an account; the secret is readable by everybody");
        println!("   $ guard-agent run --view {view} --root docs:r --root code:r -- node code/hostile.mjs");
        let hostile = self.node(&[&self.stage.hostile()]);
        let mut bare: Vec<String> = [
            "/usr/bin/setpriv",
            "--reuid",
            BARE_UID,
            "--regid",
            BARE_UID,
            "--clear-groups",
            "--",
        ]
        .map(str::to_owned)
        .to_vec();
        bare.extend_from_slice(&hostile);
        let bare = self.client.run(&bare, &calls)?;
        let bare_arrived = self.stage.arrived();
        let roots = [self.stage.root(), self.stage.code()];
        let command = self.guarded("hostile", &["--view", view], &roots, &hostile);
        let guarded = self.client.run(&command, &calls)?;
        let guarded_arrived = self.stage.arrived();
        println!("   {:<32}{:<44}guarded", "", "bare");
        for (index, (what, ..)) in attempts.iter().enumerate() {
            let row = |answers: &[Answer]| answers.get(index).cloned().context("an answer is missing");
            let (free, held) = (row(&bare.answers)?, row(&guarded.answers)?);
            println!("   {what:<32}{:<44}{}", verdict(&free), verdict(&held));
            self.claims.check(!free.is_error, &format!("bare, it can {what}"));
            self.claims
                .check(held.is_error, &format!("guarded, it cannot {what}"));
            self.claims
                .check(!held.text.contains(SECRET), "no byte of the secret comes through");
        }
        let secrets = bare
            .answers
            .iter()
            .filter(|answer| answer.text.contains(SECRET))
            .count();
        self.claims.check(secrets == 2, "bare, the secret is read twice");
        println!(
            "   {:<32}{bare_arrived:<44}{guarded_arrived}",
            "connections that arrived"
        );
        self.claims
            .check(bare_arrived == 1, "bare, the connection arrives");
        self.claims
            .check(guarded_arrived == 0, "guarded, no connection arrives");
        Ok(())
    }

    pub(super) fn records(&mut self) -> Result<()> {
        println!("\n3. What is on record");
        let records = self.trail.settled(2)?;
        println!("   $ guard-agent audit tail --server hostile");
        for line in self.trail.lines("hostile")?.lines() {
            // Without the time.
            let (_, line) = line.split_once(' ').unwrap_or(("", line));
            println!("   … {}", shorten(line.trim_start(), 150));
        }
        let of = |kind: &str, server: &str| {
            records
                .iter()
                .filter(|record| record["kind"] == kind && record["server"] == server)
                .count()
        };
        for server in ["filesystem", "hostile"] {
            self.claims.check(
                of("launch", server) == 1,
                &format!("the launch of `{server}` is on record"),
            );
            self.claims.check(
                of("exit", server) == 1,
                &format!("the exit of `{server}` is on record"),
            );
        }
        let attempts = Attempts {
            secret: self.stage.secret(),
            link: self.stage.link(),
            addon: self.stage.addon(),
            port: self.stage.listener()?.port(),
        };
        println!("   who refused it:");
        for wanted in refusals::wanted(self.machine.tier, &attempts)? {
            let found = wanted.find(&records);
            for record in &found {
                println!("   {}", refusals::line(record));
            }
            self.claims
                .check(found.len() == wanted.records, &wanted.to_string());
        }
        println!("   $ guard-agent audit verify");
        for line in self.trail.verify()?.lines() {
            println!("   {line}");
        }
        let bad = self.trail.tampering_shows(self.stage.path())?;
        println!("   and with one word changed in a copy (`deny` to `allow`):\n   {bad}");
        self.claims
            .check(bad.starts_with("BAD"), "a changed record is found");
        let launch = records
            .iter()
            .find(|record| record["kind"] == "launch")
            .context("no launch record")?;
        println!("\n4. What this machine enforces");
        tier::print(launch);
        self.claims.check(
            launch["tier"] == self.machine.tier.name(),
            "the record says the tier",
        );
        Ok(())
    }

    /// Removes everything; what was claimed.
    pub(super) fn end(self) -> Claims {
        let mut claims = self.claims;
        println!("   (waiting until the warden has left)");
        let gone = self.stage.clear(self.machine.patience);
        claims.check(
            gone.is_ok(),
            &format!(
                "nothing is left behind ({})",
                gone.err().map_or_else(String::new, |e| format!("{e:#}"))
            ),
        );
        claims
    }
}

fn verdict(answer: &Answer) -> String {
    let text = answer.text.lines().next().unwrap_or_default();
    if answer.is_error {
        format!("refused: {}", text.split(':').next().unwrap_or_default())
    } else {
        format!("succeeds: {}", shorten(text, 32))
    }
}

fn one_line(answers: &[Answer]) -> String {
    answers
        .first()
        .map_or_else(String::new, |answer| shorten(answer.text.trim(), 60))
}

fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}
