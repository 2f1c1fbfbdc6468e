//! What an ordinary user asks for and does not get, with the reason.

use std::ffi::OsString;

use anyhow::{Result, ensure};
use guard_tests::{agent::AgentBuilder, programs};

use super::{Place, bare, landlock, refusal};

fn echo(agent: AgentBuilder) -> AgentBuilder {
    agent.command(["/bin/cat"])
}

#[test]
fn a_tier_of_roots() -> Result<()> {
    let place = Place::new("tier")?;
    let [what, why, fix] = refusal(&echo(place.agent()?).option("--tier", "T2"), 3)?;
    ensure!(what == "error: cannot enforce at tier T2", "{what}");
    ensure!(
        why.contains(&format!("uid {} may not make cgroups", place.user.uid)),
        "{why}"
    );
    ensure!(fix.contains("sudo guard-agent run"), "{fix}");
    let finished = echo(place.agent()?)
        .option("--tier", "T3")
        .run("x\n", super::LONG)?;
    ensure!(finished.stdout == "x", "{finished:?}");
    Ok(())
}

#[test]
fn this_tier_as_root() -> Result<()> {
    let place = Place::new("root")?;
    let [what, why, _] = refusal(&echo(AgentBuilder::new(&place.bench)).option("--tier", "T3"), 3)?;
    ensure!(what == "error: cannot enforce at tier T3", "{what}");
    ensure!(why.contains("this is root"), "{why}");
    Ok(())
}

#[test]
fn a_private_view_where_none_can_be_made() -> Result<()> {
    let place = Place::new("view")?;
    let asked = echo(place.agent()?).view("private");
    if !bare()? {
        let finished = asked.run("x\n", super::LONG)?;
        ensure!(finished.stdout == "x", "{finished:?}");
        return Ok(());
    }
    let [what, why, fix] = refusal(&asked, 3)?;
    ensure!(what == "error: cannot give `cat` a private view", "{what}");
    let knob = [
        "user.max_user_namespaces` is 0",
        "kernel.unprivileged_userns_clone` is 0",
    ];
    ensure!(knob.iter().any(|knob| why.contains(knob)), "{why}");
    ensure!(fix.contains("allow user namespaces"), "{fix}");
    Ok(())
}

/// Where nothing bounds signals, the default requirements refuse the launch.
#[test]
fn a_required_facet_that_does_not_hold() -> Result<()> {
    let place = Place::new("ipc")?;
    let agent = echo(
        AgentBuilder::new(&place.bench)
            .started(place.start()?)
            .root(&place.path("rw"), "rw"),
    );
    if !bare()? || landlock()? >= 6 {
        let finished = agent.run("x\n", super::LONG)?;
        ensure!(finished.stdout == "x", "{finished:?}");
        return Ok(());
    }
    let [what, why, fix] = refusal(&agent, 3)?;
    ensure!(what.contains("the facet `ipc` is required"), "{what}");
    ensure!(why.contains("Landlock ABI 6"), "{why}");
    ensure!(fix.contains("--allow-unenforced"), "{fix}");
    Ok(())
}

/// Without Landlock there is no tier at all (T4): refused, unless that is wanted.
#[test]
fn no_landlock() -> Result<()> {
    let place = Place::new("nothing")?;
    let mut start = place.start()?;
    let mut words: Vec<OsString> = vec![programs::around()?.into(), "landlock".into()];
    let agent = start.words.pop().unwrap_or_default();
    words.push(agent);
    start.words.extend(words);
    let agent = || {
        echo(
            AgentBuilder::new(&place.bench)
                .started(start.clone())
                .root(&place.path("r"), "r"),
        )
    };
    let [what, why, fix] = refusal(&agent(), 3)?;
    ensure!(what.contains("cannot launch `cat`: the facet `"), "{what}");
    // Where securityfs shows that the kernel has it, that is said instead.
    ensure!(
        why.contains("the Landlock calls answer ENOSYS")
            || why.contains("around this process answers ENOSYS for it"),
        "{why}"
    );
    ensure!(fix.contains("--allow-unenforced"), "{fix}");
    let finished = agent().flag("--allow-unenforced").run("x\n", super::LONG)?;
    ensure!(finished.stdout == "x", "{finished:?}");
    ensure!(finished.stderr.contains("fs: not enforced: "), "{finished:?}");
    Ok(())
}
