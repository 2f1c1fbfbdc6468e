//! From the table to two programs.
//!
//! - *allow-list* (by `seccompiler`): what is in the table as allowed passes, all else is EPERM.
//! - *verdicts* (assembled here): foreign architectures die, some calls do not exist, some wait for the warden.
//!
//! The kernel runs all programs and takes the strictest answer: kill, errno, notify, allow. So the allow-list must
//! pass what the other one is to report. The verdicts are installed last: among equal answers the newest
//! program's errno is the one that is returned, which gives ENOSYS its place before EPERM.

use std::collections::BTreeMap;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
    SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF, sock_filter,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::{
    bpf::{Assembler, Half, Label, OFFSET_ARCH, OFFSET_NR},
    names,
    rule::{Cond, Options, Refusal, Row, Rule, Verdict},
};
use crate::confine::ConfineError;

pub(super) const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const X32: u32 = 0x4000_0000;

/// Who hears of a refusal that the table wants reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    Listener,
    /// No warden (tier T3): the same errno, no record.
    Nobody,
}

/// The verdict of every call named in `rows`, under `options`.
pub(super) fn verdicts(rows: &[Row], options: &Options) -> Result<BTreeMap<u32, Verdict>, String> {
    let mut by_number = BTreeMap::new();
    for row in rows {
        for call in row.calls {
            let number = names::number(call).ok_or_else(|| format!("unknown system call `{call}`"))?;
            if by_number.insert(number, row.verdict.under(options)).is_some() {
                return Err(format!("`{call}` stands in two rows"));
            }
        }
    }
    Ok(by_number)
}

pub(super) fn allow_list(
    verdicts: &BTreeMap<u32, Verdict>,
) -> Result<Vec<seccompiler::sock_filter>, ConfineError> {
    let failed = |why: String| ConfineError::Compile {
        filter: "allow-list",
        why,
    };
    let mut rules = BTreeMap::new();
    for (number, verdict) in verdicts {
        let rule = match verdict {
            Verdict::Allow
            | Verdict::AllowIf(_, Refusal::Notify(_) | Refusal::Kill)
            | Verdict::Refuse(Refusal::Notify(_)) => vec![],
            Verdict::AllowIf(rules, Refusal::Quiet) => rules
                .iter()
                .map(convert)
                .collect::<Result<_, _>>()
                .map_err(|error| failed(error.to_string()))?,
            Verdict::Refuse(Refusal::Quiet | Refusal::Kill) | Verdict::NoSys => continue,
        };
        rules.insert(i64::from(*number), rule);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        TargetArch::x86_64,
    )
    .map_err(|error| failed(error.to_string()))?;
    let program: Vec<_> = filter
        .try_into()
        .map_err(|error: seccompiler::BackendError| failed(error.to_string()))?;
    Ok(with_fast_path(verdicts, program))
}

/// Puts the calls that the other program decides by argument before the list.
///
/// The list is a chain of comparisons in the order of numbers: `openat` is behind 200 others, which took
/// 0.7 µs of each call. Calls that pass whatever their arguments are never get here (the kernel keeps a bitmap of
/// them), and jumps are relative, so instructions in front change nothing for the rest.
fn with_fast_path(
    verdicts: &BTreeMap<u32, Verdict>,
    program: Vec<seccompiler::sock_filter>,
) -> Vec<seccompiler::sock_filter> {
    let instruction = |code: u32, jt, jf, k| seccompiler::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let by_argument = verdicts.iter().filter_map(|(number, verdict)| match verdict {
        Verdict::AllowIf(_, Refusal::Notify(_) | Refusal::Kill) => Some(*number),
        _ => None,
    });
    let mut tests: Vec<_> = by_argument
        .flat_map(|number| {
            [
                instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number),
                instruction(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW),
            ]
        })
        .collect();
    tests.insert(0, instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, OFFSET_NR));
    // A foreign architecture goes on to the list, which kills it. (With too many calls for one jump: no fast path.)
    let Ok(skip) = u8::try_from(tests.len()) else {
        return program;
    };
    let mut whole = vec![
        instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, OFFSET_ARCH),
        instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, skip, AUDIT_ARCH_X86_64),
    ];
    whole.extend(tests);
    whole.extend(program);
    whole
}

fn convert(rule: &Rule) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = |cond: &Cond| {
        let length = if cond.wide {
            SeccompCmpArgLen::Qword
        } else {
            SeccompCmpArgLen::Dword
        };
        SeccompCondition::new(cond.arg, length, SeccompCmpOp::MaskedEq(cond.mask), cond.value)
    };
    SeccompRule::new(rule.conds.iter().map(condition).collect::<Result<_, _>>()?)
}

pub(super) fn verdict_program(
    verdicts: &BTreeMap<u32, Verdict>,
    report: Report,
) -> Result<Vec<sock_filter>, ConfineError> {
    let mut asm = Assembler::default();
    let ends = Ends {
        allow: asm.label(),
        kill: asm.label(),
        no_sys: asm.label(),
        report,
        errnos: BTreeMap::new(),
    };
    Writer { asm, ends }
        .program(verdicts)
        .map_err(|why| ConfineError::Compile {
            filter: "verdicts",
            why,
        })
}

