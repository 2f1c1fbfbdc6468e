//! The vocabulary of the table: rows, verdicts, conditions on arguments, and their meaning.

use std::borrow::Cow;

/// What an installation depends on besides the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// IPv4 and IPv6 sockets may be made, since cgroup programs refuse and report their use by address.
    pub inet_sockets: bool,
    /// Unix sockets may be made, since cgroup programs refuse and report their use by address.
    pub unix_sockets: bool,
    /// The pid namespace has `vm.memfd_noexec=2`, so no memory file can be executed.
    pub memfd_noexec_sysctl: bool,
    /// The sandbox has namespaces of its own: System V and POSIX queues reach nobody outside, a pid of somebody else
    /// means nothing in it, and what is no writable root is mounted read-only.
    pub namespaces: bool,
    /// Mounts or Landlock judge who may empty a file without opening it for writing.
    pub truncation_judged: bool,
}

impl Options {
    /// The least: nothing around the process helps.
    pub const STRICT: Self = Self {
        inet_sockets: false,
        unix_sockets: false,
        memfd_noexec_sysctl: false,
        namespaces: false,
        truncation_judged: false,
    };
    /// Every cgroup program attached, every namespace made.
    pub const OPEN: Self = Self {
        inet_sockets: true,
        unix_sockets: true,
        memfd_noexec_sysctl: true,
        namespaces: true,
        truncation_judged: true,
    };

    /// All combinations, for tests and measurements.
    pub fn every() -> impl Iterator<Item = Self> {
        (0_u8..32).map(|bits| Self {
            inet_sockets: bits & 1 != 0,
            unix_sockets: bits & 2 != 0,
            memfd_noexec_sysctl: bits & 4 != 0,
            namespaces: bits & 8 != 0,
            truncation_judged: bits & 16 != 0,
        })
    }
}

/// A property of the surroundings that a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    InetSockets,
    UnixSockets,
    MemfdNoexecSysctl,
    PrivateIpc,
    OwnProcesses,
    ReadOnlyOutside,
    TruncationJudged,
}

impl Needs {
    pub(super) fn met(self, options: &Options) -> bool {
        match self {
            Self::Nothing => true,
            Self::InetSockets => options.inet_sockets,
            Self::UnixSockets => options.unix_sockets,
            Self::MemfdNoexecSysctl => options.memfd_noexec_sysctl,
            Self::PrivateIpc | Self::OwnProcesses | Self::ReadOnlyOutside => options.namespaces,
            Self::TruncationJudged => options.truncation_judged,
        }
    }
}

/// `argument & mask == value`, on the low 32 bits or on all 64.
///
/// The kernel cuts `int` and `unsigned int` arguments to 32 bits, and so does a condition: C hands a request such as
/// `TCGETS2` over with its sign in the upper half, and a list of what is allowed would not know it again. (In one of what
/// is refused, comparing all 64 would let `TIOCSTI | 1 << 32` pass.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cond {
    pub arg: u8,
    pub mask: u64,
    pub value: u64,
    pub wide: bool,
}

impl Cond {
    pub(super) const fn eq(arg: u8, value: u32) -> Self {
        Self {
            arg,
            mask: u32::MAX as u64,
            value: value as u64,
            wide: false,
        }
    }
    pub(super) const fn masked(arg: u8, mask: u32, value: u32) -> Self {
        Self {
            arg,
            mask: mask as u64,
            value: value as u64,
            wide: false,
        }
    }
    /// All 64 bits: pointers.
    pub(super) const fn null(arg: u8) -> Self {
        Self {
            arg,
            mask: u64::MAX,
            value: 0,
            wide: true,
        }
    }

    #[cfg(test)]
    pub(super) fn holds(&self, args: &[u64; 6]) -> bool {
        args[usize::from(self.arg)] & self.mask == self.value
    }
}

/// All conditions must hold. Without conditions it always does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub needs: Needs,
    pub conds: Cow<'static, [Cond]>,
}

impl Rule {
    pub(super) const fn new(conds: &'static [Cond]) -> Self {
        Self {
            needs: Needs::Nothing,
            conds: Cow::Borrowed(conds),
        }
    }
    pub(super) const fn when(needs: Needs, conds: &'static [Cond]) -> Self {
        Self {
            needs,
            conds: Cow::Borrowed(conds),
        }
    }
}

/// A call refused, and how loudly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// EPERM without a record: old, harmless or meaningless here.
    Quiet,
    /// The caller waits until the warden has recorded it and answers with this errno.
    Notify(i32),
    /// The kernel kills the process with SIGSYS.
    Kill,
}

/// What happens to the calls of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    /// Allowed when one of the rules holds.
    AllowIf(Cow<'static, [Rule]>, Refusal),
    Refuse(Refusal),
    /// ENOSYS: what a program takes for an older kernel, so that it falls back to a call that can be judged.
    NoSys,
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub group: &'static str,
    pub reason: &'static str,
    pub verdict: Verdict,
    pub calls: &'static [&'static str],
}

/// What a call gets.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Allow,
    Errno(i32),
    Notify(i32),
    Kill,
}

#[cfg(test)]
impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Quiet => Self::Errno(libc::EPERM),
            Refusal::Notify(errno) => Self::Notify(errno),
            Refusal::Kill => Self::Kill,
        }
    }
}

impl Verdict {
    /// The verdict in given surroundings: rules whose needs are not met fall away.
    pub(super) fn under(&self, options: &Options) -> Self {
        let Self::AllowIf(rules, refusal) = self else {
            return self.clone();
        };
        let kept: Vec<Rule> = rules
            .iter()
            .filter(|rule| rule.needs.met(options))
            .cloned()
            .collect();
        if kept.is_empty() {
            Self::Refuse(*refusal)
        } else if kept.iter().any(|rule| rule.conds.is_empty()) {
            Self::Allow
        } else {
            Self::AllowIf(kept.into(), *refusal)
        }
    }

    /// What one call gets; call it on the result of `under`.
    #[cfg(test)]
    pub(super) fn judge(&self, args: &[u64; 6]) -> Outcome {
        match self {
            Self::Allow => Outcome::Allow,
            Self::Refuse(refusal) => (*refusal).into(),
            Self::NoSys => Outcome::Errno(libc::ENOSYS),
            Self::AllowIf(rules, refusal) => {
                if rules
                    .iter()
                    .any(|rule| rule.conds.iter().all(|cond| cond.holds(args)))
                {
                    Outcome::Allow
                } else {
                    (*refusal).into()
                }
            }
        }
    }
}
