//! `check` and `run` stand on the same proofs, so they say the same; the table and `--json` too.

use anyhow::{Result, ensure};

use super::{
    Test,
    checked::{AS_USER, Around, Place, WITHOUT_USER_NAMESPACES, agree, for_a_user},
};

pub(crate) fn tests() -> Vec<(&'static str, Test)> {
    vec![
        ("as_root", || both("check-root", &[])),
        ("as_an_ordinary_user", as_user),
        ("without_user_namespaces", without_user_namespaces),
        ("after_a_warden_that_was_killed_at_its_proofs", after_a_death),
        ("the_table_says_what_the_lines_say", table),
        ("an_unknown_flag_is_a_usage_error", usage),
    ]
}

fn both(name: &str, around: Around<'_>) -> Result<()> {
    let place = Place::new(name)?;
    let checked = place.check(around)?;
    let ran = place.run(around)?;
    agree(&checked, &ran)?;
    let tier = if for_a_user(around) { "T3" } else { "T2" };
    let watched = if for_a_user(around) {
        "not-available"
    } else {
        "enforced"
    };
    let observation = checked.one("observation")?;
    ensure!(observation["verdict"] == watched, "{observation}");
    checked.says(tier, true)
}

fn as_user() -> Result<()> {
    both("check-user", &[AS_USER])?;
    let place = Place::new("check-user")?;
    let checked = place.check(&[AS_USER])?;
    for (facet, layer) in [("fs", "view"), ("net", "namespaces"), ("resources", "rlimits")] {
        let row = checked.row(facet, layer)?;
        ensure!(row.verdict == "enforced", "{facet} {layer}: {row:?}");
    }
    let row = checked.row("net", "cgroup-bpf")?;
    ensure!(
        row.verdict == "not-available" && row.change == "run as root",
        "{row:?}"
    );
    Ok(())
}

/// On a kernel whose Landlock bounds no signals (before ABI 6) this is refused, and that is said.
fn without_user_namespaces() -> Result<()> {
    let around: Around<'_> = &[WITHOUT_USER_NAMESPACES];
    let place = Place::new("check-bare")?;
    let checked = place.check(around)?;
    agree(&checked, &place.run(around)?)?;
    for (facet, layer) in [
        ("fs", "namespaces"),
        ("fs", "view"),
        ("net", "namespaces"),
        ("exec", "view"),
        ("ipc", "namespaces"),
    ] {
        let row = checked.row(facet, layer)?;
        ensure!(row.verdict == "not-available", "{facet} {layer}: {row:?}");
        let why = "user namespaces are refused: the sysctl `user.max_user_namespaces` is 0";
        ensure!(row.why == why, "{facet} {layer}: {row:?}");
        ensure!(
            row.change == "`sysctl user.max_user_namespaces=10000`, or run as root",
            "{row:?}"
        );
    }
    let scopes = checked.row("ipc", "landlock")?.verdict == "enforced";
    checked.says("T3", scopes)?;
    // What the ground gives is proved all the same.
    let row = checked.row("fs", "seccomp")?;
    ensure!(row.verdict == "enforced", "{row:?}");
    Ok(())
}

/// What it had planted is no obstacle, and goes.
fn after_a_death() -> Result<()> {
    let place = Place::new("check-death")?;
    let state = place.bench.path().join("own/state");
    let ran = place.run_in(
        &[],
        |run| run,
        |_| {
            std::fs::create_dir(&state)?;
            std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
            std::fs::write(state.join("proof.planted"), "x")?;
            std::os::unix::net::UnixListener::bind(state.join("proof.sock"))?;
            Ok(())
        },
    )?;
    agree(&place.check(&[])?, &ran)?;
    for name in ["proof.planted", "proof.sock"] {
        ensure!(!state.join(name).exists(), "`{name}` is still there");
    }
    Ok(())
}

fn table() -> Result<()> {
    let place = Place::new("check-table")?;
    let checked = place.check(&[])?;
    let output = place.command(&[], &["check"]).output()?;
    let shown = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == checked.status, "{:?}", output.status);
    let mut facet = String::new();
    let mut seen = 0;
    for line in shown.lines() {
        let mut words = line.split_whitespace();
        match (line.starts_with("  "), words.next()) {
            (false, Some(word)) => facet = word.to_owned(),
            (true, Some(layer)) => {
                if let Ok(row) = checked.row(&facet, layer) {
                    let rest = line.trim_start().trim_start_matches(layer).trim_start();
                    ensure!(
                        rest.starts_with(&row.verdict.replace('-', " ")) && rest.ends_with(&row.why),
                        "`{line}` is not {row:?}"
                    );
                    seen += 1;
                }
            }
            _ => {}
        }
    }
    ensure!(seen == checked.rows().len(), "{seen} rows in\n{shown}");
    for (change, _) in checked.changes() {
        ensure!(shown.contains(&change), "`{change}` is not in\n{shown}");
    }
    Ok(())
}

fn usage() -> Result<()> {
    let place = Place::new("check-usage")?;
    let output = place.command(&[], &["check", "--frobnicate"]).output()?;
    ensure!(output.status.code() == Some(2), "{output:?}");
    ensure!(output.stdout.is_empty(), "{output:?}");
    Ok(())
}
