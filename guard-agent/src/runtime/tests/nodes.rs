//! Node: which tree a script brings along, and which it does not.

use std::fs;

use super::{Place, elves::Image, granted, grants, resolved};
use crate::runtime::{RuntimeKind, resolve};

fn node() -> Place {
    let place = Place::new();
    place.elf("node/bin/node");
    place.link("bin/node", "../node/bin/node");
    place
}

#[test]
fn a_script_in_node_modules_brings_the_outermost_one() {
    let place = node();
    place.write("app/node_modules/a/node_modules/b/index.js", "");
    place.link("app/node_modules/.bin/b", "../a/node_modules/b/index.js");
    for script in [
        "app/node_modules/a/node_modules/b/index.js",
        "app/node_modules/.bin/b",
    ] {
        let runtime = place.resolve(&["node", "--no-warnings", script]);
        assert_eq!(runtime.kind, RuntimeKind::Node);
        assert_eq!(
            granted(&runtime),
            [place.at("app/node_modules"), place.at("node/bin/node")]
        );
        assert!(runtime.grants[0].map && !runtime.grants[0].exec);
        assert_eq!(
            runtime.links.len(),
            1,
            "only the link to node: {:?}",
            runtime.links
        );
    }
}

#[test]
fn a_script_brings_its_package_and_hoisted_modules() {
    let place = node();
    place.write("repo/node_modules/dep/index.js", "");
    place.write("repo/packages/server/package.json", "{}");
    place.write("repo/packages/server/dist/index.js", "");
    let runtime = place.resolve(&["node", "repo/packages/server/dist/index"]);
    assert!(grants(&runtime, &place.at("repo/packages/server")));
    assert!(grants(&runtime, &place.at("repo/node_modules")));
    assert!(!grants(&runtime, &place.at("repo")));
}

#[test]
fn a_script_without_a_package_is_granted_alone() {
    let place = node();
    let script = place.write("scripts/server.js", "");
    place.write("scripts/secret", "");
    let runtime = place.resolve(&["node", "scripts/server.js"]);
    assert_eq!(granted(&runtime), [place.at("node/bin/node"), script]);
}

#[test]
fn a_package_file_in_a_home_or_open_directory_does_not_grant_it() {
    let place = node();
    let script = place.write("home/server.js", "");
    place.write("home/package.json", "{}");
    let home = place.at("home");
    let runtime = resolved(&place.ask_with(&["node", "home/server.js"], &[("HOME", home.to_str().unwrap())]));
    assert!(grants(&runtime, &script) && !grants(&runtime, &home));
    assert!(
        runtime
            .notes
            .iter()
            .any(|note| note.contains("is not granted as a whole")),
        "{:?}",
        runtime.notes
    );
    assert!(
        grants(&place.resolve(&["node", "home/server.js"]), &home),
        "control: no home, a package"
    );

    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(
        !grants(&place.resolve(&["node", "home/server.js"]), &home),
        "anyone could have put it there"
    );
}

#[test]
fn linked_packages_of_the_project_are_granted_and_other_links_are_not() {
    let place = node();
    place.write("app/package.json", "{}");
    place.write("app/index.js", "");
    place.write("app/tools/index.js", "");
    place.write("app/packages/one/package.json", "{}");
    place.write("private/key", "secret");
    place.write("neighbour/package.json", "{}");
    place.link("app/node_modules/one", "../packages/one");
    place.link("app/node_modules/@scope/one", "../../packages/one");
    place.link("app/node_modules/sneaky", "../../private");
    place.link("app/node_modules/wide", "../../neighbour");
    place.write("app/node_modules/server/index.js", "");
    // From inside `node_modules`, so that the project around it is not granted as the script's own.
    let runtime = place.resolve(&["node", "app/node_modules/server/index.js"]);
    assert!(grants(&runtime, &place.at("app/packages/one")));
    for closed in ["private", "neighbour"] {
        assert!(
            !granted(&runtime)
                .iter()
                .any(|path| path.starts_with(place.at(closed))),
            "a package opened `{closed}` to itself"
        );
    }
    assert!(
        runtime.notes.iter().any(|note| note.contains("wide")),
        "{:?}",
        runtime.notes
    );
    assert!(
        runtime.notes.iter().any(|note| note.contains("sneaky")),
        "{:?}",
        runtime.notes
    );
}

#[test]
fn modules_loaded_before_the_script_come_along() {
    let place = node();
    place.write("tool/node_modules/tsx/index.js", "");
    let hook = place.write("hooks/hook.js", "");
    let variables = place.write("hooks/.env", "");
    let script = place.write("tool/server.ts", "");
    let mut ask = place.ask(&[
        "node",
        "--import",
        "tsx",
        "-r",
        "../hooks/hook.js",
        "--env-file=../hooks/.env",
        "server.ts",
    ]);
    ask.directory = place.at("tool").into();
    let runtime = resolved(&ask);
    for path in [place.at("tool/node_modules"), hook.clone(), variables, script] {
        assert!(grants(&runtime, &path), "{}", path.display());
    }
    let options = format!("--max-old-space-size=100 --require={}", hook.display());
    let runtime = resolved(&place.ask_with(&["node", "-e", "0"], &[("NODE_OPTIONS", &options)]));
    assert!(grants(&runtime, &hook));
    let directory = place.at("tool");
    let runtime = resolved(&place.ask_with(
        &["node", "-e", "0"],
        &[("NODE_PATH", directory.to_str().unwrap())],
    ));
    assert!(grants(&runtime, &directory));
}

#[test]
fn libraries_of_native_add_ons_come_along() {
    let place = node();
    place.write("app/node_modules/main/index.js", "");
    let add_on = Image::library("x.node")
        .needs("libextra.so")
        .rpath(place.at("extra").to_str().unwrap());
    let broken = Image::library("y.node").needs("libnowhere-7.so");
    place.write("app/node_modules/sq/build/Release/x.node", add_on.bytes());
    place.write("app/node_modules/pre/prebuilds/linux-x64/y.node", broken.bytes());
    let library = place.write("extra/libextra.so", Image::library("libextra.so").bytes());
    let runtime = place.resolve(&["node", "app/node_modules/main/index.js"]);
    assert!(grants(&runtime, &library));
    assert!(
        runtime.notes.iter().any(|note| note.contains("libnowhere-7.so")),
        "{:?}",
        runtime.notes
    );
}

#[test]
fn a_missing_script_is_an_error_of_the_command() {
    let place = node();
    let refusal = resolve(&place.ask(&["node", "nope.js"])).unwrap_err();
    assert!(
        refusal.why.contains("its script") && refusal.why.contains("nope.js"),
        "{refusal}"
    );
}
