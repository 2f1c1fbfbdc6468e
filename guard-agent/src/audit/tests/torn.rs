//! Crashes leave half a line; opening repairs it, says so, and loses nothing.

use super::*;

fn unclosed(dir: &Path, options: Options, count: u32) {
    let mut trail = Trail::open(dir, options).unwrap();
    fill(&mut trail, count);
    trail.sync().unwrap();
    drop(trail);
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_saved_and_recorded() {
    let place = place();
    unclosed(&place.dir, Options::default(), 3);
    let path = segments(&place.dir).remove(0);
    let clean = fs::read(&path).unwrap();
    let start = clean[..clean.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for at in start + 1..clean.len() {
        fs::write(&path, &clean[..at]).unwrap();
        assert_eq!(
            report_quick(&place.dir),
            Some((3, Reason::TornLine)),
            "cut at {at}"
        );
        Trail::open(&place.dir, Options::default())
            .unwrap()
            .close()
            .unwrap();
        let saved = place.dir.join("torn-3.0.bin");
        assert_eq!(fs::read(&saved).unwrap(), &clean[start..at]);
        let gaps = gaps(&place.dir);
        assert_eq!(gaps.len(), 1);
        assert_eq!((gaps[0].kind, gaps[0].lost), (GapKind::TornTail, None));
        assert_eq!(gaps[0].bytes, Some(Number((at - start) as u64)));
        assert_eq!(gaps[0].saved, ["torn-3.0.bin"]);
        assert_eq!(good(&place.dir).records, 4);
        fs::remove_file(saved).unwrap();
    }
}

/// `verify` waits a second for a line to be finished; here nobody will, so the lines are judged directly.
fn report_quick(dir: &Path) -> Option<(u64, Reason)> {
    let bytes = fs::read(&segments(dir)[0]).unwrap();
    let whole = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    (bytes.last() != Some(&b'\n')).then_some((whole + 1, Reason::TornLine))
}

#[test]
fn a_whole_last_line_of_rubbish_is_cut_out_too() {
    let place = place();
    unclosed(&place.dir, Options::default(), 3);
    let path = segments(&place.dir).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let clean = bytes.clone();
    bytes.extend_from_slice(&[0; 4096]);
    bytes.push(b'\n');
    fs::write(&path, &bytes).unwrap();
    Trail::open(&place.dir, Options::default())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(
        fs::read(place.dir.join("torn-4.0.bin")).unwrap(),
        bytes[clean.len()..]
    );
    assert_eq!(gaps(&place.dir)[0].kind, GapKind::TornTail);
    good(&place.dir);
}

#[test]
fn rubbish_longer_than_any_record_is_cut_out_too() {
    let place = place();
    unclosed(&place.dir, Options::default(), 2);
    let path = segments(&place.dir).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&vec![0; 3 * MAX_RECORD]);
    fs::write(&path, &bytes).unwrap();
    Trail::open(&place.dir, Options::default())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(gaps(&place.dir)[0].bytes, Some(Number(3 * MAX_RECORD as u64)));
    good(&place.dir);
}

/// A repair that got no further than the cut is finished by the next start.
#[test]
fn a_cut_without_its_gap_is_told_by_the_next_start() {
    let place = place();
    unclosed(&place.dir, Options::default(), 3);
    fs::write(place.dir.join("torn-4.0.bin"), b"half").unwrap();
    let path = segments(&place.dir).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"other half");
    fs::write(&path, bytes).unwrap();
    Trail::open(&place.dir, Options::default())
        .unwrap()
        .close()
        .unwrap();
    let gaps = gaps(&place.dir);
    assert_eq!(gaps[0].saved, ["torn-4.0.bin", "torn-4.1.bin"]);
    assert_eq!(gaps[0].bytes, Some(Number(14)));
    assert_eq!(fs::read(place.dir.join("torn-4.0.bin")).unwrap(), b"half");
    good(&place.dir);
}

#[test]
fn the_first_record_torn_starts_the_chain_again() {
    let place = place();
    unclosed(&place.dir, Options::default(), 1);
    let path = segments(&place.dir).remove(0);
    let clean = fs::read(&path).unwrap();
    fs::write(&path, &clean[..40]).unwrap();
    Trail::open(&place.dir, Options::default())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(records(&place.dir)[0].seq, 1);
    assert_eq!(gaps(&place.dir)[0].kind, GapKind::TornTail);
    good(&place.dir);
}

#[test]
fn a_tail_torn_behind_a_rotation_is_repaired() {
    let place = place();
    unclosed(&place.dir, small(), 8);
    assert_eq!(segments(&place.dir).len(), 2);
    let path = segments(&place.dir).remove(1);
    for keep in [30, 0] {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..keep]).unwrap();
        unclosed(&place.dir, small(), 0);
        assert_eq!(report(&place.dir).first_bad, None);
    }
    assert!(place.dir.join("torn-10.0.bin").exists());
}

#[test]
fn an_unclosed_chain_says_so() {
    let place = place();
    unclosed(&place.dir, Options::default(), 3);
    closed(&place.dir, Options::default(), 1);
    closed(&place.dir, Options::default(), 1);
    let kinds: Vec<GapKind> = gaps(&place.dir).iter().map(|gap| gap.kind).collect();
    assert_eq!(kinds, [GapKind::UncleanClose]);
    good(&place.dir);
}

#[test]
fn damage_elsewhere_is_an_error_that_names_the_record_and_changes_nothing() {
    let place = place();
    unclosed(&place.dir, Options::default(), 5);
    let path = segments(&place.dir).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 10;
    bytes[second] ^= 1;
    fs::write(&path, &bytes).unwrap();
    match Trail::open(&place.dir, Options::default()).map(|_| ()) {
        Err(AuditError::Damaged {
            segment,
            line: 2,
            seq: Some(2),
            ..
        }) => assert_eq!(segment, path),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(!place.dir.join("torn-2.0.bin").exists());
}

/// A last line with a right hash was written by somebody: it is never cut out.
#[test]
fn a_whole_last_record_that_does_not_fit_is_damage() {
    let place = place();
    unclosed(&place.dir, Options::default(), 3);
    let path = segments(&place.dir).remove(0);
    let text = fs::read_to_string(&path).unwrap();
    let repeated = format!("{text}{}\n", text.lines().last().unwrap());
    fs::write(&path, &repeated).unwrap();
    let error = Trail::open(&place.dir, Options::default())
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, AuditError::Damaged { line: 4, .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), repeated);
}

#[test]
fn a_missing_segment_is_damage() {
    let place = place();
    closed(&place.dir, small(), 20);
    fs::remove_file(place.dir.join("000002.jsonl")).unwrap();
    let error = Trail::open(&place.dir, small()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("000002.jsonl"), "{error}");
}
