//! `query`: what is asked for is found, whatever stands in between.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::audit::{
    count::Groups,
    filter::{AddressPattern, Errno, Op, PathPattern},
};

struct Read {
    pids: Vec<u32>,
    damage: Vec<String>,
    skipped: u64,
}

fn read(dir: &Path, filter: Filter) -> Read {
    let mut query = Query::open(dir, filter).unwrap();
    let (mut pids, mut damage) = (Vec::new(), Vec::new());
    while let Some(found) = query.read_next().unwrap() {
        match found {
            Found::Record(entry) => pids.extend(entry.value["pid"].as_u64().map(|pid| pid as u32)),
            Found::Damage(found) => damage.push(found.to_string()),
        }
    }
    Read {
        pids,
        damage,
        skipped: query.skipped(),
    }
}

fn everything() -> Filter {
    Filter::default()
}

#[test]
fn all_segments_are_read_in_order() {
    let place = place();
    closed(&place.dir, small(), 60);
    let read = read(&place.dir, everything());
    assert_eq!(read.pids, (0..60).collect::<Vec<_>>());
    assert!(read.damage.is_empty(), "{:?}", read.damage);
}

#[test]
fn a_directory_that_is_written_meanwhile_is_read_without_false_damage() {
    let place = place();
    let mut trail = Trail::open(&place.dir, small()).unwrap();
    fill(&mut trail, 5);
    let mut query = Query::open(&place.dir, everything()).unwrap();
    let mut pids = Vec::new();
    for round in 5..200 {
        match query.read_next().unwrap() {
            Some(Found::Record(entry)) => pids.extend(entry.value["pid"].as_u64()),
            Some(Found::Damage(damage)) => panic!("{damage}"),
            None => panic!("it ended before the writer"),
        }
        trail
            .append(&allow(round), Origin::Warden, Durability::Soon)
            .unwrap();
    }
    trail.close().unwrap();
    while let Some(found) = query.read_next().unwrap() {
        match found {
            Found::Record(entry) => pids.extend(entry.value["pid"].as_u64()),
            Found::Damage(damage) => panic!("{damage}"),
        }
    }
    assert_eq!(pids, (0..200).collect::<Vec<_>>());
}

/// A reader at the end of a segment while the writer fills it up and begins the next.
#[test]
fn a_rotation_under_the_reader_is_no_damage() {
    let place = place();
    let options = Options {
        max_segment_records: 3,
        ..Options::default()
    };
    let mut trail = Trail::open(&place.dir, options).unwrap();
    fill(&mut trail, 1);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let read = read(&place.dir, everything());
                assert!(read.damage.is_empty(), "{:?}", read.damage);
            }
        });
        fill(&mut trail, 1500);
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// Replaces line `number` (from 1) of a segment and gives how many records of ours it held.
fn change(segment: &Path, number: usize, new: &str) {
    let text = fs::read_to_string(segment).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    if new.is_empty() {
        lines.remove(number - 1);
    } else {
        lines[number - 1] = new;
    }
    fs::write(segment, lines.join("\n") + "\n").unwrap();
}

