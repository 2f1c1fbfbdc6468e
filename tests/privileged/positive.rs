//! What an ordinary server does must work inside as it does outside.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control::User,
    guards::Scratch,
    programs,
    require::{Leg, skip},
    suite::{Answer, Suite},
    tier::{Tier, deny_user_namespaces},
    world::World,
};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(180);

type Answers = Result<BTreeMap<String, Answer>, String>;

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let suite = Suite::load()?;
    let mut answers: BTreeMap<&'static str, Arc<Answers>> = BTreeMap::new();
    let tier = Tier::current()?;
    if tier == Tier::T3Bare {
        deny_user_namespaces()?;
    }
    let leg = Arc::new(Leg::current()?);
    for place in std::iter::once("outside").chain(tier.views().iter().copied()) {
        let wanted = !arguments.list
            && arguments
                .filter
                .as_ref()
                .is_none_or(|filter| place.contains(filter.split("::").next().unwrap_or("")));
        let found = if wanted {
            gather(&suite, place).map_err(|error| format!("{error:#}"))
        } else {
            Err("not asked for".into())
        };
        answers.insert(place, Arc::new(found));
    }
    let mut trials = Vec::new();
    for (place, found) in &answers {
        for check in &suite.checks {
            let (check, found, place, leg) = (check.clone(), Arc::clone(found), *place, Arc::clone(&leg));
            trials.push(Trial::test(format!("{place}::{check}"), move || {
                let judged = judge(&found, &check, place, tier);
                let unable = leg.unable(&check).filter(|_| place != "outside");
                match (judged, unable) {
                    (judged, None) => judged.map_err(failed),
                    (Err(_), Some(_)) => Ok(()),
                    (Ok(()), Some(why)) => Err(format!(
                        "listed as not working (`{why}`), and works: take it off the list"
                    )
                    .into()),
                }
            }));
        }
    }
    trials.push(Trial::test("program::python-sqlite", || {
        python_sqlite().map_err(failed)
    }));
    trials.push(Trial::test("program::twenty-secrets", || {
        twenty_secrets().map_err(failed)
    }));
    trials.push(Trial::test("program::git-commit", || {
        git_commit().map_err(failed)
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

fn gather(suite: &Suite, place: &str) -> Result<BTreeMap<String, Answer>> {
    let world = World::new(&format!("positive-{place}"))?;
    let bench = Bench::new("positive")?;
    let mut input = String::new();
    for check in &suite.checks {
        input += &format!(
            "{}\n",
            json!({"probe": check, "args": world.prepare_named(check)?})
        );
    }
    let text = if place == "outside" {
        outside(&world, &input)?
    } else {
        let finished = AgentBuilder::at_tier(&bench)?
            .view(place)
            .runtime("static")
            .root(&world.root("rw"), "rw")
            .root(&world.root("r"), "r")
            .root(&world.root("rx"), "rx")
            .root(&world.path().join("bin"), "rx")
            .command([world.public_probe().into_os_string(), "batch".into()])
            .converse(&input, PATIENCE)?;
        ensure!(
            !finished.stdout.is_empty(),
            "no check answered ({}):\n{}",
            finished.status,
            finished.stderr
        );
        finished.stdout
    };
    let answers = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Answer>(line).ok());
    Ok(answers.map(|answer| (answer.probe.clone(), answer)).collect())
}

fn outside(world: &World, input: &str) -> Result<String> {
    use std::{io::Write as _, os::unix::process::CommandExt as _, process::Stdio};
    let mut command = Command::new(world.public_probe());
    command
        .arg("batch")
        .uid(world.user.uid)
        .gid(world.user.gid)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().context("no input")?;
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    drop(writer.join());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn judge(found: &Answers, check: &str, place: &str, tier: Tier) -> Result<()> {
    let answers = found.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let answer = answers.get(check).context("the check gave no answer")?;
    ensure!(answer.outcome == "ok", "`{}`: {}", answer.outcome, answer.detail);
    if place == "outside" {
        return Ok(());
    }
    match check {
        "ok-own-proc" => confined(&answer.detail, tier),
        "ok-tmp" => {
            let size: u64 = answer.detail.parse()?;
            ensure!(size > 0 && size <= 4 << 30, "/tmp has {size} bytes: not sized");
            ensure!(
                !Path::new("/tmp/guard-check").exists(),
                "the server's /tmp is the host's"
            );
            Ok(())
        }
        "ok-10000-files" => {
            ensure!(
                answer.detail == "10000",
                "{} of 10,000 files are there",
                answer.detail
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What the kernel says of a process of the server.
fn confined(status: &str, tier: Tier) -> Result<()> {
    let fields: BTreeMap<&str, Vec<&str>> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key, value.split_whitespace().collect()))
        .collect();
    let user = User::of_tests()?;
    let uid = user.uid.to_string();
    let expected = [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("CapInh", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
    ];
    for (key, value) in expected {
        // Without a privilege it cannot be emptied, and without one nothing can be taken from it.
        if key == "CapBnd" && tier == Tier::T3Bare {
            continue;
        }
        ensure!(
            fields.get(key).is_some_and(|words| words == &[value]),
            "`{key}` is {:?}, not `{value}`",
            fields.get(key)
        );
    }
    ensure!(
        fields["Uid"].iter().all(|word| *word == uid),
        "uids are {:?}",
        fields["Uid"]
    );
    // 1 and not 0: zero does not stop a core handler that is a program.
    ensure!(
        fields["CoreLimit"].last() == Some(&"1"),
        "the core limit is {:?}",
        fields["CoreLimit"]
    );
    ensure!(
        !fields["Groups"].contains(&"0"),
        "groups are {:?}",
        fields["Groups"]
    );
    Ok(())
}

fn python() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/bin/python3")).filter(|path| path.is_file())
}

fn own_dir(scratch: &Scratch, name: &str) -> Result<PathBuf> {
    let user = User::of_tests()?;
    let dir = scratch.path().join(name);
    fs::create_dir(&dir)?;
    std::os::unix::fs::chown(&dir, Some(user.uid), Some(user.gid))?;
    Ok(dir)
}

fn python_sqlite() -> Result<()> {
    let python = python();
    if skip(python.is_none().then_some("no /usr/bin/python3"), "python-sqlite") {
        return Ok(());
    }
    let (scratch, bench) = (Scratch::new("sqlite")?, Bench::new("sqlite")?);
    let dir = own_dir(&scratch, "data")?;
    let database = dir.join("db");
    let script = format!(
        "import sqlite3\nc = sqlite3.connect({:?})\nc.execute('pragma journal_mode=wal')\nc.execute('create table t (n)')\n\
         c.executemany('insert into t values (?)', [(n,) for n in range(1000)])\nc.commit()\n\
         print(c.execute('select sum(n) from t').fetchone()[0])\n",
        database.display().to_string()
    );
    let finished = AgentBuilder::at_tier(&bench)?
        .runtime("python")
        .root(&dir, "rw")
        .command([
            python.context("checked above")?.into_os_string(),
            "-c".into(),
            script.into(),
        ])
        .run("", PATIENCE)?;
    ensure!(
        finished.stdout.trim() == "499500",
        "said `{}`, {}",
        finished.stdout,
        finished.stderr
    );
    ensure!(database.exists(), "the database is not where it was asked for");
    Ok(())
}

/// Names that real secrets have: none is on the allow-list by accident.
const SECRETS: [&str; 20] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "NPM_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "DATABASE_URL",
    "PGPASSWORD",
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "KUBECONFIG",
    "VAULT_TOKEN",
    "SLACK_BOT_TOKEN",
    "STRIPE_SECRET_KEY",
    "DOCKER_AUTH_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_CLIENT_SECRET",
    "LD_PRELOAD_SECRET",
    "DBUS_SESSION_BUS_ADDRESS",
];

fn twenty_secrets() -> Result<()> {
    let (scratch, bench) = (Scratch::new("secrets")?, Bench::new("secrets")?);
    let bin = scratch.path().join("bin");
    fs::create_dir(&bin)?;
    let probe = bin.join("guard-probe");
    fs::copy(programs::probe()?, &probe)?;
    let mut agent = AgentBuilder::at_tier(&bench)?.runtime("static").root(&bin, "rx");
    for name in SECRETS {
        agent = agent.outer_env(name, "planted-secret-value");
    }
    let finished = agent
        .command([probe.into_os_string(), "environment-dump".into()])
        .run("", PATIENCE)?;
    let shown: Vec<String> = serde_json::from_str(finished.stdout.trim())
        .with_context(|| format!("said `{}`, {}", finished.stdout, finished.stderr))?;
    ensure!(!shown.is_empty(), "even PATH is missing");
    if let Some(leaked) = shown.iter().find(|entry| entry.contains("planted-secret-value")) {
        bail!("`{leaked}` came through");
    }
    for record in bench.records()? {
        ensure!(
            !record.body.to_string().contains("planted-secret-value"),
            "a secret is in the audit: {:?}",
            record.kind
        );
    }
    Ok(())
}

fn git_commit() -> Result<()> {
    let git = programs::which("git");
    if skip(git.is_none().then_some("no git"), "git-commit") {
        return Ok(());
    }
    let git = git.context("checked above")?;
    let (scratch, bench) = (Scratch::new("git")?, Bench::new("git")?);
    let repo = own_dir(&scratch, "repo")?;
    let user = User::of_tests()?;
    let outside = |words: &[&str]| -> Result<String> {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(&git);
        command
            .arg("-C")
            .arg(&repo)
            .args(words)
            .env("HOME", "/nonexistent")
            .uid(user.uid)
            .gid(user.gid);
        let output = command.output()?;
        ensure!(
            output.status.success(),
            "control: git {words:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    outside(&["init", "-q"])?;
    fs::write(repo.join("file"), "content")?;
    outside(&["add", "."])?;
    let words = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "gc.auto=0",
        "-c",
        "maintenance.auto=false",
        "-C",
    ];
    let mut command: Vec<std::ffi::OsString> = vec![git.clone().into_os_string()];
    command.extend(words.map(Into::into));
    command.extend([
        repo.clone().into_os_string(),
        "commit".into(),
        "-q".into(),
        "-m".into(),
        "inside".into(),
    ]);
    let finished = AgentBuilder::at_tier(&bench)?
        .runtime("auto")
        .root(&repo, "rw")
        .command(command)
        .run("", PATIENCE)?;
    let log = outside(&["log", "--format=%s"])
        .with_context(|| format!("inside: {} {}", finished.status, finished.stderr))?;
    ensure!(log.trim() == "inside", "the log has `{log}`; {}", finished.stderr);
    let status = outside(&["status", "--porcelain"])?;
    ensure!(
        status.is_empty(),
        "the sandbox left files in the project: {status}"
    );
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}
