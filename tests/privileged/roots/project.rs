//! A real project: git works in it, and nothing of ours stays in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    programs::which,
    refused::{PATIENCE, Stage, text},
    require::skip,
};

use super::{VIEWS, give, launch, picture, unchanged};

fn git(repository: &Path, words: &[&str]) -> Result<String> {
    let program = which("git").context("no git here")?;
    let output = Command::new(program)
        .args(["-c", "safe.directory=*", "-C"])
        .arg(repository)
        .args(words)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        // Looking must change nothing.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()?;
    ensure!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn repository(stage: &Stage) -> Result<PathBuf> {
    let path = stage.directory("project")?;
    git(&path, &["init", "--quiet", "--initial-branch=main"])?;
    for (key, value) in [
        ("user.name", "A Person"),
        ("user.email", "person@example.org"),
        ("gc.auto", "0"),
    ] {
        git(&path, &["config", key, value])?;
    }
    fs::create_dir(path.join("src"))?;
    fs::write(path.join("src/lib.rs"), "// a file\n")?;
    fs::write(path.join(".envrc"), "export A=1\n")?;
    git(&path, &["add", "."])?;
    git(&path, &["commit", "--quiet", "--message=first"])?;
    give(&path)?;
    Ok(path)
}

/// `git` as a root that is one file: its loader and libraries come with it.
#[test]
fn git_commits_in_a_root() -> Result<()> {
    if skip(which("git").is_none().then_some("there is no git"), "git") {
        return Ok(());
    }
    let program = which("git").context("checked above")?;
    for view in VIEWS {
        let stage = Stage::new("git")?;
        let project = repository(&stage)?;
        let run = launch(&stage, view).root(&project, "rw").root(&program, "rx");
        let mut inside = Inside::start(run)?;
        let git_inside = |words: &str| {
            format!(
                "run({}, '-C', {}.decode(), {words})[0::2]",
                py(&program),
                py(&project)
            )
        };
        inside.works(&format!("write({}, 'changed')", py(project.join("src/lib.rs"))))?;
        for words in ["'add', '.'", "'commit', '--quiet', '--message=second'"] {
            let answer = inside.works(&git_inside(words))?;
            ensure!(answer[0] == 0, "git {words} in {view}: {answer}");
        }
        // What would run outside is not the server's to set.
        let answer = inside.works(&git_inside("'config', 'core.pager', 'evil'"))?;
        ensure!(answer[0] != 0, "git config worked in {view}");
        inside.end()?;
        let log = git(&project, &["log", "--format=%s"])?;
        ensure!(log == "second\nfirst\n", "{log}");
        ensure!(
            git(&project, &["status", "--porcelain"])?.is_empty(),
            "left in the tree"
        );
        ensure!(
            git(&project, &["fsck", "--strict"]).is_ok(),
            "the repository is damaged"
        );
    }
    Ok(())
}

/// After a start, calls, an end in order, a crash of the server, of the agent, and a kill of all: the tree is as it
/// was, byte for byte, with its modes, owners and times.
#[test]
fn the_tree_is_as_it_was() -> Result<()> {
    if skip(which("git").is_none().then_some("there is no git"), "git") {
        return Ok(());
    }
    for view in VIEWS {
        let stage = Stage::new("tree")?;
        let project = repository(&stage)?;
        let before = picture(&project)?;
        let clean = |when: &str| -> Result<()> {
            unchanged(&project, &before).with_context(|| format!("{when} in {view}"))?;
            let status = git(&project, &["status", "--porcelain", "--ignored"])?;
            ensure!(status.is_empty(), "{when} in {view}: {status}");
            Ok(())
        };
        let start = || Inside::start(launch(&stage, view).root(&project, "rw"));
        let mut inside = start()?;
        clean("after the start")?;
        let answer = inside.works(&format!("len(os.listdir({}))", py(&project)))?;
        ensure!(answer == 3, "{answer}");
        inside.works(&format!("open({}).read()", py(project.join("src/lib.rs"))))?;
        clean("after calls")?;
        inside.end()?;
        clean("after the end")?;
        let mut inside = start()?;
        drop(inside.ask("os.abort()"));
        let finished = inside.live().finish(PATIENCE)?;
        ensure!(!finished.status.success(), "a crash told as a good end");
        clean("after a crash of the server")?;
        let inside = start()?;
        let mut live = inside.live();
        live.child.kill()?;
        live.child.wait()?;
        stage.no_session()?;
        clean("after a kill of the agent")?;
        ensure!(
            text(&project).len() > 1 && fs::read_dir(&project)?.count() == 3,
            "something else is in the tree"
        );
    }
    Ok(())
}
