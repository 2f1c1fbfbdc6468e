//! What `cargo xtask bench open --vm` runs in a machine that counts instructions: one server in each of the ways that
//! are compared, asked for the same opens. `guard-bench-hooks ROUNDS COUNT FILE DEPTH…` writes an object a line.
//!
//! With `--measured` before them it runs on a machine that takes no program on its security hooks, and counts
//! nanoseconds: the program is one that costs the same and refuses nothing, see `guard_common::measured`.
//!
//! The machine's clock otherwise advances a nanosecond an instruction there: what `guard-bench` takes for nanoseconds are counts.
//! They are of the server's thread alone, since a guest that was just started is busy with itself.
#![expect(clippy::print_stdout, reason = "what it is doing is told to the console")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::{refusal::chain, sys::process::pidfd_open, warden::kernel::Programs};
use guard_common::hooks::FILE_OPEN;
use guard_tests::arena::Arena;
use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
};

/// `rw`, as the Landlock rule has them.
const RIGHTS: u32 = 3;

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let measured = words.first().is_some_and(|word| word == "--measured");
    if measured {
        words.remove(0);
    }
    let [rounds, count, out, depths @ ..] = words.as_slice() else {
        bail!("[--measured] ROUNDS COUNT FILE DEPTH…");
    };
    if !measured {
        counts()?;
    }
    let run = Run {
        rounds: rounds.parse()?,
        count: count.parse()?,
        depths: depths.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
        place: tempfile::tempdir()?,
    };
    let root = run.place.path().join("root");
    fs::create_dir(&root)?;
    if measured {
        let lines = in_turns(&run, &root)?;
        return fs::write(out, lines).with_context(|| format!("write `{out}`"));
    }
    let mut lines = String::new();
    let mut measure = |way: &str, server: &mut Server| -> Result<()> {
        println!("{way}");
        lines += &run.measure(way, &root, server)?;
        Ok(())
    };
    measure("bare", &mut Server::start(None)?)?;
    measure("landlock", &mut Server::start(Some(&root))?)?;

    let arena = Arena::make("bench");
    let (mut programs, _events) = arena.load();
    programs
        .hooks_start()
        .map_err(|error| anyhow::anyhow!("put the hooks in force: {}", chain(&error)))?;
    measure("outside", &mut Server::start(None)?)?;
    decided(&programs, 0)?;
    // Landlock first: a process takes its own rules before it is put under ours.
    let mut inside = Server::start(Some(&root))?;
    let held = enrol(&arena, &mut programs, &root, inside.child.id())?;
    measure("hooks", &mut inside)?;
    decided(&programs, run.opens())?;
    drop(held);
    fs::write(out, lines).with_context(|| format!("write `{out}`"))
}

/// Each way once a round, so that all have the machine's quiet and busy moments: bare, then outside and inside of a
/// sandbox while the program is loaded.
fn in_turns(run: &Run, root: &Path) -> Result<String> {
    const WAYS: [&str; 3] = ["bare", "outside", "hooks"];
    let (mut other, mut own) = (Server::start(None)?, Server::start(None)?);
    let places = run
        .depths
        .iter()
        .map(|depth| below(root, *depth))
        .collect::<Result<Vec<_>>>()?;
    let mut samples = vec![[(); WAYS.len()].map(|()| Vec::new()); places.len()];
    let arena = Arena::make("bench");
    // What is enrolled is where this process is.
    std::env::set_current_dir(root)?;
    let mut take = |server: &mut Server, way: usize, keep: bool| -> Result<()> {
        for (place, samples) in places.iter().zip(&mut samples) {
            server.ask(&format!("enter {}", place.display()))?;
            let sample: f64 = server.ask(&format!("getppid {}", run.count))?.parse()?;
            if keep {
                samples[way].push(sample);
            }
        }
        Ok(())
    };
    // The first round fills caches and is not kept.
    for round in 0..=run.rounds {
        take(&mut other, 0, round > 0)?;
        let (mut programs, _events) = arena.load();
        programs
            .hooks_measured()
            .map_err(|error| anyhow::anyhow!("load what is measured: {}", chain(&error)))?;
        take(&mut other, 1, round > 0)?;
        decided(&programs, 0)?;
        let held = enrol(&arena, &mut programs, root, own.child.id())?;
        take(&mut own, 2, round > 0)?;
        decided(&programs, u64::from(run.count) * places.len() as u64)?;
        drop(held);
    }
    let mut lines = String::new();
    for (depth, samples) in run.depths.iter().zip(&samples) {
        for (way, samples) in WAYS.iter().zip(samples) {
            let line = serde_json::json!({ "way": way, "depth": depth, "samples": samples });
            lines += &format!("{line}\n");
        }
    }
    Ok(lines)
}

