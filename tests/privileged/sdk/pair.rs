//! One client and one server, without the agent and with it.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_tests::{
    control::User,
    life::limit,
    refused::{Stage, text},
};

use crate::{
    clients::Client,
    servers::Server,
    steps::Step,
    trail,
    wire::{self, Start},
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub client: Client,
    pub server: Server,
}

/// What came of one way to run it.
struct Ran {
    printed: Vec<Vec<u8>>,
    starts: Vec<Start>,
    took: Duration,
}

impl Pair {
    pub(crate) fn run(self) -> Result<()> {
        let mut stage = Stage::new(&format!("sdk-{}-{}", self.client.name(), self.server.name()))?;
        let result = self.compare(&stage);
        if result.is_err() {
            stage.bench.keep();
        }
        result
    }

    fn compare(self, stage: &Stage) -> Result<()> {
        let user = User::of_tests()?;
        let data = stage.path("data");
        let steps = self.client.takes(self.server.steps(&data));
        let words = self.server.command(&data)?;

        let mut direct = as_user(&user);
        // The sandbox's own, so that a server finds the same there.
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        direct.args(["env", "-i", "HOME=/nonexistent", "LANG=C.UTF-8"]);
        direct.arg(format!("PATH={path}"));
        for (name, value) in self.server.environment(&data) {
            direct.arg(format!("{name}={value}"));
        }
        direct.args(&words);

        let run = stage.plain().mcp().user(&user.name).command(&words);
        let guarded = self
            .server
            .grants(run, &data)
            .outer_env("PATH", path)
            .process(true)?;

        let outside = self.ran(stage, "direct", &direct, &steps, true)?;
        self.client
            .judge(&steps, &outside.printed)
            .context("without the agent")?;
        let openings: Vec<Vec<String>> = outside.starts.iter().map(Start::opening).collect::<Result<_>>()?;
        let wanted = self
            .client
            .openings(self.server.is_modern(), self.client.sessions(&steps));
        ensure!(openings == wanted, "opened with {openings:?}, not {wanted:?}");

        let inside = self.ran(stage, "guarded", &guarded, &steps, true)?;
        for (direct, guarded) in outside.printed.iter().zip(&inside.printed) {
            wire::equal(direct, guarded).context("the client made something else of it")?;
        }
        ensure!(
            outside.starts.len() == inside.starts.len(),
            "{} starts directly, {} guarded",
            outside.starts.len(),
            inside.starts.len()
        );
        for (at, (direct, guarded)) in outside.starts.iter().zip(&inside.starts).enumerate() {
            direct.same(guarded, at)?;
        }
        stage.no_session()?;
        trail::holds(stage, &inside.starts)?;

        if self.server == Server::Everything {
            // As people have it: nothing between the client and us, whose streams are what the client makes them.
            let bare = self.ran(stage, "bare", &guarded, &steps, false)?;
            for (direct, bare) in outside.printed.iter().zip(&bare.printed) {
                wire::equal(direct, bare).context("the client made something else of it, unrecorded")?;
            }
            stage.no_session()?;
        }
        let _ = writeln!(
            std::io::stderr(),
            "{} with {}: {:?} directly, {:?} guarded",
            self.client.name(),
            self.server.name(),
            outside.took,
            inside.took
        );
        Ok(())
    }

    /// Runs the client from a fresh start, with the command as its server.
    fn ran(self, stage: &Stage, how: &str, command: &Command, steps: &[Step], recorded: bool) -> Result<Ran> {
        let data = stage.path("data");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        fs::create_dir(&data)?;
        self.server.prepare(&data)?;
        let user = User::of_tests()?;
        own(&data, &user)?;
        let record = stage.directory(&format!("{how}.wire"))?;
        let launcher = stage.path(&format!("{how}.server"));
        wire::launcher(&launcher, command, recorded.then_some(record.as_path()))?;
        let (mut printed, started) = (Vec::new(), Instant::now());
        for (at, mut client) in self.client.commands(&launcher, steps)?.into_iter().enumerate() {
            let said = stage.path(&format!("{how}-{at}.said"));
            let home = stage.directory("home")?;
            client.env("HOME", &home).env("NO_COLOR", "1");
            printed.push(finish(&mut client, &said).with_context(|| {
                format!(
                    "{how}, the client or its server said: {}",
                    fs::read_to_string(&said).unwrap_or_default()
                )
            })?);
        }
        let took = started.elapsed();
        Ok(Ran {
            printed,
            starts: if recorded {
                wire::starts(&record)?
            } else {
                Vec::new()
            },
            took,
        })
    }
}

/// Its output, once it has ended well.
fn finish(command: &mut Command, said: &Path) -> Result<Vec<u8>> {
    let out: PathBuf = said.with_extension("printed");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(said)?)
        .spawn()
        .context("failed to start the client")?;
    let until = Instant::now() + limit(Duration::from_secs(100));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            bail!("the client does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    ensure!(status.success(), "the client ended with {status}");
    Ok(fs::read(out)?)
}

/// Words that start what follows as the servers' user.
fn as_user(user: &User) -> Command {
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={}", user.uid))
        .arg(format!("--regid={}", user.gid))
        .args(["--clear-groups", "--"]);
    command
}

/// The directory and all in it are the user's: git takes no repository of somebody else's.
fn own(path: &Path, user: &User) -> Result<()> {
    chown(path, Some(user.uid), Some(user.gid)).with_context(|| text(path))?;
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(path)? {
            own(&entry?.path(), user)?;
        }
    }
    Ok(())
}
