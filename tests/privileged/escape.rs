//! Every escape attempt inside the sandbox, in both views, each with a control outside.
//!
//! The attempts of one view run in one sandbox, each in a process of its own; the judgement of each is a test.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control,
    picture::Picture,
    records::{Kernel, Record},
    report::{self, Verdict},
    require::{Leg, Row, kernel_sees_unix},
    suite::{Answer, Declared, Expected, Suite, Views},
    world::World,
};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::json;

/// All attempts of one view take seconds; a minute means that something hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// What one sandbox showed.
struct Inside {
    answers: BTreeMap<String, Answer>,
    /// Probe → what it changed outside the roots.
    changed: BTreeMap<String, Vec<String>>,
    records: Vec<Record>,
    reached: u64,
    /// Why there are no answers at all.
    broken: Option<String>,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let suite = Suite::load()?;
    let views = views()?;
    if arguments.list {
        libtest_mimic::run(&arguments, trials(&suite, &views, &Arc::default())).exit();
    }
    let evidence = Arc::new(Evidence::gather(&suite, &views)?);
    if let Some(path) = std::env::var_os("GUARD_TEST_REPORT") {
        report::write(path.as_ref(), &evidence.rows(&suite, &views)?)?;
    }
    let conclusion = libtest_mimic::run(&arguments, trials(&suite, &views, &evidence));
    conclusion.exit();
}

/// Everything the judgements look at, gathered before the first of them.
#[derive(Default)]
struct Evidence {
    controls: BTreeMap<String, Result<Row, String>>,
    views: BTreeMap<&'static str, Inside>,
    /// Whether the kernel's cgroup programs see unix addresses.
    sees_unix: bool,
}

const VIEWS: [&str; 2] = ["private", "host"];

/// Both views, or those that `GUARD_TEST_VIEWS` names: an emulated machine takes a minute for each.
fn views() -> Result<Vec<&'static str>> {
    let Ok(wanted) = std::env::var("GUARD_TEST_VIEWS") else {
        return Ok(VIEWS.to_vec());
    };
    let find = |name: &str| {
        let found = VIEWS.into_iter().find(|view| *view == name);
        found.with_context(|| format!("`GUARD_TEST_VIEWS`: no view `{name}`, there are {VIEWS:?}"))
    };
    wanted.split(',').map(find).collect()
}

