//! Commands that are there and cannot run here, and programs that go away.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    programs,
    refused::{PATIENCE, Stage, Status, USER, text},
};

fn executable(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("it lies somewhere")?)?;
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn refused(stage: &Stage, run: &AgentBuilder, command: &str, why: &str, fix: &str) -> Result<()> {
    let what = format!("cannot start `{command}`");
    stage.refused(run, Status::Usage, [&what, why, fix])
}

/// A service's `PATH` does not name a version manager's directory: where the program is, is told.
#[test]
fn a_runtime_that_is_not_on_the_path() -> Result<()> {
    let stage = Stage::new("no-node")?;
    let home = stage.directory("home")?;
    for version in ["v20.1.0", "v22.1.0"] {
        executable(
            &home.join(format!(".nvm/versions/node/{version}/bin/gqnode")),
            b"#!/bin/sh\n",
        )?;
    }
    let run = stage
        .plain()
        .outer_env("PATH", "/usr/bin:/bin")
        .outer_env("HOME", &text(&home))
        .command(["gqnode", "server.js"]);
    let fix = format!(
        "name it by its full path; there is `{0}/.nvm/versions/node/v20.1.0/bin/gqnode`, `{0}/.nvm/versions/node/v22.1.0/bin/gqnode`",
        text(&home)
    );
    refused(
        &stage,
        &run,
        "gqnode",
        "`gqnode` is in no directory of `PATH` (/usr/bin:/bin)",
        &fix,
    )
}

#[test]
fn a_script_without_an_interpreter_line() -> Result<()> {
    let stage = Stage::new("no-line")?;
    let script = stage.path("server");
    executable(&script, b"print('hello')\n")?;
    let command = text(&script);
    let why = format!("`{command}` is neither a program nor a script with an interpreter line");
    let fix = "put the interpreter in front of it (`node FILE`, `python3 FILE`), or add a `#!` line";
    refused(&stage, &stage.plain().command([&command]), &command, &why, fix)
}

