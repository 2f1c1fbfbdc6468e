//! `cargo xtask mutants`: each line that protects is taken away once, and a named test must turn red.

mod leftover;
mod list;
mod run;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    ebpf, setup,
    test::suite::{self, Leg},
};
use list::Mutant;
use run::Verdict;
use tree::Scratch;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the few that CI runs
    #[arg(long)]
    sample: bool,
    /// Name the mutants, their tests and what each would mean, and end
    #[arg(long)]
    list: bool,
    /// Mutants to run, by name or by the beginning of it; all by default
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// A mutant that ran.
struct Row {
    name: String,
    test: String,
    /// Why this is a failure of the command, if it is.
    failure: Option<String>,
    seconds: f64,
}

/// Whether the list fits the sources; see `cargo xtask tidy`.
pub(crate) fn check(root: &Path) -> Result<()> {
    let legs = suite::load(root, true)?;
    list::load(root)?
        .iter()
        .try_for_each(|mutant| list::leg_of(mutant, &legs).map(drop))
}

/// What `cargo xtask ci` runs.
pub(crate) fn sample() -> Result<()> {
    run(&Args {
        sample: true,
        list: false,
        names: Vec::new(),
    })
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = crate::workspace();
    let all = list::load(&root)?;
    let chosen = choose(&all, args)?;
    if args.list {
        for mutant in &chosen {
            println!("{}\n    {}\n    {}", mutant.name, mutant.test, mutant.why);
        }
        return Ok(());
    }
    setup::root("cargo xtask mutants")?;
    setup::tests()?;
    let fixtures = setup::fixtures()?;
    let legs = suite::load(&root, false)?;
    let start = Instant::now();
    println!("[mutants] copying the checkout to `target/mutants/tree`");
    let scratch = Scratch::sync(&root)?;
    let mut stage = Stage {
        scratch,
        legs,
        fixtures,
        programs: BTreeMap::new(),
    };
    stage.all_green(&chosen)?;
    let mut rows = Vec::new();
    for (index, mutant) in chosen.iter().enumerate() {
        let row = stage.one(mutant)?;
        let verdict = row.failure.as_deref().unwrap_or("red");
        println!(
            "[mutants] {}/{} {}: {verdict} ({:.1} s)",
            index + 1,
            chosen.len(),
            row.name,
            row.seconds
        );
        rows.push(row);
    }
    summary(&rows, start.elapsed().as_secs_f64())
}

fn choose<'a>(all: &'a [Mutant], args: &Args) -> Result<Vec<&'a Mutant>> {
    for wanted in &args.names {
        ensure!(
            all.iter().any(|mutant| mutant.name.starts_with(wanted)),
            "no mutant is called `{wanted}`; `cargo xtask mutants --list` names them"
        );
    }
    let named = |mutant: &&Mutant| {
        args.names.is_empty() || args.names.iter().any(|wanted| mutant.name.starts_with(wanted))
    };
    Ok(all
        .iter()
        .filter(named)
        .filter(|mutant| mutant.sample || !args.sample)
        .collect())
}

/// Legs that gather everything before they judge: all of their tests cost what one does.
const WHOLE: [&str; 2] = ["host:escape", "host:positive"];

struct Stage {
    scratch: Scratch,
    legs: Vec<Leg>,
    fixtures: PathBuf,
    /// Test programs of the tree as it is.
    programs: BTreeMap<String, PathBuf>,
}