#[test]
fn everything_around_damage_is_read_and_the_damage_is_named() {
    // Records 1 to 7 and a checkpoint in each segment; the pids of the second segment are not known beforehand.
    let fresh = || {
        let place = place();
        closed(&place.dir, small(), 30);
        place
    };
    let all: Vec<u32> = (0..30).collect();
    let reference = fresh();
    let in_second: Vec<Option<u32>> = fs::read_to_string(&segments(&reference.dir)[1])
        .unwrap()
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["pid"]
                .as_u64()
                .map(|pid| pid as u32)
        })
        .collect();
    let without = |gone: &[Option<u32>]| -> Vec<u32> {
        all.iter()
            .copied()
            .filter(|pid| !gone.contains(&Some(*pid)))
            .collect()
    };
    let line_3 = fs::read_to_string(&segments(&reference.dir)[1])
        .unwrap()
        .lines()
        .nth(2)
        .unwrap()
        .to_owned();

    for (new, why) in [
        ("garbage".to_owned(), "its hash"),
        ("x".repeat(MAX_RECORD + 10), "longer than a record may be"),
        (
            line_3
                .replacen("deny", "allow", 1)
                .replacen("\"pid\":", "\"pid\":1", 1),
            "its hash",
        ),
    ] {
        let place = fresh();
        change(&segments(&place.dir)[1], 3, &new);
        let read = read(&place.dir, everything());
        assert_eq!(read.pids, without(&in_second[2..3]), "{why}");
        assert_eq!(read.damage.len(), 1, "{:?}", read.damage);
        assert!(
            read.damage[0].starts_with("000002.jsonl line 3: "),
            "{:?}",
            read.damage
        );
        assert!(read.damage[0].contains(why), "{:?}", read.damage);
    }

    let place = fresh();
    change(&segments(&place.dir)[1], 3, "");
    let removed = read(&place.dir, everything());
    assert_eq!(removed.pids, without(&in_second[2..3]));
    assert_eq!(removed.damage.len(), 1, "{:?}", removed.damage);
    assert!(
        removed.damage[0].contains("was to follow"),
        "{:?}",
        removed.damage
    );

    let place = fresh();
    fs::remove_file(&segments(&place.dir)[1]).unwrap();
    let missing = read(&place.dir, everything());
    assert_eq!(missing.pids, without(&in_second));
    assert_eq!(
        missing.damage,
        ["000002.jsonl: it is missing, `000003.jsonl` is there"]
    );

    // Something that is no file, in a segment's place.
    let place = fresh();
    let second = segments(&place.dir).remove(1);
    fs::remove_file(&second).unwrap();
    fs::create_dir(&second).unwrap();
    let no_file = read(&place.dir, everything());
    assert_eq!(no_file.pids, without(&in_second));
    assert_eq!(no_file.damage.len(), 1, "{:?}", no_file.damage);
    assert!(
        no_file.damage[0].starts_with("000002.jsonl: it cannot be opened"),
        "{:?}",
        no_file.damage
    );

    // Cut in the middle of a line.
    let place = fresh();
    let second = segments(&place.dir).remove(1);
    let text = fs::read_to_string(&second).unwrap();
    let cut = text.match_indices('\n').nth(3).unwrap().0 + 20;
    fs::write(&second, &text[..cut]).unwrap();
    let torn = read(&place.dir, everything());
    assert_eq!(torn.pids, without(&in_second[4..]));
    assert!(
        torn.damage[0].starts_with("000002.jsonl line 5: it has no end"),
        "{:?}",
        torn.damage
    );
}

fn at(time: &str) -> Option<Stamp> {
    Some(time.parse::<jiff::Timestamp>().unwrap().into())
}

/// A chain whose records carry these hours of one day, eight records a segment.
fn hours(hours: &[u32]) -> Place {
    let place = place();
    fs::create_dir(&place.dir).unwrap();
    let mut prev = Digest([7; 32]);
    for (index, records) in hours.chunks(8).enumerate() {
        let mut segment = Vec::new();
        for (offset, hour) in records.iter().enumerate() {
            let seq = (index * 8 + offset + 1) as u64;
            let body = allow(seq as u32 - 1);
            let time = format!("2026-11-30T{hour:02}:00:00Z");
            let unhashed = super::super::chain::Unhashed {
                v: VERSION,
                seq,
                time: at(&time).unwrap(),
                origin: Origin::Warden,
                prev,
                body: &body,
            };
            let (line, hash) = unhashed.encode().unwrap();
            segment.extend(line);
            prev = hash;
        }
        fs::write(place.dir.join(format!("{:06}.jsonl", index + 1)), segment).unwrap();
    }
    place
}

#[test]
fn segments_are_skipped_by_time_and_no_record_with_them() {
    let times: Vec<u32> = (0..80).map(|record| record / 4).collect();
    let place = hours(&times);
    for (since, until) in [(0, 23), (5, 8), (12, 12), (19, 23), (0, 1), (20, 23)] {
        let filter = Filter {
            since: at(&format!("2026-11-30T{since:02}:00:00Z")),
            until: at(&format!("2026-11-30T{until:02}:00:00Z")),
            ..Filter::default()
        };
        let read = read(&place.dir, filter);
        let expected: Vec<u32> = (0..80)
            .filter(|pid| (since..=until).contains(&times[*pid as usize]))
            .collect();
        assert_eq!(read.pids, expected, "{since} to {until}");
        assert!(read.damage.is_empty(), "{:?}", read.damage);
        assert_eq!(
            read.skipped > 0,
            until - since < 19,
            "{since} to {until}: {}",
            read.skipped
        );
    }
}

#[test]
fn a_clock_that_went_back_within_the_hour_hides_nothing() {
    let mut times = vec![5; 8];
    times.extend([5, 6, 6, 5, 5, 5, 5, 5]);
    times.extend([5; 16]);
    let place = hours(&times);
    let filter = Filter {
        since: at("2026-11-30T06:00:00Z"),
        ..Filter::default()
    };
    assert_eq!(read(&place.dir, filter).pids, [9, 10]);
}

