//! `docs/hooks.md`, made from the table both halves use.

use std::fmt::Write as _;

use guard_common::{
    hooks::{self, Argument, EXECUTE, HOOKS, Hook, Presence, Rule, Slot, What},
    told::{self, TOLD},
};

use super::super::words;
use crate::{audit::errno_name, warden::events::modules};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/hooks.md");

const HEAD: &str = "\
# Security hooks

Generated from the table in `guard-common/src/hooks.rs`; after a change there, run the test
`hooks_page_is_current` with `UPDATE_DOCS=1`.

Tier T1 puts one eBPF program on each of these hooks of the kernel. A program decides for the processes of sandboxes
alone: to everybody else it returns 0. For a process with a sandbox's label whose sandbox is not known, because it is
over, everything is refused. An object is judged by where it lies, from its own entry up to the root of its
filesystem: the nearest enrolled root says what may be done with it. No path and no name decides anything. Objects
that no name leads to (pipes, sockets, memory files) may be read and written, and not executed.

What a root gives that the operator named is cut by the sandbox's call stamp: rights that no call in flight needs are
not there, and those that wait for an approval are there while an approved call runs. What the runtime needs, and
`/dev`, `/proc` and the sandbox's own trees, have the same rights always. Nothing gets a right by a move that it had
not at the launch, whatever the stamp says at that moment.

*Required* hooks have to be there, and all their programs in force, or there is no tier T1. The others came with a
later kernel, and the last column but one says why their absence leaves nothing open. Arguments are what a program
reads: its loader compares each with the running kernel's types, and refuses the tier when one is not where it is
expected.

*Recorded as* is `op` in the [audit trail](audit.md), by which a refusal is found; `detail.hook` is the hook. A hook
that stands for several calls has the name of one: `path_mknod` is also asked when an open would make a file or a bind
a socket, `file_receive` for each way to take a descriptor, `inode_setattr` after the hooks on modes, owners and
sizes, so that times are what is left to it.

*Before us* are the modules that may refuse first, since the kernel asks them first: Landlock from the version of its
interface that decides there (of a sandbox's scopes: about who is outside), Yama and the capabilities about tracing.
What they refuse is told, too, by a program of its own at the end of the kernel's function `security_` and the hook's
name, which sees what all modules answered together and changes nothing. A function that a kernel does not show, or with
other arguments, is not watched: the launch record and `guard-agent check` say so, and the end of such a call is told
instead. On the other hooks ours is the only one to refuse, or the call does not get there, because the system call
filter refuses it and tells of that: mounting, being traced, calls of 32 bits. AppArmor and SELinux decide on every
hook, for those whom an administrator confines with them.
";

const ENROL: &str = "\
A hook that only labels refuses when it cannot: a process or a socket without its sandbox's label would be taken for a
stranger's. Such a refusal has no record of its own.
";

fn rule(hook: &Hook) -> String {
    match hook.rule {
        Rule::Inside(0) => "in a root with the rights it takes".to_owned(),
        Rule::Inside(needs) => format!("in a root with `{}`", words::rights(needs).unwrap_or_default()),
        Rule::NoGain => "both places in roots with `w`, and no right gained".to_owned(),
        Rule::Never => "never".to_owned(),
        Rule::Same => "with the same sandbox".to_owned(),
        Rule::Kind => "by its kind".to_owned(),
        Rule::Label => "passes the label on".to_owned(),
        Rule::Enrol => "decides nothing".to_owned(),
    }
}

fn presence(hook: &Hook) -> String {
    match hook.presence {
        Presence::Required => "required".to_owned(),
        Presence::Since { version, without } => format!("from {version}; before, {without}"),
    }
}

fn argument(argument: &Argument) -> String {
    let slot = match argument.slot {
        Slot::At(slot) => slot.to_string(),
        Slot::Global(_) => "found".to_owned(),
    };
    match argument.what {
        What::Pointer(structure, _) => format!("{slot}: `{structure} *`"),
        What::Number => format!("{slot}: number"),
    }
}

fn recorded(hook: &Hook) -> String {
    if matches!(hook.rule, Rule::Label | Rule::Enrol) {
        return String::new();
    }
    let op = |needs| format!("`{}`", words::operation(hook, needs));
    if op(0) == op(EXECUTE) {
        op(0)
    } else {
        format!("{} {}", op(0), op(EXECUTE))
    }
}

fn before(hook: &Hook) -> String {
    let Some(told) = told::told(hook) else {
        return String::new();
    };
    let scopes = if told.scope { ", scopes" } else { "" };
    let landlock = format!("Landlock {}{scopes}", told.landlock);
    let others = told.others.iter().map(|name| (*name).to_owned());
    std::iter::once(landlock)
        .chain(others)
        .collect::<Vec<_>>()
        .join(", ")
}

fn refuses_with(hook: &Hook) -> String {
    if hook.rule == Rule::Enrol {
        return String::new();
    }
    errno_name(hook.errno.into())
}

fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str(
        "\n| hook | allowed | refused with | what a sandbox would do without it | recorded as | before us | kernels | \
         arguments |\n|---|---|---|---|---|---|---|---|\n",
    );
    for hook in HOOKS {
        let arguments: Vec<String> = hook.arguments.iter().map(argument).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            hook.name,
            rule(hook),
            refuses_with(hook),
            hook.stops,
            recorded(hook),
            before(hook),
            presence(hook),
            arguments.join(", ")
        );
    }
    let _ = write!(page, "\n{ENROL}");
    page
}

#[test]
fn hooks_page_is_current() {
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
        return;
    }
    assert!(
        std::fs::read_to_string(PAGE).unwrap() == page,
        "docs/hooks.md is not what the table says: run this test with UPDATE_DOCS=1"
    );
}

/// A program that tells of a refusal that the page does not know of is one too many.
#[test]
fn whoever_stands_before_us_is_on_the_page() {
    let rows = HOOKS.iter().filter(|hook| !before(hook).is_empty()).count();
    assert_eq!(rows, TOLD.len());
}

#[test]
fn the_trails_page_has_every_reason_of_a_refusal() {
    let trail = include_str!("../../../../../../docs/audit.md");
    for number in hooks::REASON_OUTSIDE..=hooks::REASON_LAST {
        let reason = hooks::reason(number).unwrap();
        assert!(trail.contains(&format!("| `{reason}` | `bpf-lsm` |")), "{reason}");
    }
    for (reason, layer) in [
        (modules::NOT_GRANTED, "landlock"),
        (modules::GAIN, "landlock"),
        (modules::STRANGER, "landlock"),
        (modules::ANOTHER, "unknown"),
    ] {
        assert!(trail.contains(&format!("| `{reason}` | `{layer}` |")), "{reason}");
    }
}
