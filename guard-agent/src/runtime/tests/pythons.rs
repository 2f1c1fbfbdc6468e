//! Python: prefix, virtual environments, projects, and what path files may open.

use super::{Place, elves::Image, granted, grants, resolved};
use crate::runtime::{RuntimeKind, python::is_python, resolve};

/// An interpreter with its library under `py`, and its `python3` in `PATH`.
fn python() -> Place {
    let place = Place::new();
    place.elf("py/bin/python3.12");
    place.write("py/lib/python3.12/os.py", "");
    place.link("py/bin/python3", "python3.12");
    place.link("bin/python3", "../py/bin/python3");
    place
}

fn venv(place: &Place) {
    place.write(
        "venv/pyvenv.cfg",
        format!("home = {}\nversion = 3.12.1\n", place.at("py/bin").display()),
    );
    place.link("venv/bin/python", place.at("py/bin/python3").to_str().unwrap());
    place.write("venv/lib/python3.12/site-packages/mod.py", "");
}

#[test]
fn names_of_python() {
    for (name, expected) in [
        ("python", true),
        ("python3", true),
        ("python3.13t", true),
        ("python3-config", false),
        ("pythonw.exe", false),
        ("pypy3", false),
    ] {
        assert_eq!(is_python(name.as_ref()), expected, "{name}");
    }
}

#[test]
fn the_library_is_found_above_the_interpreter() {
    let place = python();
    let runtime = place.resolve(&["python3", "-c", "0"]);
    assert_eq!(runtime.kind, RuntimeKind::Python);
    assert_eq!(
        granted(&runtime),
        [place.at("py/bin/python3.12"), place.at("py/lib/python3.12")]
    );
    assert_eq!(
        runtime.argv[0], runtime.program,
        "Python finds itself by its first argument"
    );
    assert_eq!(runtime.links.len(), 2, "{:?}", runtime.links);
}

#[test]
fn without_a_library_it_is_refused() {
    let place = Place::new();
    place.elf("bin/python3.99");
    assert!(place.refused(&["python3.99"]).why.contains("no standard library"));
}

#[test]
fn a_virtual_environment_and_what_it_was_made_from() {
    let place = python();
    venv(&place);
    place.program(
        "venv/bin/tool",
        format!("#!{}\n", place.at("venv/bin/python").display()),
    );
    place.write("pyproject.toml", "");
    for command in [vec!["venv/bin/python", "-m", "mod"], vec!["venv/bin/tool"]] {
        let runtime = place.resolve(&command);
        assert_eq!(runtime.program.as_path(), place.at("venv/bin/python"));
        assert_eq!(
            granted(&runtime),
            [
                place.at("py/bin/python3.12"),
                place.at("py/lib/python3.12"),
                place.at("venv")
            ],
            "{command:?}: the project around the environment is not part of it"
        );
        assert_eq!(
            runtime.links.len(),
            1,
            "the environment's own links are in its tree: {:?}",
            runtime.links
        );
    }
}

#[test]
fn a_copied_interpreter_in_a_virtual_environment_is_executable() {
    let place = python();
    venv(&place);
    std::fs::remove_file(place.at("venv/bin/python")).unwrap();
    place.elf("venv/bin/python");
    let runtime = place.resolve(&["venv/bin/python"]);
    let grant = runtime
        .grants
        .iter()
        .find(|grant| grant.path.as_path() == place.at("venv/bin/python"));
    assert!(grant.is_some_and(|grant| grant.exec), "{:?}", runtime.grants);
    assert!(grants(&runtime, &place.at("py/lib/python3.12")));
}

#[test]
fn a_script_brings_project_package_or_itself() {
    let place = python();
    let alone = place.write("scripts/server.py", "");
    assert!(grants(&place.resolve(&["python3", "scripts/server.py"]), &alone));
    place.write("scripts/pkg/__init__.py", "");
    place.write("scripts/pkg/sub/__init__.py", "");
    place.write("scripts/pkg/sub/main.py", "");
    assert!(grants(
        &place.resolve(&["python3", "scripts/pkg/sub/main.py"]),
        &place.at("scripts/pkg")
    ));
    place.write("scripts/pyproject.toml", "");
    assert!(grants(
        &place.resolve(&["python3", "scripts/pkg/sub/main.py"]),
        &place.at("scripts")
    ));
    assert!(
        place
            .refused(&["python3", "absent.py"])
            .why
            .contains("its script")
    );
}

