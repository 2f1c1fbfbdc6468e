//! A bystander outside the sandbox: owns listeners, IPC objects and a secret, and counts who reaches it.
//!
//! Prints one JSON line with their names, answers each line on stdin with the counts, ends at end of input.
#![expect(unsafe_code, reason = "System V IPC has no safe interface")]

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _, Write as _},
    net::{TcpListener, UdpSocket},
    os::unix::net::{UnixDatagram, UnixListener},
    os::{linux::net::SocketAddrExt as _, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{
    errno::Errno,
    mqueue::{MQ_OFlag, MqAttr, mq_open, mq_unlink},
    sys::stat::Mode,
};
use serde_json::json;

use crate::probe::{Args, Failure};

static REACHED: AtomicU64 = AtomicU64::new(0);
/// No bystander outlives a test that has hung.
const LIFE: u32 = 900;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    nix::unistd::alarm::set(LIFE);
    let me = std::process::id();
    let tcp4 = TcpListener::bind("127.0.0.1:0")?;
    let tcp6 = TcpListener::bind("[::1]:0")?;
    let udp4 = UdpSocket::bind("127.0.0.1:0")?;
    let udp6 = UdpSocket::bind("[::1]:0")?;
    let name = format!("guard-neighbour-{me}");
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
    let abstract_socket = UnixListener::bind_addr(&address)?;
    let outside = bind(&args.path("dir")?.join("s"))?;
    let in_root = bind(&args.path("root")?.join("s"))?;
    let dgram_path = args.path("root")?.join("d");
    let in_root_dgram = UnixDatagram::bind(&dgram_path)?;
    open_to_all(&dgram_path)?;
    let files = Files(vec![
        PathBuf::from("/dev/shm").join(&name),
        PathBuf::from("/tmp").join(&name),
    ]);
    for file in &files.0 {
        fs::write(file, "GUARD-SECRET")?;
        open_to_all(file)?;
    }
    let key = i32::try_from(me).unwrap_or(1) | 0x4700_0000;
    let ipc = Ipc::make(key)?;
    let queue = format!("/{name}");
    let has_queue = mq_open(
        queue.as_str(),
        MQ_OFlag::O_CREAT | MQ_OFlag::O_RDWR,
        Mode::from_bits_truncate(0o666),
        // Without attributes the mode would not be passed on either.
        Some(&MqAttr::new(0, 1, 64, 0)),
    )
    .is_ok();
    let line = json!({
        "neighbour": me.to_string(),
        "tcp4": tcp4.local_addr()?.port().to_string(), "tcp6": tcp6.local_addr()?.port().to_string(),
        "udp4": udp4.local_addr()?.port().to_string(), "udp6": udp6.local_addr()?.port().to_string(),
        "abstract": name, "unix": args.path("dir")?.join("s"),
        "unix_root": args.path("root")?.join("s"), "unix_root_dgram": dgram_path,
        "dev_shm": files.0[0], "tmp_file": files.0[1],
        "shm": ipc.shm.to_string(), "shm_key": key.to_string(),
        "mq": if has_queue { queue.clone() } else { String::new() },
    });
    for listener in [tcp4, tcp6] {
        watch(move || listener.accept().map(drop));
    }
    for socket in [udp4, udp6] {
        watch(move || socket.recv(&mut [0; 64]).map(drop));
    }
    for listener in [outside, in_root, abstract_socket] {
        watch(move || listener.accept().map(drop));
    }
    watch(move || in_root_dgram.recv(&mut [0; 64]).map(drop));
    say(&line.to_string())?;
    for request in io::stdin().lock().lines() {
        request?;
        say(&json!(BTreeMap::from([("reached", REACHED.load(Ordering::SeqCst))])).to_string())?;
    }
    mq_unlink(queue.as_str()).ok();
    Ok(())
}

fn watch(mut next: impl FnMut() -> io::Result<()> + Send + 'static) {
    std::thread::spawn(move || {
        while next().is_ok() {
            REACHED.fetch_add(1, Ordering::SeqCst);
        }
    });
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    open_to_all(path)?;
    Ok(listener)
}

fn open_to_all(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for file in &self.0 {
            drop(fs::remove_file(file));
        }
    }
}

struct Ipc {
    shm: i32,
    queue: i32,
}

impl Ipc {
    fn make(key: i32) -> Result<Self, Failure> {
        // SAFETY: both calls take numbers only.
        let (shm, queue) = unsafe {
            (
                libc::shmget(key, 4096, libc::IPC_CREAT | 0o666),
                libc::msgget(key, libc::IPC_CREAT | 0o666),
            )
        };
        if shm < 0 || queue < 0 {
            return Err(Failure::Errno(Errno::last()));
        }
        Ok(Self { shm, queue })
    }
}

impl Drop for Ipc {
    fn drop(&mut self) {
        // SAFETY: removal by id of the objects made above; no pointer is read.
        unsafe {
            libc::shmctl(self.shm, libc::IPC_RMID, std::ptr::null_mut());
            libc::msgctl(self.queue, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}
