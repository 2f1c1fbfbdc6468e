//! Both programs, run by an interpreter, against the table's own meaning.

use std::collections::{BTreeMap, BTreeSet};

use libc::sock_filter;
use proptest::prelude::*;

use super::{
    ChildFilters, arguments as on, compile,
    compile::Report,
    doc, gateway, names,
    rule::{Cond, Options, Outcome, Rule, Verdict},
    table,
};

/// What the kernel hands to a program.
struct Call {
    nr: u32,
    arch: u32,
    args: [u64; 6],
}

impl Call {
    fn new(nr: u32, args: [u64; 6]) -> Self {
        Self {
            nr,
            arch: compile::AUDIT_ARCH_X86_64,
            args,
        }
    }
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.nr,
            4 => self.arch,
            16..64 => {
                let arg = self.args[(offset as usize - 16) / 8];
                if offset % 8 == 4 {
                    (arg >> 32) as u32
                } else {
                    arg as u32
                }
            }
            _ => panic!("load at {offset}"),
        }
    }
}

/// Runs one program: the instructions seccomp takes and these programs use, anything else is a failure.
fn run(program: &[sock_filter], call: &Call) -> u32 {
    let mut accumulator = 0_u32;
    let mut at = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let mut jump = |taken: bool| at += usize::from(if taken { jt } else { jf });
        match u32::from(code) {
            0x20 => accumulator = call.word(k),
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => jump(accumulator == k),
            0x25 => jump(accumulator > k),
            0x35 => jump(accumulator >= k),
            0x45 => jump(accumulator & k != 0),
            0x06 => return k,
            other => panic!("instruction {other:#x} at {}", at - 1),
        }
    }
}

fn plain(program: &[seccompiler::sock_filter]) -> Vec<sock_filter> {
    program
        .iter()
        .map(|i| sock_filter {
            code: i.code,
            jt: i.jt,
            jf: i.jf,
            k: i.k,
        })
        .collect()
}

/// The kernel's rule: the strictest action, and of equal ones the newest program's.
fn judge(oldest_first: &[Vec<sock_filter>], call: &Call) -> u32 {
    let rank = |ret: u32| (ret & libc::SECCOMP_RET_ACTION_FULL) as i32;
    let mut result = libc::SECCOMP_RET_ALLOW;
    for program in oldest_first.iter().rev() {
        let ret = run(program, call);
        if rank(ret) < rank(result) {
            result = ret;
        }
    }
    result
}

fn action(outcome: Outcome, report: Report) -> u32 {
    match (outcome, report) {
        (Outcome::Allow, _) => libc::SECCOMP_RET_ALLOW,
        (Outcome::Kill, _) => libc::SECCOMP_RET_KILL_PROCESS,
        (Outcome::Notify(_), Report::Listener) => libc::SECCOMP_RET_USER_NOTIF,
        (Outcome::Errno(errno) | Outcome::Notify(errno), _) => libc::SECCOMP_RET_ERRNO | errno as u32,
    }
}

struct Pair {
    programs: [Vec<sock_filter>; 2],
    verdicts: BTreeMap<u32, Verdict>,
    report: Report,
}

impl Pair {
    fn child(options: &Options, report: Report) -> Self {
        let verdicts = compile::verdicts(table::CHILD, options).unwrap();
        Self::of(verdicts, report)
    }
    fn gateway() -> Self {
        Self::of(
            compile::verdicts(&gateway::rows(), &Options::STRICT).unwrap(),
            Report::Nobody,
        )
    }
    fn of(verdicts: BTreeMap<u32, Verdict>, report: Report) -> Self {
        let programs = [
            plain(&compile::allow_list(&verdicts).unwrap()),
            compile::verdict_program(&verdicts, report).unwrap(),
        ];
        Self {
            programs,
            verdicts,
            report,
        }
    }
    fn meant(&self, nr: u32, args: &[u64; 6]) -> u32 {
        let outcome = match self.verdicts.get(&nr) {
            Some(verdict) => verdict.judge(args),
            None if nr > names::LAST => Outcome::Errno(libc::ENOSYS),
            None => Outcome::Errno(libc::EPERM),
        };
        action(outcome, self.report)
    }
    fn assert(&self, nr: u32, args: [u64; 6]) {
        let found = judge(&self.programs, &Call::new(nr, args));
        let name = names::name(nr).unwrap_or("?");
        assert_eq!(found, self.meant(nr, &args), "{name} {args:x?}: found {found:#x}");
    }
}

