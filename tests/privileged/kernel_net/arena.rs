//! A parent cgroup with one sandbox in it, and a process to put there.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use guard_agent::warden::kernel::Programs;

use crate::{operation::Outcome, targets::Targets};

/// Cgroups of one test, removed when it ends, whichever way.
pub(crate) struct Arena {
    root: PathBuf,
    parent: PathBuf,
}

impl Arena {
    pub(crate) fn make(name: &str) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "these tests load eBPF programs: run them as root"
        );
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .map(PathBuf::from)
            .into_iter()
            .find(|root| root.join("cgroup.controllers").exists())
            .expect("no cgroup v2 hierarchy is mounted");
        let parent = root.join(format!("guard-net-{}-{name}", std::process::id()));
        fs::create_dir_all(parent.join("sandbox/nested")).expect("cannot make the test's cgroups");
        Self { root, parent }
    }

    pub(crate) fn parent(&self) -> File {
        File::open(&self.parent).unwrap()
    }

    /// Depth of the sandbox; the mount's root is the hierarchy's where these tests run.
    pub(crate) fn level(&self) -> u32 {
        let below = self.parent.join("sandbox");
        u32::try_from(below.strip_prefix(&self.root).unwrap().components().count()).unwrap()
    }

    pub(crate) fn load(&self) -> Programs {
        Programs::load_and_attach(&self.parent(), self.level())
            .unwrap_or_else(|error| panic!("{}", guard_agent::refusal::chain(&error)))
    }

    /// The kernel's number of a cgroup is the inode of its directory.
    pub(crate) fn sandbox_id(&self) -> u64 {
        fs::metadata(self.parent.join("sandbox")).unwrap().ino()
    }

    pub(crate) fn admit(&self, subject: &Subject) {
        self.move_to("sandbox", subject);
    }

    pub(crate) fn admit_nested(&self, subject: &Subject) {
        self.move_to("sandbox/nested", subject);
    }

    fn move_to(&self, place: &str, subject: &Subject) {
        fs::write(
            self.parent.join(place).join("cgroup.procs"),
            subject.pid().to_string(),
        )
        .unwrap();
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // The subject was dropped before; the kernel may need a moment to let go of it.
        let deadline = Instant::now() + Duration::from_secs(5);
        for place in ["sandbox/nested", "sandbox", ""] {
            let path = self.parent.join(place);
            while fs::remove_dir(&path).is_err() && path.exists() && Instant::now() < deadline {
                let _ = fs::write(path.join("cgroup.kill"), "1");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// This test binary again, doing what it is told on its standard input.
pub(crate) struct Subject {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<std::process::ChildStderr>,
}

impl Subject {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "subject", "--ignored", "--nocapture"])
            .env("GUARD_NET_SUBJECT", "1")
            .stdin(Stdio::piped())
            // The harness talks on the standard output, so the answers come on the other.
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            orders,
            answers,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn perform(&mut self, operation: &str, targets: &Targets) -> Outcome {
        let answer = self.order(&format!("{operation} {}", targets.encode()));
        Outcome::parse(&answer)
    }

    /// How many of the sends were refused.
    pub(crate) fn flood(&mut self, each: u64, targets: &Targets) -> u64 {
        self.order(&format!("flood:{each} {}", targets.encode()))
            .parse()
            .unwrap()
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.orders = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn in_first_pid_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new("pid:[4026531836]"))
}

pub(crate) fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (major, minor)
}

/// Where a section of a 64-bit ELF file starts.
pub(crate) fn section(elf: &[u8], wanted: &str) -> usize {
    let number = |at: usize, width: usize| {
        elf[at..at + width]
            .iter()
            .rev()
            .fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte))
    };
    let (table, size, count, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    let header = |index: usize| table + index * size;
    let strings = number(header(names) + 24, 8);
    (0..count)
        .map(header)
        .find(|at| elf[strings + number(*at, 4)..].starts_with(&[wanted.as_bytes(), b"\0"].concat()))
        .map(|at| number(at + 24, 8))
        .expect("no such section")
}
