//! `cargo xtask vm`: runs a case in a virtual machine with a stock Debian kernel.
//!
//! The emulator interprets (TCG): it needs no rights and no hardware, and any kernel boots on any machine.

mod cases;
mod cpio;
mod kernel;
mod modules;
mod payload;
mod qemu;
mod spec;
mod tree;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};

pub(crate) use cases::Case;
use kernel::Kernel;
use qemu::Machine;
use spec::Spec;
use tree::Tree;

/// Modules every guest loads, where the kernel has them as modules.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "overlay", "vsock"];
const KERNELS: &[&str] = &["6.1", "6.12", kernel::NEWEST];
const TIMEOUT: Duration = Duration::from_secs(120);
/// What a machine may take for all but its case.
const BOOT_LIMIT: Duration = Duration::from_secs(90);
const OUT_DISK_BYTES: u64 = 4 << 30;

#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Kernel series: two numbers as in `6.12`, `newest`, or `all`; may be given more than once
    #[arg(long, default_value = "6.12", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Added to the kernel command line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Memory in megabytes; by default as much as the files need
    #[arg(long, value_name = "MB")]
    memory: Option<u64>,
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// Seconds the case may take
    #[arg(long, value_name = "S")]
    timeout: Option<u64>,
    /// Folder for what the case leaves in `/out`; with several machines, one folder each below it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Host file or folder for the guest, at the same place or at GUEST
    #[arg(long, value_name = "HOST[:GUEST]")]
    file: Vec<String>,
    /// Variable of the case's environment
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Further kernel module to load
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Size of an ext4 disk for `/disk`
    #[arg(long, value_name = "MB")]
    disk: Option<u64>,
    /// `test:NAME`, a path to a static binary, or a named case
    case: String,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn after_help() -> String {
    format!("Named cases:\n{}", cases::list())
}

/// A machine to run: what `cargo xtask vm` makes of its arguments, and other tasks by hand.
pub(crate) struct Vm<'a> {
    /// `6.1`, `6.12`, … or `newest`.
    pub(crate) kernel: &'a str,
    pub(crate) append: &'a str,
    pub(crate) case: &'a Case,
    /// By default as much as the files need.
    pub(crate) memory_mb: Option<u64>,
    pub(crate) cpus: u32,
    /// Where the case's files go; by default a folder that lives as long as the outcome.
    pub(crate) out: Option<&'a Path>,
    /// Whether the case's output is shown as it comes.
    pub(crate) stream: bool,
}

/// How a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Exit(i32),
    Signal(i32),
    Timeout(String),
    Panic(String),
    OutOfMemory(String),
    /// The guest could not be prepared, or its files not be brought back.
    Setup(String),
    Emulator(String),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::Timeout(what) => write!(f, "timeout ({what})"),
            Self::Panic(line) => write!(f, "{line}"),
            Self::OutOfMemory(line) => write!(f, "the guest ran out of memory: {line}"),
            Self::Setup(text) => write!(f, "the guest's init failed: {text}"),
            Self::Emulator(text) => write!(f, "the emulator failed: {text}"),
        }
    }
}

pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// Every line of the console, kernel and case.
    pub(crate) console: Vec<String>,
    /// Folder with what the case left in `/out`.
    pub(crate) files: PathBuf,
    /// From the emulator's start to the start of the case.
    pub(crate) boot: Option<Duration>,
    pub(crate) wall: Duration,
    _work: tempfile::TempDir,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let kernels: Vec<&str> = match args
        .kernel
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["all"] => KERNELS.to_vec(),
        given => given.to_vec(),
    };
    let mut list = cases::find(&args.case, &args.args)?;
    for case in &mut list {
        adjust(case, args)?;
    }
    let several = kernels.len() * list.len() > 1;
    let mut failed = None;
    for kernel in &kernels {
        for case in &list {
            let out = args.out.as_ref().map(|dir| {
                if several {
                    dir.join(format!("{kernel}-{}", case.label.replace([' ', '/'], "-")))
                } else {
                    dir.clone()
                }
            });
            let vm = Vm {
                kernel,
                append: &args.append,
                case,
                memory_mb: args.memory,
                cpus: args.cpus,
                out: out.as_deref(),
                stream: true,
            };
            failed = failed.or(judge(&run(&vm)?, case));
        }
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// The exit code of a run that did not end as its case says, with the reason printed.
fn judge(outcome: &Outcome, case: &Case) -> Option<ExitCode> {
    let result = match case.check {
        Some(check) => check(outcome),
        None if outcome.status == Status::Exit(0) => Ok(()),
        None => Err(anyhow::anyhow!("{}", outcome.status)),
    };
    let error = result.err()?;
    eprintln!("[vm] case `{}` failed: {error:#}", case.label);
    if !matches!(outcome.status, Status::Exit(_)) {
        eprintln!("[vm] last lines of the console:");
        for line in &outcome.console[outcome.console.len().saturating_sub(30)..] {
            eprintln!("    {line}");
        }
    }
    let code = match outcome.status {
        Status::Exit(code) => u8::try_from(code).unwrap_or(1).max(1),
        _ => 1,
    };
    Some(ExitCode::from(code))
}

fn adjust(case: &mut Case, args: &Args) -> Result<()> {
    case.modules.extend(args.module.iter().cloned());
    case.disk_mb = args.disk.or(case.disk_mb);
    case.timeout = args.timeout.map(Duration::from_secs).or(case.timeout);
    for pair in &args.env {
        let (name, value) = pair
            .split_once('=')
            .with_context(|| format!("`--env {pair}` is not NAME=VALUE"))?;
        case.env.push((name.to_owned(), value.to_owned()));
    }
    for file in &args.file {
        let (host, guest) = file.split_once(':').unwrap_or((file, file));
        let host = fs::canonicalize(host).with_context(|| format!("find `{host}`"))?;
        let guest = if file.contains(':') {
            PathBuf::from(guest)
        } else {
            host.clone()
        };
        case.files.host_at(&host, &guest)?;
    }
    Ok(())
}

/// Boots a machine, runs its case and brings back verdict and files. Fails only where no machine ran.
pub(crate) fn run(vm: &Vm<'_>) -> Result<Outcome> {
    crate::apt::ensure_programs(&[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("mkfs.ext4", "e2fsprogs"),
        ("xz", "xz-utils"),
    ])?;
    let cache = cache_dir();
    let kernel = kernel::get(&cache, vm.kernel)?;
    let name = format!("[vm {}]", kernel.version);
    let work = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&cache)
        .context("create a work folder")?;
    let timeout = vm.case.timeout.unwrap_or(TIMEOUT);
    let initrd = work.path().join("initrd");
    let bytes = build_initrd(vm.case, &kernel, timeout, &initrd)?;
    let out_disk = work.path().join("out.img");
    let data_disk = work.path().join("data.img");
    sparse(&out_disk, OUT_DISK_BYTES)?;
    let mut disks = vec![(out_disk.as_path(), spec::OUT_SERIAL)];
    if let Some(mb) = vm.case.disk_mb {
        make_ext4(&data_disk, mb)?;
        disks.push((&data_disk, spec::DATA_SERIAL));
    }
    // The archive and the files unpacked from it are in memory at once, files in a tmpfs of half of it.
    let needed = 512 + 3 * (bytes >> 20);
    let machine = Machine {
        kernel: &kernel.vmlinuz,
        initrd: &initrd,
        disks: &disks,
        append: vm.append,
        memory_mb: vm.memory_mb.or(vm.case.memory_mb).unwrap_or(needed),
        cpus: vm.cpus,
        limit: timeout + BOOT_LIMIT,
        stream: vm.stream,
    };
    eprintln!(
        "{name} booting `{}`, initramfs {} MB, memory {} MB",
        vm.case.label,
        bytes >> 20,
        machine.memory_mb
    );
    let start = Instant::now();
    let ran = qemu::run(&machine)?;
    let wall = start.elapsed();
    let files = work.path().join("files");
    fs::create_dir(&files).context("create a folder for the case's files")?;
    let verdict = qemu::unpack(&out_disk, &files)?;
    let status = qemu::judge(&ran, verdict);
    let boot = ran.boot.map_or_else(
        || "not reached".to_owned(),
        |boot| format!("{:.1} s", boot.as_secs_f64()),
    );
    eprintln!(
        "{name} case after {boot}, end after {:.1} s, verdict {status}",
        wall.as_secs_f64()
    );
    let files = place(&files.join(spec::FILES_NAME), vm.out)?;
    Ok(Outcome {
        status,
        console: ran.console,
        files,
        boot: ran.boot,
        wall,
        _work: work,
    })
}

