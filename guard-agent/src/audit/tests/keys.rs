//! Signing keys: made, changed, lost.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn error(dir: &Path) -> AuditError {
    Trail::open(dir, Options::default()).map(|_| ()).unwrap_err()
}

#[test]
fn three_rotations_and_every_record_verifies() {
    let place = place();
    let mut ids = Vec::new();
    let mut trail = Trail::open(&place.dir, small()).unwrap();
    ids.push(trail.key_id());
    for round in 0..3 {
        fill(&mut trail, 7);
        ids.push(trail.rotate_key().unwrap());
        if round == 1 {
            trail.close().unwrap();
            trail = Trail::open(&place.dir, small()).unwrap();
        }
    }
    fill(&mut trail, 7);
    trail.close().unwrap();
    let report = good(&place.dir);
    assert_eq!(report.keys, ids);
    assert_eq!(ids.len(), 4);
    for id in &ids {
        assert!(place.dir.join("keys").join(format!("{}.pub", id.hex())).exists());
    }
    let mode = fs::metadata(place.dir.join("keys/signing.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_key_changed_before_the_first_record_needs_no_announcement() {
    let place = place();
    let mut trail = Trail::open(&place.dir, small()).unwrap();
    let id = trail.rotate_key().unwrap();
    fill(&mut trail, 1);
    trail.close().unwrap();
    assert_eq!(good(&place.dir).keys, [id]);
}

#[test]
fn a_missing_key_is_not_made_anew() {
    let place = place();
    closed(&place.dir, small(), 3);
    let key = place.dir.join("keys/signing.key");
    let pem = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    let missing = error(&place.dir);
    assert!(
        matches!(&missing, AuditError::Key { path, .. } if *path == key),
        "{missing}"
    );
    assert!(missing.to_string().contains("missing"), "{missing}");
    fs::write(&key, "rubbish").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(error(&place.dir), AuditError::Key { .. }));
    fs::write(&key, &pem).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(error(&place.dir).to_string().contains("640"));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    closed(&place.dir, small(), 1);
    good(&place.dir);
}

/// A key of another chain, put in place of ours, neither signs here nor passes.
#[test]
fn another_key_is_refused_by_writer_and_reader() {
    let (ours, theirs) = (place(), place());
    closed(&ours.dir, small(), 3);
    closed(&theirs.dir, small(), 3);
    fs::copy(
        theirs.dir.join("keys/signing.key"),
        ours.dir.join("keys/signing.key"),
    )
    .unwrap();
    assert!(matches!(error(&ours.dir), AuditError::Key { .. }));
    let foreign = VerifyOptions {
        keys: Some(theirs.dir.join("keys")),
    };
    let bad = verify(&ours.dir, &foreign).unwrap().first_bad.unwrap();
    assert_eq!(bad.reason, Reason::UnknownKey);
}

/// Who can add files but has no key cannot go on with the chain under a key of his own.
#[test]
fn a_key_nobody_announced_is_found() {
    use ed25519_dalek::{SigningKey, pkcs8::EncodePublicKey as _, pkcs8::spki::der::pem::LineEnding};
    let place = place();
    closed(&place.dir, Options::default(), 3);
    let forger = SigningKey::from_bytes(&[9; 32]);
    let id = checkpoint::key_id(&forger.verifying_key());
    let pem = forger.verifying_key().to_public_key_pem(LineEnding::LF).unwrap();
    fs::write(place.dir.join("keys").join(format!("{}.pub", id.hex())), pem).unwrap();
    let records = records(&place.dir);
    let last = records.last().unwrap();
    let (seq, time, chain) = (last.seq + 1, Stamp::now(), records[0].prev);
    let checkpoint = Checkpoint::sign(&forger, chain, last.seq, last.hash, time, None);
    let body = Body::Checkpoint(record::Signed { checkpoint });
    let unhashed = chain::Unhashed {
        v: VERSION,
        seq,
        time,
        origin: Origin::Warden,
        prev: last.hash,
        body: &body,
    };
    let path = segments(&place.dir).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(unhashed.encode().unwrap().0);
    fs::write(&path, bytes).unwrap();
    let bad = report(&place.dir).first_bad.unwrap();
    assert_eq!((bad.seq, bad.reason), (Some(seq), Reason::UnannouncedKey));
    assert!(matches!(error(&place.dir), AuditError::Key { .. }));
}
