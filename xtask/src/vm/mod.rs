//! `cargo xtask vm`: runs a case in a virtual machine with a stock Debian kernel.
//!
//! The emulator interprets (TCG): it needs no rights and no hardware, and any kernel boots on any machine.

mod cases;
mod cli;
mod cpio;
mod initrd;
pub(crate) mod kernel;
mod modules;
mod payload;
mod qemu;
mod spec;
mod tree;

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

pub(crate) use cases::{Case, binary_case, layer, test_build};
pub(crate) use cli::{Args, main};
pub(crate) use payload::{build, stripped};
use qemu::Machine;
pub(crate) use tree::Tree;

const TIMEOUT: Duration = Duration::from_secs(120);
/// What a machine may take for all but its case: 5 s on an idle core, 25 s where five others want it.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const OUT_DISK_BYTES: u64 = 4 << 30;

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
    /// The guest's clock counts instructions: a nanosecond each. One processor only.
    pub(crate) counted: bool,
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
    /// The kernel's, as in `6.1.192`.
    pub(crate) version: String,
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

/// Boots a machine, runs its case and brings back verdict and files. Fails only where no machine ran.
pub(crate) fn run(vm: &Vm<'_>) -> Result<Outcome> {
    let cache = cache_dir();
    let kernel = prepare(&cache, vm.kernel)?;
    let name = format!("[vm {}]", kernel.version);
    let work = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&cache)
        .context("create a work folder")?;
    let timeout = vm.case.timeout.unwrap_or(TIMEOUT);
    let initrd = work.path().join("initrd");
    let bytes = initrd::build(vm.case, &kernel, timeout, &initrd)?;
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
        counted: vm.counted,
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
        version: kernel.version,
        status,
        console: ran.console,
        files,
        boot: ran.boot,
        wall,
        _work: work,
    })
}

/// Gets emulator and kernel.
fn prepare(cache: &Path, series: &str) -> Result<kernel::Kernel> {
    let lock = lock(cache)?;
    crate::apt::ensure_programs(&[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("mkfs.ext4", "e2fsprogs"),
        ("xz", "xz-utils"),
    ])?;
    drop(lock);
    kernel::get(cache, series)
}

/// The cache, for one alone until what this returns is dropped. Machines start beside each other, and the first ones find
/// nothing there: `apt-get` refuses to run twice, and a file half unpacked is one that is there.
fn lock(cache: &Path) -> Result<File> {
    fs::create_dir_all(cache).with_context(|| format!("create `{}`", cache.display()))?;
    let at = cache.join("lock");
    let lock = File::create(&at).with_context(|| format!("create `{}`", at.display()))?;
    lock.lock().with_context(|| format!("lock `{}`", at.display()))?;
    Ok(lock)
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

fn sparse(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("create `{}`", path.display()))?;
    file.set_len(bytes)
        .with_context(|| format!("size `{}`", path.display()))
}

fn make_ext4(path: &Path, mb: u64) -> Result<()> {
    sparse(path, mb << 20)?;
    let tool = crate::apt::program("mkfs.ext4").context("no `mkfs.ext4`: install `e2fsprogs`")?;
    crate::apt::output(Command::new(tool).args(["-q", "-F"]).arg(path))
        .context("make an ext4 image")
        .map(drop)
}

pub(crate) fn cache_dir() -> PathBuf {
    crate::workspace().join("target/vm")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_cache_is_one_runners_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, note) = (dir.path().join("vm"), dir.path().join("note"));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let lock = lock(&cache).unwrap();
                    assert!(!note.exists(), "another one is at work");
                    fs::write(&note, "").unwrap();
                    thread::sleep(Duration::from_millis(30));
                    fs::remove_file(&note).unwrap();
                    drop(lock);
                });
            }
        });
        assert!(cache.join("lock").is_file());
    }
}
