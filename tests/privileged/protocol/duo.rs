//! Both ends of one session in one hand.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::ChildStdout,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::life::{limit, stage::Stage};

use crate::{
    expect,
    pipes::{Heard, hear, keep, writer},
};

/// Within this an end gets what is on its way to it.
fn patience() -> Duration {
    limit(Duration::from_secs(20))
}

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A client, the agent, and a server that does what it is told.
#[derive(Debug)]
pub(crate) struct Duo {
    agent: std::process::Child,
    stdin: Option<Sender<Vec<u8>>>,
    stdout: Option<ChildStdout>,
    at_client: Option<Receiver<Vec<u8>>>,
    control: Sender<Vec<u8>>,
    at_server: Receiver<Heard>,
    stderr: Arc<Mutex<Vec<u8>>>,
    probes: u32,
    /// Of the last request that was forwarded.
    last: u64,
}

impl Duo {
    pub(crate) fn start(stage: &Stage) -> Result<Self> {
        let mut duo = Self::start_unread(stage)?;
        duo.read();
        Ok(duo)
    }

    /// With a client that does not read yet.
    pub(crate) fn start_unread(stage: &Stage) -> Result<Self> {
        Self::start_by(stage, |words| stage.run_command(words))
    }

    /// By another command line, made for the server's words.
    pub(crate) fn start_by(
        stage: &Stage,
        command: impl FnOnce([String; 3]) -> std::process::Command,
    ) -> Result<Self> {
        let number = SERIAL.fetch_add(1, Ordering::Relaxed);
        let pipe = |name: &str| -> Result<(File, String)> {
            let path = stage.work(&format!("{name}-{number}"));
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
            // Both ends: whoever comes first does not wait, and a server that is gone closes nothing.
            let file = File::options().read(true).write(true).open(&path)?;
            Ok((file, path.display().to_string()))
        };
        let ((control, control_path), (heard, heard_path)) = (pipe("control")?, pipe("heard")?);
        let program = stage.path().join("bin/guard-scripted").display().to_string();
        let mut agent = command([program, control_path, heard_path])
            .spawn()
            .context("failed to start the agent")?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let (from, to) = (agent.stderr.take().context("no stderr")?, Arc::clone(&stderr));
        thread::spawn(move || keep(from, &to));
        let (sender, at_server) = channel();
        thread::spawn(move || drop(hear(heard, &sender)));
        Ok(Self {
            stdin: Some(writer(agent.stdin.take().context("no stdin")?)),
            stdout: agent.stdout.take(),
            agent,
            at_client: None,
            control: writer(control),
            at_server,
            stderr,
            probes: 0,
            last: 0,
        })
    }