fn every_pair() -> Vec<Pair> {
    let children = Options::every()
        .flat_map(|options| [Report::Listener, Report::Nobody].map(|report| Pair::child(&options, report)));
    children.chain([Pair::gateway()]).collect()
}

fn conds(verdicts: &BTreeMap<u32, Verdict>) -> Vec<(u32, Vec<Rule>)> {
    let with_rules = verdicts.iter().filter_map(|(nr, verdict)| match verdict {
        Verdict::AllowIf(rules, _) => Some((*nr, rules.to_vec())),
        _ => None,
    });
    with_rules.collect()
}

#[test]
fn every_known_call_is_in_exactly_one_row() {
    let mut seen = BTreeSet::new();
    for row in table::CHILD {
        for call in row.calls {
            assert!(names::number(call).is_some(), "`{call}` is no system call");
            assert!(seen.insert(*call), "`{call}` is in two rows");
        }
    }
    let known: BTreeSet<&str> = names::KNOWN.iter().map(|(_, name)| *name).collect();
    assert_eq!(known.difference(&seen).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(names::KNOWN.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(known.len(), names::KNOWN.len());
}

#[test]
fn known_numbers_are_libcs() {
    for (name, number) in [
        ("read", libc::SYS_read),
        ("clone", libc::SYS_clone),
        ("openat2", libc::SYS_openat2),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("fchmodat2", libc::SYS_fchmodat2),
        ("mseal", libc::SYS_mseal),
    ] {
        assert_eq!(names::number(name).map(i64::from), Some(number), "{name}");
    }
}

#[test]
fn programs_mean_what_the_table_means() {
    let arguments = [
        [0; 6],
        [u64::MAX; 6],
        [1 << 32; 6],
        [libc::S_ISUID.into(); 6],
        [0x5412; 6],
    ];
    for pair in every_pair() {
        for nr in (0..=names::LAST + 40).chain([500, 0x3fff_ffff]) {
            for args in arguments {
                pair.assert(nr, args);
            }
        }
    }
}

/// For each condition the value that meets it, its neighbours and its look-alikes above bit 32.
#[test]
fn conditions_hold_at_their_edges() {
    for pair in every_pair() {
        for (nr, rules) in conds(&pair.verdicts) {
            for rule in &rules {
                for broken in std::iter::once(None).chain(rule.conds.iter().map(Some)) {
                    for high in [0, 1 << 32, 0xffff_ffff << 32] {
                        pair.assert(nr, arguments_for(rule, broken, high));
                    }
                }
            }
        }
    }
}

fn arguments_for(rule: &Rule, broken: Option<&Cond>, high: u64) -> [u64; 6] {
    let mut args = [0; 6];
    for cond in rule.conds.iter() {
        args[usize::from(cond.arg)] |= cond.value | high;
    }
    if let Some(cond) = broken {
        // Flip the lowest bit the condition looks at.
        args[usize::from(cond.arg)] ^= cond.mask & cond.mask.wrapping_neg();
    }
    args
}

proptest! {
    #[test]
    fn random_calls_get_what_the_table_says(
        which in 0..33_usize, pick in any::<prop::sample::Index>(), args in any::<[u64; 6]>(), small in any::<bool>(),
    ) {
        let pair = match which {
            32 => Pair::gateway(),
            n => {
                let report = if n % 2 == 0 { Report::Listener } else { Report::Nobody };
                Pair::child(&Options::every().nth(n / 2).unwrap(), report)
            }
        };
        let rules = conds(&pair.verdicts);
        let (nr, rules) = &rules[pick.index(rules.len())];
        pair.assert(*nr, args);
        // Small numbers meet conditions far more often than random ones.
        let rule = &rules[pick.index(rules.len())];
        let mut near = arguments_for(rule, None, 0);
        if small { near.iter_mut().zip(args).for_each(|(near, arg)| *near ^= arg & 0xf); }
        pair.assert(*nr, near);
    }
}

#[test]
fn foreign_architectures_die() {
    let kill = libc::SECCOMP_RET_KILL_PROCESS;
    for pair in every_pair() {
        for arch in [0x4000_0003, 0x4000_003e, 0xc000_00b7, 0] {
            let call = Call {
                arch,
                ..Call::new(0, [0; 6])
            };
            assert_eq!(judge(&pair.programs, &call), kill, "{arch:#x}");
        }
        for nr in [
            0x4000_0000,
            0x4000_0001,
            0x4000_0000 + 520,
            0x7fff_ffff,
            0xffff_fffe,
        ] {
            assert_eq!(judge(&pair.programs, &Call::new(nr, [0; 6])), kill, "{nr:#x}");
        }
        let none = judge(&pair.programs, &Call::new(u32::MAX, [0; 6]));
        assert_eq!(none, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
    }
}

#[test]
fn the_dangerous_ones_by_hand() {
    let call = |options: &Options, name: &str, args: [u64; 6]| {
        let pair = Pair::child(options, Report::Listener);
        judge(&pair.programs, &Call::new(names::number(name).unwrap(), args))
    };
    let (allow, notify) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_USER_NOTIF);
    let open = &Options::OPEN;
    let thread = 0x3d_0f00;
    assert_eq!(call(open, "clone", [thread, 0, 0, 0, 0, 0]), allow);
    for bit in [17, 25, 26, 27, 28, 29, 30] {
        assert_eq!(
            call(open, "clone", [thread | 1 << bit, 0, 0, 0, 0, 0]),
            notify,
            "bit {bit}"
        );
        assert_eq!(
            call(open, "clone", [1 << bit | 1 << 40, 0, 0, 0, 0, 0]),
            notify,
            "bit {bit}"
        );
    }
    for request in [
        0x5412_u64,
        0x541c,
        0x5423,
        0x5412 | 1 << 32,
        0x5412 | 0xffff_ffff << 32,
        0x4008_6602,
    ] {
        assert_eq!(
            call(open, "ioctl", [0, request, 0, 0, 0, 0]),
            notify,
            "{request:#x}"
        );
    }
    assert_eq!(call(open, "ioctl", [0, 0x5401, 0, 0, 0, 0]), allow);
    // `TCGETS2` as C hands it over, which has an `int` for it.
    let extended = 0xffff_ffff_802c_542a;
    assert_eq!(
        call(open, "ioctl", [0, extended, 0, 0, 0, 0]),
        allow,
        "sign in the upper half"
    );
    assert_eq!(call(open, "chmod", [0, 0o755, 0, 0, 0, 0]), allow);
    assert_eq!(call(open, "chmod", [0, 0o4755, 0, 0, 0, 0]), notify);
    assert_eq!(call(open, "mkdirat", [0, 0, 0o2755, 0, 0, 0]), notify);
    let (create, set_uid) = (libc::O_CREAT as u64, 0o4755);
    assert_eq!(call(open, "openat", [0, 0, create, set_uid, 0, 0]), notify);
    assert_eq!(
        call(open, "openat", [0, 0, 0, set_uid, 0, 0]),
        allow,
        "the mode is not read without O_CREAT"
    );
    assert_eq!(
        call(open, "openat", [0, 0, libc::O_TMPFILE as u64, set_uid, 0, 0]),
        notify
    );
    assert_eq!(
        call(open, "openat", [0, 0, libc::O_DIRECTORY as u64, set_uid, 0, 0]),
        allow
    );
    assert_eq!(call(open, "mknod", [0, 0o020_600, 0, 0, 0, 0]), notify);
    assert_eq!(call(open, "mknod", [0, 0o010_600, 0, 0, 0, 0]), allow);
    assert_eq!(call(open, "mknodat", [0, 0, 0o020_600, 0, 0, 0]), notify);
    assert_eq!(call(open, "mknodat", [0, 0, 0o104_755, 0, 0, 0]), notify);
    // A pair of raw sockets is one of datagrams, which can send elsewhere.
    assert_eq!(call(open, "socketpair", [1, 1, 0, 0, 0, 0]), allow);
    assert_eq!(call(open, "socketpair", [1, 3, 0, 0, 0, 0]), notify);
    assert_eq!(call(&Options::STRICT, "socketpair", [1, 2, 0, 0, 0, 0]), notify);
    let unix = [libc::AF_UNIX as u64, 1, 0, 0, 0, 0];
    assert_eq!(call(open, "socket", unix), allow);
    assert_eq!(call(&Options::STRICT, "socket", unix), notify);
    assert_eq!(call(&Options::STRICT, "socket", [2, 1, 0, 0, 0, 0]), notify);
    assert_eq!(
        call(open, "socket", [2, 1, 256, 0, 0, 0]),
        notify,
        "SMC by its IPv4 door"
    );
    for family in [3_u64, 15, 16, 17, 21, 29, 30, 31, 38, 40, 42, 43, 44, 45, 0xffff] {
        assert_eq!(
            call(open, "socket", [family, 2, 0, 0, 0, 0]),
            notify,
            "family {family}"
        );
    }
    assert_eq!(call(&Options::STRICT, "socketpair", unix), allow);
    assert_eq!(
        call(&Options::STRICT, "socketpair", [1, 2 | 0o4000, 0, 0, 0, 0]),
        notify
    );
    assert_eq!(call(&Options::STRICT, "memfd_create", [0, 1, 0, 0, 0, 0]), notify);
    assert_eq!(call(&Options::STRICT, "memfd_create", [0, 9, 0, 0, 0, 0]), allow);
    assert_eq!(call(open, "memfd_create", [0, 1, 0, 0, 0, 0]), allow);
    assert_eq!(call(open, "seccomp", [1, 8, 0, 0, 0, 0]), notify);
}

#[test]
fn every_ioctl_named_for_records_is_refused() {
    let pair = Pair::child(&Options::OPEN, Report::Listener);
    for (request, name) in on::IOCTL_NAMES {
        let ret = judge(&pair.programs, &Call::new(16, [0, (*request).into(), 0, 0, 0, 0]));
        assert_eq!(ret, libc::SECCOMP_RET_USER_NOTIF, "{name}");
    }
}

#[test]
fn programs_fit_the_kernel() {
    for options in Options::every() {
        let (allow_list, verdicts) = ChildFilters::reporting(&options).unwrap().instructions();
        assert!(allow_list < 2048 && verdicts < 1024, "{allow_list} {verdicts}");
        println!("{options:?}: {allow_list} + {verdicts} instructions");
    }
}

#[test]
fn seccomp_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/seccomp.md");
    let page = doc::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/seccomp.md is not what the table says: run this test with UPDATE_DOCS=1"
    );
}

