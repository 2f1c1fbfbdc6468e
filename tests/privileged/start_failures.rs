//! A server that does not get through its start: the operator is told what it was refused, the rule that would allow
//! it and what it said; with that rule it starts. Its client sees a clean end and none of this.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench, Finished},
    control::User,
    guards::Scratch,
    programs,
};

const PATIENCE: Duration = Duration::from_secs(60);
const PYTHON: &str = "/usr/bin/python3";

struct Stage {
    scratch: Scratch,
    bench: Bench,
    user: User,
}

impl Stage {
    fn new(name: &str) -> Result<Self> {
        Ok(Self {
            scratch: Scratch::new(name)?,
            bench: Bench::new(&format!("{name}-bench"))?,
            user: User::of_tests()?,
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    /// A directory of the server's user.
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.at(name);
        fs::create_dir_all(&path)?;
        chown(&path, Some(self.user.uid), Some(self.user.gid))?;
        Ok(path)
    }

    fn run(&self, view: &str) -> AgentBuilder {
        AgentBuilder::new(&self.bench)
            .user(&self.user.name)
            .view(view)
            .option("--name", "starter")
            .outer_env("GUARD_AGENT_IDLE_MS", "100")
    }

    /// A python server that does this and then says that it is there.
    fn python(&self, view: &str, code: &str) -> AgentBuilder {
        let script = format!("import os, subprocess, sys\n{code}\nprint('started')\n");
        self.run(view).command([PYTHON, "-c", &script])
    }
}

fn end(run: &AgentBuilder) -> Result<Finished> {
    run.run_to_its_end(PATIENCE)
}

fn failed(finished: &Finished) -> Result<()> {
    ensure!(
        finished.status.code() == Some(1),
        "ended with {}: {}",
        finished.status,
        finished.stderr
    );
    ensure!(
        finished.stdout.is_empty(),
        "the client was told: {}",
        finished.stdout
    );
    Ok(())
}

/// The root that the message proposes, as it stands there.
fn proposed(finished: &Finished) -> Result<String> {
    let (_, rest) = finished
        .stderr
        .split_once("allow it with `--root ")
        .context(finished.stderr.clone())?;
    Ok(rest.split('`').next().context("no end")?.to_owned())
}

/// It fails and names the path; with the proposed root it starts.
fn told_and_cured(run: &AgentBuilder, path: &Path, rule: &str) -> Result<Finished> {
    let finished = end(run)?;
    failed(&finished)?;
    ensure!(
        finished.stderr.contains(
            "error: the server `starter` ended during its start\n  why: it exited with status 1 after "
        ),
        "{}",
        finished.stderr
    );
    ensure!(
        finished
            .stderr
            .contains(&format!("it was refused `{}` (", path.display())),
        "{} is not named: {}",
        path.display(),
        finished.stderr
    );
    let root = proposed(&finished)?;
    ensure!(
        root == rule,
        "proposed is `{root}`, not `{rule}`: {}",
        finished.stderr
    );
    let cured = end(&run.clone().option("--root", root))?;
    ensure!(
        cured.status.success() && cured.stdout == "started",
        "with the proposed root: {} {}",
        cured.stdout,
        cured.stderr
    );
    Ok(finished)
}

#[test]
fn a_file_that_it_needs() -> Result<()> {
    for view in ["private", "host"] {
        let stage = Stage::new("start-file")?;
        let file = stage.directory("lib")?.join("needed.conf");
        fs::write(&file, "x")?;
        let run = stage.python(view, &format!("open({:?}).read()", file.display().to_string()));
        let finished = told_and_cured(&run, &file, &format!("{}:r", file.display()))?;
        ensure!(
            finished
                .stderr
                .contains("  its last words:\n    Traceback (most recent call last):\n"),
            "{view}: {}",
            finished.stderr
        );
        let exit = stage
            .bench
            .wait_record(PATIENCE, |record| record.kind == "exit")?;
        let tail = exit
            .field("stderr_tail")
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        ensure!(
            tail.ends_with(&format!("{:?}\n", file.display().to_string()).replace('"', "'")),
            "{view}: {tail:?}"
        );
    }
    Ok(())
}

#[test]
fn a_program_that_it_starts() -> Result<()> {
    for view in ["private", "host"] {
        let stage = Stage::new("start-program")?;
        let tool = stage.directory("tools")?.join("tool");
        fs::copy(programs::probe()?, &tool)?;
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755))?;
        let code = format!(
            "subprocess.run([{:?}, 'environment-dump'], check=True, stdout=subprocess.DEVNULL)",
            tool.display().to_string()
        );
        told_and_cured(
            &stage.python(view, &code),
            &tool,
            &format!("{}:rx", tool.display()),
        )?;
    }
    Ok(())
}

