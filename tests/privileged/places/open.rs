//! Places that everybody may enter, for a uid that owns nothing.

use std::path::Path;

use anyhow::Result;
use guard_tests::fixtures;

use super::{Place, Server, nvm_node, pyenv_python, time_venv, words};

const VIEWS: [&str; 2] = ["private", "host"];

#[test]
fn distribution_node() -> Result<()> {
    let script = fixtures::node_server_filesystem()?;
    for view in VIEWS {
        let place = Place::new("node")?;
        for program in ["/usr/bin/node", "node"] {
            let run = place
                .run()
                .view(view)
                .command(words![program, &script, &place.data]);
            place.answers(&run, Server::Filesystem)?;
        }
    }
    Ok(())
}

/// As npm links it: a script that names its interpreter by `env`.
#[test]
fn node_modules_bin() -> Result<()> {
    let script = fixtures::node_server_filesystem()?;
    let modules = script
        .ancestors()
        .find(|path| path.ends_with("node_modules"))
        .unwrap_or(Path::new("/"));
    let bin = modules.join(".bin/mcp-server-filesystem");
    for view in VIEWS {
        let place = Place::new("bin")?;
        let run = place.run().view(view).command(words![&bin, &place.data]);
        place.answers(&run, Server::Filesystem)?;
    }
    Ok(())
}

#[test]
fn nvm_layout() -> Result<()> {
    let (home, script) = (fixtures::nvm_home()?, fixtures::node_server_filesystem()?);
    let node = nvm_node(&home)?;
    let bin = node.parent().unwrap_or(Path::new("/")).display().to_string();
    for view in VIEWS {
        let place = Place::new("nvm")?;
        for program in [node.as_path(), &home.join(".nvm/current/bin/node")] {
            let run = place
                .run()
                .view(view)
                .command(words![program, &script, &place.data]);
            place.answers(&run, Server::Filesystem)?;
        }
        // As a shell with nvm has it.
        let run = place
            .run()
            .view(view)
            .outer_env("PATH", &format!("{bin}:/usr/bin:/bin"));
        place.answers(
            &run.command(words!["node", &script, &place.data]),
            Server::Filesystem,
        )?;
    }
    Ok(())
}

#[test]
fn distribution_python() -> Result<()> {
    for view in VIEWS {
        let place = Place::new("python")?;
        let script = place.plain()?;
        for program in ["/usr/bin/python3", "python3"] {
            let run = place.run().view(view).command(words![program, &script]);
            place.answers(&run, Server::Plain)?;
        }
    }
    Ok(())
}

#[test]
fn virtual_environment() -> Result<()> {
    let venv = time_venv()?;
    for view in VIEWS {
        let place = Place::new("venv")?;
        let run = place
            .run()
            .view(view)
            .command(words![venv.join("bin/mcp-server-time")]);
        place.answers(&run, Server::Time)?;
        let run = place
            .run()
            .view(view)
            .command(words![venv.join("bin/python"), "-m", "mcp_server_time"]);
        place.answers(&run, Server::Time)?;
        // Activated.
        let path = format!("{}:/usr/bin:/bin", venv.join("bin").display());
        let run = place
            .run()
            .view(view)
            .outer_env("PATH", &path)
            .command(words!["mcp-server-time"]);
        place.answers(&run, Server::Time)?;
    }
    Ok(())
}

#[test]
fn pyenv_layout() -> Result<()> {
    let home = fixtures::pyenv_home()?;
    for view in VIEWS {
        let place = Place::new("pyenv")?;
        let script = place.plain()?;
        for program in [pyenv_python(&home)?, home.join(".pyenv/shims/python3")] {
            let run = place.run().view(view).command(words![program, &script]);
            place.answers(&run, Server::Plain)?;
        }
        let path = format!("{}:/usr/bin:/bin", home.join(".pyenv/shims").display());
        let run = place
            .run()
            .view(view)
            .outer_env("PATH", &path)
            .command(words!["python3", &script]);
        place.answers(&run, Server::Plain)?;
    }
    Ok(())
}
