//! One attempt a row: what it is, which hook decides, what comes of it in a sandbox and outside.

mod changes;
mod execution;
mod files;
mod names;
mod never;
mod processes;
mod sockets;

pub(crate) use self::sockets::address;

use std::os::unix::ffi::OsStrExt as _;

use guard_common::hooks::{Hook, Rule};
use guard_tests::arena::{Arg, Subject, words};

use crate::place::Place;

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Not an error.
    Done,
    /// This result and no other.
    Is(i64),
    /// What this machine makes of it, but not this.
    Not(i64),
}

impl End {
    pub(crate) fn takes(self, result: i64) -> bool {
        match self {
            Self::Done => result >= 0,
            Self::Is(expected) => result == expected,
            Self::Not(other) => result != other,
        }
    }
}

/// Refused with the table's usual errors.
pub(crate) const EACCES: End = End::Is(-13);
pub(crate) const EPERM: End = End::Is(-1);

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Decides, and its counter shows it.
    pub(crate) hook: &'static Hook,
    pub(crate) inside: End,
    /// `false`: the hook allows what the row does inside.
    pub(crate) refused: bool,
    /// The control.
    pub(crate) outside: End,
    /// What the record of the refusal says.
    pub(crate) why: &'static str,
    /// Made where the programs of the sandbox's cgroup do not decide before: by a process that left it and has its
    /// label.
    pub(crate) label_alone: bool,
    pub(crate) act: fn(&mut Actor<'_>) -> i64,
}

const fn no(name: &'static str, hook: &'static Hook, inside: End, act: fn(&mut Actor<'_>) -> i64) -> Row {
    Row {
        name,
        hook,
        inside,
        refused: true,
        outside: End::Done,
        why: match hook.rule {
            Rule::Never => "never",
            Rule::Same => "stranger",
            Rule::Kind => "kind",
            _ => "outside-roots",
        },
        label_alone: false,
        act,
    }
}

const fn yes(name: &'static str, hook: &'static Hook, act: fn(&mut Actor<'_>) -> i64) -> Row {
    Row {
        name,
        hook,
        inside: End::Done,
        refused: false,
        outside: End::Done,
        why: "",
        label_alone: false,
        act,
    }
}

impl Row {
    const fn outside(self, outside: End) -> Self {
        Self { outside, ..self }
    }

    const fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    const fn by_label(self) -> Self {
        Self {
            label_alone: true,
            ..self
        }
    }
}

/// Every row, in no order that matters.
pub(crate) fn all() -> Vec<Row> {
    [
        files::rows(),
        names::rows(),
        changes::rows(),
        execution::rows(),
        sockets::rows(),
        processes::rows(),
        never::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Descriptors that a subject has from before.
pub(crate) const HELD_OUTSIDE: i64 = 200;
pub(crate) const HELD_R: i64 = 201;
pub(crate) const HELD_RW: i64 = 202;
pub(crate) const OUTSIDE_DIRECTORY: i64 = 203;
pub(crate) const NULL: i64 = 204;
pub(crate) const RING: i64 = 205;
/// Two ends of one pair of sockets.
pub(crate) const ANOTHERS: i64 = 206;
pub(crate) const HANDED: i64 = 207;

/// An argument.
#[derive(Clone, Copy)]
pub(crate) enum A<'a> {
    N(i64),
    /// Below the place.
    P(&'a str),
    T(&'a str),
    B(&'a [u8]),
}

/// A subject and what it acts on.
pub(crate) struct Actor<'a> {
    pub(crate) subject: &'a mut Subject,
    pub(crate) place: &'a Place,
    /// Its own, for what must not be the same for two.
    pub(crate) name: &'a str,
}

impl Actor<'_> {
    pub(crate) fn call(&mut self, nr: i64, args: &[A<'_>]) -> i64 {
        self.by("call", nr, args)
    }

    /// In a child: the result, or the exit status of what the child became.
    pub(crate) fn run(&mut self, nr: i64, args: &[A<'_>]) -> i64 {
        self.by("run", nr, args)
    }

    pub(crate) fn by(&mut self, who: &str, nr: i64, args: &[A<'_>]) -> i64 {
        let paths: Vec<Vec<u8>> = args
            .iter()
            .map(|arg| match arg {
                A::P(name) => self.place.path(name).as_os_str().as_bytes().to_vec(),
                A::T(text) => text.as_bytes().to_vec(),
                A::N(_) | A::B(_) => Vec::new(),
            })
            .collect();
        let args: Vec<Arg<'_>> = args
            .iter()
            .zip(&paths)
            .map(|(arg, path)| match arg {
                A::N(number) => Arg::Number(*number),
                A::P(_) | A::T(_) => Arg::Text(path),
                A::B(bytes) => Arg::Bytes(bytes),
            })
            .collect();
        let order = words(u32::try_from(nr).unwrap(), &args);
        self.order(&format!("{who} {order}"))
    }

    /// The result of any order that is answered as a call is.
    pub(crate) fn order(&mut self, order: &str) -> i64 {
        let answer = self.subject.order(order);
        let first = answer.split(' ').next().unwrap();
        first.parse().unwrap_or_else(|_| panic!("{order}: {answer:?}"))
    }

    /// A path of the place as orders take it.
    pub(crate) fn hex(&self, name: &str) -> String {
        let path = self.place.path(name);
        let bytes = path.as_os_str().as_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Opens a file.
    pub(crate) fn open(&mut self, name: &str, flags: i32) -> i64 {
        self.call(libc::SYS_open, &[A::P(name), A::N(i64::from(flags)), A::N(0o644)])
    }

    pub(crate) fn close_all(&mut self) {
        self.call(libc::SYS_close_range, &[A::N(3), A::N(199), A::N(0)]);
    }

    /// Opens what it keeps, before anything is enforced.
    pub(crate) fn prepare(&mut self) {
        let rdwr = libc::O_RDWR;
        for (name, flags, to) in [
            ("outside/.held", rdwr, HELD_OUTSIDE),
            ("r/.held", libc::O_RDONLY, HELD_R),
            ("rw/.held", rdwr, HELD_RW),
            ("outside", libc::O_RDONLY, OUTSIDE_DIRECTORY),
        ] {
            let fd = self.open(name, flags);
            self.keep(fd, to);
        }
        let null = self.call(libc::SYS_open, &[A::T("/dev/null"), A::N(i64::from(rdwr))]);
        self.keep(null, NULL);
        let ring = self.order("ring 0");
        assert_eq!(ring, RING);
        self.close_all();
        let pair = self.call(libc::SYS_socketpair, &[A::N(1), A::N(1), A::N(0), A::B(&[0; 8])]);
        assert_eq!(pair, 0);
        // The lowest that were free.
        self.keep(3, ANOTHERS);
        self.keep(4, HANDED);
        // Whose permission can be asked for later.
        let key = self.call(
            libc::SYS_add_key,
            &[A::T("user"), A::T("guard"), A::B(b"word"), A::N(4), A::N(-2)],
        );
        assert!(key > 0, "{key}");
        self.close_all();
    }

    pub(crate) fn keep(&mut self, fd: i64, to: i64) {
        assert!(fd > 2, "{to}: {fd}");
        assert_eq!(self.call(libc::SYS_dup2, &[A::N(fd), A::N(to)]), to);
    }
}
