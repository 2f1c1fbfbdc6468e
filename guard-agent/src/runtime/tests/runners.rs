//! `npx` and `uvx`: what is installed is started, what is not is refused instead of waited for.

use super::{Place, grants, resolved};
use crate::{exit::ExitStatus, runtime::resolve};

/// An `npx` that would fail if it were started: it is no script.
fn npx() -> Place {
    let place = Place::new();
    place.elf("bin/node");
    place.program("lib/node_modules/npm/bin/npx-cli.js", "#!/usr/bin/env node\n");
    place.link("bin/npx", "../lib/node_modules/npm/bin/npx-cli.js");
    place
}

fn package(place: &Place, directory: &str, version: &str, bin: &str) {
    place.write(
        &format!("{directory}/package.json"),
        format!("{{\"name\":\"x\",\"version\":\"{version}\",\"bin\":{bin}}}"),
    );
    place.program(&format!("{directory}/dist/index.js"), "#!/usr/bin/env node\n");
}

#[test]
fn a_package_above_the_working_directory_is_started_without_npx() {
    let place = npx();
    package(
        &place,
        "project/node_modules/@a/server",
        "1.2.3",
        r#"{"mcp-server":"./dist/index.js"}"#,
    );
    let mut ask = place.ask(&["npx", "-y", "@a/server@latest", "--flag", "/srv"]);
    ask.directory = place.at("project/deep/er").into();
    std::fs::create_dir_all(place.at("project/deep/er")).unwrap();
    let runtime = resolved(&ask);
    let script = place.at("project/node_modules/@a/server/dist/index.js");
    let node = place.at("bin/node");
    let expected = [node.to_str().unwrap(), script.to_str().unwrap(), "--flag", "/srv"];
    assert_eq!(runtime.argv, expected.map(crate::octets::Octets::from));
    assert!(
        grants(&runtime, &place.at("project/node_modules")),
        "{:?}",
        runtime.grants
    );
    assert!(
        runtime
            .notes
            .iter()
            .any(|note| note.contains("`npx` is left out")),
        "{:?}",
        runtime.notes
    );
}

#[test]
fn global_and_cached_packages_are_found() {
    let place = npx();
    package(&place, "lib/node_modules/global", "1.0.0", r#""dist/index.js""#);
    package(
        &place,
        "home/.npm/_npx/0123/node_modules/cached",
        "2.0.0",
        r#"{"a":"x","cached":"dist/index.js"}"#,
    );
    let home = place.at("home");
    for name in ["global", "cached"] {
        let runtime = resolved(&place.ask_with(&["npx", name], &[("HOME", home.to_str().unwrap())]));
        assert!(
            runtime.argv[1]
                .to_string()
                .ends_with(&format!("/{name}/dist/index.js")),
            "{:?}",
            runtime.argv
        );
    }
    let runtime = resolved(&place.ask(&["npx", "-p", "global", "global", "x"]));
    assert_eq!(runtime.argv.len(), 3);
}

#[test]
fn what_would_be_downloaded_is_refused() {
    let place = npx();
    package(&place, "node_modules/old", "1.0.0", r#""dist/index.js""#);
    package(
        &place,
        "node_modules/two",
        "1.0.0",
        r#"{"a":"dist/index.js","b":"dist/index.js"}"#,
    );
    package(&place, "node_modules/escape", "1.0.0", r#""../../../bin/node""#);
    for (command, why) in [
        (
            &["npx", "-y", "absent"][..],
            "`npx` would download `absent`, and a contained server has no network",
        ),
        (&["npx", "old@2.0.0"], "would download version 2.0.0 of `old`"),
        (&["npx", "two"], "has no program that `npx` could choose"),
        (&["npx", "escape"], "has no program that `npx` could choose"),
    ] {
        let refusal = place.refused(command);
        assert_eq!(refusal.exit, ExitStatus::Usage);
        assert!(refusal.why.contains(why), "{command:?}: {refusal}");
        assert!(!refusal.hint.is_empty());
    }
    // It says itself what its cache lacks.
    let runtime = resolve(&place.ask(&["npx", "--offline", "absent"])).unwrap();
    assert!(runtime.argv[1].to_string().ends_with("npx"), "{:?}", runtime.argv);
    let runtime = resolve(&place.ask(&["npx", "-c", "ls"])).unwrap();
    assert!(
        runtime
            .notes
            .iter()
            .any(|note| note.contains("may wait for a network")),
        "{:?}",
        runtime.notes
    );
}

#[test]
fn an_installed_tool_is_started_without_uvx() {
    let place = Place::new();
    place.elf("bin/uvx");
    place.elf("bin/uv");
    place.elf("home/.local/share/uv/tools/mcp-server-time/bin/mcp-server-time");
    let home = place.at("home");
    let variables = [("HOME", home.to_str().unwrap())];
    for command in [
        &["uvx", "mcp-server-time", "x"][..],
        &["uv", "tool", "run", "mcp-server-time", "x"],
    ] {
        let runtime = resolved(&place.ask_with(command, &variables));
        let program = place.at("home/.local/share/uv/tools/mcp-server-time/bin/mcp-server-time");
        assert_eq!(runtime.program.as_path(), program, "{command:?}");
        assert_eq!(runtime.argv.len(), 2);
    }
    let refusal = resolve(&place.ask_with(&["uvx", "mcp-server-git"], &variables)).unwrap_err();
    assert!(
        refusal.why.contains("`uvx` would download `mcp-server-git`"),
        "{refusal}"
    );
    assert!(
        refusal.hint.contains("uv tool install mcp-server-git"),
        "{refusal}"
    );
}
