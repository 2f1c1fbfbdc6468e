//! Opening, locking, rotating, directories that are refused.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[test]
fn the_chain_goes_on_across_a_rotation_at_a_thousand_records() {
    let place = place();
    let options = Options {
        max_segment_records: 1000,
        ..Options::default()
    };
    closed(&place.dir, options.clone(), 1500);
    closed(&place.dir, options, 1500);
    let report = good(&place.dir);
    assert_eq!(report.segments, 4);
    assert_eq!(report.unsigned, 0);
    let records = records(&place.dir);
    assert!(
        records
            .windows(2)
            .all(|pair| pair[1].prev == pair[0].hash && pair[1].seq == pair[0].seq + 1)
    );
    // The last record of each segment is a signature.
    for path in segments(&place.dir) {
        let text = fs::read_to_string(path).unwrap();
        let last: Record = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last.body.kind(), Kind::Checkpoint);
    }
}

#[test]
fn segments_rotate_by_size_too() {
    let place = place();
    closed(
        &place.dir,
        Options {
            max_segment_bytes: 4000,
            ..Options::default()
        },
        50,
    );
    let sizes: Vec<u64> = segments(&place.dir)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .collect();
    assert!(
        sizes.len() > 5 && sizes.iter().all(|size| *size < 6000),
        "{sizes:?}"
    );
    good(&place.dir);
}

#[test]
fn checkpoints_come_by_count_and_at_the_end() {
    let place = place();
    closed(
        &place.dir,
        Options {
            checkpoint_every_records: 5,
            ..Options::default()
        },
        12,
    );
    let at: Vec<u64> = records(&place.dir)
        .iter()
        .filter(|record| record.body.kind() == Kind::Checkpoint)
        .map(|record| record.seq)
        .collect();
    assert_eq!(at, [6, 12, 15]);
    assert_eq!(good(&place.dir).checkpoints, 3);
}

#[test]
fn a_second_writer_is_told_who_has_it() {
    let place = place();
    let trail = Trail::open(&place.dir, small()).unwrap();
    match Trail::open(&place.dir, small()).map(|_| ()) {
        Err(AuditError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id() as i32)),
        other => panic!("{other:?}"),
    }
    trail.close().unwrap();
    Trail::open(&place.dir, small()).unwrap();
}

#[test]
fn directories_that_are_not_ours_alone_are_refused() {
    let place = place();
    let why = |dir: &Path| match Trail::open(dir, small()).map(|_| ()) {
        Err(error @ AuditError::Directory { .. }) => error.refusal().why,
        other => panic!("{other:?}"),
    };
    Trail::open(&place.dir, small()).unwrap();
    assert_eq!(
        fs::metadata(&place.dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let link = place.dir.with_file_name("link");
    symlink(&place.dir, &link).unwrap();
    assert!(why(&link).contains("symbolic link"));
    for mode in [0o770, 0o707, 0o777] {
        fs::set_permissions(&place.dir, fs::Permissions::from_mode(mode)).unwrap();
        assert!(why(&place.dir).contains("others may write"), "{mode:o}");
    }
    fs::set_permissions(&place.dir, fs::Permissions::from_mode(0o755)).unwrap();
    Trail::open(&place.dir, small()).unwrap();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&place.dir, Some(4711), None).unwrap();
        assert!(why(&place.dir).contains("uid 4711"));
    }
}

#[test]
fn files_that_are_not_ours_are_left_alone_and_noted() {
    let place = place();
    closed(&place.dir, small(), 3);
    for name in [
        "notes.txt",
        "1.jsonl",
        "0000001.jsonl",
        "000000.jsonl",
        "torn-x.bin",
    ] {
        fs::write(place.dir.join(name), name).unwrap();
    }
    closed(&place.dir, small(), 3);
    let report = good(&place.dir);
    for name in [
        "notes.txt",
        "1.jsonl",
        "0000001.jsonl",
        "000000.jsonl",
        "torn-x.bin",
    ] {
        assert_eq!(fs::read_to_string(place.dir.join(name)).unwrap(), name);
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.contains(&format!("`{name}`"))),
            "{:?}",
            report.notes
        );
    }
}

/// A link planted in a directory we once did not own must not lead our writes elsewhere.
#[test]
fn planted_links_are_not_followed() {
    let place = place();
    closed(&place.dir, small(), 3);
    let target = place.dir.with_file_name("target");
    fs::write(&target, "").unwrap();
    let lock = place.dir.join("lock");
    fs::remove_file(&lock).unwrap();
    symlink(&target, &lock).unwrap();
    assert!(Trail::open(&place.dir, small()).is_err());
    fs::remove_file(&lock).unwrap();
    symlink(&target, place.dir.join("000002.jsonl")).unwrap();
    assert!(Trail::open(&place.dir, small()).is_err());
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn denials_are_synced_whatever_the_caller_asks() {
    assert_eq!(allow(1).durability(), Durability::Soon);
    assert!(full().iter().all(|body| body.durability() == Durability::Sync));
    let place = place();
    let mut trail = Trail::open(&place.dir, small()).unwrap();
    trail
        .append(&full()[1], Origin::Warden, Durability::Soon)
        .unwrap();
    assert_eq!(trail.sync_due(), None);
    trail.append(&allow(1), Origin::Warden, Durability::Soon).unwrap();
    assert!(trail.sync_due().is_some());
}

#[test]
fn an_empty_directory_is_whole_and_says_that_it_is_empty() {
    let place = place();
    Trail::open(&place.dir, small()).unwrap().close().unwrap();
    let report = good(&place.dir);
    assert_eq!((report.records, report.head), (0, None));
    assert!(report.notes.iter().any(|note| note.contains("no record")));
    assert!(verify(&place.dir.join("nowhere"), &VerifyOptions::default()).is_err());
}
