//! `cargo xtask verify`: every program of the object on every claimed kernel, and what the verifier made of it.
//!
//! A program that a kernel no longer takes, or only just, is found here and not by whoever runs that kernel.

mod baseline;
mod table;

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use baseline::{Baseline, Fact, Line, Verdict, compare};
use nix::unistd::Uid;

use crate::{
    apt, cargo,
    vm::{self, Case, Status, Vm},
};

const OBJECT: &str = "guard-agent/ebpf/guard.bpf.o";
const BASELINE: &str = "guard-agent/ebpf/verified.toml";
/// The series that tier T1 is claimed for.
const CLAIMED: [&str; 2] = ["6.1", "6.12"];
const HOST: &str = "host";
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Series as in `6.12`, `newest`, or `host` for this machine; by default the claimed ones and this machine
    #[arg(long, value_delimiter = ',')]
    kernel: Vec<String>,
    /// The newest kernel, too
    #[arg(long)]
    full: bool,
    /// Write what was found as the new baseline
    #[arg(long)]
    update: bool,
}

/// One kernel that was asked.
struct Asked {
    series: String,
    version: String,
    facts: Vec<Fact>,
    /// Without a baseline nothing is compared; for a claimed series that is a failure.
    claimed: bool,
    host: bool,
    took: Duration,
}

/// One kernel and what came of it.
struct Judged {
    title: String,
    lines: Vec<Line>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let kernels = kernels(args);
    let root = crate::workspace();
    let program = cargo::built(
        &[
            "build",
            "--quiet",
            "--package",
            "guard-agent",
            "--example",
            "ebpf_facts",
        ],
        "ebpf_facts",
    )?;
    let asked = ask_all(&kernels, &program, &root.join(OBJECT))?;
    let path = root.join(BASELINE);
    let mut baseline = Baseline::read(&path)?;
    let mut failures = Vec::new();
    let mut judged = Vec::new();
    for one in &asked {
        let lines = judge(&baseline, one, &mut failures);
        judged.push(Judged {
            title: one.title(),
            lines,
        });
    }
    println!("{}", table::text(&judged));
    for one in &asked {
        println!(
            "{:<10} {:<12} {:.1} s",
            one.title(),
            one.version,
            one.took.as_secs_f64()
        );
    }
    if args.update {
        for one in &asked {
            baseline.update(&one.series, &one.version, &one.facts, |name| one.excuses(name));
        }
        baseline.write(&path)?;
        println!("`{BASELINE}` has the counts of {} kernels", asked.len());
        return Ok(());
    }
    failures.iter().for_each(|failure| println!("{failure}"));
    ensure!(
        failures.is_empty(),
        "{} programs are not as the baseline `{BASELINE}` has them. Where that is meant: `cargo xtask verify --update`, \
         and commit the file with the reason",
        failures.len()
    );
    Ok(())
}

/// What `cargo xtask ci` runs.
pub(crate) fn check_committed() -> Result<()> {
    run(&Args {
        kernel: Vec::new(),
        full: false,
        update: false,
    })
}

fn kernels(args: &Args) -> Vec<String> {
    let mut kernels = args.kernel.clone();
    if kernels.is_empty() {
        kernels.extend(CLAIMED.map(str::to_owned));
        if Uid::effective().is_root() {
            kernels.push(HOST.to_owned());
        } else {
            eprintln!("[verify] not root: this machine's own kernel is left out");
        }
    }
    if args.full {
        kernels.push(vm::kernel::NEWEST.to_owned());
    }
    kernels
}

/// All at once: an emulator uses one processor, and waits for the guest's grace periods half of its time.
fn ask_all(kernels: &[String], program: &Path, object: &Path) -> Result<Vec<Asked>> {
    thread::scope(|scope| {
        let running: Vec<_> = kernels
            .iter()
            .map(|kernel| (kernel, scope.spawn(|| ask(kernel, program, object))))
            .collect();
        running
            .into_iter()
            .map(|(kernel, thread)| match thread.join() {
                Ok(asked) => asked.with_context(|| format!("ask kernel {kernel}")),
                Err(_) => bail!("asking kernel {kernel} panicked"),
            })
            .collect()
    })
}

fn ask(kernel: &str, program: &Path, object: &Path) -> Result<Asked> {
    let start = Instant::now();
    let host = kernel == HOST;
    let (version, text) = if host {
        ask_host(program, object)?
    } else {
        ask_guest(kernel, program, object)?
    };
    let facts: Vec<Fact> = serde_json::from_str(&text).context("understand what `ebpf_facts` says")?;
    let hooks = facts.iter().filter(|fact| fact.hook);
    if !host && hooks.clone().all(|fact| fact.verified_instructions.is_none()) {
        let why = hooks.clone().find_map(|fact| fact.why_not.as_deref());
        bail!(
            "it takes none of the security hooks: {}",
            why.unwrap_or("the object has none")
        );
    }
    Ok(Asked {
        series: series(&version),
        version,
        facts,
        claimed: CLAIMED.contains(&kernel),
        host,
        took: start.elapsed(),
    })
}

