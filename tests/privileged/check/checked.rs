//! One `guard-agent check`, and one `guard-agent run` beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench, Finished},
    programs,
    tier::Tier,
};
use serde_json::Value;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An account of every Debian system that owns nothing; in a virtual machine the same numbers.
pub(crate) const USER: [&str; 2] = ["5", "60"];

/// Programs of ours where an ordinary user reaches them.
pub(crate) struct Place {
    pub(crate) bench: Bench,
    pub(crate) agent: PathBuf,
    around: PathBuf,
}

/// What surrounds both programs: words of `guard-around`, each with its arguments.
pub(crate) type Around<'a> = &'a [&'a [&'a str]];

pub(crate) const AS_USER: &[&str] = &["user", USER[0], USER[1]];
/// The same, who may make no user namespace.
pub(crate) const WITHOUT_USER_NAMESPACES: &[&str] = &["user-namespaces", USER[0], USER[1]];

/// Whether it is for an ordinary user.
pub(crate) fn for_a_user(around: Around<'_>) -> bool {
    around.contains(&AS_USER) || around.contains(&WITHOUT_USER_NAMESPACES)
}

impl Place {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let bench = Bench::new(name)?;
        let copy = |from: PathBuf, name: &str| -> Result<PathBuf> {
            let to = bench.path().join(name);
            fs::copy(&from, &to).with_context(|| format!("failed to copy `{}`", from.display()))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
            Ok(to)
        };
        let agent = copy(programs::agent()?, "guard-agent")?;
        let around = copy(programs::around()?, "guard-around")?;
        Ok(Self { bench, agent, around })
    }

    /// The words before the program.
    pub(crate) fn words(&self, around: Around<'_>) -> Vec<OsString> {
        let one = |words: &&[&str]| {
            let mut one = vec![self.around.clone().into_os_string()];
            one.extend(words.iter().map(OsString::from));
            one
        };
        around.iter().flat_map(one).collect()
    }

    pub(crate) fn command(&self, around: Around<'_>, args: &[&str]) -> Command {
        let mut words = self.words(around);
        words.push(self.agent.clone().into());
        let mut command = Command::new(words.remove(0));
        command.args(words).args(args).env_remove("GUARD_AGENT_FAULT");
        if args.first() == Some(&"check") && !for_a_user(around) {
            command.args(Tier::insisted().unwrap_or_default());
        }
        command
    }

    pub(crate) fn check(&self, around: Around<'_>) -> Result<Checked> {
        Checked::from(&self.command(around, &["check", "--json"]).output()?)
    }

    /// The smallest server: it says what it hears.
    pub(crate) fn run(&self, around: Around<'_>) -> Result<Ran> {
        self.run_with(around, |builder| builder)
    }

    pub(crate) fn run_with(
        &self,
        around: Around<'_>,
        change: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Result<Ran> {
        self.run_in(around, change, |_| Ok(()))
    }

    /// After `prepare` has been in the directory that state and audit will lie in.
    pub(crate) fn run_in(
        &self,
        around: Around<'_>,
        change: impl FnOnce(AgentBuilder) -> AgentBuilder,
        prepare: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Ran> {
        let (state, audit) = (
            self.bench.path().join("own/state"),
            self.bench.path().join("own/audit"),
        );
        let own = self.bench.path().join("own");
        drop(fs::remove_dir_all(&own));
        fs::create_dir(&own)?;
        if for_a_user(around) {
            let [uid, gid] = USER.map(str::parse::<u32>);
            std::os::unix::fs::chown(&own, Some(uid?), Some(gid?))?;
        } else {
            fs::set_permissions(&own, fs::Permissions::from_mode(0o755))?;
        }
        prepare(&own)?;
        let words = self.words(around);
        let builder = AgentBuilder::bare()
            .program(&self.agent)
            .option("--state", &state)
            .option("--audit", &audit)
            .outer_env("GUARD_AGENT_IDLE_MS", "100")
            .outer_env("HOME", &own.display().to_string())
            .command([programs::probe()?.into_os_string(), "echo".into()]);
        let builder = change(builder.around(words));
        let finished = builder.run("hello\n", PATIENCE)?;
        let launch = guard_tests::records::read(&audit)
            .unwrap_or_default()
            .into_iter()
            .find(|record| record.kind == "launch")
            .map(|record| record.body);
        Ok(Ran { finished, launch })
    }
}

pub(crate) struct Ran {
    pub(crate) finished: Finished,
    pub(crate) launch: Option<Value>,
}

/// One row: its verdict, the reason, what to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) verdict: String,
    pub(crate) why: String,
    pub(crate) change: String,
}