    /// The client begins to read.
    pub(crate) fn read(&mut self) {
        let Some(stdout) = self.stdout.take() else { return };
        let (sender, lines) = channel();
        self.at_client = Some(lines);
        thread::spawn(move || {
            for line in BufReader::with_capacity(1 << 16, stdout)
                .split(b'\n')
                .map_while(io::Result::ok)
            {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.agent.id()
    }

    /// The client says a line.
    pub(crate) fn client(&self, line: impl AsRef<[u8]>) -> Result<()> {
        self.client_raw([line.as_ref(), b"\n"].concat())
    }

    pub(crate) fn client_raw(&self, bytes: impl Into<Vec<u8>>) -> Result<()> {
        let stdin = self.stdin.as_ref().context("the client has closed its end")?;
        stdin.send(bytes.into()).context("the agent reads no more")
    }

    pub(crate) fn client_closes(&mut self) {
        self.stdin = None;
    }

    /// The server says a line.
    pub(crate) fn server(&self, line: impl AsRef<[u8]>) -> Result<()> {
        self.server_raw([line.as_ref(), b"\n"].concat())
    }

    /// One write of the server.
    pub(crate) fn server_raw(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.deed(&format!("out {}", bytes.as_ref().len()), bytes.as_ref())
    }

    /// Any deed of the server, see `servers/scripted.rs`.
    pub(crate) fn deed(&self, deed: &str, bytes: &[u8]) -> Result<()> {
        let order = [deed.as_bytes(), b"\n", bytes].concat();
        self.control.send(order).context("the server takes no orders")
    }

    /// The client's next line, or nothing when the agent's output has ended.
    pub(crate) fn at_client_or_end(&mut self) -> Result<Option<String>> {
        let lines = self.at_client.as_ref().context("the client does not read")?;
        match lines.recv_timeout(patience()) {
            Ok(line) => Ok(Some(String::from_utf8(line)?)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("nothing came to the client{}", self.said()),
        }
    }

    pub(crate) fn at_client(&mut self) -> Result<String> {
        let line = self.at_client_or_end()?;
        line.with_context(|| format!("the agent's output ended{}", self.said()))
    }

    /// The server's next line.
    pub(crate) fn at_server(&mut self) -> Result<String> {
        match self.at_server.recv_timeout(patience()) {
            Ok(Heard::Line(line)) => Ok(String::from_utf8(line)?),
            Ok(Heard::End) => bail!("the server's input ended{}", self.said()),
            Err(_) => bail!("nothing came to the server{}", self.said()),
        }
    }

    /// The server's input ends, and nothing comes before that.
    pub(crate) fn server_sees_end(&mut self) -> Result<()> {
        match self.at_server.recv_timeout(patience()) {
            Ok(Heard::End) => Ok(()),
            Ok(Heard::Line(line)) => bail!("the server got {:?}", expect::clipped(&line)),
            Err(_) => bail!("the server's input did not end{}", self.said()),
        }
    }

    /// Whether its input ends within this time, or something comes.
    pub(crate) fn server_hears_within(&self, time: Duration) -> Option<Heard> {
        self.at_server.recv_timeout(time).ok()
    }

    pub(crate) fn client_gets(&mut self, wanted: &str) -> Result<()> {
        expect::same("client", &self.at_client()?, wanted).with_context(|| self.said())
    }

    pub(crate) fn server_gets(&mut self, wanted: &str) -> Result<()> {
        expect::same("server", &self.at_server()?, wanted).with_context(|| self.said())
    }

    /// A request: the server gets what the client said, but for the id, which is a number that counts up. Returns it.
    pub(crate) fn forwarded(&mut self, id: &str, line: impl Fn(&str) -> String) -> Result<u64> {
        self.client(line(id))?;
        self.takes(line)
    }

    /// The server gets the request.
    pub(crate) fn takes(&mut self, line: impl Fn(&str) -> String) -> Result<u64> {
        let got = self.at_server()?;
        let number = expect::id_of(&got, &line)?;
        expect::same("server", &got, &line(&number.to_string())).with_context(|| self.said())?;
        ensure!(
            self.last == 0 || number > self.last,
            "id {number} after {}",
            self.last
        );
        ensure!(number < 1 << 32, "{number} is no small number");
        self.last = number;
        Ok(number)
    }

    /// A call, on its way: the number it has at the server.
    pub(crate) fn call(&mut self, id: &str) -> Result<u64> {
        self.forwarded(id, expect::call)
    }

    /// The server answers, the client gets it.
    pub(crate) fn answered(&mut self, number: u64, id: &str) -> Result<()> {
        self.server(expect::answer(&number.to_string()))?;
        self.client_gets(&expect::answer(id))
    }

    /// A question and its answer are the next that either end gets.
    pub(crate) fn works(&mut self) -> Result<()> {
        self.probes += 1;
        let id = format!("\"probe-{}\"", self.probes);
        let number = self.call(&id).context("the question after it")?;
        self.answered(number, &id).context("the answer after it")
    }

    /// What the client says is answered with this error, and does not reach the server.
    pub(crate) fn refused(&mut self, line: impl AsRef<[u8]>, id: &str, code: i32, rule: &str) -> Result<()> {
        self.client(line.as_ref())?;
        let got = self.at_client()?;
        expect::error(&got, id, code, "form", rule)?;
        self.works()
    }

    /// What the client says has no effect at all.
    pub(crate) fn client_ignored(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.client(line)?;
        self.works()
    }

    /// What the server says has no effect at all.
    pub(crate) fn server_ignored(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.server(line)?;
        self.works()
    }

    pub(crate) fn stderr(&self) -> String {
        let bytes = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn said(&self) -> String {
        let (text, status) = (
            self.stderr(),
            fs::read_to_string(format!("/proc/{}/stat", self.pid())),
        );
        let state = status.map_or("gone".to_owned(), |text| {
            text.split(' ').nth(2).unwrap_or("?").to_owned()
        });
        format!("; the agent ({state}) said:\n{}", expect::clipped(&text))
    }

    /// Waits until the agent has written this line to its stderr.
    pub(crate) fn complains(&self, line: &str) -> Result<()> {
        self.complains_of(|said| said == line)
            .with_context(|| format!("no line {line:?}"))
    }

    /// Waits for a line that is as wanted.
    pub(crate) fn complains_of(&self, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let until = Instant::now() + patience();
        while !self.stderr().lines().any(&wanted) {
            ensure!(Instant::now() < until, "it did not come{}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The most memory the gateway ever had, KiB.
    pub(crate) fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(number.context("no VmHWM")?.parse()?)
    }

    /// The client closes its end, the server sees that and leaves: nothing else comes, and the agent ends well.
    pub(crate) fn leave(mut self) -> Result<()> {
        self.client_closes();
        self.server_sees_end()?;
        self.deed("exit 0", b"")?;
        let rest = self.at_client_or_end()?;
        ensure!(rest.is_none(), "the client got {rest:?} at the end");
        let status = self.ends()?;
        ensure!(status.success(), "the agent ended with {status}{}", self.said());
        Ok(())
    }

    /// The agent ends by itself; everything the client got until then.
    pub(crate) fn rest(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        while let Some(line) = self.at_client_or_end()? {
            lines.push(line);
        }
        Ok(lines)
    }

    pub(crate) fn ends(&mut self) -> Result<std::process::ExitStatus> {
        let until = Instant::now() + patience();
        loop {
            if let Some(status) = self.agent.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < until, "the agent did not end{}", self.said());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Both ends, for two threads of a test: the client's and the server's.
    pub(crate) fn apart(&mut self) -> Result<(End<'_, Vec<u8>>, End<'_, Heard>)> {
        let client = End {
            say: self.stdin.clone().context("the client has closed its end")?,
            get: self.at_client.as_mut().context("the client does not read")?,
        };
        let server = End {
            say: self.control.clone(),
            get: &mut self.at_server,
        };
        Ok((client, server))
    }
}

#[derive(Debug)]
pub(crate) struct End<'a, T> {
    pub(crate) say: Sender<Vec<u8>>,
    pub(crate) get: &'a mut Receiver<T>,
}

impl Drop for Duo {
    fn drop(&mut self) {
        if matches!(self.agent.try_wait(), Ok(None)) {
            drop(self.agent.kill());
            drop(self.agent.wait());
        }
    }
}