fn ask_host(program: &Path, object: &Path) -> Result<(String, String)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    let text = apt::output(Command::new(program).arg(object).arg("--hooks"))
        .context("load the object into this kernel")?;
    let version = release.trim().split(['-', '+']).next().unwrap_or_default();
    Ok((version.to_owned(), text))
}

fn ask_guest(kernel: &str, program: &Path, object: &Path) -> Result<(String, String)> {
    let args = ["/case/guard.bpf.o", "--hooks", "--to", "/out/facts"].map(str::to_owned);
    let mut case: Case = vm::binary_case("verify", &vm::stripped(program)?, &args)?;
    case.files.file("/case/guard.bpf.o", object, 0o644);
    case.timeout = Some(TIMEOUT);
    let outcome = vm::run(&Vm {
        kernel,
        append: "",
        case: &case,
        memory_mb: None,
        cpus: 1,
        out: None,
        stream: false,
        counted: false,
    })?;
    if outcome.status != Status::Exit(0) {
        let last = outcome.console.len().saturating_sub(30);
        bail!(
            "{}; the console's last lines:\n{}",
            outcome.status,
            outcome.console[last..].join("\n")
        );
    }
    let text = fs::read_to_string(outcome.files.join("facts")).context("read what the guest left")?;
    Ok((outcome.version, text))
}

/// `6.12` of `6.12.118`.
fn series(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

impl Asked {
    fn title(&self) -> String {
        if self.host {
            format!("host {}", self.series)
        } else {
            self.series.clone()
        }
    }

    /// Where nothing is claimed, a machine that cannot take the hooks (no BPF LSM, a container) proves nothing of them.
    fn excuses(&self, name: &str) -> bool {
        self.host && self.facts.iter().any(|fact| fact.hook && fact.name == name)
    }
}

fn judge(baseline: &Baseline, asked: &Asked, failures: &mut Vec<String>) -> Vec<Line> {
    let title = asked.title();
    let none = baseline::Section::default();
    let section = baseline.section(&asked.series);
    if section.is_none() {
        let text = format!("{title}: not in the baseline");
        if asked.claimed {
            failures.push(text);
        } else {
            println!("{text}: nothing is compared");
        }
    }
    let mut lines = compare(section.unwrap_or(&none), &asked.facts);
    if section.is_none() {
        // Of all of them that is said once.
        for line in lines.iter_mut().filter(|line| line.verdict == Verdict::New) {
            line.verdict = Verdict::Same(0);
        }
    }
    let failing = lines
        .iter()
        .filter(|line| line.verdict.fails() && !(line.count.is_none() && asked.excuses(&line.name)));
    failures.extend(failing.map(|line| format!("{title}: `{}` {}", line.name, line.verdict)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &str, hook: bool, count: Option<u32>) -> Fact {
        Fact {
            name: name.to_owned(),
            hook,
            verified_instructions: count,
            recursion_misses: 0,
            why_not: None,
        }
    }

    fn asked(kernel: &str, version: &str, facts: Vec<Fact>) -> Asked {
        Asked {
            series: series(version),
            version: version.to_owned(),
            facts,
            claimed: CLAIMED.contains(&kernel),
            host: kernel == HOST,
            took: Duration::ZERO,
        }
    }

    fn failures(baseline: &Baseline, asked: &Asked) -> Vec<String> {
        let mut failures = Vec::new();
        judge(baseline, asked, &mut failures);
        failures
    }

    #[test]
    fn only_a_claimed_series_has_to_be_in_the_baseline() {
        let baseline = Baseline::default();
        let facts = vec![fact("open", true, Some(5))];
        assert_eq!(
            failures(&baseline, &asked("6.12", "6.12.118", facts.clone())),
            ["6.12: not in the baseline"]
        );
        assert!(failures(&baseline, &asked("newest", "7.3.4", facts.clone())).is_empty());
        let mut skipped = facts;
        skipped[0].recursion_misses = 2;
        assert_eq!(failures(&baseline, &asked("newest", "7.3.4", skipped)).len(), 1);
    }

    #[test]
    fn a_machine_without_the_hooks_is_held_to_the_other_programs() {
        let mut baseline = Baseline::default();
        let all = [fact("bind4", false, Some(10)), fact("open", true, Some(10))];
        baseline.update("6.12", "6.12.118", &all, |_| false);
        let none = vec![fact("bind4", false, None), fact("open", true, None)];
        let bind4 = "is in the baseline and not loaded: the kernel tells no count";
        assert_eq!(
            failures(&baseline, &asked(HOST, "6.12.9", none.clone())),
            [format!("host 6.12: `bind4` {bind4}")]
        );
        assert_eq!(failures(&baseline, &asked("6.12", "6.12.118", none)).len(), 2);
        let other = vec![fact("bind4", false, Some(10)), fact("open", true, Some(20))];
        assert_eq!(failures(&baseline, &asked(HOST, "6.12.9", other)).len(), 1);
    }
}
