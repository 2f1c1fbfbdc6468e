//! The keys that sign checkpoints. The secret one is the writer's alone; public ones are kept for ever.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use ed25519_dalek::{
    SigningKey, VerifyingKey,
    pkcs8::{
        DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
        spki::der::pem::LineEnding,
    },
};
use nix::fcntl::OFlag;

use super::{chain::Digest, checkpoint::key_id, dir::AuditDir, error::AuditError};

const CURRENT: &str = "signing.key";
const NEXT: &str = "next.key";

/// The writer's side of `keys/`.
pub(super) struct Keyring {
    dir: AuditDir,
    current: SigningKey,
    /// Made and written, announced by a checkpoint or about to be; not yet in use.
    next: Option<SigningKey>,
}

impl Keyring {
    /// `empty`: the chain has no record yet, so a missing key may be made.
    pub(super) fn open(audit: &AuditDir, empty: bool) -> Result<Self, AuditError> {
        let dir = audit.subdirectory("keys")?;
        let current = match read_secret(&dir, CURRENT)? {
            Some(key) => key,
            None if empty => {
                let key = make(&dir, NEXT)?;
                dir.rename(NEXT, CURRENT)?;
                key
            }
            None => {
                return Err(AuditError::Key {
                    path: dir.path(CURRENT),
                    why: "it is missing, and the chain has records that it must go on signing".into(),
                });
            }
        };
        let next = read_secret(&dir, NEXT)?;
        let keyring = Self { dir, current, next };
        publish(&keyring.dir, &keyring.current.verifying_key())?;
        Ok(keyring)
    }

    pub(super) fn current(&self) -> &SigningKey {
        &self.current
    }

    pub(super) fn current_id(&self) -> Digest {
        key_id(&self.current.verifying_key())
    }

    /// Makes the key that will follow; nothing is signed with it before `switch`.
    pub(super) fn prepare_next(&mut self) -> Result<Digest, AuditError> {
        let key = make(&self.dir, NEXT)?;
        let id = key_id(&key.verifying_key());
        self.next = Some(key);
        Ok(id)
    }

    pub(super) fn switch(&mut self) -> Result<(), AuditError> {
        if let Some(key) = self.next.take() {
            if let Err(error) = self.dir.rename(NEXT, CURRENT) {
                self.next = Some(key);
                return Err(error);
            }
            self.current = key;
        }
        Ok(())
    }

    /// The chain says which key must sign next: goes on with a change of keys that was broken off,
    /// and refuses a key that the chain does not know.
    pub(super) fn settle(&mut self, expected: Digest) -> Result<(), AuditError> {
        let next_id = self.next.as_ref().map(|key| key_id(&key.verifying_key()));
        if self.current_id() != expected && next_id == Some(expected) {
            self.switch()?;
        }
        if self.current_id() == expected {
            return Ok(());
        }
        Err(AuditError::Key {
            path: self.dir.path(CURRENT),
            why: format!(
                "it is key `{}`, but the chain goes on with key `{expected}`",
                self.current_id()
            ),
        })
    }
}

fn make(dir: &AuditDir, name: &str) -> Result<SigningKey, AuditError> {
    let failed = |error: io::Error| AuditError::io("write key", dir.path(name), error);
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| AuditError::io("make key", dir.path(name), io::Error::other(error.to_string())))?;
    let key = SigningKey::from_bytes(&seed);
    let pem = key
        .to_pkcs8_pem(LineEnding::LF)
        .map_err(|error| AuditError::Key {
            path: dir.path(name),
            why: error.to_string(),
        })?;
    // The public half first: a key that signs must be checkable whatever happens next.
    publish(dir, &key.verifying_key())?;
    let mut file = dir
        .own_file(name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC)
        .map_err(failed)?;
    file.write_all(pem.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    dir.sync()?;
    Ok(key)
}

fn read_secret(dir: &AuditDir, name: &str) -> Result<Option<SigningKey>, AuditError> {
    let unusable = |why: String| AuditError::Key {
        path: dir.path(name),
        why,
    };
    let mut file = match dir.own_file(name, OFlag::O_RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let mode = file
        .metadata()
        .map_err(|error| unusable(error.to_string()))?
        .mode()
        & 0o777;
    if mode & 0o077 != 0 {
        return Err(unusable(format!(
            "others may read it (mode {mode:o}); its signatures prove nothing"
        )));
    }
    let text = read_small(&mut file).map_err(|error| unusable(error.to_string()))?;
    // A crash can leave `next.key` cut short; it has signed nothing.
    match SigningKey::from_pkcs8_pem(&text) {
        Ok(key) => Ok(Some(key)),
        Err(_) if name == NEXT => Ok(None),
        Err(_) => Err(unusable("it is not an Ed25519 key in PKCS#8 PEM form".into())),
    }
}

fn publish(dir: &AuditDir, key: &VerifyingKey) -> Result<(), AuditError> {
    let name = format!("{}.pub", key_id(key).hex());
    let failed = |error: io::Error| AuditError::io("write public key", dir.path(&name), error);
    let pem = key
        .to_public_key_pem(LineEnding::LF)
        .map_err(|error| AuditError::Key {
            path: dir.path(&name),
            why: error.to_string(),
        })?;
    let mut file = dir
        .own_file(&name, OFlag::O_RDWR | OFlag::O_CREAT)
        .map_err(failed)?;
    if read_small(&mut file).is_ok_and(|text| text == pem) {
        return Ok(());
    }
    file.set_len(0).map_err(failed)?;
    std::os::unix::fs::FileExt::write_all_at(&file, pem.as_bytes(), 0)
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    dir.sync()
}

fn read_small(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text)?;
    Ok(text)
}

/// Public keys by id. A file whose name is not its key's id counts by the key, and a file that is no key not at all.
pub(super) fn public_keys(dir: &Path) -> Result<BTreeMap<Digest, VerifyingKey>, AuditError> {
    let failed = |error: io::Error| AuditError::io("read public keys in", dir, error);
    let mut keys = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().map_err(failed)?.is_file();
        if !is_file
            || entry
                .path()
                .extension()
                .is_none_or(|extension| extension != "pub")
        {
            continue;
        }
        let mut file = File::open(entry.path()).map_err(failed)?;
        if let Ok(key) = VerifyingKey::from_public_key_pem(&read_small(&mut file).unwrap_or_default()) {
            keys.insert(key_id(&key), key);
        }
    }
    Ok(keys)
}