fn path(pattern: &str) -> PathPattern {
    PathPattern::new(pattern.as_ref()).unwrap()
}

#[test]
fn paths_fit_by_component_or_by_pattern() {
    for (pattern, fits, not) in [
        (
            "/data",
            &["/data", "/data/", "/data/x/y"][..],
            &["/database", "/", "/a/data", "data"][..],
        ),
        ("/data/", &["/data", "/data/x"], &["/database"]),
        ("/", &["/x"], &["x"]),
        ("rel", &["rel/x"], &["/rel"]),
        ("/a[b]?", &["/a[b]?/x"], &["/ab"]),
        (
            "/srv/*.db",
            &["/srv/x.db", "/srv/.db"],
            &["/srv/a/x.db", "/srv/x.dbs"],
        ),
        ("/srv/**/*.db", &["/srv/x.db", "/srv/a/b/x.db"], &["/other/x.db"]),
        (
            "/home/*/.ssh/**",
            &["/home/u/.ssh/id"],
            &["/home/u/x/.ssh/id", "/home/u/.ssh2/id"],
        ),
        ("*shadow", &["shadow", "gshadow"], &["/etc/shadow"]),
        ("**/shadow", &["/etc/shadow", "shadow"], &["/etc/shadow-"]),
        ("@sock", &["\0sock"], &["@sock", "/sock"]),
    ] {
        let compiled = path(pattern);
        for text in fits {
            assert!(
                compiled.matches(text.as_bytes()),
                "`{pattern}` does not fit `{text:?}`"
            );
        }
        for text in not {
            assert!(!compiled.matches(text.as_bytes()), "`{pattern}` fits `{text:?}`");
        }
    }
    // Bytes that are no text.
    assert!(path("/srv/*").matches(b"/srv/\xff\xfe"));
    assert!(path("/srv").matches(b"/srv/\xff/x"));
    let raw = PathPattern::new(Octets(b"/srv/\xff".to_vec()).as_os_str()).unwrap();
    assert!(raw.matches(b"/srv/\xff/x") && !raw.matches(b"/srv/\xfe"));
    assert!(PathPattern::new(Octets(b"/srv/\xff*".to_vec()).as_os_str()).is_err());
}

#[test]
fn addresses_fit_by_network_and_port() {
    let record = |address: &str, port: u16| json!({"kind": "kernel", "address": address, "port": port});
    for (pattern, address, port, fits) in [
        ("192.0.2.1", "192.0.2.1", 80, true),
        ("192.0.2.1", "192.0.2.10", 80, false),
        ("192.0.2.1:80", "192.0.2.1", 80, true),
        ("192.0.2.1:80", "192.0.2.1", 81, false),
        ("192.0.2.0/24", "192.0.2.77", 1, true),
        ("192.0.2.0/24:443", "192.0.2.77", 443, true),
        ("192.0.2.0/24:443", "192.0.2.77", 444, false),
        ("192.0.2.1", "::ffff:192.0.2.1", 80, true),
        ("::ffff:192.0.2.1", "192.0.2.1", 80, true),
        ("2001:db8::/32", "2001:db8::1", 1, true),
        ("2001:db8::/32", "2001:db9::1", 1, false),
        ("[2001:db8::1]:443", "2001:db8::1", 443, true),
        ("[2001:db8::1]:443", "2001:db8::1", 80, false),
        ("fe80::1", "fe80::1%eth0", 80, true),
        ("::1", "not an address", 80, false),
    ] {
        let filter = Filter {
            addresses: vec![pattern.parse().unwrap()],
            ..Filter::default()
        };
        assert_eq!(
            filter.admits(&record(address, port)),
            fits,
            "`{pattern}` on {address} {port}"
        );
    }
    for wrong in [
        "",
        "localhost",
        "192.0.2.1:",
        "192.0.2.1:70000",
        "[::1",
        "[::1]x",
        "192.0.2.0/40",
    ] {
        assert!(wrong.parse::<AddressPattern>().is_err(), "{wrong}");
    }
}

