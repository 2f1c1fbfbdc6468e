//! Command lookup, links, scripts and shims.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{Place, as_ordinary, granted, grants, linked, resolved};
use crate::{
    config::rights::Rights,
    exit::ExitStatus,
    runtime::{RuntimeKind, resolve},
};

#[test]
fn a_name_is_searched_and_a_path_is_not() {
    let place = Place::new();
    let program = place.elf("bin/server");
    let runtime = place.resolve(&["server", "--x"]);
    assert_eq!(
        (runtime.kind, runtime.program.as_path()),
        (RuntimeKind::Static, program.as_path())
    );
    assert_eq!(
        runtime.argv,
        ["server".into(), "--x".into()],
        "argv[0] stays as typed"
    );
    assert_eq!(granted(&runtime), [program.as_path()]);
    assert!(runtime.grants[0].exec);
    assert_eq!(place.resolve(&["bin/server"]).program.as_path(), program);
    assert_eq!(place.resolve(&["./bin/../bin/server"]).program.as_path(), program);
}

#[test]
fn an_empty_entry_of_path_is_the_working_directory() {
    let place = Place::new();
    let program = place.elf("server");
    let mut ask = place.ask(&["server"]);
    ask.path = "/nonexistent::/also".into();
    assert_eq!(resolved(&ask).program.as_path(), program);
}

#[test]
fn each_unusable_command_says_which_and_why() {
    let place = Place::new();
    place.write("bin/plain", "x");
    place.program("bin/text", "hello\n");
    place.link("bin/loop", "loop");
    place.link("bin/gone", "nowhere");
    fs::create_dir_all(place.at("bin/folder")).unwrap();
    for (command, why) in [
        ("absent", "is in no directory of `PATH`"),
        ("./absent", "does not exist"),
        ("plain", "is not executable for uid"),
        ("folder", "is a directory"),
        (
            "text",
            "is neither a program nor a script with an interpreter line",
        ),
        ("loop", "more than 40 symbolic links"),
        ("gone", "is a dangling symbolic link to `nowhere`"),
        ("", "the command's name is empty"),
    ] {
        let refusal = place.refused(&[command]);
        assert_eq!(refusal.exit, ExitStatus::Usage);
        assert!(refusal.why.contains(why), "{command}: {refusal}");
        assert!(!refusal.hint.is_empty());
    }
    assert!(resolve(&place.ask(&[])).is_err(), "no command at all");
}

#[test]
fn an_unusable_match_does_not_hide_a_later_one() {
    let place = Place::new();
    place.write("first/server", "not executable");
    let program = place.elf("second/server");
    let mut ask = place.ask(&["server"]);
    ask.path = std::env::join_paths([place.at("first"), place.at("second")])
        .unwrap()
        .into();
    assert_eq!(resolved(&ask).program.as_path(), program);
}

#[test]
fn a_missing_command_is_pointed_to_where_version_managers_put_it() {
    let place = Place::new();
    let node = place.elf(".nvm/versions/node/v22.1.0/bin/server");
    let refusal =
        resolve(&place.ask_with(&["server"], &[("HOME", place.root.to_str().unwrap())])).unwrap_err();
    assert!(refusal.hint.contains(node.to_str().unwrap()), "{refusal}");
}

#[test]
fn the_first_closed_directory_is_named() {
    let place = Place::new();
    place.elf("a/b/server");
    let closed = place.at("a");
    // Without any search bit it is closed to its owner too, so this holds for every tester.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let ask = place.ask(&["a/b/server"]);
    let refusal = as_ordinary(|| resolve(&ask)).unwrap_err();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    let expected = format!("component `{}` is mode 0600 of uid", closed.display());
    assert!(refusal.why.contains(&expected), "{refusal}");
    assert!(refusal.hint.contains("--user"), "{refusal}");
    as_ordinary(|| resolve(&ask)).expect("control: opened, it resolves");
}