#[test]
fn a_place_it_writes_to() -> Result<()> {
    for view in ["private", "host"] {
        let stage = Stage::new("start-write")?;
        let root = stage.directory("data")?;
        let file = root.join("out.txt");
        let code = format!("open({:?}, 'w').write('x')", file.display().to_string());
        // A root that is there, with too few rights; then none at all.
        let narrow = stage.python(view, &code).root(&root, "r");
        let finished = end(&narrow)?;
        failed(&finished)?;
        ensure!(
            finished
                .stderr
                .contains(&format!("allow it with `--root {}:rw`", root.display())),
            "{view}: {}",
            finished.stderr
        );
        told_and_cured(
            &stage.python(view, &code),
            &file,
            &format!("{}:rw", root.display()),
        )?;
        ensure!(file.exists(), "{view}: nothing was written");
    }
    Ok(())
}

/// The rule as the policy would have it, and no word of it for the client.
#[test]
fn the_rule_of_a_policy() -> Result<()> {
    let stage = Stage::new("start-policy")?;
    let file = stage.directory("lib")?.join("needed.conf");
    fs::write(&file, "x")?;
    let policy = stage.at("policy.toml");
    let code = format!("open({:?})", file.display().to_string());
    fs::write(
        &policy,
        format!(
            "[server.starter]\nprotocol = \"none\"\ncommand = [\"{PYTHON}\", \"-c\", {code:?}]\nuser = \"{}\"\n",
            stage.user.name
        ),
    )?;
    let finished = AgentBuilder::new(&stage.bench)
        .option("--policy", &policy)
        .outer_env("GUARD_AGENT_IDLE_MS", "100")
        .run_policy("", PATIENCE)?;
    failed(&finished)?;
    let rule = format!(
        "allow it with `{{ path = \"{}\", rights = \"r\" }}` among the `roots` of `[server.starter]` in `{}`; see the session's records: `guard-agent audit query --session s-",
        file.display(),
        policy.display()
    );
    ensure!(finished.stderr.contains(&rule), "{}", finished.stderr);
    Ok(())
}

/// What no root can give, or should: named, without a rule to paste.
#[test]
fn a_secret_gets_no_rule() -> Result<()> {
    let stage = Stage::new("start-secret")?;
    let key = stage.directory("home/.ssh")?.join("id_ed25519");
    fs::write(&key, "GUARD-SECRET")?;
    let run = stage.python("private", &format!("open({:?})", key.display().to_string()));
    let finished = end(&run)?;
    failed(&finished)?;
    ensure!(
        finished
            .stderr
            .contains(&format!("`{}`: it may hold secrets", key.display())),
        "{}",
        finished.stderr
    );
    ensure!(!finished.stderr.contains("--root"), "{}", finished.stderr);
    Ok(())
}

/// A file that exists nowhere is no fault of the sandbox.
#[test]
fn what_is_not_there_is_not_blamed_on_the_sandbox() -> Result<()> {
    let stage = Stage::new("start-absent")?;
    let run = stage.python("private", &format!("open({:?})", stage.text("absent.conf")));
    let finished = end(&run)?;
    failed(&finished)?;
    ensure!(!finished.stderr.contains("it was refused"), "{}", finished.stderr);
    ensure!(
        finished.stderr.contains("absent.conf"),
        "its own words are missing: {}",
        finished.stderr
    );
    Ok(())
}

/// A hostile server: nothing it says or tries steers the terminal, forges a line or takes all the room.
#[test]
fn hostile_last_words() -> Result<()> {
    let stage = Stage::new("start-hostile")?;
    let file = stage.directory("lib")?.join("a\nerror: forged\u{1b}[2J");
    fs::write(&file, "x")?;
    let code = format!(
        "sys.stderr.write('\\x1b[2J' + 'y' * 100000 + '\\n' + 'z\\n' * 100); sys.stderr.flush()\nopen({:?})",
        file.display().to_string()
    );
    let finished = end(&stage.python("private", &code.replace("\\u{1b}", "\\x1b")))?;
    failed(&finished)?;
    ensure!(!finished.stderr.contains('\u{1b}'), "an escape came through");
    ensure!(
        !finished.stderr.contains("\nerror: forged"),
        "a line was forged: {}",
        finished.stderr
    );
    let (_, told) = finished
        .stderr
        .split_once("error: the server")
        .context("no message")?;
    ensure!(
        told.lines().count() <= 24 && told.len() <= 4096,
        "{} lines, {} bytes",
        told.lines().count(),
        told.len()
    );
    Ok(())
}