/// Without namespaces nothing but the filter keeps these from what is outside.
#[test]
fn without_namespaces_what_no_other_layer_bounds_is_refused() {
    let bare = Options {
        truncation_judged: true,
        ..Options::STRICT
    };
    let pair = Pair::child(&bare, Report::Listener);
    let old = Pair::child(&Options::STRICT, Report::Listener);
    let open = Pair::child(&Options::OPEN, Report::Listener);
    let call = |pair: &Pair, name: &str, args: [u64; 6]| {
        judge(&pair.programs, &Call::new(names::number(name).unwrap(), args))
    };
    let (allow, notify) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_USER_NOTIF);
    for name in [
        "chmod",
        "fchmod",
        "fchmodat",
        "chown",
        "fchownat",
        "utimensat",
        "setxattr",
        "fsetxattr",
        "removexattr",
        "inotify_add_watch",
        "shmget",
        "semget",
        "msgget",
        "mq_open",
    ] {
        assert_eq!(call(&pair, name, [0; 6]), notify, "{name}");
        assert_eq!(call(&open, name, [0; 6]), allow, "{name}");
    }
    // Another process of the same user: its limits, its priority, its processors.
    for (name, own, other) in [
        ("prlimit64", [0, 7, 1, 0, 0, 0], [99, 7, 1, 0, 0, 0]),
        ("sched_setaffinity", [0, 8, 1, 0, 0, 0], [99, 8, 1, 0, 0, 0]),
        ("setpriority", [0, 0, 10, 0, 0, 0], [0, 99, 10, 0, 0, 0]),
        ("ioprio_set", [1, 0, 0, 0, 0, 0], [1, 99, 0, 0, 0, 0]),
    ] {
        assert_eq!(call(&pair, name, own), allow, "{name}");
        assert_eq!(call(&pair, name, other), notify, "{name}");
        assert_eq!(call(&open, name, other), allow, "{name}");
    }
    assert_eq!(
        call(&pair, "setpriority", [2, 0, 10, 0, 0, 0]),
        notify,
        "all of the user"
    );
    // Before Landlock ABI 3 a file that may be read may be emptied.
    let truncate = |pair: &Pair, flags: i32| {
        let flags = u64::from((flags | libc::O_TRUNC).cast_unsigned());
        [
            call(pair, "open", [1, flags, 0, 0, 0, 0]),
            call(pair, "openat", [3, 1, flags, 0, 0, 0]),
        ]
    };
    assert_eq!(truncate(&old, libc::O_RDONLY), [notify; 2]);
    assert_eq!(truncate(&old, libc::O_RDONLY | libc::O_CREAT), [notify; 2]);
    assert_eq!(truncate(&pair, libc::O_RDONLY), [allow; 2]);
    for mode in [libc::O_WRONLY, libc::O_RDWR] {
        assert_eq!(
            truncate(&old, mode),
            [allow; 2],
            "Landlock asks for the right to write"
        );
    }
    assert_eq!(call(&old, "truncate", [1, 0, 0, 0, 0, 0]), notify);
    assert_eq!(call(&pair, "truncate", [1, 0, 0, 0, 0, 0]), allow);
    assert_eq!(call(&old, "mkdir", [1, 0o755, 0, 0, 0, 0]), allow);
}

