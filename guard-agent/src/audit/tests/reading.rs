//! `tail`: the last records, and those that come.

use super::*;

fn pids(tail: &mut Tail) -> Vec<u32> {
    let mut pids = Vec::new();
    while let Some(entry) = tail.read_next().unwrap() {
        pids.extend(entry.value["pid"].as_u64().map(|pid| pid as u32));
    }
    pids
}

fn kernel_only() -> Filter {
    Filter {
        kinds: vec![Kind::Kernel],
        ..Filter::default()
    }
}

#[test]
fn the_last_records_come_from_as_many_segments_as_needed() {
    let place = place();
    closed(&place.dir, small(), 30);
    for last in [0, 1, 5, 17, 30, 100] {
        let mut tail = Tail::open(&place.dir, kernel_only(), last).unwrap();
        let expected: Vec<u32> = (30 - last.min(30) as u32..30).collect();
        assert_eq!(pids(&mut tail), expected, "-n {last}");
    }
}

#[test]
fn records_are_followed_across_rotations() {
    let place = place();
    let mut trail = Trail::open(&place.dir, small()).unwrap();
    let mut tail = Tail::open(&place.dir, kernel_only(), 0).unwrap();
    for round in 0..40 {
        trail
            .append(&allow(round), Origin::Warden, Durability::Soon)
            .unwrap();
        assert_eq!(pids(&mut tail), [round]);
    }
    assert!(segments(&place.dir).len() > 4);
    // Several rotations between two looks.
    fill(&mut trail, 40);
    assert_eq!(pids(&mut tail), (0..40).collect::<Vec<_>>());
}

#[test]
fn half_a_line_is_waited_for() {
    let place = place();
    closed(&place.dir, Options::default(), 3);
    let path = segments(&place.dir).remove(0);
    let bytes = fs::read(&path).unwrap();
    let cut = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 40;
    fs::write(&path, &bytes[..cut]).unwrap();
    let mut tail = Tail::open(&place.dir, kernel_only(), 10).unwrap();
    assert_eq!(pids(&mut tail), [0]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(pids(&mut tail), [1, 2]);
}

#[test]
fn filters_are_by_kind_session_and_server() {
    let record = serde_json::json!({"kind": "kernel", "session": "s-1", "server": "files"});
    let admits = |filter: Filter| filter.admits(&record);
    assert!(admits(Filter::default()));
    assert!(admits(kernel_only()));
    assert!(!admits(Filter {
        kinds: vec![Kind::Gap, Kind::Exit],
        ..Filter::default()
    }));
    assert!(admits(Filter {
        sessions: vec!["s-1".into()],
        servers: vec!["files".into()],
        ..Filter::default()
    }));
    assert!(!admits(Filter {
        sessions: vec!["s-2".into()],
        ..Filter::default()
    }));
    assert!(!admits(Filter {
        servers: vec!["other".into()],
        ..Filter::default()
    }));
}

#[test]
fn each_kind_has_one_readable_line() {
    let place = place();
    let mut trail = Trail::open(&place.dir, Options::default()).unwrap();
    for body in full() {
        trail.append(&body, Origin::Warden, Durability::Soon).unwrap();
    }
    trail.close().unwrap();
    let mut tail = Tail::open(&place.dir, Filter::default(), 10).unwrap();
    let mut lines = Vec::new();
    while let Some(entry) = tail.read_next().unwrap() {
        let line = text_line(&entry);
        // Without the time, which is another one each run.
        lines.push(line[28..].to_owned());
    }
    let start = lines[4].rfind(' ').unwrap();
    lines[4].truncate(start);
    assert_eq!(
        lines,
        [
            r"     1 launch     files s-1 call=7 T2 uid=1000 roots=[/srv/docs:rw]: node \xffx",
            "     2 kernel     files deny connect /run/x.sock… 127.0.0.1:80 rights=rw layer=cgroup-bpf hook=file_open \
             pid=4711 calls=c-1 exe=/usr/bin/node EPERM repeat=3: network is `none`",
            "     3 exit       files s-1 call=7 signaled code=1 signal=9 after 1.234s: gateway: the client closed its end",
            "     4 gap        s-1 call=7 ring-full lost=12 bytes=34 cpu=1 saved=torn-1.0.bin",
            "     5 checkpoint record 4 signed by",
        ]
    );
}

#[test]
fn what_is_unknown_is_shown_as_it_is() {
    let entry = |text: &str| tail::Entry {
        text: text.to_owned(),
        value: serde_json::from_str(text).unwrap_or_default(),
    };
    assert_eq!(text_line(&entry("\u{1b}[31m")), r"not a record: \u{1b}[31m");
    let later = r#"{"v":1,"seq":3,"time":"t","kind":"later","what":"a\u0007b"}"#;
    assert_eq!(
        text_line(&entry(later)),
        r#"t      3 later      what="a\\u0007b""#
    );
}