/// Where every path ends.
struct Ends {
    allow: Label,
    kill: Label,
    no_sys: Label,
    report: Report,
    /// One end for each errno of a reported refusal.
    errnos: BTreeMap<i32, Label>,
}

struct Writer {
    asm: Assembler,
    ends: Ends,
}

impl Writer {
    fn program(mut self, verdicts: &BTreeMap<u32, Verdict>) -> Result<Vec<sock_filter>, String> {
        self.asm.load(OFFSET_ARCH);
        self.asm.if_not_equal(AUDIT_ARCH_X86_64, self.ends.kill);
        self.asm.load(OFFSET_NR);
        // Minus one is no call at all, and has x32's bit.
        self.asm.if_equal(u32::MAX, self.ends.no_sys);
        self.asm.if_any_bit(X32, self.ends.kill);
        // A call of a kernel newer than this build: as if the kernel were older, so that libraries fall back.
        self.asm.if_at_least(names::LAST + 1, self.ends.no_sys);

        let mut leaves = Vec::new();
        for (number, verdict) in verdicts {
            let target = match verdict {
                // The allow-list has the word.
                Verdict::Allow | Verdict::AllowIf(_, Refusal::Quiet) | Verdict::Refuse(Refusal::Quiet) => {
                    continue;
                }
                Verdict::NoSys => self.ends.no_sys,
                Verdict::Refuse(refusal) => self.end(*refusal),
                Verdict::AllowIf(..) => self.asm.label(),
            };
            leaves.push((*number, target));
        }
        self.search(&leaves);
        for (number, target) in leaves {
            if let Some(Verdict::AllowIf(rules, refusal)) = verdicts.get(&number) {
                self.asm.place(target);
                self.conditions(rules, *refusal);
            }
        }
        self.ends()
    }

    fn end(&mut self, refusal: Refusal) -> Label {
        match refusal {
            Refusal::Kill => self.ends.kill,
            // Not reached for `Quiet`, which the allow-list answers; EPERM is right all the same.
            Refusal::Quiet => self.errno(libc::EPERM),
            Refusal::Notify(errno) => self.errno(errno),
        }
    }

    fn errno(&mut self, errno: i32) -> Label {
        let asm = &mut self.asm;
        *self.ends.errnos.entry(errno).or_insert_with(|| asm.label())
    }

    /// Binary search over the sorted numbers; the number is in the accumulator all the way.
    fn search(&mut self, leaves: &[(u32, Label)]) {
        if leaves.len() <= 4 {
            for (number, target) in leaves {
                self.asm.if_equal(*number, *target);
            }
            self.asm.goto(self.ends.allow);
            return;
        }
        let (left, right) = leaves.split_at(leaves.len() / 2);
        let upper = self.asm.label();
        self.asm.if_at_least(right[0].0, upper);
        self.search(left);
        self.asm.place(upper);
        self.search(right);
    }

    fn conditions(&mut self, rules: &[Rule], refusal: Refusal) {
        let refused = self.end(refusal);
        // What the accumulator holds when control arrives at the next rule, if that is certain.
        let mut held: Option<(u8, u64)> = None;
        for rule in rules {
            let next = self.asm.label();
            for cond in rule.conds.iter() {
                if cond.wide {
                    self.half(cond, Half::High, next);
                    self.half(cond, Half::Low, next);
                } else {
                    if held != Some((cond.arg, cond.mask)) {
                        self.load_masked(cond, Half::Low);
                    }
                    self.asm.if_not_equal(cond.value as u32, next);
                }
                held = None;
            }
            self.asm.goto(self.ends.allow);
            self.asm.place(next);
            held = match &*rule.conds {
                [only] if !only.wide => Some((only.arg, only.mask)),
                _ => None,
            };
        }
        self.asm.goto(refused);
    }

    fn half(&mut self, cond: &Cond, half: Half, otherwise: Label) {
        self.load_masked(cond, half);
        let value = if half == Half::High {
            cond.value >> 32
        } else {
            cond.value
        };
        self.asm.if_not_equal(value as u32, otherwise);
    }

    fn load_masked(&mut self, cond: &Cond, half: Half) {
        self.asm.load_arg(cond.arg, half);
        let mask = if half == Half::High {
            cond.mask >> 32
        } else {
            cond.mask
        } as u32;
        if mask != u32::MAX {
            self.asm.and(mask);
        }
    }

    fn ends(mut self) -> Result<Vec<sock_filter>, String> {
        let reported = match self.ends.report {
            // The errno is the warden's to give; the data of this action is not seen by anyone.
            Report::Listener => |_| SECCOMP_RET_USER_NOTIF,
            Report::Nobody => |errno: i32| SECCOMP_RET_ERRNO | errno as u32,
        };
        for (errno, label) in std::mem::take(&mut self.ends.errnos) {
            self.asm.place(label);
            self.asm.ret(reported(errno));
        }
        self.asm.place(self.ends.no_sys);
        self.asm.ret(SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
        self.asm.place(self.ends.kill);
        self.asm.ret(SECCOMP_RET_KILL_PROCESS);
        self.asm.place(self.ends.allow);
        self.asm.ret(SECCOMP_RET_ALLOW);
        self.asm.finish()
    }
}
