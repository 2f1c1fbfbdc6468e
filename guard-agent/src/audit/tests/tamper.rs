//! Whatever is done to a segment is seen, and the right record is named.

use proptest::prelude::*;

use super::*;

struct Chain {
    place: Place,
    /// Segment by segment, as written.
    clean: Vec<(PathBuf, Vec<u8>)>,
}

fn chain() -> Chain {
    chain_of(small(), 20)
}

fn chain_of(options: Options, count: u32) -> Chain {
    let place = place();
    closed(&place.dir, options, count);
    let clean = segments(&place.dir)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    Chain { place, clean }
}

impl Chain {
    fn restore(&self) {
        for (path, bytes) in &self.clean {
            fs::write(path, bytes).unwrap();
        }
    }

    /// The line (from 1) that byte `at` of the segment belongs to, its newline included.
    fn line_of(&self, segment: usize, at: usize) -> u64 {
        1 + self.clean[segment].1[..at]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count() as u64
    }

    fn first_bad(&self) -> Bad {
        report(&self.place.dir).first_bad.expect("it was changed")
    }

    fn with_lines(&self, segment: usize, change: impl FnOnce(&mut Vec<String>)) -> Bad {
        let (path, bytes) = &self.clean[segment];
        let text = String::from_utf8(bytes.clone()).unwrap();
        let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
        change(&mut lines);
        fs::write(path, lines.concat()).unwrap();
        let bad = self.first_bad();
        self.restore();
        bad
    }
}

#[test]
fn every_flipped_byte_is_found_in_its_record() {
    // Each byte costs a whole verification: the smallest chain with a checkpoint within and at each end.
    let options = Options {
        max_segment_records: 3,
        checkpoint_every_records: 2,
        ..Options::default()
    };
    let chain = chain_of(options, 9);
    assert!(chain.clean.len() >= 3);
    good(&chain.place.dir);
    for (segment, (path, clean)) in chain.clean.iter().enumerate() {
        let mut bytes = clean.clone();
        // One bit of each byte, another one each time; the last newline has its own test below.
        for at in 0..bytes.len() - 1 {
            bytes[at] ^= 1 << (at % 8);
            fs::write(path, &bytes).unwrap();
            let bad = chain.first_bad();
            let name = path.file_name().unwrap().to_string_lossy();
            assert_eq!(
                (bad.segment.as_str(), bad.line),
                (&*name, chain.line_of(segment, at)),
                "byte {at}: {bad}"
            );
            bytes[at] = clean[at];
        }
        fs::write(path, clean).unwrap();
    }
    good(&chain.place.dir);
}

#[test]
fn the_newline_at_the_end_is_part_of_the_record() {
    let chain = chain();
    let (path, clean) = chain.clean.last().unwrap();
    fs::write(path, &clean[..clean.len() - 1]).unwrap();
    assert_eq!(chain.first_bad().reason, Reason::TornLine);
}

#[test]
fn lines_reordered_deleted_inserted_or_repeated() {
    let chain = chain();
    let bad = chain.with_lines(0, |lines| lines.swap(2, 3));
    assert_eq!((bad.line, bad.reason, bad.seq), (3, Reason::WrongSeq, Some(4)));
    let bad = chain.with_lines(0, |lines| drop(lines.remove(2)));
    assert_eq!((bad.line, bad.reason, bad.seq), (3, Reason::WrongSeq, Some(4)));
    let bad = chain.with_lines(0, |lines| drop(lines.remove(0)));
    assert_eq!((bad.line, bad.reason, bad.seq), (1, Reason::WrongSeq, Some(2)));
    let bad = chain.with_lines(1, |lines| lines.insert(1, lines[0].clone()));
    assert_eq!((bad.line, bad.reason), (2, Reason::WrongSeq));
    let bad = chain.with_lines(1, |lines| lines.insert(1, "{}\n".into()));
    assert_eq!((bad.line, bad.reason), (2, Reason::UnknownVersion));
    let bad = chain.with_lines(1, |lines| lines.insert(1, "\n".into()));
    assert_eq!((bad.line, bad.reason), (2, Reason::BadJson));
    let bad = chain.with_lines(1, |lines| {
        lines.insert(1, format!("{}\n", "x".repeat(MAX_RECORD + 5)));
    });
    assert_eq!((bad.line, bad.reason), (2, Reason::TooLong));
}

