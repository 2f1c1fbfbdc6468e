//! Runs `confine-probe` and answers its refusals as the warden does.

use std::{
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use guard_agent::{
    confine::notify::{Denied, Listener, describe},
    sys::ready::watch,
};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{PROBE, receive};

/// What came of one probe.
pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) records: Vec<Denied>,
}

impl Run {
    pub(crate) fn lines(&self) -> Vec<(i64, i32)> {
        let text = String::from_utf8_lossy(&self.output.stdout);
        text.lines()
            .filter_map(|line| {
                let (result, errno) = line.split_once(' ')?;
                Some((result.parse().ok()?, errno.parse().ok()?))
            })
            .collect()
    }
    pub(crate) fn errnos(&self) -> Vec<i32> {
        self.lines().iter().map(|(_, errno)| *errno).collect()
    }
    pub(crate) fn ops(&self) -> Vec<&str> {
        self.records.iter().map(|record| record.op.as_str()).collect()
    }
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
    #[track_caller]
    pub(crate) fn assert_ok(&self) {
        let text = String::from_utf8_lossy(&self.output.stderr);
        assert!(
            self.output.status.success(),
            "{:?}: {text}\nrecords: {:?}",
            self.output.status,
            self.records
        );
    }
}

/// Runs the probe and answers its refusals as the warden does, until no task is left under its filter.
pub(crate) fn probe<S: AsRef<str>>(confinement: &str, mode: &str, args: &[S]) -> Result<Run> {
    probe_in(Path::new("/"), confinement, mode, args)
}

pub(crate) fn probe_in<S: AsRef<str>>(
    directory: &Path,
    confinement: &str,
    mode: &str,
    args: &[S],
) -> Result<Run> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(PROBE)
        .args([confinement, mode])
        .args(args.iter().map(AsRef::as_ref))
        .current_dir(directory)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let warden = std::thread::spawn(move || warden(&ours));
    let output = child.wait_with_output()?;
    let records = warden
        .join()
        .map_err(|_| anyhow::anyhow!("the listening thread failed"))??;
    Ok(Run { output, records })
}

fn warden(socket: &UnixStream) -> Result<Vec<Denied>> {
    let Some(fd) = receive::descriptor(socket)? else {
        return Ok(Vec::new());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = watch(Listener::new(fd)?, Interest::READABLE)?;
        tokio::time::timeout(Duration::from_secs(60), listen(&listener))
            .await
            .context("the sandbox does not end")?
    })
}

async fn listen(listener: &AsyncFd<Listener>) -> Result<Vec<Denied>> {
    let mut records = Vec::new();
    loop {
        let mut ready = listener.readable().await?;
        let listener = ready.get_inner();
        while let Some(notification) = listener.recv()? {
            ensure!(
                listener.is_waiting(notification.id) && notification.tid > 0,
                "{notification:?}"
            );
            let denied = describe(&notification);
            listener.deny(notification.id, denied.errno)?;
            records.push(denied);
        }
        if listener.is_over()? {
            return Ok(records);
        }
        ready.clear_ready();
    }
}
