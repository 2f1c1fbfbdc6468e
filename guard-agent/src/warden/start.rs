//! From `execve` to ready: directory, lock, leftovers, kernel programs, reaper, socket.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use super::{
    cgroup::{self, CgroupError},
    hold::{Children, Parent},
    kernel::Programs,
    launch::{Context, report::KernelFacts},
    reaper, state, sweep,
};
use crate::{
    audit::Layer,
    fault,
    init::message::Ground,
    link::message::Facet,
    proof,
    refusal::{Refusal, chain},
    sys::{clone::Born, seqpacket},
};

/// Everything a warden has when it is ready.
pub(super) struct Started {
    pub(super) context: Arc<Context>,
    /// None without privilege.
    pub(super) programs: Option<Programs>,
    pub(super) reaper: Born,
    pub(super) listener: OwnedFd,
    pub(super) facts: KernelFacts,
    /// Held as long as this process lives.
    pub(super) lock: File,
}

/// Log lines of a background role: appended to a file of the state directory.
pub(super) fn log_to(path: &Path) {
    use tracing_subscriber::EnvFilter;
    let Ok(file) = File::options().append(true).create(true).open(path) else {
        return;
    };
    let filter = EnvFilter::try_from_env(crate::config::env::GUARD_AGENT_LOG.name)
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Arc::new(file))
        .try_init();
    // A background role has no stderr that anybody reads.
    std::panic::set_hook(Box::new(
        |panic| tracing::error!(%panic, "a defect of guard-agent"),
    ));
}

pub(super) fn failed(step: &str, cause: impl std::fmt::Display) -> Refusal {
    Refusal::internal(
        format!("warden start step `{step}` failed"),
        cause.to_string(),
        "nothing was started; the state directory's `warden.log` has more",
    )
}

pub(super) fn step<T>(name: &'static str, work: impl FnOnce() -> io::Result<T>) -> Result<T, Refusal> {
    tracing::debug!(step = name, "warden start");
    fault::point(name)
        .and_then(|()| work())
        .map_err(|error| failed(name, error))
}

/// `Ok(None)`: another warden has the directory.
pub(super) fn start(directory: &Path, hooks: bool) -> Result<Option<Started>, Refusal> {
    let directory = state::prepare(directory)?;
    let Some(lock) = step("warden.lock", || state::try_own(&directory))? else {
        return Ok(None);
    };
    log_to(&directory.join(state::LOG));
    if !nix::unistd::geteuid().is_root() {
        return super::unprivileged::start(&directory, lock).map(Some);
    }
    kernel_ready()?;
    let swept = step("warden.sweep", || {
        sweep::sweep(&directory, "warden: it died; swept by the next one")
    })?;
    if swept > 0 {
        tracing::warn!(swept, "ended sandboxes that an earlier warden left");
    }
    let program = step("warden.program", || File::open("/proc/self/exe"))?;
    let null = step("warden.null", || {
        File::options().read(true).write(true).open("/dev/null")
    })?;
    // Before there is anything to clear up. It does so too when a later step fails and this process ends.
    let reaper = step("warden.reaper", || {
        reaper::start(&program, &null, &directory, &Children::default())
    })?;
    step("warden.cgroup", || Ok(()))?;
    let parent = cgroup(&directory)?;
    // The cgroup goes again when a later step fails.
    match rest(&directory, parent, reaper, (program, null, lock), hooks) {
        Ok(started) => Ok(Some(started)),
        Err(refusal) => {
            if let Ok(path) = super::cgroup::parent_path(&directory) {
                let _ = fs::remove_dir(path);
            }
            Err(refusal)
        }
    }
}

fn rest(
    directory: &Path,
    parent: cgroup::Parent,
    reaper: reaper::Starting,
    (program, null, lock): (File, File, File),
    hooks: bool,
) -> Result<Started, Refusal> {
    step("warden.programs", || Ok(()))?;
    let mut programs = load(&parent)?;
    let scaffold = state::scaffold(directory);
    let proofs = proof::privileged(proof::Privileged {
        kernel: Ok((&parent, &mut programs)),
        hooks: wanted(hooks),
        directory,
        scaffold: &scaffold,
    });
    // Those of tier T1 among them, where they were proved.
    let reaper = step("warden.links", || reaper.hold(&programs.link_fds()?))?;
    let listener = step("warden.socket", || listen(&directory.join(state::SOCKET)))?;
    let facts = KernelFacts {
        release: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        proofs,
        limits_missing: parent.limits_unavailable(),
        ground: Ground::Machine,
    };
    let context = Context {
        program,
        null,
        state: directory.to_path_buf(),
        scaffold,
        parent: Parent::Cgroup(parent),
        ground: Ground::Machine,
        // Hooks that do not hold are none: then seccomp refuses to make the sockets.
        inet_hooks: facts.proofs.verdict(Facet::Net, Layer::CgroupBpf).holds(),
        unix_hooks: facts.proofs.verdict(Facet::Ipc, Layer::CgroupBpf).holds(),
        enroller: programs.take_enroller().map(Mutex::new),
    };
    Ok(Started {
        context: Arc::new(context),
        programs: Some(programs),
        reaper,
        listener,
        facts,
        lock,
    })
}

/// Whether tier T1 is wanted, or what the facts say of it.
pub(crate) fn wanted(hooks: bool) -> Result<(), proof::Why> {
    if hooks {
        return Ok(());
    }
    Err(proof::Why {
        why: "`--tier T2` leaves the security hooks out".to_owned(),
        change: Some(
            "leave `--tier` out; a warden that runs without them ends some seconds after its last session"
                .to_owned(),
        ),
    })
}

/// The cgroup of the sandboxes of a state directory.
pub(crate) fn cgroup(directory: &Path) -> Result<cgroup::Parent, Refusal> {
    cgroup::Parent::create(directory).map_err(|error| no_cgroup(&error))
}

/// The network programs, in force on it.
pub(crate) fn load(parent: &cgroup::Parent) -> Result<Programs, Refusal> {
    Programs::load_and_attach(parent.directory(), parent.sandbox_level()).map_err(|error| {
        Refusal::not_enforced(
            "cannot load the network programs",
            chain(&error),
            "run on a kernel with cgroup BPF (5.10 or later), as root with CAP_BPF and CAP_NET_ADMIN",
        )
    })
}

pub(crate) fn kernel_ready() -> Result<(), Refusal> {
    let btf = PathBuf::from("/sys/kernel/btf/vmlinux");
    if btf.exists() {
        return Ok(());
    }
    Err(Refusal::not_enforced(
        "cannot enforce network rights",
        format!("this kernel shows no type information (`{}`)", btf.display()),
        "use a kernel built with CONFIG_DEBUG_INFO_BTF, and mount sysfs",
    ))
}

fn no_cgroup(error: &CgroupError) -> Refusal {
    Refusal::not_enforced(
        "cannot make a cgroup for the sandboxes",
        chain(error),
        "mount cgroup v2 (for instance at `/sys/fs/cgroup`) and run as root outside a cgroup namespace",
    )
}

/// A `SOCK_SEQPACKET` listener that only its owner can reach.
pub(super) fn listen(path: &Path) -> io::Result<OwnedFd> {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &UnixAddr::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&socket, Backlog::new(64)?)?;
    Ok(socket)
}

/// Whether the peer of an accepted connection is whom this warden serves: root, or the one ordinary user.
pub(super) fn peer_is_ours(socket: &impl std::os::fd::AsFd) -> bool {
    seqpacket::peer(socket).is_ok_and(|peer| peer.uid() == nix::unistd::geteuid().as_raw())
}
