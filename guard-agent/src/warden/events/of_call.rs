//! What `sys_exit` reported: calls of sandboxed tasks that failed, and opens that did not.

use std::collections::BTreeMap;

use guard_common::syscalls::{Call, Class};

use super::{
    attempt::{Given, Key, Who, blank},
    calls::{self, Act},
    classify::{Seen, Target, Verdict, classify},
    desk::Surroundings,
    in_flight::During,
    ledger::Ledger,
};
use crate::{
    audit::{Decision, Field, Kernel, Layer, PathSource, errno_name},
    confine::seccomp,
    octets::Octets,
    warden::kernel::{CallEvent, UserPath},
};

/// Takes one event. What is ordinary leaves no trace.
pub(super) fn note(event: CallEvent, during: During, ledger: &mut Ledger, around: &Surroundings) {
    let Some(call) = Call::find(event.nr) else {
        // Not in the table that told the kernel half what to report.
        return;
    };
    let who = Who::of(&event.origin, during);
    let (first, second) = (event.path.map(given), event.second.map(given));
    let named = matches!(call.class, Class::Path);
    // What a symbolic link says is a text.
    let leading = if calls::act(event.nr) == Act::Symlink {
        None
    } else {
        second.as_ref()
    };
    let relative = named && first.iter().chain(leading).any(Given::is_relative);
    let key = Key::Call {
        nr: event.nr,
        errno: event.errno,
        args: calls::telling(event.nr, call, &event.args, relative),
        first,
        second,
        to: event.address,
        // A relative path means something else in another process.
        process: if relative { event.origin.pid } else { 0 },
        during: who.during.clone(),
    };
    if ledger.repeated(&key) {
        return;
    }
    let Key::Call { first, second, .. } = &key else {
        return;
    };
    let given = (first.as_ref(), second.as_ref());
    let attempt = Attempt::new(call, &event.args, event.errno, given, &who, around);
    let (decision, layer, reason) = match attempt.verdict(around) {
        Verdict::Ordinary => return,
        Verdict::Allow => (Decision::Allow, Layer::Unknown, None),
        Verdict::Deny { layer, reason } => (Decision::Deny, layer, reason),
    };
    let op = calls::operation(event.nr);
    let record = |key: &Key| {
        let blank = blank(op.clone(), decision, layer, &who);
        let to = match key {
            Key::Call { to, .. } => *to,
            _ => None,
        };
        Kernel {
            address: to.map(|to| to.ip().to_string()),
            port: to.map(|to| to.port()),
            ..attempt.record(blank, reason, around)
        }
    };
    // `attempt` has its own copies of the paths: the key moves into the ledger.
    ledger.first(key, &op, record);
}

fn given(path: UserPath) -> Given {
    Given {
        bytes: path.bytes,
        complete: path.complete,
    }
}

/// A path and where it leads.
#[derive(Debug, Default)]
struct Located {
    /// As the program gave it, absolute where that is known.
    shown: Option<Vec<u8>>,
    clean: Option<Vec<u8>>,
    complete: bool,
    /// Relative to what could not be looked up.
    unplaced: bool,
    /// Longer than what is reported, or not read to its end.
    cut: bool,
    /// Its memory could not be read at all.
    unread: bool,
}

impl Located {
    fn new(given: Option<&Given>, directory: Option<i32>, tid: u32, around: &Surroundings) -> Self {
        let Some(given) = given else {
            return Self::default();
        };
        let cut = !given.complete;
        if given.bytes.is_empty() && cut {
            return Self {
                unread: true,
                ..Self::default()
            };
        }
        if given.bytes.is_empty() {
            // `AT_EMPTY_PATH`: the descriptor itself.
            let shown = directory.and_then(|fd| around.descriptor(tid, fd));
            return Self::at(shown, true, cut);
        }
        if !given.is_relative() {
            return Self::at(Some(given.bytes.clone()), given.complete, cut);
        }
        let (base, sure) = match directory {
            None | Some(libc::AT_FDCWD) => around.working_directory(tid),
            Some(fd) => (around.descriptor(tid, fd), true),
        };
        match base {
            Some(base) => {
                let shown = super::places::join(&base, &given.bytes);
                Self::at(Some(shown), sure && given.complete, cut)
            }
            None => Self {
                shown: Some(given.bytes.clone()),
                unplaced: true,
                cut,
                ..Self::default()
            },
        }
    }

    fn at(shown: Option<Vec<u8>>, complete: bool, cut: bool) -> Self {
        Self {
            clean: shown.as_deref().map(super::places::clean),
            shown,
            complete,
            cut,
            ..Self::default()
        }
    }

    fn target(&self, leads_out: bool) -> Target<'_> {
        match &self.clean {
            Some(_) if leads_out => Target::LeadsOut,
            Some(clean) if self.cut => Target::Cut(clean),
            Some(clean) => Target::At(clean),
            None if self.unread => Target::Unread,
            None if self.unplaced => Target::Unplaced,
            None => Target::None,
        }
    }
}