#[test]
fn question_and_answer_survive_the_way_between_processes() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"ser\xffver");
    let program = place.elf("bin/server");
    fs::rename(&program, place.at("bin").join(name)).unwrap();
    let mut ask = place.ask(&["x"]);
    ask.command = vec![name.into()];
    ask.roots = vec![(place.at("bin").join(name).into(), Rights::R)];
    let ask: crate::runtime::Ask = serde_json::from_str(&serde_json::to_string(&ask).unwrap()).unwrap();
    let runtime = resolved(&ask);
    assert_eq!(runtime.argv, [name.into()]);
    let json = serde_json::to_string(&runtime).unwrap();
    assert_eq!(
        serde_json::from_str::<crate::runtime::Runtime>(&json).unwrap(),
        runtime
    );
}

#[test]
fn time_zones_come_with_every_program() {
    let place = Place::new();
    place.elf("bin/server");
    let runtime = super::resolve(&place.ask(&["server"])).unwrap();
    let zones = Path::new("/usr/share/zoneinfo");
    let found = runtime.grants.iter().find(|grant| grant.path.as_path() == zones);
    assert_eq!(found.is_some(), zones.is_dir());
    assert!(found.is_none_or(|grant| !grant.exec && !grant.map), "it is data");
}

#[test]
fn every_link_on_the_way_is_kept_and_grants_are_real() {
    let place = Place::new();
    let program = place.elf("versions/v2/bin/server");
    place.link("current", "versions/v2");
    place.link("bin/server", "../current/bin/server");
    let runtime = place.resolve(&["server"]);
    assert_eq!(granted(&runtime), [program]);
    assert_eq!(
        linked(&runtime),
        [
            (place.at("bin/server"), "../current/bin/server".into()),
            (place.at("current"), "versions/v2".into()),
        ]
    );
    let mut ask = place.ask(&["server"]);
    ask.roots = vec![(place.at("bin").into(), Rights::R)];
    assert_eq!(
        linked(&resolved(&ask)).len(),
        1,
        "a link inside a root is there already"
    );
}

#[test]
fn scripts_become_their_interpreter() {
    let place = Place::new();
    let interpreter = place.elf("bin/interp");
    let direct = place.program("direct", format!("#! {}  -x y \nbody", interpreter.display()));
    let runtime = place.resolve(&["./direct", "arg"]);
    let path = interpreter.to_str().unwrap();
    let words: Vec<String> = runtime.argv.iter().map(ToString::to_string).collect();
    assert_eq!(words, [path, "-x y", place.at("direct").to_str().unwrap(), "arg"]);
    assert!(grants(&runtime, &direct));
    assert!(
        !runtime
            .grants
            .iter()
            .any(|grant| grant.exec && grant.path.as_path() == direct)
    );

    for (line, arguments) in [
        ("#!/usr/bin/env interp", vec![]),
        (
            "#!/usr/bin/env -S interp --flag 'two words'",
            vec!["--flag", "two words"],
        ),
    ] {
        let script = place.program("script", format!("{line}\n"));
        let runtime = place.resolve(&["./script"]);
        let words: Vec<String> = runtime.argv.iter().map(ToString::to_string).collect();
        let expected = [vec![path], arguments, vec![script.to_str().unwrap()]].concat();
        assert_eq!(words, expected, "{line}");
        assert!(!grants(&runtime, Path::new("/usr/bin/env")), "env is not needed");
    }
}

#[test]
fn a_script_of_a_script_is_followed_and_a_circle_ends() {
    let place = Place::new();
    place.elf("bin/interp");
    place.program("one", "#!/usr/bin/env interp\n");
    place.program("two", format!("#!{}\n", place.at("one").display()));
    let runtime = place.resolve(&["./two"]);
    assert_eq!(runtime.argv.len(), 3, "interp, one, two: {:?}", runtime.argv);
    place.program("circle", format!("#!{}\n", place.at("circle").display()));
    assert!(
        place
            .refused(&["./circle"])
            .why
            .contains("more than 5 interpreters")
    );
}