impl Stage {
    /// A test that is red already proves nothing.
    fn all_green(&mut self, chosen: &[&Mutant]) -> Result<()> {
        // In the order of their legs: each is built once.
        let mut legs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for mutant in chosen {
            legs.entry(mutant.leg()).or_default().insert(mutant.test());
        }
        let count: usize = legs.values().map(BTreeSet::len).sum();
        println!("[mutants] {count} tests on the tree as it is");
        let start = Instant::now();
        let (mut red, mut built) = (Vec::new(), BTreeMap::new());
        for (name, tests) in legs {
            let leg = self.leg(name)?;
            let program = run::build(&self.scratch, leg).with_context(|| format!("build `{name}`"))?;
            if let Some(program) = program.filter(|_| run::from_outside(leg)) {
                built.insert(name.to_owned(), program);
            }
            if WHOLE.contains(&name) {
                let failed = run::whole(&self.scratch, leg, &tests, &self.fixtures)?;
                red.extend(failed.into_iter().map(|test| format!("`{name} {test}`")));
                continue;
            }
            for test in tests {
                match run::test(&self.scratch, leg, test, None, &self.fixtures) {
                    Ok(Verdict::Passed) => {}
                    Ok(Verdict::Failed(said)) => red.push(format!("`{name} {test}` fails:\n{said}")),
                    Err(error) => red.push(format!("`{name} {test}`: {error:#}")),
                }
            }
        }
        self.programs = built;
        ensure!(
            red.is_empty(),
            "without any change {} tests are not green:\n{}",
            red.len(),
            red.join("\n")
        );
        println!("[mutants] all green ({:.1} s)", start.elapsed().as_secs_f64());
        Ok(())
    }

    fn leg(&self, name: &str) -> Result<&Leg> {
        self.legs
            .iter()
            .find(|leg| leg.name == name)
            .with_context(|| format!("no leg `{name}`"))
    }

    fn one(&self, mutant: &Mutant) -> Result<Row> {
        let start = Instant::now();
        let leg = list::leg_of(mutant, &self.legs)?;
        let path = self.scratch.path.join(&mutant.file);
        let text = fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
        let changed = mutant.apply(&text)?;
        let before = self
            .scratch
            .keep(if mutant.is_kernel_half() { &ebpf::MADE } else { &[] })?;
        fs::write(&path, changed).with_context(|| format!("change `{}`", path.display()))?;
        let result = self.turns_red(mutant, leg);
        fs::write(&path, text).with_context(|| format!("restore `{}`", path.display()))?;
        before
            .into_iter()
            .try_for_each(|(path, bytes)| fs::write(path, bytes))
            .context("restore the eBPF object")?;
        Ok(Row {
            name: mutant.name.clone(),
            test: mutant.test.clone(),
            failure: result.err().map(|error| format!("{error:#}")),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn turns_red(&self, mutant: &Mutant, leg: &Leg) -> Result<()> {
        if mutant.is_kernel_half() {
            ebpf::rebuild_in(&self.scratch.path).context("the eBPF object does not compile")?;
        }
        let program = self.programs.get(&leg.name).map(PathBuf::as_path);
        match program {
            Some(_) => run::build_agent(&self.scratch, leg),
            None => run::build(&self.scratch, leg).map(drop),
        }
        .context("does not compile")?;
        match run::test(&self.scratch, leg, mutant.test(), program, &self.fixtures)? {
            Verdict::Passed => bail!("SURVIVED"),
            Verdict::Failed(said) => match &mutant.says {
                Some(wanted) if !said.contains(wanted) => {
                    bail!("red for another reason: `{wanted}` is not said in\n{said}")
                }
                _ => Ok(()),
            },
        }
    }
}

fn summary(rows: &[Row], seconds: f64) -> Result<()> {
    let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
    let (name, test) = (width(|row| &row.name), width(|row| &row.test));
    println!(
        "\n{:<name$}  {:<test$}  {:<8} {:>7}",
        "mutant", "test", "", "seconds"
    );
    for row in rows {
        let verdict = row
            .failure
            .as_deref()
            .map_or("red", |why| why.lines().next().unwrap_or_default());
        println!(
            "{:<name$}  {:<test$}  {verdict:<8} {:>7.1}",
            row.name, row.test, row.seconds
        );
    }
    let red = rows.iter().filter(|row| row.failure.is_none()).count();
    println!(
        "{red} of {} mutants turned their test red, in {seconds:.0} s",
        rows.len()
    );
    ensure!(!rows.is_empty(), "no mutant was chosen");
    ensure!(red == rows.len(), "{} mutants did not", rows.len() - red);
    Ok(())
}
