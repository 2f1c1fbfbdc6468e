//! A parent cgroup with sandboxes in it, and processes to put there.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a step that fails is a test that fails"
)]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use guard_agent::warden::kernel::{Event, Events, Programs};

/// Cgroups of one test, removed when it ends, whichever way.
pub struct Arena {
    root: PathBuf,
    parent: PathBuf,
}

impl Arena {
    pub fn make(name: &str) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "these tests load eBPF programs: run them as root"
        );
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .map(PathBuf::from)
            .into_iter()
            .find(|root| root.join("cgroup.controllers").exists())
            .expect("no cgroup v2 hierarchy is mounted");
        let parent = root.join(format!("guard-observe-{}-{name}", std::process::id()));
        fs::create_dir_all(&parent).expect("cannot make the test's cgroup");
        Self { root, parent }
    }

    pub fn parent(&self) -> File {
        File::open(&self.parent).unwrap()
    }

    /// Depth of the sandboxes; the mount's root is the hierarchy's where these tests run.
    pub fn level(&self) -> u32 {
        let below = self.parent.strip_prefix(&self.root).unwrap();
        u32::try_from(below.components().count() + 1).unwrap()
    }

    pub fn load(&self) -> (Programs, Events) {
        let mut programs = Programs::load_and_attach(&self.parent(), self.level())
            .unwrap_or_else(|error| panic!("{}", guard_agent::refusal::chain(&error)));
        assert_eq!(programs.observation(), Ok(()));
        let events = programs.take_events().unwrap();
        (programs, events)
    }

    /// The same with the observing programs attached.
    pub fn observe(&self) -> (Programs, Events) {
        let (mut programs, events) = self.load();
        programs.observe_start().unwrap();
        (programs, events)
    }

    /// Makes a sandbox; its number is the inode of its directory.
    pub fn sandbox(&self, name: &str) -> u64 {
        fs::create_dir_all(self.parent.join(name)).unwrap();
        fs::metadata(self.parent.join(name)).unwrap().ino()
    }

    /// A process in a sandbox, or in a cgroup below one.
    pub fn subject(&self, place: &str) -> Subject {
        fs::create_dir_all(self.parent.join(place)).unwrap();
        let subject = Subject::start();
        self.enter(place, &subject);
        subject
    }

    /// Puts a process into a cgroup of this arena that is there.
    pub fn enter(&self, place: &str, subject: &Subject) {
        self.put(place, subject.pid());
    }

    /// The same by its number.
    pub fn put(&self, place: &str, pid: u32) {
        let list = self.parent.join(place).join("cgroup.procs");
        fs::write(list, pid.to_string()).unwrap();
    }

    /// Puts a process into the hierarchy's root, where no program is attached.
    pub fn leave(&self, subject: &Subject) {
        fs::write(self.root.join("cgroup.procs"), subject.pid().to_string()).unwrap();
    }

    /// Sandbox, slot and a process that is observed in it.
    pub fn watched(&self, name: &str, programs: &Programs) -> (u64, u32, Subject) {
        let id = self.sandbox(name);
        let slot = programs.open_slot(id, true).unwrap();
        (id, slot, self.subject(name))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        remove(&self.parent, deadline);
    }
}

/// The subjects were dropped before; the kernel may need a moment to let go of them.
fn remove(path: &Path, deadline: Instant) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path(), deadline);
        }
    }
    while fs::remove_dir(path).is_err() && path.exists() && Instant::now() < deadline {
        let _ = fs::write(path.join("cgroup.kill"), "1");
        thread::sleep(Duration::from_millis(10));
    }
}

/// One argument of a call.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    Number(i64),
    /// Text; memory ends with its zero.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Unreadable,
}

/// What came of a call, and who made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub result: i64,
    pub pid: u32,
    pub tid: u32,
}

/// `guard-observe`, doing what it is told.
pub struct Subject {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Subject {
    pub fn start() -> Self {
        let mut child = Command::new(crate::programs::observe().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut subject = Self {
            child,
            orders,
            answers,
        };
        // Its start is over.
        assert_eq!(subject.order("ready?"), "not an order");
        subject
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn order(&mut self, order: &str) -> String {
        self.tell(order);
        self.heard()
    }

    /// Half an order: the answer is waited for later.
    pub fn tell(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    pub fn heard(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    pub fn call(&mut self, nr: u32, args: &[Arg<'_>]) -> Answer {
        self.by("call", nr, args)
    }

    /// `who` is `call`, `thread` or `daemon`.
    pub fn by(&mut self, who: &str, nr: u32, args: &[Arg<'_>]) -> Answer {
        let answer = self.order(&format!("{who} {}", words(nr, args)));
        let numbers: Vec<i64> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
        let id = |at: usize| u32::try_from(numbers[at]).unwrap();
        Answer {
            result: numbers[0],
            pid: id(1),
            tid: id(2),
        }
    }

    /// From now on [`forced`] calls fail.
    pub fn filter(&mut self) {
        assert_eq!(self.order("filter"), "done");
    }
}

/// A sixth argument that makes the subject's filter fail the call with this errno.
pub fn forced(errno: u16) -> Arg<'static> {
    Arg::Number((0x6775_6172 << 32) | i64::from(errno))
}

/// A call as the subject reads it.
pub fn words(nr: u32, args: &[Arg<'_>]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let word = |arg: &Arg<'_>| match arg {
        Arg::Number(number) => number.to_string(),
        Arg::Text(text) => format!("p={}", hex(text)),
        Arg::Bytes(bytes) => format!("b={}", hex(bytes)),
        Arg::Unreadable => "x".to_owned(),
    };
    let mut words = vec![nr.to_string()];
    words.extend(args.iter().map(word));
    words.join(" ")
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.orders = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn drain(events: &mut Events) -> Vec<Event> {
    let mut all = Vec::new();
    while events.drain(|event| all.push(event)).more {}
    assert_eq!(events.undecodable(), 0);
    all
}
