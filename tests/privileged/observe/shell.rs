//! Every program that a shell starts is on record, whatever the form in which it was told to.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    tiny_elf::{Tiny, program},
};

/// How the shell is told to start `@`. What such forms have in common: a check of the command line misses some.
const FORMS: [&str; 20] = [
    "@",
    "@ &",
    "true; @",
    "echo $(@)",
    "echo `@`",
    "(@)",
    "{ @; }",
    "true && @",
    "false || @",
    "echo x | @",
    "! @",
    "if @; then :; fi",
    "while @; do break; done; :",
    "eval '@'",
    "sh=@; $sh",
    "exec 3>&1; @ >&3",
    "f() { @; }; f",
    "trap @ EXIT; (exit 3)",
    "/usr/bin/env -S '@ a b'",
    "echo x | /usr/bin/xargs -I{} @ {}",
];

/// A name of its own for each form, so that each start is told apart.
fn script(bin: &Path) -> Result<(String, BTreeSet<String>)> {
    let code = program(Tiny::Exit);
    let (mut text, mut names) = (String::new(), BTreeSet::new());
    for (number, form) in FORMS.iter().enumerate() {
        let path = bin.join(format!("form-{number:02}"));
        fs::write(&path, &code)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        let path = path.to_string_lossy().into_owned();
        text.push_str(&form.replace('@', &path));
        text.push('\n');
        names.insert(path);
    }
    text.push_str("wait\n");
    Ok((text, names))
}

#[test]
fn each_of_twenty_forms_is_told() -> Result<()> {
    for view in ["private", "host"] {
        let bench = Bench::new("shell")?;
        let bin = bench.path().join("bin");
        fs::create_dir(&bin)?;
        let (text, names) = script(&bin)?;
        ensure!(names.len() == 20);
        let finished = AgentBuilder::new(&bench)
            .root(&bin, "rx")
            .root(Path::new("/usr/bin/env"), "rx")
            .root(Path::new("/usr/bin/xargs"), "rx")
            .view(view)
            .command(["/bin/sh", "-c", text.as_str()])
            .run_to_its_end(Duration::from_secs(30))
            .context("the shell under the agent")?;
        bench
            .wait_record(Duration::from_secs(10), |record| record.kind == "exit")
            .with_context(|| format!("{view}: {finished:?}"))?;
        let started: BTreeSet<String> = bench
            .records()?
            .iter()
            .filter(|record| record.kind == "kernel" && record.body["op"] == "exec")
            .filter(|record| record.body["decision"] == "allow")
            .filter_map(|record| record.body["path"].as_str().map(str::to_owned))
            .collect();
        let missing: Vec<_> = names.difference(&started).collect();
        ensure!(
            missing.is_empty(),
            "{view}: not on record: {missing:?}; on record: {started:?}; {finished:?}"
        );
    }
    Ok(())
}