fn place(files: &Path, out: Option<&Path>) -> Result<PathBuf> {
    // A machine that died left none; the folder is there all the same.
    fs::create_dir_all(files).with_context(|| format!("create `{}`", files.display()))?;
    let Some(out) = out else {
        return Ok(files.to_owned());
    };
    fs::create_dir_all(out).with_context(|| format!("create `{}`", out.display()))?;
    let done = Command::new("cp")
        .arg("-a")
        .arg(files.join("."))
        .arg(out)
        .status()
        .context("start `cp`")?;
    ensure!(
        done.success(),
        "copy the case's files to `{}`: `cp` ended with {done}",
        out.display()
    );
    Ok(out.to_owned())
}

/// Writes the initramfs, and returns its size. The kernel takes archives one after the other, so the large
/// trees keep their archive in the cache. Nothing is compressed: unpacking would run in the emulator.
fn build_initrd(case: &Case, kernel: &Kernel, timeout: Duration, path: &Path) -> Result<u64> {
    let init = payload::init()?;
    let mut tree = payload::base();
    tree.file("/init", init, 0o755);
    let mut names: Vec<String> = MODULES.iter().map(|name| (*name).to_owned()).collect();
    names.extend(case.modules.iter().cloned());
    let mut modules = Vec::new();
    for module in kernel.modules.load_order(&names)? {
        let at = format!("/.vm/modules/{}.ko", module.name);
        tree.bytes(&at, &module.bytes, 0o600);
        modules.push(at);
    }
    let spec = Spec {
        argv: case.argv.clone(),
        env: environment(case),
        modules,
        timeout_s: timeout.as_secs(),
        disk: case.disk_mb.is_some(),
    };
    tree.bytes(
        spec::SPEC_PATH,
        &serde_json::to_vec(&spec).context("encode the case")?,
        0o600,
    );

    let file = File::create(path).with_context(|| format!("create `{}`", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    cpio::write(&tree, &mut out)?;
    for layer in &case.layers {
        let mut archive = File::open(layer_archive(layer)?).context("open a cached archive")?;
        out.flush().context("write the initramfs")?;
        io::copy(&mut archive, out.get_mut()).context("append a cached archive")?;
    }
    if !case.files.is_empty() {
        cpio::write(&case.files, &mut out)?;
    }
    out.flush().context("write the initramfs")?;
    Ok(out
        .get_ref()
        .metadata()
        .context("read the initramfs' size")?
        .len())
}

fn environment(case: &Case) -> Vec<(String, String)> {
    let defaults = [
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("RUST_BACKTRACE", "1"),
    ];
    let mut all: Vec<_> = defaults
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    all.extend(case.env.iter().cloned());
    all
}

fn layer_archive(layer: &Tree) -> Result<PathBuf> {
    let dir = cache_dir().join("layers");
    fs::create_dir_all(&dir).with_context(|| format!("create `{}`", dir.display()))?;
    let path = dir.join(format!("{}.cpio", layer.key()?));
    if let Ok(file) = File::options().append(true).open(&path) {
        let _ = file.set_modified(SystemTime::now());
        return Ok(path);
    }
    drop_old(&dir);
    eprintln!("[vm] archiving {} MB of files", layer.size()? >> 20);
    let mut fresh = tempfile::NamedTempFile::new_in(&dir).context("create an archive")?;
    let mut out = BufWriter::with_capacity(1 << 20, fresh.as_file_mut());
    cpio::write(layer, &mut out)?;
    out.flush().context("write an archive")?;
    drop(out);
    fresh
        .persist(&path)
        .with_context(|| format!("move an archive to `{}`", path.display()))?;
    Ok(path)
}

/// Archives no machine used for a week.
fn drop_old(dir: &Path) {
    let week = Duration::from_secs(7 * 24 * 3600);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let age = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > week) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sparse(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("create `{}`", path.display()))?;
    file.set_len(bytes)
        .with_context(|| format!("size `{}`", path.display()))
}

fn make_ext4(path: &Path, mb: u64) -> Result<()> {
    sparse(path, mb << 20)?;
    let tool = if crate::apt::in_path("mkfs.ext4") {
        "/usr/sbin/mkfs.ext4"
    } else {
        "mkfs.ext4"
    };
    crate::apt::output(Command::new(tool).args(["-q", "-F"]).arg(path))
        .context("make an ext4 image")
        .map(drop)
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_owned()
}

pub(crate) fn cache_dir() -> PathBuf {
    workspace().join("target/vm")
}
