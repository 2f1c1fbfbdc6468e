//! The attacks themselves: small things that ordinary permissions allow. Each says how it ended.

use std::{
    ffi::CString,
    fs::File,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd as _, BorrowedFd},
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream},
    },
    path::Path,
};

use nix::{
    sys::{
        socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket},
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::attempt::Answer;
use crate::sys::{
    clone::{Forked, fork},
    exec::{exec_at, leave},
};

/// `argv[0]` of our own program by which it ends at once, with success.
pub const ROLE: &str = "guard-agent-nothing";

pub(super) fn read(path: &Path) -> Answer {
    Answer::of(File::open(path))
}

pub(super) fn write(path: &Path) -> Answer {
    Answer::of(File::options().write(true).open(path))
}

/// Executes our own program by descriptor; it ends at once.
pub(super) fn execute(program: BorrowedFd<'_>) -> Answer {
    let Ok(role) = CString::new(ROLE) else {
        return Answer::errno(libc::EINVAL);
    };
    in_a_fork(|| {
        let error = exec_at(program, &[role], &[]);
        error.raw_os_error().unwrap_or(libc::EIO)
    })
}

/// A fork that ends with what `work` says: 0, or an errno (all are below 256).
fn in_a_fork(work: impl FnOnce() -> i32) -> Answer {
    match fork() {
        Err(error) => Answer::of::<()>(Err(error)),
        Ok(Forked::Child) => leave(work()),
        Ok(Forked::Parent(pid)) => loop {
            match waitpid(Pid::from_raw(pid), None) {
                Err(nix::Error::EINTR) => {}
                Ok(WaitStatus::Exited(_, code)) => break Answer::errno(code),
                _ => break Answer::errno(libc::EIO),
            }
        },
    }
}

/// Signal 0: may this process signal that one?
pub(super) fn signal(pid: Pid) -> Answer {
    Answer::of(nix::sys::signal::kill(pid, None).map_err(io::Error::from))
}

/// One process more, then another, up to `most`: how many there are, and how the first that is refused is refused.
pub(super) fn fork_until_refused(most: usize) -> (usize, Answer) {
    let mut made = Vec::new();
    let mut answer = Answer::WORKED;
    for _ in 0..most {
        match fork() {
            Ok(Forked::Child) => leave(0),
            Ok(Forked::Parent(pid)) => made.push(pid),
            Err(error) => {
                answer = Answer::of::<()>(Err(error));
                break;
            }
        }
    }
    // Until here each counts, also when it has ended.
    for pid in &made {
        let _ = waitpid(Pid::from_raw(*pid), None);
    }
    (made.len(), answer)
}

/// A listener on loopback that a process of ours connects to.
pub(super) struct Loopback {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

impl Loopback {
    /// Where this host's loopback is down, one in a network namespace of this process's own.
    pub(super) fn listen() -> io::Result<Self> {
        let here = Self::bind()?;
        if here.connect() == Answer::WORKED {
            return Ok(here);
        }
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
        raise_loopback()?;
        Self::bind()
    }

    fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
        })
    }

    pub(super) fn connect(&self) -> Answer {
        let answer = Answer::of(TcpStream::connect(self.address));
        // Taken off the queue, which is short.
        if answer == Answer::WORKED {
            drop(self.listener.accept());
        }
        answer
    }
}

/// Interface 1 is `lo` in every network namespace.
fn raise_loopback() -> io::Result<()> {
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    // Sequence and port; family, padding and device type.
    message.extend([0; 12]);
    message.extend(1_i32.to_ne_bytes());
    message.extend((libc::IFF_UP as u32).to_ne_bytes());
    message.extend((libc::IFF_UP as u32).to_ne_bytes());
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&netlink);
    send(fd, &message, MsgFlags::empty())?;
    let mut answer = [0; 256];
    let length = recv(fd, &mut answer, MsgFlags::empty())?;
    let code = answer
        .get(16..20)
        .filter(|_| length >= 20)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(-libc::EIO, i32::from_ne_bytes);
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-code))
    }
}