/// One call, with everything about it that was looked up.
struct Attempt<'a> {
    call: &'a Call,
    act: Act,
    args: &'a [u64; 6],
    errno: i32,
    who: &'a Who,
    first: Located,
    second: Located,
}

impl<'a> Attempt<'a> {
    fn new(
        call: &'a Call,
        args: &'a [u64; 6],
        errno: u16,
        (first, second): (Option<&Given>, Option<&Given>),
        who: &'a Who,
        around: &Surroundings,
    ) -> Self {
        let directory = |at: Option<u8>| at.and_then(|at| args.get(usize::from(at))).map(|fd| *fd as i32);
        let act = calls::act(call.nr);
        let second = match act {
            Act::Symlink => Located::text(second),
            _ => Located::new(second, directory(call.second_dirfd), who.tid, around),
        };
        let first = match call.class {
            // The name of a unix socket may be abstract.
            Class::Socket => Located::text(first),
            _ => Located::new(first, directory(call.dirfd), who.tid, around),
        };
        Self {
            call,
            act,
            args,
            errno: errno.into(),
            who,
            first,
            second,
        }
    }

    fn verdict(&self, around: &Surroundings) -> Verdict {
        let missing = matches!(self.errno, libc::ENOENT | libc::ENOTDIR);
        let leads_out =
            |path: &Located| missing && path.clean.as_deref().is_some_and(|path| around.leads_out(path));
        let protection = self.args.get(calls::PROTECTION).copied().unwrap_or(0);
        let seen = Seen {
            act: self.act,
            class: self.call.class,
            errno: self.errno,
            executable: protection & libc::PROT_EXEC as u64 != 0,
            first: self.first.target(leads_out(&self.first)),
            second: self
                .second
                .target(self.act != Act::Symlink && leads_out(&self.second)),
            filtered: seccomp::refuses(self.call.nr),
        };
        classify(&seen, around.places())
    }

    fn record(&self, blank: Kernel, reason: Option<&'static str>, around: &Surroundings) -> Kernel {
        let mapped = || {
            let fd = *self.args.get(calls::MAPPED)? as i32;
            around.descriptor(self.who.tid, fd)
        };
        let path = match self.act {
            Act::Map => mapped(),
            _ => self.first.shown.clone(),
        };
        let given = |path: &Located| (path.shown.is_none() && !path.unread) || path.complete;
        let complete = given(&self.first) && given(&self.second);
        let path2 = self.second.shown.clone();
        let any = path.is_some() || path2.is_some();
        Kernel {
            reason: reason.map(str::to_owned),
            path_source: any.then_some(PathSource::UserMemory),
            path_complete: (!complete).then_some(false),
            path: path.map(Octets),
            path2: path2.map(Octets),
            rights: calls::rights_wanted(self.call.nr, self.args).map(str::to_owned),
            detail: self.detail(),
            exe: around.program(self.who.tid),
            errno: (self.errno != 0).then(|| errno_name(self.errno)),
            ..blank
        }
    }

    /// Arguments that say what it was for.
    fn detail(&self) -> Option<BTreeMap<String, Field>> {
        let arg = |at: usize| self.args.get(at).copied().unwrap_or(0) as i32;
        let fields: Vec<(&str, Field)> = match (self.act, self.call.class) {
            (Act::Map | Act::Protect, _) => {
                vec![(
                    "protection",
                    Field::Text(protection(arg(calls::PROTECTION)).as_str().into()),
                )]
            }
            (_, Class::Signal) => {
                let at = usize::from(matches!(
                    i64::from(self.call.nr),
                    libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo
                ));
                let mut fields = vec![("target", Field::Signed(arg(at)))];
                if !matches!(
                    i64::from(self.call.nr),
                    libc::SYS_pidfd_open | libc::SYS_pidfd_getfd
                ) {
                    fields.push(("signal", Field::Signed(arg(at + 1))));
                }
                fields
            }
            (_, Class::Process) => vec![(
                "target",
                Field::Signed(arg(usize::from(
                    self.act == Act::Other && i64::from(self.call.nr) == libc::SYS_ptrace,
                ))),
            )],
            _ => Vec::new(),
        };
        let fields: BTreeMap<_, _> = fields
            .into_iter()
            .map(|(name, field)| (name.to_owned(), field))
            .collect();
        (!fields.is_empty()).then_some(fields)
    }
}

impl Located {
    /// Of a link's content, which is no path yet.
    fn text(given: Option<&Given>) -> Self {
        Self {
            shown: given.map(|given| given.bytes.clone()),
            complete: given.is_none_or(|given| given.complete),
            ..Self::default()
        }
    }
}

fn protection(bits: i32) -> String {
    let names = [
        (libc::PROT_READ, "PROT_READ"),
        (libc::PROT_WRITE, "PROT_WRITE"),
        (libc::PROT_EXEC, "PROT_EXEC"),
    ];
    let set: Vec<&str> = names
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    set.join("|")
}