/// On top of the others, where nothing bounds signals.
#[test]
fn nobody_is_signalled() {
    let filter = super::no_signals().unwrap();
    let call = |name: &str, args: [u64; 6]| run(&filter, &Call::new(names::number(name).unwrap(), args));
    let (allow, refuse) = (
        libc::SECCOMP_RET_ALLOW,
        libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
    );
    for name in ["kill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal"] {
        assert_eq!(call(name, [99, 0, 0, 0, 0, 0]), allow, "{name}");
        for signal in [1, 9, 15, 64, 9 | 1 << 32] {
            assert_eq!(call(name, [99, signal, 0, 0, 0, 0]), refuse, "{name} {signal}");
        }
    }
    for name in ["tgkill", "rt_tgsigqueueinfo"] {
        assert_eq!(call(name, [99, 99, 0, 0, 0, 0]), allow, "{name}");
        assert_eq!(call(name, [99, 99, 6, 0, 0, 0]), refuse, "{name}");
    }
    for (request, wanted) in [
        (libc::F_SETOWN, refuse),
        (libc::F_SETOWN | 1 << 30, refuse),
        (10, refuse), // F_SETSIG
        (15, refuse), // F_SETOWN_EX
        (libc::F_SETFL, allow),
        (libc::F_DUPFD_CLOEXEC, allow),
        (libc::F_OFD_SETLK, allow),
    ] {
        assert_eq!(
            call("fcntl", [1, u64::from(request.cast_unsigned()), 9, 0, 0, 0]),
            wanted,
            "{request}"
        );
    }
    assert_eq!(call("read", [0; 6]), allow);
}