#[test]
fn a_name_that_no_record_has_is_refused_with_those_there_are() {
    for op in ["openat", "open", "exec", "connect", "syscall-999"] {
        assert!(op.parse::<Op>().is_ok(), "{op}");
    }
    for (asked, recorded, fits) in [
        ("openat", "open", true),
        ("execve", "exec", true),
        ("open", "openat", false),
    ] {
        let filter = Filter {
            ops: vec![asked.parse().unwrap()],
            ..Filter::default()
        };
        let record = json!({"kind": "kernel", "op": recorded});
        assert_eq!(filter.admits(&record), fits, "{asked} {recorded}");
    }
    let error = "openat3".parse::<Op>().unwrap_err();
    assert!(
        error.contains("`openat2`") && error.contains("names of the system calls"),
        "{error}"
    );
    assert!("eacces".parse::<Errno>().is_ok() && "E2BIG".parse::<Errno>().is_ok());
    let error = "EACCESS".parse::<Errno>().unwrap_err();
    assert!(
        error.contains("EACCES") && error.contains("EHWPOISON") && !error.contains("E41"),
        "{error}"
    );
}

#[test]
fn repeats_and_losses_add_up_to_the_attempts() {
    let kernel = |op: &str, repeat: Value| json!({"kind": "kernel", "op": op, "repeat": repeat});
    let records = [
        kernel("openat", Value::Null),
        kernel("openat", json!(41)),
        kernel("connect", json!("9007199254740993")),
        json!({"kind": "gap", "gap": {"lost": 7}}),
        json!({"kind": "gap", "gap": {"lost": null}}),
        json!({"kind": "exit"}),
    ];
    let mut groups = Groups::new(vec![By::Kind, By::Op]);
    records.iter().for_each(|record| groups.add(record));
    let found: Vec<(String, Counts)> = (groups.finish().into_iter())
        .map(|group| {
            (
                serde_json::to_value(&group).unwrap()["by"].to_string(),
                group.counts,
            )
        })
        .collect();
    let counts = |records, attempts, lost| Counts {
        records,
        attempts,
        lost,
    };
    assert_eq!(
        found,
        [
            (
                r#"{"kind":"kernel","op":"connect"}"#.into(),
                counts(1, 9_007_199_254_740_993, 0)
            ),
            (r#"{"kind":"kernel","op":"openat"}"#.into(), counts(2, 42, 0)),
            (r#"{"kind":"gap","op":null}"#.into(), counts(2, 0, 7)),
            (r#"{"kind":"exit","op":null}"#.into(), counts(1, 0, 0)),
        ]
    );
}

#[test]
fn more_groups_than_there_is_room_for_are_one() {
    let mut groups = Groups::new(vec![By::Path]);
    groups.limit(3);
    for number in 0..10 {
        groups.add(&json!({"kind": "kernel", "path": format!("/{number}"), "repeat": 2}));
    }
    let found = groups.finish();
    assert_eq!(found.len(), 4);
    assert_eq!(found[3].by, None);
    assert_eq!((found[3].counts.records, found[3].counts.attempts), (7, 14));
    let total: u64 = found.iter().map(|group| group.counts.attempts).sum();
    assert_eq!(total, 20);
}

proptest! {
    /// A path is below each of its ancestors, and below no sibling whose name merely begins alike.
    #[test]
    fn a_prefix_is_a_prefix_of_components(
        components in proptest::collection::vec("[a-z\u{e4}\u{1f600}.]{1,6}x", 1..6),
        depth in 0usize..6,
        tail in "[a-z]{1,4}",
    ) {
        let whole = format!("/{}", components.join("/"));
        let depth = depth.min(components.len());
        let ancestor = format!("/{}", components[..depth].join("/"));
        prop_assert!(path(&ancestor).matches(whole.as_bytes()));
        if depth > 0 {
            let longer = format!("{ancestor}{tail}");
            prop_assert!(!path(&ancestor).matches(longer.as_bytes()));
            let glob = path(&format!("{ancestor}*"));
            prop_assert!(glob.matches(longer.as_bytes()));
        }
    }

    /// Whatever bytes a path has, it is found by itself and by what stands above it.
    #[test]
    fn any_bytes_are_found(name in proptest::collection::vec(any::<u8>().prop_filter("no separator", |byte| *byte != b'/' && *byte != b'*'), 1..40)) {
        prop_assume!(name != b"." && name != b"..");
        let whole = Octets([b"/srv/".as_slice(), &name].concat());
        let record = json!({"kind": "kernel", "path": whole});
        for pattern in [whole.as_os_str(), "/srv".as_ref(), "/srv/*".as_ref(), "/*/*".as_ref()] {
            let filter = Filter { paths: vec![PathPattern::new(pattern).unwrap()], ..Filter::default() };
            prop_assert!(filter.admits(&record), "{:?}", pattern);
        }
    }
}
