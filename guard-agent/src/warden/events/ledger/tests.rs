//! What is written, counted and left out.

use proptest::prelude::*;

use super::*;
use crate::{
    audit::{Attribution, Decision, Layer},
    octets::Octets,
    warden::events::{
        attempt::{Given, To, Who, blank},
        in_flight::During,
    },
};

const WHO: Who = Who {
    pid: 1,
    tid: 1,
    during: During {
        attribution: Attribution::Unknown,
        calls: Vec::new(),
    },
};

fn subject() -> Subject {
    Subject::test("server", None)
}

/// The events of one call's sandbox are that call's, and so are what is missing of them.
#[test]
fn a_sandbox_of_a_call_is_that_calls_alone() {
    let mut ledger = Ledger::new(&Subject::test("server", Some(7)), false);
    attempt(&mut ledger, connect(1), "connect");
    attempt(&mut ledger, connect(1), "connect");
    ledger.lost(3, 0, 0);
    ledger.finish();
    let told = ledger.take(usize::MAX);
    let mut kinds = Vec::new();
    for body in &told {
        let value = serde_json::to_value(body).unwrap();
        assert_eq!(value["session"], "s");
        match body {
            Body::Kernel(kernel) => {
                assert_eq!(
                    (kernel.calls.as_slice(), kernel.attribution),
                    (&["7".to_owned()][..], Attribution::Exact)
                );
                kinds.push("kernel");
            }
            _ => {
                assert_eq!(value["call"], "7");
                kinds.push("gap");
            }
        }
    }
    assert_eq!(kinds, ["kernel", "kernel", "gap"]);
    // Without a call nothing is claimed.
    let mut ledger = Ledger::new(&subject(), false);
    attempt(&mut ledger, connect(1), "connect");
    let told = ledger.take(usize::MAX);
    let [Body::Kernel(kernel)] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(kernel.calls.is_empty() && kernel.attribution == Attribution::Unknown);
}

fn connect(port: u16) -> Key {
    Key::Net {
        op: 1,
        family: 2,
        kind: 1,
        protocol: 6,
        reason: 1,
        errno: 1,
        to: To::Internet(std::net::SocketAddr::from(([192, 0, 2, 1], port))),
        during: During::unknown(),
    }
}

fn opened(name: u32) -> Key {
    Key::Call {
        nr: 2,
        errno: 0,
        args: [0; 6],
        first: Some(Given {
            bytes: format!("/srv/{name}").into_bytes(),
            complete: true,
        }),
        second: None,
        to: None,
        process: 0,
        during: During::unknown(),
    }
}

fn attempt(ledger: &mut Ledger, key: Key, op: &'static str) {
    if ledger.repeated(&key) {
        return;
    }
    let decision = if key.allowed() {
        Decision::Allow
    } else {
        Decision::Deny
    };
    ledger.first(key, op, |_| blank(op.into(), decision, Layer::Unknown, &WHO));
}