#[test]
fn segments_swapped_removed_or_cut() {
    let chain = chain();
    let [(one, first), (two, second), ..] = &chain.clean[..] else {
        panic!("too few segments")
    };
    fs::write(one, second).unwrap();
    fs::write(two, first).unwrap();
    let bad = chain.first_bad();
    assert_eq!(
        (bad.segment.as_str(), bad.line, bad.reason),
        ("000001.jsonl", 1, Reason::WrongSeq)
    );
    chain.restore();
    fs::remove_file(two).unwrap();
    let bad = chain.first_bad();
    assert_eq!(
        (bad.segment.as_str(), bad.line, bad.reason),
        ("000002.jsonl", 0, Reason::MissingSegment)
    );
    chain.restore();
    fs::remove_file(one).unwrap();
    assert_eq!(chain.first_bad().reason, Reason::MissingSegment);
    chain.restore();
    // The last record of a segment that another follows.
    let end = first[..first.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    fs::write(one, &first[..=end]).unwrap();
    let bad = chain.first_bad();
    assert_eq!(
        (bad.segment.as_str(), bad.line, bad.reason),
        ("000002.jsonl", 1, Reason::WrongSeq)
    );
}

/// One record rewritten with a right hash, nothing else: the one after it no longer hangs on it.
#[test]
fn a_rehashed_record_is_found_by_the_next_one() {
    let chain = chain();
    let change = |lines: &mut Vec<String>| {
        let record: Record = serde_json::from_str(&lines[2]).unwrap();
        let Record {
            v,
            seq,
            time,
            origin,
            prev,
            ..
        } = record;
        let body = allow(666);
        let unhashed = chain::Unhashed {
            v,
            seq,
            time,
            origin,
            prev,
            body: &body,
        };
        lines[2] = String::from_utf8(unhashed.encode().unwrap().0).unwrap();
    };
    let bad = chain.with_lines(0, change);
    assert_eq!((bad.line, bad.seq, bad.reason), (4, Some(4), Reason::WrongPrev));
    // The writer sees it too, where it looks: in the last segment.
    let place = place();
    closed(&place.dir, Options::default(), 6);
    let path = segments(&place.dir).remove(0);
    let mut lines: Vec<String> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    change(&mut lines);
    fs::write(&path, lines.concat()).unwrap();
    let error = Trail::open(&place.dir, Options::default())
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(
            error,
            AuditError::Damaged {
                line: 4,
                seq: Some(4),
                ..
            }
        ),
        "{error}"
    );
}

/// A segment made anew with right hashes, with another second record if there is one. `follow`: its checkpoints speak
/// of the new records, which their signatures do not; else they stay as they were signed.
fn rehashed(clean: &[u8], second: Option<&Body>, follow: bool) -> String {
    let text = std::str::from_utf8(clean).unwrap();
    let mut prev: Option<Digest> = None;
    let mut forged = String::new();
    for line in text.lines() {
        let mut record: Record = serde_json::from_str(line).unwrap();
        if let Some(body) = second.filter(|_| record.seq == 2) {
            record.body = body.clone();
        }
        record.prev = prev.unwrap_or(record.prev);
        if let Body::Checkpoint(signed) = &mut record.body
            && follow
        {
            signed.checkpoint.root = record.prev;
        }
        let Record {
            v,
            seq,
            time,
            origin,
            prev: before,
            body,
            ..
        } = &record;
        let unhashed = chain::Unhashed {
            v: *v,
            seq: *seq,
            time: *time,
            origin: *origin,
            prev: *before,
            body,
        };
        let (line, hash) = unhashed.encode().unwrap();
        forged.push_str(std::str::from_utf8(&line).unwrap());
        prev = Some(hash);
    }
    forged
}

/// Somebody who can write the file but has no key makes a new chain: signatures are over the old one.
#[test]
fn a_rehashed_chain_fails_at_the_first_signature() {
    let chain = chain();
    let (path, clean) = &chain.clean[0];
    for (follow, reason) in [(true, Reason::BadSignature), (false, Reason::WrongCheckpoint)] {
        fs::write(path, rehashed(clean, Some(&allow(666)), follow)).unwrap();
        let bad = chain.first_bad();
        assert_eq!((bad.line, bad.reason), (6, reason), "{bad}");
    }
    // What is made anew without a change is what was signed.
    assert_eq!(rehashed(clean, None, false).as_bytes(), clean);
}

#[test]
fn a_segment_that_is_no_regular_file_is_an_error_not_a_hang() {
    let chain = chain();
    let path = chain.place.dir.join("000002.jsonl");
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(verify(&chain.place.dir, &VerifyOptions::default()).is_err());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("000001.jsonl", &path).unwrap();
    assert!(verify(&chain.place.dir, &VerifyOptions::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_byte_set_to_anything_is_found(pick in any::<prop::sample::Index>(), value in any::<u8>()) {
        thread_local!(static CHAIN: Chain = chain());
        CHAIN.with(|chain| {
            let total: usize = chain.clean.iter().map(|(_, bytes)| bytes.len()).sum();
            let (mut at, mut segment) = (pick.index(total), 0);
            while at >= chain.clean[segment].1.len() {
                at -= chain.clean[segment].1.len();
                segment += 1;
            }
            let (path, clean) = &chain.clean[segment];
            prop_assume!(clean[at] != value);
            let mut bytes = clean.clone();
            bytes[at] = value;
            fs::write(path, &bytes).unwrap();
            let bad = report(&chain.place.dir).first_bad;
            fs::write(path, clean).unwrap();
            let bad = bad.expect("a changed byte");
            prop_assert_eq!(bad.line, chain.line_of(segment, at));
            Ok(())
        })?;
    }
}
