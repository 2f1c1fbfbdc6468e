//! Brings the guest to the state a systemd host is in when it starts services.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::termios::{self, SetArg};
use nix::unistd;

use crate::output;
use crate::spec::{DATA_SERIAL, SPEC_PATH, Spec};

const NO_FLAGS: MsFlags = MsFlags::empty();

pub(crate) fn read_spec() -> Result<Spec> {
    let text = fs::read(SPEC_PATH).with_context(|| format!("read `{SPEC_PATH}`"))?;
    serde_json::from_slice(&text).with_context(|| format!("parse `{SPEC_PATH}`"))
}

pub(crate) fn prepare(spec: &Spec) -> Result<()> {
    enter_root().context("leave the initial root")?;
    mounts()?;
    for module in &spec.modules {
        load(module)?;
    }
    cgroups().context("enable cgroup controllers")?;
    loopback().context("bring `lo` up")?;
    unistd::sethostname("guard-vm").context("set the host name")?;
    sysctls()?;
    if spec.disk {
        data_disk()?;
    }
    spec.hide
        .iter()
        .try_for_each(|dir| mount_at("tmpfs", dir, "tmpfs", MsFlags::MS_RDONLY, "size=4k"))
}

/// The serial line carries bytes as the case wrote them.
pub(crate) fn raw_console() {
    if let Ok(mut settings) = termios::tcgetattr(io::stdout()) {
        termios::cfmakeraw(&mut settings);
        let _ = termios::tcsetattr(io::stdout(), SetArg::TCSANOW, &settings);
    }
}

pub(crate) fn drain_console() {
    let _ = termios::tcdrain(io::stdout());
}

/// `pivot_root` refuses the initial root because nothing is mounted below it. The same tmpfs, bound to a
/// folder and moved over `/`, is an ordinary mount with a parent, and no byte is copied.
fn enter_root() -> Result<()> {
    fs::create_dir_all("/.root").context("create `/.root`")?;
    bind("/", "/.root")?;
    std::env::set_current_dir("/.root").context("enter `/.root`")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).context("move `/.root` over `/`")?;
    unistd::chroot(".").context("chroot")?;
    std::env::set_current_dir("/").context("enter `/`")?;
    let _ = fs::remove_dir("/.root");
    // The kernel makes its first tmpfs writable for everyone; no host's root is.
    fs::set_permissions("/", fs::Permissions::from_mode(0o755)).context("chmod `/`")?;
    // systemd shares every mount; code that forgets to make its view private must fail here too.
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_SHARED | MsFlags::MS_REC,
        None::<&str>,
    )
    .context("share `/`")
}

fn bind(from: &str, to: &str) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("bind `{from}` to `{to}`"))
}

fn mounts() -> Result<()> {
    let strict = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let shm = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_at("proc", "/proc", "proc", strict, "")?;
    mount_at("sysfs", "/sys", "sysfs", strict, "")?;
    mount_at("devtmpfs", "/dev", "devtmpfs", MsFlags::MS_NOSUID, "mode=755")?;
    mount_at(
        "devpts",
        "/dev/pts",
        "devpts",
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        "gid=5,mode=620,ptmxmode=666",
    )?;
    mount_at("mqueue", "/dev/mqueue", "mqueue", strict, "")?;
    mount_at("tmpfs", "/dev/shm", "tmpfs", shm, "mode=1777")?;
    mount_at("securityfs", "/sys/kernel/security", "securityfs", strict, "")?;
    mount_at(
        "cgroup2",
        "/sys/fs/cgroup",
        "cgroup2",
        strict,
        "nsdelegate,memory_recursiveprot",
    )?;
    mount_at("bpf", "/sys/fs/bpf", "bpf", strict, "mode=700")?;
    mount_at("tracefs", "/sys/kernel/tracing", "tracefs", strict, "")?;
    mount_at("tmpfs", "/run", "tmpfs", shm, "mode=755")?;
    mount_at("tmpfs", "/tmp", "tmpfs", shm, "mode=1777")?;
    for (dir, mode) in [("/out", 0o755), ("/root", 0o700), ("/var/tmp", 0o1777)] {
        fs::create_dir_all(dir).with_context(|| format!("create `{dir}`"))?;
        fs::set_permissions(dir, fs::Permissions::from_mode(mode))
            .with_context(|| format!("chmod `{dir}`"))?;
    }
    Ok(())
}

fn mount_at(source: &str, at: &str, kind: &str, flags: MsFlags, data: &str) -> Result<()> {
    if !Path::new(at).is_dir() {
        fs::create_dir_all(at).with_context(|| format!("create `{at}`"))?;
    }
    mount(Some(source), at, Some(kind), flags, Some(data))
        .with_context(|| format!("mount `{kind}` at `{at}`"))
}

fn load(path: &str) -> Result<()> {
    let file = fs::File::open(path).with_context(|| format!("open module `{path}`"))?;
    match finit_module(&file, c"", ModuleInitFlags::empty()) {
        Ok(()) | Err(nix::Error::EEXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("load module `{path}`")),
    }
}

fn cgroups() -> Result<()> {
    let file = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(file, "+memory +cpu +pids").with_context(|| format!("write `{file}`"))
}

/// What systemd sets on every host and tests may depend on.
fn sysctls() -> Result<()> {
    for (name, value) in [
        ("fs/protected_hardlinks", "1"),
        ("fs/protected_symlinks", "1"),
        ("fs/protected_regular", "2"),
        ("fs/protected_fifos", "1"),
        ("net/ipv4/ping_group_range", "0 2147483647"),
    ] {
        let path = Path::new("/proc/sys").join(name);
        fs::write(&path, value).with_context(|| format!("write `{}`", path.display()))?;
    }
    Ok(())
}

/// The ext4 disk, with `/var/tmp` on it as on a host: a tmpfs has no user attributes before 6.6.
fn data_disk() -> Result<()> {
    let disk = output::disk(DATA_SERIAL)?;
    mount_at(disk.to_str().unwrap_or_default(), "/disk", "ext4", NO_FLAGS, "")?;
    fs::create_dir("/disk/tmp").context("create `/disk/tmp`")?;
    fs::set_permissions("/disk/tmp", fs::Permissions::from_mode(0o1777)).context("chmod `/disk/tmp`")?;
    bind("/disk/tmp", "/var/tmp")
}

/// RTM_NEWLINK that sets IFF_UP on interface 1, which is `lo` in every new network namespace.
fn loopback() -> Result<()> {
    let mut message = Vec::with_capacity(32);
    message.extend(32u32.to_ne_bytes()); // length
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    message.extend([0; 8]); // sequence, port
    message.extend([0; 4]); // family, padding, device type
    message.extend(1i32.to_ne_bytes());
    message.extend((libc::IFF_UP as u32).to_ne_bytes());
    message.extend((libc::IFF_UP as u32).to_ne_bytes());
    let netlink = socket::socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .context("open a route socket")?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&netlink);
    socket::send(fd, &message, MsgFlags::empty()).context("send the request")?;
    let mut answer = [0; 512];
    let length = socket::recv(fd, &mut answer, MsgFlags::empty()).context("read the answer")?;
    let Some(code) = answer[..length]
        .get(16..20)
        .and_then(|raw| raw.try_into().ok())
        .map(i32::from_ne_bytes)
    else {
        bail!("the kernel's answer has {length} bytes");
    };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(-code)).context("RTM_NEWLINK");
    }
    Ok(())
}
