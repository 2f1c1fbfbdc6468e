//! A caller who is root, whose runtimes lie where the server's user cannot get: the first closed directory is named.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::AgentBuilder,
    fixtures,
    refused::{PATIENCE, Status, text},
};

use super::{Person, Place, console_script, nvm_node, pyenv_python, time_venv, words};

/// Refused in three lines that name `closed`, with somebody who can as the way out.
fn refused(place: &Place, run: &AgentBuilder, closed: &Path, owner: u32) -> Result<()> {
    let finished = run.run("", PATIENCE)?;
    let lines: Vec<&str> = finished.stderr.lines().collect();
    ensure!(lines.len() == 3, "{}", finished.stderr);
    let cause = format!(
        "component `{}` is mode 0700 of uid {owner}, so uid ",
        text(closed)
    );
    ensure!(
        lines[0].starts_with("error: cannot start `"),
        "{}",
        finished.stderr
    );
    ensure!(lines[1].contains(&cause), "no `{cause}` in {}", finished.stderr);
    ensure!(lines[2].contains("--user"), "{}", finished.stderr);
    place.stage.ended(&finished, Status::Usage)
}

#[test]
fn nvm_and_pyenv() -> Result<()> {
    let place = Place::new("closed")?;
    let person = Person::new(&place.stage)?;
    person.install(&fixtures::nvm_home()?.join(".nvm"), ".nvm")?;
    person.install(&fixtures::pyenv_home()?.join(".pyenv"), ".pyenv")?;
    let script = fixtures::node_server_filesystem()?;
    let plain = place.plain()?;
    let runs = [
        place
            .run()
            .command(words![nvm_node(&person.home)?, &script, &place.data]),
        place.run().command(words![pyenv_python(&person.home)?, &plain]),
        place
            .run()
            .command(words![person.home.join(".pyenv/shims/python3"), &plain]),
    ];
    for run in runs {
        refused(&place, &run.clone().user("dynamic"), &person.home, person.uid)?;
        refused(&place, &run.user("games"), &person.home, person.uid)?;
    }
    Ok(())
}

/// The interpreter is everybody's, what it is to run is not.
#[test]
fn the_code_alone() -> Result<()> {
    let place = Place::new("closed-code")?;
    let person = Person::new(&place.stage)?;
    let script = fixtures::node_server_filesystem()?;
    let modules = script
        .ancestors()
        .find(|path| path.ends_with("node_modules"))
        .context("no node_modules")?;
    let installed = person.install(modules, "node_modules")?;
    let script = installed.join("@modelcontextprotocol/server-filesystem/dist/index.js");
    let bin = installed.join(".bin/mcp-server-filesystem");
    for command in [
        words!["/usr/bin/node", &script, &place.data],
        words![&bin, &place.data],
    ] {
        refused(&place, &place.run().command(command), &person.home, person.uid)?;
    }
    Ok(())
}

/// The script is everybody's, the interpreter it names is not.
#[test]
fn the_interpreter_alone() -> Result<()> {
    let place = Place::new("closed-interpreter")?;
    let person = Person::new(&place.stage)?;
    let venv = person.install(&time_venv()?, "venv")?;
    let script = place.stage.directory("bin")?.join("mcp-server-time");
    console_script(&script, &venv.join("bin/python"))?;
    refused(
        &place,
        &place.run().command(words![&script]),
        &person.home,
        person.uid,
    )
}