#[test]
fn a_script_whose_interpreter_is_missing() -> Result<()> {
    let stage = Stage::new("no-interpreter")?;
    let (outer, inner) = (stage.path("outer"), stage.path("inner"));
    executable(&inner, b"#!/opt/no/such/interpreter -x\n")?;
    executable(&outer, format!("#!{}\n", text(&inner)).as_bytes())?;
    let why = format!(
        "`{}` asks for the interpreter `/opt/no/such/interpreter`: `/opt/no/such/interpreter` does not exist",
        text(&inner)
    );
    let finished = stage.plain().command([text(&outer)]).run("", PATIENCE)?;
    // Whichever component is missing first is named; the chain is, in any case.
    let told = finished.stderr.lines().nth(1).unwrap_or_default();
    let (before, _) = why.split_once(": `/opt").context("a reason")?;
    ensure!(
        told.starts_with(&format!("  why: {before}: `/opt")) && told.ends_with("does not exist"),
        "{}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)
}

/// An AArch64 program, as somebody copies it from another machine; alone, and as a script's interpreter.
#[test]
fn a_program_for_another_machine() -> Result<()> {
    let stage = Stage::new("foreign")?;
    let (program, script) = (stage.path("server"), stage.path("script"));
    let mut image = fs::read(programs::probe()?)?;
    let machine = if cfg!(target_arch = "x86_64") { 183_u16 } else { 62 };
    image[18..20].copy_from_slice(&machine.to_le_bytes());
    executable(&program, &image)?;
    executable(&script, format!("#!{}\n", text(&program)).as_bytes())?;
    for command in [&program, &script] {
        let finished = stage.plain().command([text(command)]).run("", PATIENCE)?;
        let lines: Vec<&str> = finished.stderr.lines().collect();
        ensure!(
            lines.len() == 3
                && lines[0] == format!("error: cannot start `{}`", text(command))
                && lines[1].starts_with(&format!(
                    "  why: program file of `{}`: it is built for another architecture (",
                    text(&program)
                ))
                && lines[2] == "  fix: install it for this machine's architecture",
            "{}",
            finished.stderr
        );
        stage.ended(&finished, Status::Usage)?;
    }
    Ok(())
}

/// Its loader is not installed: what the kernel would call "no such file" of a file that is there.
#[test]
fn a_program_whose_loader_is_missing() -> Result<()> {
    let stage = Stage::new("loader")?;
    let program = stage.path("server");
    let mut image = fs::read("/usr/bin/touch")?;
    let loader = b"/lib64/ld-linux-x86-64.so.2";
    let at = image
        .windows(loader.len())
        .position(|part| part == loader)
        .context("touch names its loader")?;
    image[at..at + loader.len()].copy_from_slice(b"/lib64/ld-linux-x86-64.so.X");
    executable(&program, &image)?;
    let command = text(&program);
    let why = "its ELF loader `/lib64/ld-linux-x86-64.so.X` is missing: `";
    let finished = stage.plain().command([&command]).run("", PATIENCE)?;
    ensure!(
        finished
            .stderr
            .starts_with(&format!("error: cannot start `{command}`\n  why: {why}")),
        "{}",
        finished.stderr
    );
    ensure!(
        finished
            .stderr
            .ends_with("\n  fix: install the C library it was built for\n"),
        "{}",
        finished.stderr
    );
    stage.ended(&finished, Status::Usage)
}

/// A link to what was uninstalled.
#[test]
fn a_program_that_was_deleted() -> Result<()> {
    let stage = Stage::new("deleted")?;
    let (program, link) = (stage.path("server-1.0"), stage.path("server"));
    executable(&program, b"#!/bin/sh\n")?;
    symlink(&program, &link)?;
    fs::remove_file(&program)?;
    let why = format!(
        "`{}` is a dangling symbolic link to `{}`",
        text(&link),
        text(&program)
    );
    let fix = format!("repair or remove the link `{}`", text(&link));
    refused(
        &stage,
        &stage.plain().command([text(&link)]),
        &text(&link),
        &why,
        &fix,
    )
}

/// The agent is replaced on the disk while it runs, as a package manager does it: the session that runs goes on, the
/// next one starts, and nothing of either is left.
#[test]
fn the_agent_is_upgraded_while_it_runs() -> Result<()> {
    let stage = Stage::new("upgraded")?;
    let (copy, new) = (
        stage.directory("bin")?.join("guard-agent"),
        stage.path("bin/guard-agent.new"),
    );
    for place in [&copy, &new] {
        fs::copy(programs::agent()?, place)?;
    }
    let cat = || {
        stage
            .plain()
            .user(USER)
            .program(&copy)
            .outer_env("GUARD_AGENT_IDLE_MS", "3000")
    };
    let mut first = cat().command(["/usr/bin/cat"]).spawn()?;
    first.send("before")?;
    ensure!(first.line(PATIENCE)? == "before", "another word");
    // Over it, as `dpkg` does: the old file has no name any more.
    fs::rename(&new, &copy)?;
    first.send("after")?;
    ensure!(first.line(PATIENCE)? == "after", "another word");
    let second = cat().command(["/usr/bin/cat"]).run("hello\n", PATIENCE)?;
    ensure!(
        second.status.success() && second.stdout == "hello",
        "{}",
        second.stderr
    );
    // And gone altogether.
    fs::remove_file(&copy)?;
    first.send("still")?;
    ensure!(first.line(PATIENCE)? == "still", "another word");
    let finished = first.finish(PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    let records = stage.bench.records()?;
    let count = |kind: &str| records.iter().filter(|record| record.kind == kind).count();
    ensure!(
        (count("launch"), count("exit"), count("gap")) == (2, 2, 0),
        "{records:?}"
    );
    stage.no_session()
}
