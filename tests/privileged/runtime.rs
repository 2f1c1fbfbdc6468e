//! Proves that what `runtime::resolve` grants is enough: a root that holds nothing else starts the program.
//!
//! Each case resolves a command, builds that root in a mount namespace of its own (libraries mounted
//! executable, data not), allows `execve` by Landlock only for what is marked so, changes to an ordinary
//! user and runs the real program. Needs root.

mod view;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use guard_agent::{
    octets::Octets,
    runtime::{Ask, LOOKUPS, Runtime, RuntimeKind, resolve},
};
use guard_tests::fixtures;
use view::{Outcome, run};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn ask(command: &[&str], directory: &Path, path: &str, environment: &[(&str, &str)]) -> Ask {
    assert!(
        environment.iter().all(|(name, _)| LOOKUPS.contains(name)),
        "only what the agent passes on"
    );
    Ask {
        command: command.iter().map(|word| Octets::from(*word)).collect(),
        kind: RuntimeKind::Auto,
        path: path.into(),
        directory: directory.into(),
        environment: environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Octets::from(*value)))
            .collect(),
        roots: Vec::new(),
    }
}

fn resolved(ask: &Ask) -> Runtime {
    resolve(ask).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Resolves and runs; the program must end well.
fn must_run(ask: &Ask, input: &str) -> (Runtime, Outcome) {
    let runtime = resolved(ask);
    let outcome = run(&runtime, ask.directory.as_path(), &ask.path.to_string(), input);
    assert!(
        outcome.status.success(),
        "{:?}: {}\nstdout: {}\nstderr: {}\ngrants: {:#?}",
        ask.command,
        outcome.status,
        outcome.stdout,
        outcome.stderr,
        runtime.grants
    );
    (runtime, outcome)
}

fn text(path: &Path) -> &str {
    path.to_str()
        .unwrap_or_else(|| panic!("{} is not text", path.display()))
}

fn pyenv_version(home: &Path) -> PathBuf {
    let pyenv = home.join(".pyenv");
    let version = fs::read_to_string(pyenv.join("version")).unwrap_or_else(|error| panic!("{error}"));
    pyenv.join("versions").join(version.trim())
}

const PYTHON_PROBE: &str = "import ssl, sqlite3, ctypes, hashlib, asyncio, zoneinfo, decimal, lzma, bz2, curses, uuid, threading, sys; \
     t = threading.Thread(target=lambda: hashlib.sha256(b'x').hexdigest()); t.start(); t.join(); \
     ctypes.CDLL('libc.so.6').getpid(); print('ok', sys.prefix, sys.executable)";

#[test]
fn distribution_node_runs_code() {
    let code = "const c = require('crypto'); console.log('ok', c.createHash('sha256').update('x').digest('hex').length, process.execPath)";
    let (runtime, outcome) = must_run(&ask(&["node", "-e", code], Path::new("/"), PATH, &[]), "");
    assert_eq!(runtime.kind, RuntimeKind::Node);
    assert!(
        outcome.stdout.starts_with("ok 64 /usr/bin/node"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn npm_starts_through_its_links() {
    let (_, outcome) = must_run(&ask(&["npm", "--version"], Path::new("/"), PATH, &[]), "");
    assert!(
        outcome.stdout.trim().split('.').count() == 3,
        "{}",
        outcome.stdout
    );
}

#[test]
fn distribution_python_imports_what_needs_libraries() {
    let (runtime, outcome) = must_run(
        &ask(&["python3", "-c", PYTHON_PROBE], Path::new("/"), PATH, &[]),
        "",
    );
    assert_eq!(runtime.kind, RuntimeKind::Python);
    assert!(
        outcome.stdout.starts_with("ok /usr /usr/bin/python3"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn server_filesystem_answers_initialize() {
    let script = fixtures::node_server_filesystem().unwrap();
    let request = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#,
        "\n"
    );
    // The served directory would be a root of the launch; the view's own `/` stands in for it here.
    let (_, outcome) = must_run(
        &ask(&["node", text(&script), "/"], Path::new("/"), PATH, &[]),
        request,
    );
    assert!(
        outcome.stdout.contains("\"serverInfo\""),
        "{} {}",
        outcome.stdout,
        outcome.stderr
    );

    let modules = script.ancestors().find(|p| p.ends_with("node_modules")).unwrap();
    let link = modules.join(".bin/mcp-server-filesystem");
    let (runtime, outcome) = must_run(&ask(&[text(&link), "/"], Path::new("/"), PATH, &[]), request);
    assert!(outcome.stdout.contains("\"serverInfo\""), "{}", outcome.stdout);
    assert_eq!(runtime.program.as_path(), Path::new("/usr/bin/node"));
    assert!(
        runtime
            .grants
            .iter()
            .any(|grant| grant.path.as_path() == modules && grant.map && !grant.exec)
    );
}

#[test]
fn virtual_environment_starts_as_script_module_and_python() {
    let venv = fixtures::python_venv(&["mcp-server-time"]).unwrap();
    let (script, python) = (venv.join("bin/mcp-server-time"), venv.join("bin/python"));
    for command in [
        vec![text(&script), "--help"],
        vec![text(&python), "-m", "mcp_server_time", "--help"],
        vec![text(&python), text(&script), "--help"],
    ] {
        let (_, outcome) = must_run(&ask(&command, Path::new("/"), PATH, &[]), "");
        assert!(outcome.stdout.contains("local-timezone"), "{}", outcome.stdout);
    }
    let (_, outcome) = must_run(
        &ask(&[text(&python), "-c", PYTHON_PROBE], Path::new("/"), PATH, &[]),
        "",
    );
    assert!(
        outcome.stdout.contains(text(&venv)),
        "the environment is in force: {}",
        outcome.stdout
    );
}

/// Environments as uv makes them from its own Pythons (base behind a link), and with a copied interpreter.
#[test]
fn virtual_environments_of_a_linked_or_copied_interpreter() {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let version = pyenv_version(&fixtures::pyenv_home().unwrap());
    let current = place.path().join("current");
    std::os::unix::fs::symlink(&version, &current).unwrap();
    for mode in ["--symlinks", "--copies"] {
        let venv = place.path().join(mode);
        let made = Command::new(current.join("bin/python3"))
            .args(["-m", "venv", "--without-pip", mode])
            .arg(&venv)
            .status()
            .unwrap();
        assert!(made.success());
        let python = venv.join("bin/python");
        let asked = ask(&[text(&python), "-c", PYTHON_PROBE], Path::new("/"), PATH, &[]);
        let (_, outcome) = must_run(&asked, "");
        assert!(outcome.stdout.contains(text(&venv)), "{mode}: {}", outcome.stdout);
    }
}

#[test]
fn activated_environment_is_found_by_path() {
    let venv = fixtures::python_venv(&["mcp-server-time"]).unwrap();
    let path = format!("{}:{PATH}", venv.join("bin").display());
    let (_, outcome) = must_run(
        &ask(&["mcp-server-time", "--help"], Path::new("/"), &path, &[]),
        "",
    );
    assert!(outcome.stdout.contains("local-timezone"), "{}", outcome.stdout);
}

#[test]
fn nvm_layout_runs_by_path_link_and_search() {
    let home = fixtures::nvm_home().unwrap();
    let nvm = home.join(".nvm");
    let version = fs::read_dir(nvm.join("versions/node"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let current = nvm.join("current/bin/node");
    let path = format!("{}:/usr/bin", nvm.join("current/bin").display());
    for (command, path) in [
        (text(&version.join("bin/node")), PATH),
        (text(&current), PATH),
        ("node", path.as_str()),
    ] {
        let asked = ask(
            &[command, "-p", "process.execPath"],
            &home,
            path,
            &[("HOME", text(&home))],
        );
        let (_, outcome) = must_run(&asked, "");
        assert_eq!(outcome.stdout.trim(), text(&version.join("bin/node")));
    }
}

#[test]
fn pyenv_shim_runs_the_version_it_would_choose() {
    let home = fixtures::pyenv_home().unwrap();
    let path = format!("{}:{PATH}", home.join(".pyenv/shims").display());
    let asked = ask(
        &["python3", "-c", PYTHON_PROBE],
        &home,
        &path,
        &[("HOME", text(&home))],
    );
    let (_, outcome) = must_run(&asked, "");
    let version = pyenv_version(&home);
    assert!(
        outcome.stdout.starts_with(&format!("ok {}", version.display())),
        "{}",
        outcome.stdout
    );

    let asked = ask(
        &["python3", "-V"],
        &home,
        &path,
        &[("HOME", text(&home)), ("PYENV_VERSION", "3.8.1")],
    );
    let refusal = resolve(&asked).unwrap_err();
    assert!(
        refusal.why.contains("`3.8.1` (from `PYENV_VERSION`)"),
        "{refusal}"
    );
    assert!(refusal.hint.contains(text(&version)), "{refusal}");
}

/// The control of all the above: with any one library, loader or tree taken away, the same program fails.
#[test]
fn nothing_that_is_needed_comes_from_elsewhere() {
    let asked = ask(&["python3", "-c", PYTHON_PROBE], Path::new("/"), PATH, &[]);
    let full = resolved(&asked);
    for part in [
        "/libssl.so",
        "/libc.so.6",
        "/ld-linux",
        "/lib/python3.",
        "/bin/python3.",
    ] {
        let mut less = full.clone();
        less.grants.retain(|grant| !grant.path.to_string().contains(part));
        assert!(less.grants.len() < full.grants.len(), "{part} is granted");
        let outcome = run(&less, Path::new("/"), PATH, "");
        assert!(
            !outcome.status.success(),
            "without {part} it must fail: {}",
            outcome.stdout
        );
    }
    let mut unmapped = full.clone();
    for grant in &mut unmapped.grants {
        grant.map &= grant.exec;
    }
    assert!(
        !run(&unmapped, Path::new("/"), PATH, "").status.success(),
        "`map` is in force"
    );
    let mut no_exec = full;
    for grant in &mut no_exec.grants {
        grant.exec &= !grant.path.to_string().contains("/ld-linux");
    }
    assert!(
        !run(&no_exec, Path::new("/"), PATH, "").status.success(),
        "`exec` is in force"
    );
}

/// A launch has 15 ms in all. Processor time, because a busy machine says nothing about us;
/// unoptimised builds get five times as much.
#[test]
fn resolving_is_quick() {
    let script = fixtures::node_server_filesystem().unwrap();
    let venv = fixtures::python_venv(&["mcp-server-time"]).unwrap();
    let server = venv.join("bin/mcp-server-time");
    for command in [
        vec!["node", text(&script), "/"],
        vec![text(&server)],
        vec!["python3", "-c", "0"],
    ] {
        let asked = ask(&command, Path::new("/"), PATH, &[]);
        let mut times: Vec<_> = (0..21)
            .map(|_| {
                let (wall, processor) = (Instant::now(), processor_time());
                resolved(&asked);
                (processor_time() - processor, wall.elapsed())
            })
            .collect();
        times.sort();
        let (processor, wall) = times[times.len() / 2];
        eprintln!("resolve {command:?}: median {processor:?} of processor time, about {wall:?} of wall time");
        let budget = Duration::from_millis(if cfg!(debug_assertions) { 75 } else { 15 });
        assert!(
            processor > Duration::ZERO && processor < budget,
            "{command:?}: {processor:?}"
        );
    }
}

/// What this thread has run so far.
#[expect(clippy::unwrap_used, reason = "a test helper fails by panicking")]
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn an_installation_only_root_reaches_is_refused_by_name() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let closed: PathBuf = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::copy("/usr/bin/true", closed.join("server")).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (closed.as_path(), 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let asked = ask(&[text(&closed.join("server"))], Path::new("/"), PATH, &[]);
    resolve(&asked).expect("control: root reaches it");
    let refusal = view::as_user(view::USER, || resolve(&asked)).unwrap_err();
    assert!(
        refusal
            .why
            .contains(&format!("component `{}` is mode 0700 of uid 0", text(&closed))),
        "{refusal}"
    );
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    view::as_user(view::USER, || resolve(&asked)).expect("control: opened, the user reaches it");
}