#[test]
fn a_module_of_the_working_directory_is_found_first() {
    let place = python();
    place.write("pkg/__init__.py", "");
    assert!(grants(
        &place.resolve(&["python3", "-m", "pkg.server"]),
        &place.at("pkg")
    ));
}

#[test]
fn path_files_open_the_project_and_nothing_else() {
    let place = python();
    venv(&place);
    place.write("pyproject.toml", "");
    place.write("src/project/pyproject.toml", "");
    place.write("src/project/lib/mod.py", "");
    place.write("src/other/setup.py", "");
    place.write("private/key", "secret");
    let site = "venv/lib/python3.12/site-packages";
    let at = |path: &str| place.at(path).display().to_string();
    let elsewhere = python();
    elsewhere.write("wide/setup.py", "");
    place.write(
        &format!("{site}/__editable__.a.pth"),
        format!("{}\nimport os\n", at("src/project/lib")),
    );
    place.write(
        &format!("{site}/__editable___b_finder.py"),
        format!("MAPPING: dict[str, str] = {{'b': '{}'}}\n", at("src/other")),
    );
    place.write(
        &format!("{site}/hostile.pth"),
        format!("/\n/etc\n{}\n", elsewhere.at("wide").display()),
    );
    let runtime = place.resolve(&["venv/bin/python", "-c", "0"]);
    assert!(grants(&runtime, &place.at("src/project")) && grants(&runtime, &place.at("src/other")));
    assert!(
        !granted(&runtime)
            .iter()
            .any(|path| path.starts_with(elsewhere.at("wide")) || path.ends_with("etc"))
    );
    assert!(
        runtime.notes.iter().any(|note| note.contains("hostile.pth")),
        "{:?}",
        runtime.notes
    );
}

#[test]
fn libraries_of_extension_modules_come_along() {
    let place = python();
    let module = Image::library("_x.so")
        .needs("libwheel.so")
        .rpath("$ORIGIN/../../../wheel");
    place.write("py/lib/python3.12/lib-dynload/_x.so", module.bytes());
    let library = place.write("py/wheel/libwheel.so", Image::library("libwheel.so").bytes());
    assert!(grants(&place.resolve(&["python3"]), &library));
}

#[test]
fn extension_modules_are_found_by_record_and_without() {
    let place = python();
    let site = "py/lib/python3.12/site-packages";
    for name in ["listed", "unlisted", "hidden"] {
        let library = format!("lib{name}.so");
        place.write(&format!("libs/{library}"), Image::library(&library).bytes());
        let module = Image::library("_m.so")
            .needs(&library)
            .rpath(place.at("libs").to_str().unwrap());
        place.write(&format!("{site}/{name}/deep/_m.so"), module.bytes());
    }
    place.write(
        &format!("{site}/listed-1.dist-info/RECORD"),
        "listed/deep/_m.so,sha256=x,1\n../../../bin/x,,\n",
    );
    place.write(
        &format!("{site}/hidden-1.dist-info/RECORD"),
        "hidden/__init__.py,,\n",
    );
    let runtime = place.resolve(&["python3"]);
    assert!(grants(&runtime, &place.at("libs/liblisted.so")));
    assert!(grants(&runtime, &place.at("libs/libunlisted.so")));
    assert!(
        !grants(&runtime, &place.at("libs/libhidden.so")),
        "the list is taken at its word: no walk"
    );
}

#[test]
fn packages_of_the_user_and_of_the_search_path() {
    let place = python();
    place.write("home/.local/lib/python3.12/site-packages/mod.py", "");
    place.write("extra/mod.py", "");
    let (home, extra) = (place.at("home"), place.at("extra"));
    let variables = [
        ("HOME", home.to_str().unwrap()),
        ("PYTHONPATH", extra.to_str().unwrap()),
    ];
    let runtime = resolved(&place.ask_with(&["python3", "-c", "0"], &variables));
    assert!(grants(
        &runtime,
        &home.join(".local/lib/python3.12/site-packages")
    ));
    assert!(grants(&runtime, &extra));
    assert!(resolve(&place.ask(&["python3"])).is_ok());
}