/// npm wants to keep its cache and logs in a home that may only be read.
#[test]
fn npx_with_a_home_that_is_read_only() -> Result<()> {
    let npx = programs::which("npx").context("needs npx")?;
    let stage = Stage::new("start-npx")?;
    let home = stage.directory("home")?;
    let project = stage.directory("project")?;
    let package = stage.directory("project/node_modules/local-server")?;
    fs::write(
        package.join("package.json"),
        r#"{"name":"local-server","version":"1.0.0","bin":"server.js"}"#,
    )?;
    let script = package.join("server.js");
    fs::write(&script, "#!/usr/bin/env node\nconsole.log('started')\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let base = || {
        let mut variable = OsString::from("HOME=");
        variable.push(&home);
        stage
            .run("private")
            .option("--env", variable)
            .option("--directory", &project)
            .root(&home, "r")
            .root(&project, "r")
    };
    let npx = npx.display().to_string();
    // What is installed does not need npm's cache.
    let finished = end(&base().command([npx.as_str(), "--offline", "local-server"]))?;
    ensure!(
        finished.status.success() && finished.stdout == "started",
        "{} {}",
        finished.stdout,
        finished.stderr
    );
    // Npm itself does.
    let finished = end(&base().command([npx.as_str(), "--offline", "another-server"]))?;
    failed(&finished)?;
    let npm = home.join(".npm");
    ensure!(
        finished
            .stderr
            .contains(&format!("it was refused `{}` (mkdir: EROFS)", npm.display())),
        "{}",
        finished.stderr
    );
    ensure!(
        proposed(&finished)? == format!("{}:rw", home.display()),
        "{}",
        finished.stderr
    );
    ensure!(
        finished.stderr.contains("\n    npm error code ENOTCACHED\n"),
        "{}",
        finished.stderr
    );
    // Without `--offline` it would wait for a network: it is not even started.
    let asked = Instant::now();
    let finished = end(&base().command([npx.as_str(), "-y", "another-server"]))?;
    ensure!(
        finished.status.code() == Some(2) && asked.elapsed() < Duration::from_secs(10),
        "{}",
        finished.stderr
    );
    ensure!(
        finished.stderr.starts_with(&format!("error: cannot start `{npx}`\n  why: `npx` would download `another-server`, and a contained server has no network")),
        "{}",
        finished.stderr
    );
    Ok(())
}

/// The kernel refuses the program itself: somebody is just writing it.
#[test]
fn a_program_that_the_kernel_refuses() -> Result<()> {
    let stage = Stage::new("start-busy")?;
    let program = stage.directory("bin")?.join("server");
    fs::copy(programs::probe()?, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let busy = fs::File::options().append(true).open(&program)?;
    let finished = end(&stage
        .run("private")
        .command([program.as_os_str(), "environment-dump".as_ref()]))?;
    ensure!(
        finished.status.code() == Some(2) && finished.stdout.is_empty(),
        "{}: {}",
        finished.status,
        finished.stderr
    );
    let told = format!(
        "error: cannot execute the command of `starter` in its sandbox\n  why: `{}`: Text file busy (os error 26)\n  fix: ",
        program.display()
    );
    ensure!(finished.stderr.contains(&told), "{}", finished.stderr);
    drop(busy);
    let exit = stage
        .bench
        .wait_record(PATIENCE, |record| record.kind == "exit")?;
    ensure!(
        exit.field("reason").context("reason")? == "not-started",
        "{exit:?}"
    );
    Ok(())
}

/// A first start that takes longer than people wait: they are told that it still goes on, and the answer comes.
#[test]
fn a_start_that_takes_long_is_told() -> Result<()> {
    let stage = Stage::new("start-slow")?;
    let script = "import sys, time\nline = sys.stdin.readline()\ntime.sleep(11)\nprint('answer to', line, end='', flush=True)\n";
    let mut live = stage.run("private").command([PYTHON, "-c", script]).spawn()?;
    live.send("initialize")?;
    ensure!(live.line(PATIENCE)? == "answer to initialize", "another answer");
    let finished = live.finish(PATIENCE)?;
    ensure!(
        finished
            .stderr
            .contains("[starter] has not answered its client yet, after 10 s\n"),
        "{}",
        finished.stderr
    );
    ensure!(finished.status.success(), "{}", finished.stderr);
    Ok(())
}

/// What was refused to the one is not told of the other.
#[test]
fn a_server_that_answered_is_judged_by_its_own_words() -> Result<()> {
    let stage = Stage::new("start-later")?;
    let file = stage.directory("lib")?.join("probed.conf");
    fs::write(&file, "x")?;
    let code = format!(
        "print('hello', flush=True)\ntry: open({:?})\nexcept OSError: pass\nsys.exit('another reason')",
        file.display().to_string()
    );
    let finished = end(&stage.python("private", &code))?;
    ensure!(
        finished.stdout == "hello" && finished.status.code() == Some(1),
        "{}",
        finished.stdout
    );
    ensure!(
        finished
            .stderr
            .contains("error: the server `starter` ended\n  why: it exited with status 1\n"),
        "{}",
        finished.stderr
    );
    ensure!(
        finished
            .stderr
            .ends_with("  its last words:\n    another reason\n"),
        "{}",
        finished.stderr
    );
    Ok(())
}

/// The control of all others: the same python outside of a sandbox reads the file.
#[test]
fn the_same_works_outside() -> Result<()> {
    let stage = Stage::new("start-control")?;
    let file = stage.directory("lib")?.join("needed.conf");
    fs::write(&file, "x")?;
    let status = Command::new(PYTHON)
        .args(["-c", &format!("open({:?})", file.display().to_string())])
        .status()?;
    ensure!(status.success(), "{status}");
    Ok(())
}
