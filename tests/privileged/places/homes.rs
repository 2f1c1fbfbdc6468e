//! A home that only its owner may enter, for a server that runs as this owner: named, or as `sudo` tells it.

use anyhow::{Result, ensure};
use guard_tests::{agent::AgentBuilder, fixtures};

use super::{Person, Place, Server, nvm_node, own, pyenv_python, time_venv, words};

/// By `--user`, and by who asked.
fn both(place: &Place, person: &Person) -> [AgentBuilder; 2] {
    let machine = |run| person.around(run);
    [
        machine(place.run().user(Person::NAME)),
        machine(place.run().outer_env("SUDO_UID", &person.uid.to_string())),
    ]
}

/// Each launch has a mount namespace of its own here, so the warden of the last one must be gone.
fn answers(place: &Place, run: &AgentBuilder, server: Server) -> Result<()> {
    place.answers(run, server)?;
    place.stage.no_session()
}

#[test]
fn nvm() -> Result<()> {
    let place = Place::new("home-nvm")?;
    let person = Person::new(&place.stage)?;
    person.install(&fixtures::nvm_home()?.join(".nvm"), ".nvm")?;
    let script = fixtures::node_server_filesystem()?;
    let modules = script.ancestors().find(|path| path.ends_with("node_modules"));
    let installed = person.install(modules.unwrap_or(&script), "node_modules")?;
    let script = installed.join("@modelcontextprotocol/server-filesystem/dist/index.js");
    let node = nvm_node(&person.home)?;
    for run in both(&place, &person) {
        answers(
            &place,
            &run.command(words![&node, &script, &place.data]),
            Server::Filesystem,
        )?;
    }
    let records = place.stage.bench.records()?;
    let launches: Vec<_> = records.iter().filter(|record| record.kind == "launch").collect();
    ensure!(launches.len() == 2, "{} launches", launches.len());
    for launch in launches {
        let user = &launch.body["user"];
        ensure!(
            user["name"] == Person::NAME && user["uid"] == person.uid,
            "{user}"
        );
    }
    Ok(())
}

#[test]
fn pyenv() -> Result<()> {
    let place = Place::new("home-pyenv")?;
    let person = Person::new(&place.stage)?;
    person.install(&fixtures::pyenv_home()?.join(".pyenv"), ".pyenv")?;
    let script = place.plain()?;
    for program in [
        pyenv_python(&person.home)?,
        person.home.join(".pyenv/shims/python3"),
    ] {
        for run in both(&place, &person) {
            let home = person.home.display().to_string();
            let run = run.outer_env("HOME", &home).command(words![&program, &script]);
            answers(&place, &run, Server::Plain)?;
        }
    }
    Ok(())
}

/// Code and all in the home, the code not named as a root.
#[test]
fn virtual_environment() -> Result<()> {
    let place = Place::new("home-venv")?;
    let person = Person::new(&place.stage)?;
    let fixture = time_venv()?;
    let venv = person.install(&fixture, "venv")?;
    // Its scripts name the interpreter by the place they were made for.
    for entry in std::fs::read_dir(venv.join("bin"))? {
        let path = entry?.path();
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        if path.is_symlink() || !text.starts_with("#!") {
            continue;
        }
        let text = text.replace(&fixture.display().to_string(), &venv.display().to_string());
        std::fs::write(&path, text)?;
    }
    own(&venv, person.uid)?;
    for run in both(&place, &person) {
        answers(
            &place,
            &run.clone().command(words![venv.join("bin/mcp-server-time")]),
            Server::Time,
        )?;
        let module = words![venv.join("bin/python"), "-m", "mcp_server_time"];
        answers(&place, &run.command(module), Server::Time)?;
    }
    Ok(())
}
