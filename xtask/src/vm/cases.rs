//! The named cases, and the cases that are a test binary.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::payload;
use super::tree::Tree;
use super::{Outcome, Status};
use crate::{fixtures, setup};

/// What runs in the guest, and what it needs there.
#[derive(Default)]
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Files of the guest. Large trees that rarely change belong in `layers`.
    pub(crate) files: Tree,
    /// Trees whose archives are kept in the cache.
    pub(crate) layers: Vec<Tree>,
    /// Modules beyond the ones every guest loads.
    pub(crate) modules: Vec<String>,
    /// Megabytes of an ext4 disk mounted at `/disk`.
    pub(crate) disk_mb: Option<u64>,
    /// Directories of the guest that are empty for the case.
    pub(crate) hide: Vec<String>,
    pub(crate) memory_mb: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    /// What must be true of the end; without it, exit 0.
    pub(crate) check: Option<fn(&Outcome) -> Result<()>>,
}

impl Case {
    pub(crate) fn new(label: &str, argv: &[&str]) -> Self {
        Self {
            label: label.to_owned(),
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            ..Self::default()
        }
    }
}

struct Named {
    name: &'static str,
    about: &'static str,
    make: fn(&[String]) -> Result<Vec<Case>>,
}

/// What a host loads by itself when a program asks for such a socket: a probe of a kernel without the family
/// would prove nothing. `dummy` is an interface besides `lo`.
const FAMILIES: &[&str] = &[
    "af_alg",
    "algif_hash",
    "algif_skcipher",
    "af_key",
    "kcm",
    "rds",
    "sctp",
    "smc",
    "tipc",
    "fuse",
    "dummy",
];

const GUEST_FIXTURES: &str = "/opt/fixtures";

const NAMED: &[Named] = &[
    Named {
        name: "selftest",
        about: "what a guest offers, and the ways it can end",
        make: selftest,
    },
    Named {
        name: "shell",
        about: "run a shell command: `shell 'ls -l /'`",
        make: shell,
    },
    Named {
        name: "node",
        about: "run the host's node: `node -e 'console.log(1)'`",
        make: node,
    },
    Named {
        name: "python",
        about: "run the distribution's python: `python -c 'print(1)'`",
        make: python,
    },
    Named {
        name: "vm_servers",
        about: "real node and python MCP servers under the agent",
        make: servers,
    },
];

/// One line for each named case.
pub(crate) fn list() -> String {
    NAMED
        .iter()
        .map(|case| format!("  {:<10}{}\n", case.name, case.about))
        .collect()
}

/// The cases of a `CASE [ARG]…` command line.
pub(crate) fn find(name: &str, args: &[String], faults: bool) -> Result<Vec<Case>> {
    ensure!(
        !faults || name.starts_with("test:"),
        "`--faults` is for `test:` cases"
    );
    if let Some(named) = NAMED.iter().find(|named| named.name == name) {
        return (named.make)(args);
    }
    if let Some(test) = name.strip_prefix("test:") {
        return Ok(vec![test_case(test, args, faults)?]);
    }
    if let Some(package) = name.strip_prefix("unit:") {
        let mut built = payload::build(&["test", "--no-run", "-p", package, "--lib"])?;
        let program = built
            .pop()
            .with_context(|| format!("cargo built no unit tests of `{package}`"))?;
        return Ok(vec![binary_case(name, &program.path, args)?]);
    }
    if name.contains('/') {
        return Ok(vec![binary_case(name, Path::new(name), args)?]);
    }
    bail!(
        "no case `{name}`; there are `test:NAME`, `unit:PACKAGE`, a path to a static binary, and:\n{}",
        list()
    )
}

/// A test of the `guard-tests` package. The agent and the package's programs lie beside it in `/case`, the
/// package's files are below `GUARD_TESTS_DIR`. With `faults` the agent fails on request.
pub(crate) fn test_case(test: &str, args: &[String], faults: bool) -> Result<Case> {
    let built = payload::build(&test_build(test, faults))?;
    let mut case = Case::new(test, &[&format!("/case/{test}")]);
    case.argv.extend_from_slice(args);
    for program in built {
        case.files.file(
            format!("/case/{}", program.name),
            &payload::stripped(&program.path)?,
            0o755,
        );
    }
    let sources = crate::workspace().join("tests");
    case.files
        .host_filtered(&sources, Path::new("/case/tests"), |path| {
            path.extension().is_none_or(|extension| extension != "rs")
        })?;
    // Tests copy a dynamic program of the host.
    case.files.elf(Path::new("/usr/bin/true"))?;
    case.modules
        .extend(FAMILIES.iter().map(|name| (*name).to_owned()));
    case.disk_mb = Some(512);
    case.env
        .push(("GUARD_TESTS_DIR".to_owned(), "/case/tests".to_owned()));
    Ok(case)
}

/// What cargo is told to build of it.
pub(crate) fn test_build(test: &str, faults: bool) -> Vec<&str> {
    let mut cargo = vec![
        "build",
        "-p",
        "guard-agent",
        "-p",
        "guard-tests",
        "--bins",
        "--test",
        test,
    ];
    if faults {
        cargo.extend(["--features", "guard-agent/faults"]);
    }
    cargo
}

/// A further tree by name, for `--with`.
pub(crate) fn layer(name: &str) -> Result<Tree> {
    match name {
        "shell" => payload::shell(),
        "coreutils" => payload::coreutils(),
        "node" => payload::node(&[]),
        "python" => payload::python(&[]),
        _ => bail!(
            "nothing called `{name}` to bring along; there are `shell`, `coreutils`, `node` and `python`"
        ),
    }
}