impl Evidence {
    fn gather(suite: &Suite, views: &[&'static str]) -> Result<Self> {
        let mut evidence = Self {
            sees_unix: kernel_sees_unix()?,
            ..Self::default()
        };
        let outside = World::new("controls")?;
        for probe in &suite.probes {
            let row = control::run(&outside, probe).map_err(|error| format!("{error:#}"));
            evidence.controls.insert(probe.name.clone(), row);
        }
        for &view in views {
            eprintln!("running {} attempts in the {view} view", suite.probes.len());
            evidence.views.insert(
                view,
                Inside::run(suite, view).unwrap_or_else(|error| Inside::broken(&error)),
            );
        }
        Ok(evidence)
    }

    /// Every judgement as a row of the containment table.
    fn rows(&self, suite: &Suite, views: &[&'static str]) -> Result<Vec<report::Row>> {
        let leg = std::env::var("GUARD_TEST_LEG").unwrap_or_else(|_| "any".into());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
        let mut rows = Vec::new();
        for view in views {
            let inside = self.views.get(view).context("the view did not run")?;
            let tier = inside.tier();
            for probe in &suite.probes {
                let (verdict, why, control) = self.verdict(view, inside, probe);
                rows.push(report::Row {
                    probe: probe.name.clone(),
                    vector: probe.vector.clone(),
                    view: (*view).to_owned(),
                    leg: leg.clone(),
                    tier: tier.clone(),
                    kernel: kernel.clone(),
                    verdict,
                    outcome: inside
                        .answers
                        .get(&probe.name)
                        .map(|answer| answer.outcome.clone())
                        .unwrap_or_default(),
                    why,
                    control,
                });
            }
        }
        Ok(rows)
    }

    fn verdict(&self, view: &str, inside: &Inside, probe: &Declared) -> (Verdict, String, String) {
        let control = match self.controls.get(&probe.name) {
            Some(Ok(Row::Ran(outcome))) => outcome.clone(),
            Some(Ok(Row::NotApplicable(why))) => {
                return (Verdict::NotApplicable, why.clone(), String::new());
            }
            Some(Err(why)) => return (Verdict::Failed, why.clone(), String::new()),
            None => return (Verdict::Failed, "no control ran".into(), String::new()),
        };
        if !applies(probe, view) {
            return (Verdict::ByDesign, "the host view shows it".into(), control);
        }
        match inside.judge(probe) {
            Ok(()) => (Verdict::Refused, String::new(), control),
            Err(error) => (Verdict::Failed, format!("{error:#}"), control),
        }
    }
}

impl Inside {
    fn broken(error: &anyhow::Error) -> Self {
        Self {
            answers: BTreeMap::new(),
            changed: BTreeMap::new(),
            records: Vec::new(),
            reached: 0,
            broken: Some(format!("{error:#}")),
        }
    }

    fn run(suite: &Suite, view: &str) -> Result<Self> {
        let world = World::new(&format!("escape-{view}"))?;
        let mut bench = Bench::new(&format!("bench-{view}"))?;
        let (mut input, mut before) = (String::new(), BTreeMap::new());
        for probe in suite.probes.iter().filter(|probe| applies(probe, view)) {
            let mut args = world.prepare(probe)?;
            args.insert("first".into(), "1".into());
            before.insert(probe.name.clone(), world.seen(probe)?);
            input += &format!("{}\n", json!({"probe": probe.name, "args": args}));
        }
        let agent = AgentBuilder::new(&bench)
            .user(&world.user.name)
            .view(view)
            .runtime("static")
            .root(&world.root("rw"), "rw")
            .root(&world.root("r"), "r")
            .root(&world.root("rx"), "rx")
            .root(&world.path().join("bin"), "rx")
            .outer_env(world.planted_name(), "GUARD-SECRET")
            .command([world.public_probe().into_os_string(), "batch".into()]);
        let finished = agent.converse(&input, PATIENCE)?;
        let answers: BTreeMap<String, Answer> = finished
            .stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Answer>(line).ok())
            .map(|answer| (answer.probe.clone(), answer))
            .collect();
        if std::env::var_os("GUARD_TEST_TELL").is_some() {
            for answer in answers.values() {
                eprintln!(
                    "{view} {:24} {:12} {}",
                    answer.probe,
                    answer.outcome,
                    answer.detail.replace('\n', " ")
                );
            }
        }
        if answers.is_empty() {
            bench.keep();
            bail!(
                "no attempt answered ({}):\n{}\n{}",
                finished.status,
                finished.stdout,
                finished.stderr
            );
        }
        let mut changed = BTreeMap::new();
        for probe in suite.probes.iter().filter(|probe| applies(probe, view)) {
            let lines = before
                .get(&probe.name)
                .map(|old: &Picture| Ok::<_, anyhow::Error>(old.difference(&world.seen(probe)?)));
            changed.insert(probe.name.clone(), lines.transpose()?.unwrap_or_default());
        }
        Ok(Self {
            answers,
            changed,
            records: bench.records()?,
            reached: world.reached()?,
            broken: None,
        })
    }

    fn tier(&self) -> String {
        let launch = self.records.iter().find(|record| record.kind == "launch");
        launch
            .and_then(|record| record.field("tier")?.as_str())
            .unwrap_or("none")
            .to_owned()
    }

    fn judge(&self, probe: &Declared) -> Result<()> {
        if let Some(why) = &self.broken {
            bail!("the sandbox did not run: {why}");
        }
        let answer = self
            .answers
            .get(&probe.name)
            .context("the attempt gave no answer")?;
        ensure!(
            probe.refused.contains(&answer.outcome),
            "`{}` ({}) gave `{}` ({}), refused would be {:?}",
            probe.name,
            probe.vector,
            answer.outcome,
            answer.detail,
            probe.refused
        );
        let changed = self
            .changed
            .get(&probe.name)
            .context("no picture of the outside")?;
        ensure!(
            changed.is_empty(),
            "`{}` was refused by `{}` and yet changed {changed:?}",
            probe.name,
            answer.outcome
        );
        Ok(())
    }

    fn judge_record(&self, expected: &Expected) -> Result<()> {
        let Expected { op, layer, family } = expected;
        if let Some(why) = &self.broken {
            bail!("the sandbox did not run: {why}");
        }
        let kernel: Vec<_> = self.records.iter().filter_map(Record::kernel).collect();
        let of_op: Vec<_> = kernel.iter().filter(|record| record.op == *op).collect();
        let of_family = |record: &Kernel| family.is_none() || record.family() == family.as_deref();
        ensure!(
            of_op
                .iter()
                .any(|record| record.layer == *layer && record.decision == "deny" && of_family(record)),
            "no denial of `{op}` {family:?} by `{layer}` in the audit; of this op there are {of_op:?}, ops recorded: {:?}",
            kernel.iter().map(|record| &record.op).collect::<BTreeSet<_>>()
        );
        Ok(())
    }
}

fn applies(probe: &Declared, view: &str) -> bool {
    probe.views == Views::Both || view == "private"
}

fn trials(suite: &Suite, views: &[&'static str], evidence: &Arc<Evidence>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &view in views {
        let mut ops = BTreeSet::new();
        for probe in suite.probes.iter().filter(|probe| applies(probe, view)) {
            let not_applicable = matches!(
                evidence.controls.get(&probe.name),
                Some(Ok(Row::NotApplicable(_)))
            );
            let (probe, evidence) = (probe.clone(), Arc::clone(evidence));
            ops.extend(probe.expected(evidence.sees_unix).filter(|_| !not_applicable));
            let kind = if not_applicable { "n/a" } else { "" };
            trials.push(
                Trial::test(format!("{view}::{}", probe.name), move || {
                    one(&evidence, view, &probe)
                })
                .with_kind(kind),
            );
        }
        for expected in ops {
            let evidence = Arc::clone(evidence);
            let Expected { op, layer, family } = &expected;
            let of = family
                .as_ref()
                .map_or_else(String::new, |family| format!("-{family}"));
            let name = format!("{view}::record::{op}-{layer}{of}");
            let judge = move || evidence.views[view].judge_record(&expected).map_err(failed);
            trials.push(Trial::test(name, judge));
        }
        let reached = Arc::clone(evidence);
        trials.push(Trial::test(
            format!("{view}::neighbour-unreached"),
            move || match reached.views[view].reached {
                0 => Ok(()),
                count => Err(format!("{count} messages or connections left the sandbox").into()),
            },
        ));
    }
    let (names, evidence) = (suite.probes.clone(), Arc::clone(evidence));
    trials.push(Trial::test("not-applicable-as-listed", move || {
        leg(&names, &evidence).map_err(failed)
    }));
    trials
}

/// The control first: without it the refusal would mean nothing.
fn one(evidence: &Evidence, view: &str, probe: &Declared) -> Result<(), Failed> {
    match evidence.controls.get(&probe.name) {
        Some(Ok(_)) => {}
        Some(Err(why)) => return Err(why.clone().into()),
        None => return Err("no control ran".into()),
    }
    evidence
        .views
        .get(view)
        .ok_or("the view did not run")?
        .judge(probe)
        .map_err(failed)
}

fn leg(probes: &[Declared], evidence: &Evidence) -> Result<()> {
    let missing = probes
        .iter()
        .filter(|probe| {
            matches!(
                evidence.controls.get(&probe.name),
                Some(Ok(Row::NotApplicable(_)))
            )
        })
        .filter_map(|probe| probe.needs.clone())
        .collect();
    Leg::current()?.judge(&missing)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}
