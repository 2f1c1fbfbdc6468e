//! Who attacks: a forked process of ours, and its report. The caller has one thread.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    marker::PhantomData,
    os::fd::AsFd as _,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, getppid, pipe2},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::sys::{clone::Forked, exec::leave, process};

/// A child at work. It is killed and reaped when this is dropped.
#[derive(Debug)]
pub(super) struct Child<T> {
    pid: Option<Pid>,
    report: File,
    result: PhantomData<T>,
}

/// Forks; the child does `work`, reports what it returns, and ends without running anything of the parent's.
pub(super) fn start<T, F>(work: F) -> Result<Child<T>, String>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce() -> T,
{
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(|error| format!("pipe: {error}"))?;
    let parent = nix::unistd::getpid();
    match crate::sys::clone::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Parent(pid) => Ok(Child {
            pid: Some(Pid::from_raw(pid)),
            report: File::from(read),
            result: PhantomData,
        }),
        Forked::Child => {
            drop(read);
            // What the parent leaves behind goes with it. From another pid namespace the parent's number is 0.
            let _ = process::parent_death_signal(libc::SIGKILL);
            if getppid() != parent && getppid().as_raw() != 0 {
                leave(1);
            }
            let done = catch_unwind(AssertUnwindSafe(|| {
                let bytes = serde_json::to_vec(&work()).map_err(std::io::Error::other)?;
                File::from(write).write_all(&bytes)
            }));
            leave(i32::from(!matches!(done, Ok(Ok(())))))
        }
    }
}

impl<T: DeserializeOwned> Child<T> {
    /// Its report, when it comes in time.
    pub(super) fn join(mut self, until: Instant) -> Result<T, String> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            self.wait_readable(until)?;
            match self.report.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("read its report: {error}")),
            }
        }
        let status = self.reap();
        serde_json::from_slice(&bytes).map_err(|_| format!("its process ended without a report ({status})"))
    }

    fn wait_readable(&self, until: Instant) -> Result<(), String> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut ready = [PollFd::new(self.report.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, timeout) {
                Ok(0) => return Err("its process did not end in time".to_owned()),
                Ok(_) => return Ok(()),
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(format!("poll: {error}")),
            }
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.map_or(0, Pid::as_raw)
    }

    /// Whether the report is there, or the process gone.
    pub(super) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.report.as_fd()
    }
}

impl<T> Child<T> {
    fn reap(&mut self) -> String {
        let Some(pid) = self.pid.take() else {
            return String::new();
        };
        loop {
            match waitpid(pid, None) {
                Err(nix::Error::EINTR) => {}
                Ok(WaitStatus::Exited(_, code)) => return format!("exit {code}"),
                Ok(WaitStatus::Signaled(_, signal, _)) => return format!("killed by {signal}"),
                Ok(other) => return format!("{other:?}"),
                Err(error) => return error.to_string(),
            }
        }
    }
}

impl<T> Drop for Child<T> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _ = kill(pid, Signal::SIGKILL);
            self.reap();
        }
    }
}
