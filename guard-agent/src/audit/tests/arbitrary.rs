//! Any record round-trips.

use proptest::{collection::vec, option::of, prelude::*};

use super::*;
use crate::audit::chain::{Unhashed, quick, strict};

fn octets() -> impl Strategy<Value = Octets> {
    prop_oneof![
        vec(any::<u8>(), 0..20).prop_map(Octets),
        any::<String>().prop_map(Octets::from)
    ]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![any::<u64>(), (0u64..4).prop_map(|offset| (1 << 53) - 2 + offset)].prop_map(Number)
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        any::<bool>().prop_map(Field::Flag),
        (i32::MIN..0).prop_map(Field::Signed),
        (1u64 << 53..).prop_map(|value| Field::Number(Number(value - (1 << 53) + (1 << 31)))),
        // Digits alone read back as a number: names and paths are what `Text` is for.
        octets().prop_map(|octets| Field::Text(Octets([b"/", octets.0.as_slice()].concat()))),
    ]
}

prop_compose! {
    fn kernel()(
        (session, server, op) in any::<(String, String, String)>(),
        deny in any::<bool>(),
        reason in of(any::<String>()),
        (path, path2, exe) in (of(octets()), of(octets()), of(octets())),
        path_complete in of(any::<bool>()),
        (dev, ino, repeat) in (of(number()), of(number()), of(number())),
        (nlink, port) in any::<(Option<u32>, Option<u16>)>(),
        detail in of(proptest::collection::btree_map(any::<String>(), field(), 0..4)),
        (pid, tid) in any::<(u32, u32)>(),
        calls in vec(any::<String>(), 0..3),
    ) -> Body {
        Body::Kernel(Box::new(Kernel {
            session, server, op,
            decision: if deny { Decision::Deny } else { Decision::Allow },
            layer: Layer::Seccomp,
            path_source: path.as_ref().map(|_| PathSource::Kernel),
            reason, path, path2, path_complete, dev, ino, nlink, port, detail, pid, tid, exe, calls, repeat,
            rights: None, address: None, family: None, errno: None,
            attribution: Attribution::OneOf,
        }))
    }
}

prop_compose! {
    fn exit()(
        reason in any::<String>(),
        (code, signal) in any::<(Option<i32>, Option<i32>)>(),
        duration_us in number(),
        cpu_stat in proptest::collection::btree_map(any::<String>(), number(), 0..4),
        stderr_tail in of(octets()),
    ) -> Body {
        Body::Exit(Box::new(Exit {
            session: "s".into(), call: None, server: "x".into(), reason, code, signal, duration_us,
            resources: Some(ResourceUse { cpu_stat, ..ResourceUse::default() }),
            stderr_tail, cause: None, degraded: None,
        }))
    }
}

fn body() -> impl Strategy<Value = Body> {
    let launch = (vec(octets(), 0..4), octets(), number()).prop_map(|(command, path, ino)| {
        let Body::Launch(mut launch) = full_launch() else {
            unreachable!()
        };
        launch.command = command;
        launch.roots[0].path = path;
        launch.roots[0].ino = ino;
        Body::Launch(launch)
    });
    let gap =
        (of(any::<String>()), of(number()), vec(any::<String>(), 0..3)).prop_map(|(session, lost, saved)| {
            Body::Gap(Gap {
                session,
                call: None,
                gap: Lost {
                    cpu: None,
                    kind: GapKind::RingFull,
                    lost,
                    bytes: None,
                    saved,
                    done: None,
                },
            })
        });
    prop_oneof![kernel(), exit(), launch, gap]
}

proptest! {
    #[test]
    fn any_record_survives_the_line(
        body in body(),
        seq in 1u64..1 << 53,
        prev in any::<[u8; 32]>(),
        micros in 0i64..4_000_000_000_000_000,
    ) {
        let time = Stamp::from_micros(micros);
        let unhashed = Unhashed { v: VERSION, seq, time, origin: Origin::Gateway, prev: Digest(prev), body: &body };
        let (line, hash) = unhashed.encode().unwrap();
        let line = line.strip_suffix(b"\n").unwrap();
        prop_assert!(!line.contains(&b'\n'));
        let record: Record = serde_json::from_slice(line).unwrap();
        prop_assert_eq!(&record.body, &body);
        prop_assert_eq!((record.seq, record.time, record.prev, record.hash), (seq, time, Digest(prev), hash));
        for head in [strict(line).unwrap(), quick(line).unwrap()] {
            prop_assert_eq!((head.seq, head.prev, head.hash), (seq, Digest(prev), hash));
        }
        let text = text_line(&tail::Entry { text: String::new(), value: serde_json::from_slice(line).unwrap() });
        prop_assert!(!text.chars().any(char::is_control), "{}", text);
    }
}