#[test]
fn bad_interpreter_lines_are_told_apart() {
    let place = Place::new();
    place.elf("bin/interp");
    for (line, why) in [
        ("#!\n", "empty interpreter line"),
        ("#!/usr/bin/env interp\r\n", "carriage return"),
        ("#!/usr/bin/env interp -x\n", "several words but without `-S`"),
        ("#!/usr/bin/env -i interp\n", "options other than `-S`"),
        ("#!/usr/bin/env A=b\n", "variables of its own"),
        ("#!/usr/bin/env -S interp $HOME\n", "escapes or variables"),
        ("#!/usr/bin/env -S 'interp\n", "open quote"),
        ("#!/usr/bin/env\n", "without naming a program"),
        ("#!/usr/bin/env nothing-like-it\n", "is in no directory of `PATH`"),
        (
            "#!/no/such/interp\n",
            "asks for the interpreter `/no/such/interp`",
        ),
    ] {
        place.program("script", line);
        let refusal = place.refused(&["./script"]);
        assert!(refusal.why.contains(why), "{line:?}: {refusal}");
    }
    place.program("script", format!("#!/{}\n", "x".repeat(300)));
    assert!(place.refused(&["./script"]).why.contains("more than 256 bytes"));
}

#[test]
fn the_shell_that_installers_put_before_a_long_path_is_taken_out() {
    let place = Place::new();
    let python = place.elf("env with space/bin/interp");
    let head = format!(
        "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n",
        python.display()
    );
    place.program("script", head);
    assert_eq!(place.resolve(&["./script"]).program.as_path(), python);
    let relative = "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'interp' \"$0\" \"$@\"\n";
    place.program("env with space/bin/tool", relative);
    assert_eq!(
        place.resolve(&["./env with space/bin/tool"]).program.as_path(),
        python
    );
}

fn pyenv() -> Place {
    let place = Place::new();
    for version in ["3.9.1", "3.11.4", "3.11.12"] {
        place.elf(&format!("pyenv/versions/{version}/bin/tool"));
    }
    place.program("pyenv/shims/tool", "#!/usr/bin/env bash\n");
    place.link("bin/tool", "../pyenv/shims/tool");
    place
}

#[test]
fn pyenv_versions_are_chosen_as_pyenv_does() {
    let place = pyenv();
    let at = |version: &str| place.at(&format!("pyenv/versions/{version}/bin/tool"));
    place.write("pyenv/version", "# comment\n3.9.1 ignored\n");
    assert_eq!(place.resolve(&["tool"]).program.as_path(), at("3.9.1"));
    place.write(".python-version", "3.11\r\n");
    assert_eq!(
        place.resolve(&["tool"]).program.as_path(),
        at("3.11.12"),
        "newest of a prefix"
    );
    let chosen = |version: &str| resolve(&place.ask_with(&["tool"], &[("PYENV_VERSION", version)]));
    assert_eq!(
        chosen("2.7:python-3.11.4").unwrap().program.as_path(),
        at("3.11.4")
    );
    for version in ["4.0", "../../bin", "system"] {
        let refusal = chosen(version).unwrap_err();
        assert!(refusal.why.contains("`PYENV_VERSION`"), "{refusal}");
        assert!(refusal.hint.contains(at("3.9.1").to_str().unwrap()), "{refusal}");
    }
}

#[test]
fn pyenv_system_is_the_next_one_of_path() {
    let place = pyenv();
    let other = place.elf("other/tool");
    let mut ask = place.ask_with(&["tool"], &[("PYENV_VERSION", "system")]);
    ask.path = std::env::join_paths([place.at("pyenv/shims"), place.at("other")])
        .unwrap()
        .into();
    assert_eq!(resolved(&ask).program.as_path(), other);
}

#[test]
fn static_is_a_demand() {
    let place = Place::new();
    place.elf("bin/server");
    place.program(
        "bin/dynamic",
        super::elves::Image::loaded_by("/lib64/ld-linux-x86-64.so.2").bytes(),
    );
    let with = |name: &str| {
        let mut ask = place.ask(&[name]);
        ask.kind = RuntimeKind::Static;
        resolve(&ask)
    };
    assert_eq!(with("server").unwrap().kind, RuntimeKind::Static);
    assert!(
        with("dynamic")
            .unwrap_err()
            .why
            .contains("is not a static program")
    );
}