/// What `check --json` said.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) status: Option<i32>,
    lines: Vec<Value>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Checked {
    pub(crate) fn from(output: &Output) -> Result<Self> {
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(stderr.is_empty(), "on standard error: {stderr}");
        let lines = String::from_utf8(output.stdout.clone())?
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
            .collect::<Result<Vec<Value>>>()?;
        ensure!(!lines.is_empty(), "nothing was said ({:?})", output.status);
        Ok(Self {
            status: output.status.code(),
            lines,
        })
    }

    fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let kind = kind.to_owned();
        self.lines
            .iter()
            .filter(move |line| line["type"] == kind.as_str())
    }

    pub(crate) fn one(&self, kind: &str) -> Result<&Value> {
        let mut found = self.of(kind);
        let one = found.next().with_context(|| format!("no line `{kind}`"))?;
        ensure!(found.next().is_none(), "more than one line `{kind}`");
        Ok(one)
    }

    pub(crate) fn rows(&self) -> BTreeMap<(String, String), Row> {
        self.of("layer")
            .map(|line| {
                let row = Row {
                    verdict: text(&line["verdict"]),
                    why: text(&line["why"]),
                    change: text(&line["change"]),
                };
                ((text(&line["facet"]), text(&line["layer"])), row)
            })
            .collect()
    }

    pub(crate) fn row(&self, facet: &str, layer: &str) -> Result<Row> {
        self.rows()
            .remove(&(facet.to_owned(), layer.to_owned()))
            .with_context(|| format!("no row {facet} {layer}"))
    }

    pub(crate) fn facet(&self, facet: &str) -> Result<&Value> {
        self.of("facet")
            .find(|line| line["facet"] == facet)
            .with_context(|| format!("no facet {facet}"))
    }

    pub(crate) fn changes(&self) -> Vec<(String, bool)> {
        self.of("change")
            .map(|line| (text(&line["change"]), line["required"] == true))
            .collect()
    }

    /// Exactly these rows are not enforced, with such a verdict, such words in the reason and such in the change.
    pub(crate) fn not_enforced(&self, wanted: &[(&str, &str, &str, &str, &str)]) -> Result<()> {
        for (facet, layer, verdict, why, change) in wanted {
            let row = self.row(facet, layer)?;
            ensure!(row.verdict == *verdict, "{facet} {layer}: {row:?}");
            ensure!(row.why.contains(why), "{facet} {layer}: {row:?}, not {why:?}");
            ensure!(
                row.change.contains(change),
                "{facet} {layer}: {row:?}, not {change:?}"
            );
        }
        let wanted: BTreeSet<_> = wanted
            .iter()
            .map(|row| (row.0.to_owned(), row.1.to_owned()))
            .collect();
        let found: BTreeSet<_> = self
            .rows()
            .into_iter()
            .filter(|(_, row)| row.verdict != "enforced")
            .map(|(pair, _)| pair)
            .collect();
        ensure!(found == wanted, "not enforced are {found:?}, not {wanted:?}");
        Ok(())
    }

    /// Whether it says that `run` launches, at which tier, and the exit status that goes with it.
    pub(crate) fn says(&self, tier: &str, launches: bool) -> Result<()> {
        let run = self.one("run")?;
        ensure!(run["tier"] == tier && run["launches"] == launches, "{run}");
        ensure!(run.get("refusal").is_some() != launches, "{run}");
        let status = i32::from(!launches);
        ensure!(
            self.status == Some(status),
            "exit {:?}, not {status}",
            self.status
        );
        Ok(())
    }
}

/// `run` does what `check` says, and its record has what `check` shows.
pub(crate) fn agree(checked: &Checked, ran: &Ran) -> Result<()> {
    let said = checked.one("run")?;
    let finished = &ran.finished;
    if said["launches"] == false {
        ensure!(
            finished.status.code() == Some(3),
            "run: {finished:?}\ncheck: {said}"
        );
        ensure!(
            finished.stdout.is_empty() && ran.launch.is_none(),
            "it ran: {finished:?}"
        );
        let refusal = &said["refusal"];
        for (line, field) in [("  why: ", "why"), ("  fix: ", "hint")] {
            let told = finished.stderr.lines().find_map(|told| told.strip_prefix(line));
            ensure!(
                told == refusal[field].as_str(),
                "run: {}check: {refusal}",
                finished.stderr
            );
        }
        return Ok(());
    }
    ensure!(
        finished.status.success() && finished.stdout == "hello",
        "{finished:?}"
    );
    let launch = ran.launch.as_ref().context("no launch record")?;
    ensure!(launch["tier"] == said["tier"], "{launch}\n{said}");
    let observation = checked.one("observation")?;
    let observed = launch["observation"]
        .as_str()
        .is_some_and(|words| words.contains("tracepoints"));
    ensure!(
        observed == (observation["verdict"] == "enforced")
            && launch["observation_missing"] == observation["why"],
        "{launch}\n{observation}"
    );
    let Some(facets) = launch["enforcement"].as_object() else {
        bail!("no enforcement: {launch}");
    };
    ensure!(facets.len() == 5, "{facets:?}");
    for (facet, recorded) in facets {
        let shown = checked.facet(facet)?;
        for field in ["layers", "missing", "self_test"] {
            ensure!(
                shown[field] == recorded[field],
                "{facet}.{field}: check shows {}, the record has {}",
                shown[field],
                recorded[field]
            );
        }
    }
    Ok(())
}