#[test]
fn skipped_runs_are_gaps_of_two_kinds_each_counted_once() {
    let mut ledger = Ledger::new(&subject(), false);
    let mut gaps = |telling, decisions| -> Vec<(GapKind, u64)> {
        ledger.skipped(telling, decisions);
        ledger.finish();
        ledger
            .take(usize::MAX)
            .into_iter()
            .map(|body| match body {
                Body::Gap(gap) => (gap.gap.kind, gap.gap.lost.unwrap().0),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(gaps(0, 0), []);
    assert_eq!(
        gaps(5, 2),
        [(GapKind::ProgramsSkipped, 5), (GapKind::HooksSkipped, 2)]
    );
    assert_eq!(gaps(5, 2), []);
    assert_eq!(gaps(5, 3), [(GapKind::HooksSkipped, 1)]);
}

/// Records, repeats, gaps by kind, bytes.
#[derive(Debug, Default)]
struct Told {
    first: u64,
    repeated: u64,
    over: u64,
    allowed_lost: u64,
    other: u64,
    gaps: u64,
    bytes: usize,
}

impl Told {
    fn take(&mut self, ledger: &mut Ledger) {
        for body in ledger.take(usize::MAX) {
            match body {
                Body::Kernel(kernel) => {
                    self.bytes += size(&kernel);
                    match &kernel.repeat {
                        None => self.first += 1,
                        Some(repeat) => self.repeated += repeat.0,
                    }
                }
                Body::Gap(gap) => {
                    self.gaps += 1;
                    let lost = gap.gap.lost.map_or(0, |lost| lost.0);
                    match gap.gap.kind {
                        GapKind::OverBudget => self.over += lost,
                        GapKind::AllowedLost => self.allowed_lost += lost,
                        _ => self.other += lost,
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn every_attempt_is_counted_once() {
    let mut ledger = Ledger::new(&subject(), false);
    let mut told = Told::default();
    let attempts = 200_000u32;
    for number in 0..attempts {
        attempt(
            &mut ledger,
            connect(u16::try_from(number % 3000).unwrap()),
            "connect",
        );
        if number % 20_000 == 0 {
            ledger.tick();
            told.take(&mut ledger);
        }
    }
    ledger.finish();
    told.take(&mut ledger);
    assert_eq!(
        told.first + told.repeated + told.over,
        u64::from(attempts),
        "{told:?}"
    );
    assert!(
        told.over > 0 && told.repeated > 0 && told.first == MOST_DENIED as u64,
        "{told:?}"
    );
    assert!(told.bytes <= DENIED_BUDGET);
}

fn in_call(key: Key, call: u64) -> Key {
    match key {
        Key::Net {
            op,
            family,
            kind,
            protocol,
            reason,
            errno,
            to,
            ..
        } => Key::Net {
            op,
            family,
            kind,
            protocol,
            reason,
            errno,
            to,
            during: During {
                attribution: Attribution::Sole,
                calls: vec![call],
            },
        },
        other => other,
    }
}

/// A session may be long: what is alike in all its calls is on record for each, with its count, and nothing is over.
#[test]
fn ordinary_calls_have_room_however_many_come() {
    let mut ledger = Ledger::new(&subject(), true);
    let mut told = Told::default();
    for call in 1..=5000 {
        ledger.call_begins(call);
        for port in 0..20 {
            for _ in 0..3 {
                attempt(&mut ledger, in_call(connect(port), call), "connect");
            }
        }
        assert_eq!(ledger.call_ends(call).denied.0, 60);
        // All of it is told when its call is over.
        let before = told.first + told.repeated;
        told.take(&mut ledger);
        assert_eq!(told.first + told.repeated, before + 60);
    }
    assert_eq!(
        (told.first, told.repeated, told.gaps),
        (100_000, 200_000, 0),
        "{told:?}"
    );
    assert!(!ledger.is_over());
}

/// A call adds what an ordinary one needs, and what is not used of it is not saved up.
#[test]
fn many_calls_buy_no_flood() {
    let mut ledger = Ledger::new(&subject(), false);
    for call in 1..=5000 {
        ledger.call_begins(call);
        ledger.call_ends(call);
    }
    let flood = |ledger: &mut Ledger, call, attempts: u32| {
        ledger.call_begins(call);
        let mut told = Told::default();
        for number in 0..attempts {
            let port = u16::try_from(number % 60_000).unwrap();
            attempt(ledger, in_call(connect(port), call), "connect");
            if number % 500 == 0 {
                told.take(ledger);
            }
        }
        ledger.call_ends(call);
        ledger.finish();
        told.take(ledger);
        assert_eq!(
            told.first + told.repeated + told.over,
            u64::from(attempts),
            "{told:?}"
        );
        told
    };
    let first = flood(&mut ledger, 6000, 50_000);
    assert!(first.over > 0 && first.bytes <= DENIED_BUDGET, "{first:?}");
    // What was used up comes back call by call.
    for call in 6001..6100 {
        let next = flood(&mut ledger, call, 2000);
        assert!(next.bytes <= DENIED_BUDGET, "{next:?}");
    }
    let late = flood(&mut ledger, 6100, 50_000);
    assert!(late.first > 0 && late.bytes <= DENIED_BUDGET, "{late:?}");
}

#[test]
fn a_flood_of_one_kind_does_not_hide_another() {
    let mut ledger = Ledger::new(&subject(), false);
    for port in 0..5000 {
        attempt(&mut ledger, connect(port), "connect");
        ledger.tick();
    }
    let _ = ledger.take(usize::MAX);
    let ptrace = || Key::Refused {
        during: During::unknown(),
        nr: 101,
        args: [0; 6],
    };
    attempt(&mut ledger, ptrace(), "ptrace");
    assert_eq!(ledger.take(usize::MAX).len(), 1);
    attempt(&mut ledger, ptrace(), "ptrace");
    assert!(!ledger.has_news());
}

#[test]
fn what_is_allowed_displaces_no_denial() {
    let mut ledger = Ledger::new(&subject(), false);
    for number in 0..5000 {
        attempt(&mut ledger, opened(number), "open");
    }
    let mut told = Told::default();
    told.take(&mut ledger);
    assert!(told.bytes <= ALLOWED_BUDGET);
    assert!(!ledger.is_over(), "only denials can bring about a quarantine");
    attempt(&mut ledger, connect(1), "connect");
    attempt(&mut ledger, connect(2), "connect");
    assert_eq!(ledger.take(usize::MAX).len(), 2);
    ledger.finish();
    told.take(&mut ledger);
    assert_eq!((told.first + told.allowed_lost, told.over), (5000, 0));
}

/// With records as long as a path may be, bytes run out before the number of different ones does.
#[test]
fn long_records_end_at_the_bytes() {
    let denied: fn(u32) -> Key = |number| connect(u16::try_from(number).unwrap());
    for (budget, most, op, key) in [
        (DENIED_BUDGET, MOST_DENIED, "connect", denied),
        (ALLOWED_BUDGET, MOST_ALLOWED, "open", opened),
    ] {
        let mut ledger = Ledger::new(&subject(), false);
        let (mut told, attempts) = (Told::default(), 2000);
        // The second round is one of repeats, and of what the first had no room for.
        for number in (0..attempts).chain(0..attempts) {
            let key = key(number);
            if ledger.repeated(&key) {
                continue;
            }
            let decision = if key.allowed() {
                Decision::Allow
            } else {
                Decision::Deny
            };
            ledger.first(key, op, |_| Kernel {
                path: Some(Octets(vec![b'x'; 4096])),
                ..blank(op.into(), decision, Layer::Unknown, &WHO)
            });
        }
        ledger.finish();
        told.take(&mut ledger);
        assert!(told.bytes <= budget, "{op}: {told:?}");
        assert!(
            told.first > 1 && told.first < most as u64 / 2,
            "{op}: it was not the bytes: {told:?}"
        );
        assert_eq!(
            told.first + told.repeated + told.over + told.allowed_lost,
            u64::from(attempts) * 2,
            "{op}"
        );
    }
}

#[test]
fn the_first_gap_over_the_budget_waits_for_the_quarantine() {
    let mut ledger = Ledger::new(&subject(), true);
    for port in 0..2000 {
        attempt(&mut ledger, connect(port), "connect");
    }
    let _ = ledger.take(usize::MAX);
    ledger.tick();
    assert!(ledger.is_over() && !ledger.has_news());
    let gap = ledger.over().unwrap();
    assert_eq!(gap.gap.lost.map(|lost| lost.0), Some(2000 - MOST_DENIED as u64));
    for port in 2000..2010 {
        attempt(&mut ledger, connect(port), "connect");
    }
    ledger.tick();
    let mut told = Told::default();
    told.take(&mut ledger);
    assert_eq!(told.over, 10);
}

#[test]
fn losses_are_told_while_the_session_lives_and_at_its_end() {
    let mut ledger = Ledger::new(&subject(), false);
    let mut told = Told::default();
    for lost in 1..=1000 {
        ledger.lost(lost, 0, 0);
        ledger.tick();
        if lost == 1 {
            assert!(ledger.has_news(), "the first loss is told at once");
        }
        told.take(&mut ledger);
    }
    assert!(told.gaps < 15, "{told:?}");
    ledger.lost(1000, 7, 3);
    ledger.finish();
    told.take(&mut ledger);
    assert_eq!((told.other, told.allowed_lost), (1003, 7));
    ledger.finish();
    assert!(!ledger.has_news(), "what was told is not told again");
}

#[test]
fn one_denial_a_second_lasts_for_days() {
    let mut ledger = Ledger::new(&subject(), false);
    let (mut told, days) = (Told::default(), 3);
    for _ in 0..days * 86_400 {
        attempt(&mut ledger, connect(1), "connect");
        ledger.tick();
        told.take(&mut ledger);
    }
    ledger.finish();
    told.take(&mut ledger);
    assert_eq!((told.first + told.repeated, told.over), (days * 86_400, 0));
}

proptest! {
    #[test]
    fn the_sum_is_exact_whatever_happens(steps in proptest::collection::vec((0u16..40, 0u32..40, 0u8..10), 0..400)) {
        let mut ledger = Ledger::new(&subject(), false);
        ledger.denied.most = 20;
        ledger.allowed.budget = 5000;
        let (mut told, mut denied, mut allowed) = (Told::default(), 0, 0);
        for (port, file, step) in steps {
            match step {
                0..5 => { attempt(&mut ledger, connect(port), "connect"); denied += 1; }
                5..8 => { attempt(&mut ledger, opened(file), "open"); allowed += 1; }
                8 => ledger.tick(),
                _ => told.take(&mut ledger),
            }
        }
        ledger.finish();
        told.take(&mut ledger);
        prop_assert_eq!(told.first + told.repeated + told.over + told.allowed_lost, denied + allowed);
    }
}