/// A directory with so many names between the root and itself, its own included.
fn below(root: &Path, depth: usize) -> Result<PathBuf> {
    let place = (1..=depth).fold(root.to_owned(), |place, level| {
        place.join(format!("level-{level}"))
    });
    fs::create_dir_all(&place)?;
    Ok(place)
}

struct Run {
    rounds: u32,
    count: u32,
    depths: Vec<usize>,
    place: tempfile::TempDir,
}

impl Run {
    /// How many a server is asked for.
    fn opens(&self) -> u64 {
        u64::from(self.rounds + 1) * u64::from(self.count) * self.depths.len() as u64
    }

    /// A line a depth. The first round fills caches and is not kept.
    fn measure(&self, way: &str, root: &Path, server: &mut Server) -> Result<String> {
        let mut lines = String::new();
        for depth in &self.depths {
            let file = file(root, *depth)?;
            let request = format!("open-own {} {}", file.display(), self.count);
            let mut samples = Vec::new();
            for round in 0..=self.rounds {
                let sample: f64 = server.ask(&request)?.parse()?;
                if round > 0 {
                    samples.push(sample);
                }
            }
            let line = serde_json::json!({ "way": way, "depth": depth, "samples": samples });
            lines += &format!("{line}\n");
        }
        Ok(lines)
    }
}

/// The processor's frequency, as the kernel found it by its timers, says whether the clocks count instructions.
fn counts() -> Result<()> {
    let text = fs::read_to_string("/proc/cpuinfo")?;
    let frequency: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu MHz")?.split_once(": "))
        .context("`/proc/cpuinfo` names no frequency")?
        .1
        .parse()?;
    ensure!(
        (999.0..1001.0).contains(&frequency),
        "the clock advances {frequency} times in a microsecond, not once an instruction: the emulator was started \
         without `-icount shift=0`"
    );
    Ok(())
}

/// What was measured was decided by the hooks, or by none of them.
fn decided(programs: &Programs, opens: u64) -> Result<()> {
    let hits = programs
        .hits(&FILE_OPEN)
        .map_err(|error| anyhow::anyhow!("count decisions: {}", chain(&error)))?;
    ensure!(
        (hits.allowed, hits.denied) == (opens, 0),
        "{opens} opens were to be allowed by the hooks; they say {hits:?}"
    );
    Ok(())
}

/// A file with so many names between the root and itself, its own included.
fn file(root: &Path, depth: usize) -> Result<PathBuf> {
    let mut path = root.to_owned();
    for level in 1..depth {
        path.push(format!("level-{level}"));
    }
    fs::create_dir_all(&path)?;
    path.push("file");
    fs::write(&path, "x")?;
    Ok(path)
}

/// Puts a process into a sandbox that has one root, and under the hooks. The root stays as long as what is returned.
fn enrol(arena: &Arena, programs: &mut Programs, root: &Path, pid: u32) -> Result<[OwnedFd; 2]> {
    let failed = |what: &'static str| move |error| anyhow::anyhow!("{what}: {}", chain(&error));
    let sandbox = arena.sandbox("sandbox");
    let slot = programs
        .open_slot(sandbox, false)
        .map_err(failed("open a slot"))?;
    arena.put("sandbox", pid);
    let object = open(root, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // As a launch does it: a root that is cut by the stamp, and a stamp.
    programs
        .enrol_root(sandbox, object.as_fd(), RIGHTS)
        .map_err(failed("enrol the root"))?;
    programs
        .stamp(sandbox, slot, RIGHTS, 0)
        .map_err(failed("make the stamp"))?;
    let process = pidfd_open(i32::try_from(pid)?)?;
    programs
        .enforce(sandbox, slot, false, process.as_fd())
        .map_err(failed("enforce"))?;
    Ok([object, process])
}

/// `guard-bench`, doing what it is told.
struct Server {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Server {
    /// With a root: under Landlock.
    fn start(root: Option<&Path>) -> Result<Self> {
        let mut own = std::env::current_exe()?;
        own.set_file_name("guard-bench");
        let mut command = Command::new(own);
        if let Some(root) = root {
            command.arg("landlock").arg(root);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start `guard-bench`")?;
        let to = child.stdin.take().context("no input")?;
        let from = BufReader::new(child.stdout.take().context("no output")?);
        let mut server = Self { child, to, from };
        server.ask("{}")?;
        Ok(server)
    }

    fn ask(&mut self, line: &str) -> Result<String> {
        writeln!(self.to, "{line}")?;
        let mut answer = String::new();
        self.from.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