/// A static program of the host as `/case/NAME`.
pub(crate) fn binary_case(label: &str, binary: &Path, args: &[String]) -> Result<Case> {
    let bytes = fs::read(binary).with_context(|| format!("read `{}`", binary.display()))?;
    let elf =
        goblin::elf::Elf::parse(&bytes).with_context(|| format!("`{}` is no ELF file", binary.display()))?;
    ensure!(
        elf.interpreter.is_none(),
        "`{}` is dynamic: the guest has no libraries for it; link it statically",
        binary.display()
    );
    let at = format!(
        "/case/{}",
        binary.file_name().unwrap_or_default().to_string_lossy()
    );
    let mut case = Case {
        label: label.to_owned(),
        argv: vec![at.clone()],
        ..Case::default()
    };
    case.argv.extend_from_slice(args);
    case.files.file(&at, binary, 0o755);
    Ok(case)
}

fn shell(args: &[String]) -> Result<Vec<Case>> {
    ensure!(!args.is_empty(), "`shell` needs a command");
    let mut case = Case::new("shell", &["/bin/sh", "-c"]);
    case.argv.push(args.join(" "));
    case.layers.push(payload::shell()?);
    Ok(vec![case])
}

fn node(args: &[String]) -> Result<Vec<Case>> {
    let mut case = Case::new("node", &["/usr/bin/node"]);
    case.argv.extend_from_slice(args);
    case.layers = vec![payload::shell()?, payload::node(&[])?];
    Ok(vec![case])
}

fn python(args: &[String]) -> Result<Vec<Case>> {
    let mut case = Case::new("python", &["/usr/bin/python3"]);
    case.argv.extend_from_slice(args);
    case.layers = vec![payload::shell()?, payload::python(&[])?];
    Ok(vec![case])
}

/// The `vm_servers` test with what `tests/src/fixtures.rs` installs, where every user of the guest can reach it.
fn servers(args: &[String]) -> Result<Vec<Case>> {
    let lock = super::lock(&super::cache_dir())?;
    setup::node()?;
    setup::python()?;
    fixtures::keep_in(setup::fixtures()?);
    fixtures::node_server_filesystem()?;
    let time = fixtures::python_venv(&["mcp-server-time"])?;
    drop(lock);
    let place = fixtures::directory()
        .canonicalize()
        .context("find the fixtures")?;
    let name = |path: &Path| Path::new(GUEST_FIXTURES).join(path.file_name().unwrap_or_default());
    let filesystem = place.join("server-filesystem");
    let mut case = test_case("vm_servers", args, false)?;
    case.layers = vec![
        payload::shell()?,
        payload::node(&[(&filesystem, &name(&filesystem))])?,
        payload::python(&[(&time, &name(&time))])?,
    ];
    case.env
        .push(("GUARD_FIXTURES".to_owned(), GUEST_FIXTURES.to_owned()));
    case.timeout = Some(Duration::from_secs(300));
    Ok(vec![case])
}

fn selftest(args: &[String]) -> Result<Vec<Case>> {
    ensure!(args.is_empty(), "`selftest` takes no arguments");
    let tool = |label: &str, args: &[&str]| {
        let mut case = Case::new(label, &["/init"]);
        case.argv.extend(args.iter().map(|arg| (*arg).to_owned()));
        case
    };
    let mut guest = tool("guest", &["selftest"]);
    guest.disk_mb = Some(64);
    guest.check = Some(check_guest);
    let mut exit = tool("exit code", &["exit", "7"]);
    exit.check = Some(|outcome| expect(outcome, "exit 7", |status| *status == Status::Exit(7)));
    let mut panic = tool("panic", &["panic"]);
    panic.check = Some(|outcome| expect(outcome, "a panic", |status| matches!(status, Status::Panic(_))));
    let mut hang = tool("hang", &["hang"]);
    hang.timeout = Some(Duration::from_secs(2));
    hang.check = Some(|outcome| {
        expect(outcome, "a timeout", |status| {
            matches!(status, Status::Timeout(_))
        })
    });
    let mut oom = tool("out of memory", &["oom"]);
    oom.memory_mb = Some(256);
    oom.check = Some(|outcome| {
        expect(outcome, "out of memory", |status| {
            matches!(status, Status::OutOfMemory(_))
        })
    });
    Ok(vec![guest, exit, panic, hang, oom])
}

fn expect(outcome: &Outcome, what: &str, holds: impl Fn(&Status) -> bool) -> Result<()> {
    ensure!(holds(&outcome.status), "expected {what}, got {}", outcome.status);
    Ok(())
}

/// The other half of the guest's `leave_files`.
fn check_guest(outcome: &Outcome) -> Result<()> {
    expect(outcome, "exit 0", |status| *status == Status::Exit(0))?;
    let files = &outcome.files;
    let bytes = fs::read(files.join("bytes")).context("read `bytes`")?;
    let expected: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    ensure!(
        bytes == expected,
        "`bytes` came back changed ({} bytes)",
        bytes.len()
    );
    let link = fs::read_link(files.join("link")).context("read `link`")?;
    ensure!(
        link == Path::new("folder/deep/private"),
        "`link` leads to `{}`",
        link.display()
    );
    let mode = fs::metadata(files.join("link"))
        .context("follow `link`")?
        .permissions()
        .mode()
        & 0o777;
    ensure!(mode == 0o600, "`private` came back with mode {mode:o}");
    Ok(())
}
