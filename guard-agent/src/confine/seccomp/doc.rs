//! The table as a page of the documentation.

use std::fmt::Write as _;

use super::{
    gateway,
    rule::{Needs, Refusal, Row, Verdict},
    table,
};

/// `docs/seccomp.md`, whole. A test compares the committed file with it.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    section(
        &mut page,
        "The child (and the sandbox's init)",
        CHILD,
        table::CHILD,
    );
    section(&mut page, "The gateway", GATEWAY, &gateway::rows());
    page
}

fn section(page: &mut String, title: &str, text: &str, rows: &[Row]) {
    // Writing to a String does not fail.
    let _ = write!(
        page,
        "\n## {title}\n\n{text}\n\n| Group | Verdict | Why | Calls |\n|---|---|---|---|\n"
    );
    for row in rows {
        let calls = row
            .calls
            .iter()
            .map(|call| format!("`{call}`"))
            .collect::<Vec<_>>()
            .join(" ");
        let _ = writeln!(
            page,
            "| {} | {} | {} | {calls} |",
            row.group,
            verdict(&row.verdict),
            row.reason
        );
    }
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow => "allowed".into(),
        Verdict::Refuse(refusal) => refused(*refusal),
        Verdict::NoSys => "ENOSYS".into(),
        Verdict::AllowIf(rules, refusal) => {
            let mut needs = rules
                .iter()
                .filter_map(|rule| need(rule.needs))
                .collect::<Vec<_>>();
            needs.dedup();
            let always = rules.iter().any(|rule| rule.needs == Needs::Nothing);
            let when = match (always, needs.is_empty()) {
                (_, true) => "allowed by argument".to_owned(),
                (true, false) => format!("allowed by argument, more {}", needs.join(" or ")),
                (false, false) => format!("allowed {}", needs.join(" or ")),
            };
            format!("{when}; else {}", refused(*refusal))
        }
    }
}

fn need(needs: Needs) -> Option<&'static str> {
    match needs {
        Needs::Nothing => None,
        Needs::InetSockets => Some("where cgroup programs judge addresses"),
        Needs::UnixSockets => Some("where cgroup programs judge unix addresses"),
        Needs::MemfdNoexecSysctl => Some("where `vm.memfd_noexec=2` holds"),
        Needs::PrivateIpc => Some("in an IPC namespace of its own"),
        Needs::OwnProcesses => Some("in a pid namespace of its own"),
        Needs::ReadOnlyOutside => Some("where mounts hold what is no writable root"),
        Needs::TruncationJudged => Some("where mounts or Landlock judge it"),
    }
}

fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::Quiet => "EPERM".into(),
        Refusal::Notify(libc::ENOSYS) => "ENOSYS, recorded".into(),
        Refusal::Notify(_) => "EPERM, recorded".into(),
        Refusal::Kill => "killed".into(),
    }
}

const HEAD: &str = "\
# System calls

Generated from the table in `guard-agent/src/confine/seccomp`; after a change there, run the test
`seccomp_page_is_current` with `UPDATE_DOCS=1`.

Programs of another architecture (i386, x32) are killed at their first call. A call that the kernel has and this
build does not know gets ENOSYS, which is what an older kernel would say; a number that is in no table gets EPERM.
*Recorded* means that the caller waits until the warden has taken down the call and its register arguments.
Without root (tier T3) it is the caller's own warden that records.
Where a verdict names surroundings (cgroup programs, a namespace) and they are not there, the call is refused.
";

const CHILD: &str = "\
Argument values are compared as the kernel takes them: `int` on its low 32 bits, whatever stands above. Modes are
refused when they have a set-id bit; sockets are of IPv4 or IPv6 with protocol 0, TCP, UDP or MPTCP, or unix.";

const GATEWAY: &str = "\
What is not in the table gets EPERM. `killed` is for what only an intruder asks for: the warden sees SIGSYS.";
