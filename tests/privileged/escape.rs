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
    tier::{Tier, deny_user_namespaces},
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
    leg: Option<Leg>,
}

/// Fewer would mean that the list was lost on the way.
const FEWEST: usize = 50;

/// The tier's views, or those of them that `GUARD_TEST_VIEWS` names: an emulated machine takes a minute for each.
fn views() -> Result<Vec<&'static str>> {
    let all = Tier::current()?.views();
    let Ok(wanted) = std::env::var("GUARD_TEST_VIEWS") else {
        return Ok(all.to_vec());
    };
    let find = |name: &str| {
        let found = all.iter().copied().find(|view| *view == name);
        found.with_context(|| format!("`GUARD_TEST_VIEWS`: no view `{name}`, there are {all:?}"))
    };
    wanted.split(',').map(find).collect()
}

impl Evidence {
    fn gather(suite: &Suite, views: &[&'static str]) -> Result<Self> {
        let mut evidence = Self {
            sees_unix: kernel_sees_unix()?,
            leg: Some(Leg::current()?),
            ..Self::default()
        };
        let outside = World::new("controls")?;
        for probe in &suite.probes {
            let row = control::run(&outside, probe).map_err(|error| format!("{error:#}"));
            evidence.controls.insert(probe.name.clone(), row);
        }
        if Tier::current()? == Tier::T3Bare {
            // After the controls, some of which are about them.
            deny_user_namespaces()?;
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
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned();
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
        let through = self.through(view, &probe.name);
        match (inside.judge(probe, through), through) {
            (Ok(()), None) => (Verdict::Refused, String::new(), control),
            (Ok(()), Some(why)) => (Verdict::ByDesign, why.to_owned(), control),
            (Err(error), _) => (Verdict::Failed, format!("{error:#}"), control),
        }
    }

    fn through(&self, view: &str, probe: &str) -> Option<&str> {
        self.leg.as_ref()?.residual(view, probe)
    }

    /// The leg's list of what gets through names probes there are, and leaves enough that are refused.
    fn list_is_right(&self, probes: &[Declared], views: &[&'static str]) -> Result<()> {
        let Some(leg) = &self.leg else { return Ok(()) };
        for view in views {
            for name in leg.residuals(view) {
                ensure!(
                    probes.iter().any(|probe| probe.name == name),
                    "leg `{}` lists `{name}`, which is no probe",
                    leg.name
                );
            }
            let refused = probes
                .iter()
                .filter(|probe| applies(probe, view) && leg.residual(view, &probe.name).is_none())
                .filter(|probe| matches!(self.controls.get(&probe.name), Some(Ok(Row::Ran(_)))))
                .count();
            ensure!(refused >= FEWEST, "{refused} attempts refused in the {view} view");
        }
        Ok(())
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
        let tier = Tier::current()?;
        let agent = AgentBuilder::at_tier(&bench)?
            .view(view)
            .runtime("static")
            .root(&world.root("rw"), "rw")
            .root(&world.root("r"), "r")
            .root(&world.root("rx"), "rx")
            .root(&world.path().join("bin"), "rx")
            .outer_env(world.planted_name(), "GUARD-SECRET")
            .command([world.public_probe().into_os_string(), "batch".into()]);
        let agent = if tier == Tier::T3Bare {
            // Where the kernel's Landlock has no scope for signals, that facet is not enforced.
            agent.flag("--allow-unenforced")
        } else {
            agent
        };
        let live = agent.spawn()?;
        // The sandbox's pid 1; where it has no pid namespace, the process that speaks for it outside.
        let first = if tier == Tier::T3Bare { live.child.id() } else { 1 };
        let (mut input, mut before) = (String::new(), BTreeMap::new());
        for probe in suite.probes.iter().filter(|probe| applies(probe, view)) {
            let mut args = world.prepare(probe)?;
            args.insert("first".into(), first.to_string());
            before.insert(probe.name.clone(), world.seen(probe)?);
            input += &format!("{}\n", json!({"probe": probe.name, "args": args}));
        }
        let finished = live.converse(&input, PATIENCE)?;
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

    /// `through`: why this leg lets it through. Then it must get through, or the list is wrong.
    fn judge(&self, probe: &Declared, through: Option<&str>) -> Result<()> {
        if let Some(why) = &self.broken {
            bail!("the sandbox did not run: {why}");
        }
        let answer = self
            .answers
            .get(&probe.name)
            .context("the attempt gave no answer")?;
        let refused = probe.is_refused(Tier::current()?, &answer.outcome);
        if let Some(why) = through {
            ensure!(
                !refused,
                "`{}` is listed as getting through (`{why}`), and was refused with `{}`: take it off the list",
                probe.name,
                answer.outcome
            );
            return Ok(());
        }
        ensure!(
            refused,
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
    let tier = Tier::current().unwrap_or(Tier::T2);
    for &view in views {
        let mut ops = BTreeSet::new();
        for probe in suite.probes.iter().filter(|probe| applies(probe, view)) {
            let not_applicable = matches!(
                evidence.controls.get(&probe.name),
                Some(Ok(Row::NotApplicable(_)))
            );
            let (probe, evidence) = (probe.clone(), Arc::clone(evidence));
            let through = evidence.through(view, &probe.name).is_some();
            let expected = probe.expected(tier, evidence.sees_unix);
            ops.extend(expected.filter(|_| !not_applicable && !through));
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
    let (names, wanted, listed) = (suite.probes.clone(), views.to_vec(), Arc::clone(evidence));
    trials.push(Trial::test("residuals-as-listed", move || {
        listed.list_is_right(&names, &wanted).map_err(failed)
    }));
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
        .judge(probe, evidence.through(view, &probe.name))
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
