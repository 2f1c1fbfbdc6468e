//! What lies outside, and that a server tries to reach all the time, alive or dying.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, net::UnixListener, process::CommandExt as _},
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};
use guard_tests::{control::User, life::stage::Stage, programs};

/// Listeners, and a file that everybody may read.
pub(crate) struct Outside {
    tcp: TcpListener,
    unix: UnixListener,
    /// What makes a puppet try.
    pub(crate) words: Vec<String>,
}

impl Outside {
    pub(crate) fn new(stage: &Stage) -> Result<Self> {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        tcp.set_nonblocking(true)?;
        // In the server's own root: the view does not hide it.
        let path = stage.work("socket");
        let unix = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        unix.set_nonblocking(true)?;
        let secret = stage.path().join("secret");
        fs::write(&secret, "GUARD-SECRET")?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644))?;
        let words = vec![
            format!("connect={}", tcp.local_addr()?),
            format!("connect={}", path.display()),
            format!("leak={}:{}", secret.display(), stage.work("leaked").display()),
        ];
        Ok(Self { tcp, unix, words })
    }

    pub(crate) fn untouched(&self, stage: &Stage) -> Result<()> {
        self.touched_at_most(stage, false)
    }

    /// `socket`: whether a connection to the socket in the server's own root may have come.
    pub(crate) fn touched_at_most(&self, stage: &Stage, socket: bool) -> Result<()> {
        let tcp = self.tcp.accept().is_ok();
        let unix = self.unix.accept().is_ok();
        let read = stage.work("leaked").exists();
        ensure!(
            !tcp && (socket || !unix) && !read,
            "something outside was reached (tcp: {tcp}, unix: {unix}, file: {read})"
        );
        Ok(())
    }

    /// The same program reaches all of it where nothing holds it: what does not arrive was refused.
    pub(crate) fn control(&self, stage: &Stage) -> Result<()> {
        let user = User::of_tests()?;
        let mut puppet = Command::new(programs::puppet()?)
            .args(&self.words)
            .arg("forever")
            .uid(user.uid)
            .gid(user.gid)
            .stdin(Stdio::null())
            .spawn()?;
        let leaked = stage.work("leaked");
        let (mut tcp, mut unix) = (false, false);
        let reached = stage.wait_until(
            "the server reaches what is outside, where nothing holds it,",
            || {
                tcp |= self.tcp.accept().is_ok();
                unix |= self.unix.accept().is_ok();
                let read = fs::read(&leaked).is_ok_and(|bytes| bytes == b"GUARD-SECRET");
                (tcp && unix && read).then_some(())
            },
        );
        puppet.kill()?;
        puppet.wait()?;
        reached?;
        fs::remove_file(leaked)?;
        // What it had asked for by then.
        while self.tcp.accept().is_ok() || self.unix.accept().is_ok() {}
        Ok(())
    }
}
