//! Failures and sudden deaths at each step of writing. Each runs in a process of its own.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitStatus},
};

use super::*;

const DIR: &str = "GUARD_AGENT_TEST_AUDIT";

/// Not a test: what the others start. Appends 20 records and says of each on stdout whether it was taken.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let mut trail = match Trail::open(&dir, small()) {
        Ok(trail) => trail,
        Err(error) => {
            println!("@open {error}");
            return;
        }
    };
    for number in 0..20 {
        match trail.append(&allow(number), Origin::Warden, Durability::Sync) {
            Ok(_) => println!("@taken {number}"),
            Err(error) => println!("@refused {number} {}", crate::refusal::chain(&error)),
        }
        if number == 10 {
            let _ = trail.rotate_key().map_err(|error| println!("@key {error}"));
        }
    }
    if let Err(error) = trail.close() {
        println!("@close {error}");
    }
}

struct Outcome {
    status: ExitStatus,
    said: Vec<String>,
}

impl Outcome {
    fn numbers(&self, word: &str) -> Vec<u32> {
        self.said
            .iter()
            .filter_map(|line| line.strip_prefix(word)?.split_whitespace().next()?.parse().ok())
            .collect()
    }
}

fn run(dir: &Path, fault: &str) -> Outcome {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "audit::tests::faults::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIR, dir)
        .env("GUARD_AGENT_FAULT", fault)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // The harness writes on the same line before the first word of ours.
    let said = text
        .lines()
        .filter_map(|line| Some(line[line.find('@')? + 1..].to_owned()))
        .collect();
    Outcome {
        status: output.status,
        said,
    }
}

fn kernel_pids(dir: &Path) -> Vec<u32> {
    let pid = |record: Record| match record.body {
        Body::Kernel(kernel) => Some(kernel.pid),
        _ => None,
    };
    records(dir).into_iter().filter_map(pid).collect()
}

fn points() -> Vec<String> {
    let occurrences = [
        ("audit.write", 1..=30),
        ("audit.sync", 1..=30),
        ("audit.rotate", 1..=3),
        ("audit.checkpoint", 1..=6),
    ];
    occurrences
        .into_iter()
        .flat_map(|(point, range)| range.map(move |nth| format!("{point}#{nth}")))
        .collect()
}

#[test]
fn without_a_fault_all_is_taken() {
    let place = place();
    let outcome = run(&place.dir, "");
    assert!(outcome.status.success());
    assert_eq!(outcome.numbers("taken"), (0..20).collect::<Vec<_>>());
    assert_eq!(good(&place.dir).keys.len(), 2);
}

#[test]
fn killed_at_any_step_the_chain_is_whole_and_what_was_taken_is_in_it() {
    let mut killed = 0;
    for point in points() {
        let place = place();
        let outcome = run(&place.dir, &format!("{point}=kill"));
        if outcome.status.success() {
            continue;
        }
        assert_eq!(outcome.status.signal(), Some(9), "{point}");
        killed += 1;
        let again = run(&place.dir, "");
        assert!(again.status.success());
        let (taken, later) = (outcome.numbers("taken"), again.numbers("taken"));
        assert_eq!(later.len(), 20, "{point}: {:?}", again.said);
        let written = kernel_pids(&place.dir);
        let before = &written[..written.len() - later.len()];
        assert!(
            before.starts_with(&taken),
            "{point}: took {taken:?}, has {written:?}"
        );
        assert!(
            before.len() <= taken.len() + 1,
            "{point}: at most one was written and not confirmed"
        );
        good(&place.dir);
    }
    assert!(killed >= 60, "only {killed} points were reached");
}

#[test]
fn a_failure_at_any_step_refuses_one_record_and_breaks_no_link() {
    let mut failed = 0;
    for point in points() {
        let place = place();
        let outcome = run(&place.dir, &format!("{point}=fail"));
        assert!(outcome.status.success(), "{point}");
        let refused = outcome
            .said
            .iter()
            .filter(|line| !line.starts_with("taken"))
            .count();
        failed += refused;
        assert!(refused <= 1, "{point}: {:?}", outcome.said);
        let (taken, written) = (outcome.numbers("taken"), kernel_pids(&place.dir));
        assert!(taken.iter().all(|number| written.contains(number)), "{point}");
        if point.starts_with("audit.write") {
            assert!(
                outcome
                    .numbers("refused")
                    .iter()
                    .all(|number| !written.contains(number)),
                "{point}"
            );
        }
        good(&place.dir);
    }
    assert!(failed >= 60, "only {failed} points were reached");
}
