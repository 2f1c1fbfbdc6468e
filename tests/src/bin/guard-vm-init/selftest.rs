//! The runner's own cases: what a guest must offer, and the ways a guest can end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statfs::{EXT4_SUPER_MAGIC, statfs};
use nix::unistd::{getppid, pivot_root};

use crate::say;

pub(crate) fn tool(args: &[String]) -> ExitCode {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["selftest"] => run_checks(),
        ["exit", code] => ExitCode::from(code.parse::<u8>().unwrap_or(255)),
        ["hang"] => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        ["oom"] => eat_memory(),
        ["panic"] => report(fs::write("/proc/sysrq-trigger", "c").context("write `/proc/sysrq-trigger`")),
        ["pivot"] => report(pivot()),
        ["orphan"] => report(start("sleeper").map(drop)),
        ["sleeper"] => report(sleeper()),
        other => report(Err(anyhow::anyhow!("unknown arguments {other:?}"))),
    }
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("FAIL {error:#}"));
            ExitCode::FAILURE
        }
    }
}

type Check = (&'static str, fn() -> Result<()>);

fn run_checks() -> ExitCode {
    let checks: [Check; 9] = [
        ("only root writes to `/`", root_folder),
        ("pivot_root works below the root the case sees", pivot_in_child),
        (
            "cgroup v2 gives memory, cpu and pids to children",
            cgroup_controllers,
        ),
        ("the kernel brings its BTF", btf),
        ("`bpf` is among the active security modules", bpf_lsm),
        ("the loopback is up for IPv4 and IPv6", loopback),
        ("`/disk` is a writable ext4", ext4),
        ("orphans are reaped", orphans),
        ("files go to `/out`", leave_files),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        match check() {
            Ok(()) => say(&format!("ok   {name}")),
            Err(error) => {
                failed += 1;
                say(&format!("FAIL {name}: {error:#}"));
            }
        }
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn start(what: &str) -> Result<std::process::Child> {
    Command::new("/proc/self/exe")
        .arg(what)
        .spawn()
        .with_context(|| format!("start `{what}`"))
}

fn root_folder() -> Result<()> {
    let mode = fs::metadata("/").context("stat `/`")?.permissions().mode() & 0o7777;
    ensure!(mode == 0o755, "its mode is {mode:o}");
    Ok(())
}

fn pivot_in_child() -> Result<()> {
    let status = start("pivot")?.wait().context("wait for `pivot`")?;
    ensure!(status.success(), "`pivot` ended with {status}");
    Ok(())
}

fn pivot() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("unshare mounts")?;
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_PRIVATE | MsFlags::MS_REC,
        None::<&str>,
    )
    .context("make `/` private")?;
    mount(
        Some("tmpfs"),
        "/tmp",
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .context("mount a tmpfs")?;
    fs::create_dir("/tmp/old").context("create `old`")?;
    pivot_root("/tmp", "/tmp/old").context("pivot_root")?;
    std::env::set_current_dir("/").context("enter `/`")?;
    umount2("/old", MntFlags::MNT_DETACH).context("detach the old root")?;
    let left: Vec<_> = fs::read_dir("/")
        .context("list `/`")?
        .filter_map(|e| Some(e.ok()?.file_name()))
        .collect();
    ensure!(left == ["old"], "the new root holds {left:?}");
    Ok(())
}

fn cgroup_controllers() -> Result<()> {
    let dir = Path::new("/sys/fs/cgroup/selftest");
    fs::create_dir(dir).context("create a cgroup")?;
    let have = fs::read_to_string(dir.join("cgroup.controllers")).context("read `cgroup.controllers`")?;
    for wanted in ["memory", "cpu", "pids"] {
        ensure!(
            have.split_whitespace().any(|name| name == wanted),
            "no `{wanted}` among `{}`",
            have.trim_end()
        );
    }
    for (file, value) in [
        ("memory.max", "16777216"),
        ("pids.max", "5"),
        ("cpu.max", "1000 100000"),
    ] {
        fs::write(dir.join(file), value).with_context(|| format!("write `{file}`"))?;
    }
    fs::remove_dir(dir).context("remove the cgroup")
}

fn btf() -> Result<()> {
    let mut magic = [0; 2];
    let mut file = fs::File::open("/sys/kernel/btf/vmlinux").context("open `/sys/kernel/btf/vmlinux`")?;
    file.read_exact(&mut magic).context("read the magic")?;
    ensure!(u16::from_le_bytes(magic) == 0xeb9f, "magic {magic:x?}");
    Ok(())
}

fn bpf_lsm() -> Result<()> {
    let active = fs::read_to_string("/sys/kernel/security/lsm").context("read `/sys/kernel/security/lsm`")?;
    ensure!(
        active.split(',').any(|name| name == "bpf"),
        "active are `{active}`"
    );
    Ok(())
}

fn loopback() -> Result<()> {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).with_context(|| format!("bind `{address}`"))?;
        let mut client =
            TcpStream::connect(listener.local_addr().context("local address")?).context("connect")?;
        let (mut server, _) = listener.accept().context("accept")?;
        client.write_all(b"ping").context("send")?;
        let mut got = [0; 4];
        server.read_exact(&mut got).context("receive")?;
        ensure!(&got == b"ping", "received {got:?}");
    }
    Ok(())
}

fn ext4() -> Result<()> {
    let kind = statfs("/disk").context("statfs `/disk`")?.filesystem_type();
    ensure!(kind == EXT4_SUPER_MAGIC, "its type is {kind:?}");
    fs::write("/disk/file", "text").context("write")?;
    ensure!(
        fs::read_to_string("/disk/file").context("read")? == "text",
        "another text came back"
    );
    Ok(())
}

/// `orphan` starts `sleeper` and ends; when its turn is over, no zombie may be left.
fn orphans() -> Result<()> {
    let _ = fs::remove_file("/tmp/sleeper");
    ensure!(
        start("orphan")?.wait().context("wait")?.success(),
        "`orphan` failed"
    );
    let end = Instant::now() + Duration::from_secs(20);
    let mut pid = None;
    while Instant::now() < end {
        pid = pid.or_else(|| {
            fs::read_to_string("/tmp/sleeper")
                .ok()
                .filter(|text| !text.is_empty())
        });
        if pid
            .as_ref()
            .is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("process {pid:?} is still there")
}

fn sleeper() -> Result<()> {
    while getppid().as_raw() != 1 {
        thread::sleep(Duration::from_millis(10));
    }
    fs::write("/tmp/sleeper.new", std::process::id().to_string()).context("write the pid")?;
    fs::rename("/tmp/sleeper.new", "/tmp/sleeper").context("publish the pid")
}

/// Every byte value, a folder, a symlink and a mode: the host compares them (`vm/cases.rs`).
fn leave_files() -> Result<()> {
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    fs::write("/out/bytes", bytes).context("write `/out/bytes`")?;
    fs::create_dir_all("/out/folder/deep").context("create `/out/folder/deep`")?;
    fs::write("/out/folder/deep/private", "text").context("write `private`")?;
    fs::set_permissions("/out/folder/deep/private", fs::Permissions::from_mode(0o600)).context("chmod")?;
    symlink("folder/deep/private", "/out/link").context("create a symlink")
}

fn eat_memory() -> ExitCode {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(vec![1; 1 << 20]);
        if all.len() > 1 << 20 {
            return ExitCode::FAILURE;
        }
    }
}
