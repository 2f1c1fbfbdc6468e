//! `cargo xtask tidy`: what the compiler does not check and a reviewer should not have to.

mod manifest;
mod rules;
mod source;

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{apt, mutants};

pub(crate) fn run() -> Result<()> {
    let root = crate::workspace();
    let mut problems = manifest::check(&root)?;
    // Whoever changes a line that a mutant removes finds out here and not in the next full run.
    problems.extend(mutants::check(&root).err().map(|error| format!("{error:#}")));
    let mut warnings = Vec::new();
    let files = files()?;
    let mut read = 0;
    for path in &files {
        // Gone from the tree but not yet from the index, or not text.
        let Ok(bytes) = fs::read(root.join(path)) else {
            continue;
        };
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        read += 1;
        for finding in rules::check(&rules::File { path, text: &text }) {
            let line = format!("{}: {}", finding.place, finding.what);
            if finding.only_a_warning {
                warnings.push(line);
            } else {
                problems.push(line);
            }
        }
    }
    // A list that came out empty would pass everything.
    ensure!(read > 100, "only {read} files were found to check");
    warnings.iter().for_each(|line| println!("warning: {line}"));
    problems.iter().for_each(|line| println!("{line}"));
    ensure!(problems.is_empty(), "tidy: {} problems", problems.len());
    println!("tidy: {read} files, {} warnings", warnings.len());
    Ok(())
}

/// Files of the repository, committed or about to be.
fn files() -> Result<Vec<String>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let out = apt::output(
        Command::new("git")
            .args(["-c", "safe.directory=*"])
            .args(list)
            .current_dir(crate::workspace()),
    )
    .context("list the repository's files")?;
    let mut files: Vec<String> = out
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