/// A unix listener that a process of ours connects to.
pub(super) struct Unix {
    listener: UnixListener,
    address: UnixAddress,
}

impl Unix {
    /// By an abstract name that no other process picks.
    pub(super) fn abstract_name() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("guard-agent-proof-{:032x}", u128::from_ne_bytes(random));
        Self::at(UnixAddress::from_abstract_name(name)?)
    }

    pub(super) fn path(path: &Path) -> io::Result<Self> {
        Self::at(UnixAddress::from_pathname(path)?)
    }

    fn at(address: UnixAddress) -> io::Result<Self> {
        Ok(Self {
            listener: UnixListener::bind_addr(&address)?,
            address,
        })
    }

    pub(super) fn connect(&self) -> Answer {
        let answer = Answer::of(UnixStream::connect_addr(&self.address));
        if answer == Answer::WORKED {
            drop(self.listener.accept());
        }
        answer
    }
}

/// Memory files.
pub(super) mod memory {
    use std::{ffi::CStr, io, os::fd::OwnedFd};

    use super::Answer;

    const NAME: &CStr = c"guard-agent-proof";
    const MFD_EXEC: u32 = 0x10;

    pub(crate) fn make() -> io::Result<OwnedFd> {
        crate::sys::fs::memory_file(NAME, libc::MFD_CLOEXEC)
    }

    /// As a file of one's own to be changed: also where the host forbids memory files that can be executed.
    pub(crate) fn make_or_file() -> Result<OwnedFd, String> {
        const MFD_NOEXEC_SEAL: u32 = 8;
        make()
            .or_else(|_| crate::sys::fs::memory_file(NAME, libc::MFD_CLOEXEC | MFD_NOEXEC_SEAL))
            .map_err(|error| format!("memfd_create: {error}"))
    }

    /// One that says that it is to be executed.
    pub(crate) fn executable() -> Answer {
        Answer::of(crate::sys::fs::memory_file(NAME, libc::MFD_CLOEXEC | MFD_EXEC))
    }
}

/// A network socket beyond those whose use is seen by address.
pub(super) fn netlink() -> Answer {
    let made = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    );
    Answer::of(made.map_err(io::Error::from))
}

/// The mode of a file of one's own.
pub(super) fn mode(file: impl std::os::fd::AsFd) -> Answer {
    let mode = nix::sys::stat::Mode::from_bits_retain(0o600);
    Answer::of(nix::sys::stat::fchmod(file.as_fd(), mode).map_err(io::Error::from))
}

/// A set-id bit on a file of one's own.
pub(super) fn set_id(file: impl std::os::fd::AsFd) -> Answer {
    let mode = nix::sys::stat::Mode::from_bits_retain(0o4600);
    Answer::of(nix::sys::stat::fchmod(file.as_fd(), mode).map_err(io::Error::from))
}

/// Reads the memory of a process that runs this program: what is at this place in each that was forked.
pub(super) fn read_memory(of: Pid) -> Answer {
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    static SECRET: [u8; 16] = [7; 16];
    let mut copy = [0_u8; 16];
    let remote = RemoteIoVec {
        base: SECRET.as_ptr().expose_provenance(),
        len: SECRET.len(),
    };
    let read = process_vm_readv(of, &mut [io::IoSliceMut::new(&mut copy)], &[remote]);
    match read {
        Ok(_) if copy != SECRET => Answer::errno(libc::EIO),
        other => Answer::of(other.map_err(io::Error::from)),
    }
}

/// Opens our own program for `execute`.
pub(super) fn own_program() -> io::Result<File> {
    File::open("/proc/self/exe")
}

pub(super) fn borrowed(file: &File) -> BorrowedFd<'_> {
    file.as_fd()
}
