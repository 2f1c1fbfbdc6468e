//! The writer of one chain: a record is either whole in it, or its append failed and nothing of it is there.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::fcntl::Flock;

use super::{
    body::{Gap, GapKind, Lost},
    chain::{Digest, Unhashed, VERSION},
    checkpoint::Checkpoint,
    dir::{AuditDir, segment_name},
    error::AuditError,
    keys::Keyring,
    open::{ChainHead, create_segment, open_end},
    record::{Body, Durability, Origin, Seq, Signed, Stamp},
};
use crate::fault;

/// A record that need not be on the disk at once is there after this long.
pub(super) const SOON: Duration = Duration::from_millis(100);

/// Bytes kept to write again when a sync fails; more than these are synced before the next record.
const MAX_UNSYNCED: usize = 1 << 20;

#[derive(Debug, Clone)]
pub struct Options {
    /// A segment that has as many bytes is closed and the next one begun.
    pub max_segment_bytes: u64,
    /// The same for records.
    pub max_segment_records: u64,
    /// Records between two checkpoints, at most.
    pub checkpoint_every_records: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_segment_bytes: 16 << 20,
            max_segment_records: u64::MAX,
            checkpoint_every_records: 1000,
        }
    }
}

/// One chain, open for writing. Dropping it without `close` leaves it as a crash would.
pub struct Trail {
    dir: AuditDir,
    options: Options,
    keys: Keyring,
    segment: u64,
    file: File,
    path: PathBuf,
    /// Of the segment, up to the end of its last whole record.
    length: u64,
    records: u64,
    head: Option<ChainHead>,
    chain: Digest,
    since_checkpoint: u64,
    /// A failed write may have left part of a line behind `length`.
    tail_dirty: bool,
    /// The end of the segment that no sync has confirmed. After a failed sync the kernel may have dropped the
    /// pages and call the next one a success, so these are written again first.
    unsynced: Vec<u8>,
    unsynced_since: Option<Instant>,
    sync_failed: bool,
    /// The key in `keys/next.key` is announced, and must be in use before the next checkpoint.
    key_announced: bool,
    _lock: Flock<File>,
}

impl Trail {
    /// Takes the directory (made when missing, mode 0700) as its only writer.
    pub fn open(dir: &Path, options: Options) -> Result<Self, AuditError> {
        let dir = AuditDir::open_writing(dir)?;
        let lock = dir.lock()?;
        let end = open_end(&dir)?;
        let mut keys = Keyring::open(&dir, end.head.is_none())?;
        if let Some(expected) = end.expected_key {
            keys.settle(expected)?;
        }
        let mut trail = Self {
            path: dir.path(&segment_name(end.segment)),
            dir,
            options,
            keys,
            segment: end.segment,
            file: end.file,
            length: end.length,
            records: end.records,
            head: end.head,
            chain: match end.chain {
                Some(chain) => chain,
                None => new_chain()?,
            },
            since_checkpoint: end.since_checkpoint,
            tail_dirty: false,
            unsynced: Vec::new(),
            unsynced_since: None,
            sync_failed: false,
            key_announced: false,
            _lock: lock,
        };
        if !end.saved.is_empty() {
            trail.append_gap(GapKind::TornTail, Some(end.saved_bytes), end.saved)?;
        } else if trail.needs_checkpoint() {
            trail.append_gap(GapKind::UncleanClose, None, Vec::new())?;
        }
        Ok(trail)
    }

    fn append_gap(
        &mut self,
        kind: GapKind,
        bytes: Option<u64>,
        saved: Vec<String>,
    ) -> Result<(), AuditError> {
        let lost = Lost {
            cpu: None,
            kind,
            lost: None,
            bytes: bytes.map(Into::into),
            saved,
            done: None,
        };
        self.append(
            &Body::Gap(Gap {
                session: None,
                call: None,
                gap: lost,
            }),
            Origin::Warden,
            Durability::Sync,
        )?;
        Ok(())
    }

    /// Writes a record. With `Durability::Sync`, or for a body that demands it, it is on the disk when this returns.
    ///
    /// After an error from the write nothing of the record is in the chain. After an error from the sync it may be:
    /// what it was about must be refused all the same. Either way the next append goes on without a break.
    pub fn append(&mut self, body: &Body, origin: Origin, durability: Durability) -> Result<Seq, AuditError> {
        let seq = self.append_unsynced(body, origin)?;
        if durability.max(body.durability()) == Durability::Sync {
            self.sync()?;
        }
        Ok(seq)
    }

    /// As `append`; the caller syncs, at the latest at `sync_due`.
    pub(super) fn append_unsynced(&mut self, body: &Body, origin: Origin) -> Result<Seq, AuditError> {
        if self.sync_failed || self.unsynced.len() > MAX_UNSYNCED {
            self.sync()?;
        }
        if self.length >= self.options.max_segment_bytes || self.records >= self.options.max_segment_records {
            self.rotate()?;
        } else if self.since_checkpoint >= self.options.checkpoint_every_records {
            self.checkpoint()?;
        }
        self.write(body, origin, Stamp::now())
    }

    fn write(&mut self, body: &Body, origin: Origin, time: Stamp) -> Result<Seq, AuditError> {
        let seq = self.head.map_or(1, |head| head.seq + 1);
        let prev = self.head.map_or(self.chain, |head| head.hash);
        let (line, hash) = Unhashed {
            v: VERSION,
            seq,
            time,
            origin,
            prev,
            body,
        }
        .encode()?;
        fault::point("audit.write")
            .map_err(|error| AuditError::io("write audit record to", &self.path, error))?;
        self.cut_tail()?;
        if let Err(error) = self.file.write_all_at(&line, self.length) {
            self.tail_dirty = self.file.set_len(self.length).is_err();
            return Err(AuditError::io("write audit record to", &self.path, error));
        }
        let is_checkpoint = matches!(body, Body::Checkpoint(_));
        self.length += line.len() as u64;
        self.records += 1;
        self.head = Some(ChainHead {
            seq,
            hash,
            is_checkpoint,
        });
        self.since_checkpoint = if is_checkpoint {
            0
        } else {
            self.since_checkpoint + 1
        };
        self.unsynced.extend_from_slice(&line);
        self.unsynced_since.get_or_insert_with(Instant::now);
        Ok(seq)
    }

    /// Takes away what a failed write left behind, if that did not work at once.
    fn cut_tail(&mut self) -> Result<(), AuditError> {
        if self.tail_dirty {
            self.file
                .set_len(self.length)
                .map_err(|error| AuditError::io("cut a broken-off record out of", &self.path, error))?;
            self.tail_dirty = false;
        }
        Ok(())
    }

    /// Everything appended so far is on the disk after this.
    pub fn sync(&mut self) -> Result<(), AuditError> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let result = fault::point("audit.sync").and_then(|()| self.sync_file());
        self.sync_failed = result.is_err();
        result.map_err(|error| AuditError::io("sync audit segment", &self.path, error))?;
        self.unsynced.clear();
        self.unsynced_since = None;
        Ok(())
    }

    fn sync_file(&self) -> io::Result<()> {
        if self.sync_failed {
            self.file
                .write_all_at(&self.unsynced, self.length - self.unsynced.len() as u64)?;
        }
        self.file.sync_data()
    }

    /// When `sync` must be called for what was appended with `Durability::Soon`.
    pub fn sync_due(&self) -> Option<Instant> {
        self.unsynced_since.map(|since| since + SOON)
    }

    /// Whether records stand at the end that no signature covers.
    pub fn needs_checkpoint(&self) -> bool {
        self.head.is_some_and(|head| !head.is_checkpoint)
    }

    /// Signs the chain's head and syncs. Nothing is done when the head is a checkpoint already.
    pub fn checkpoint(&mut self) -> Result<(), AuditError> {
        if self.needs_checkpoint() {
            self.sign_head(None)
        } else {
            self.sync()
        }
    }

    fn sign_head(&mut self, next_key: Option<Digest>) -> Result<(), AuditError> {
        let Some(head) = self.head else { return Ok(()) };
        fault::point("audit.checkpoint")
            .map_err(|error| AuditError::io("write checkpoint to", &self.path, error))?;
        self.switch_key()?;
        let time = Stamp::now();
        let checkpoint = Checkpoint::sign(
            self.keys.current(),
            self.chain,
            head.seq,
            head.hash,
            time,
            next_key,
        );
        self.write(&Body::Checkpoint(Signed { checkpoint }), Origin::Warden, time)?;
        self.key_announced = next_key.is_some();
        self.sync()
    }

    fn switch_key(&mut self) -> Result<(), AuditError> {
        if self.key_announced {
            // The announcement must not be lost once the old key is gone.
            self.sync()?;
            self.keys.switch()?;
            self.key_announced = false;
        }
        Ok(())
    }

    /// Signs with a new key from here on. The old one announces it in its last checkpoint, so that a reader who
    /// trusts the first key can follow; its public half stays in `keys/`.
    pub fn rotate_key(&mut self) -> Result<Digest, AuditError> {
        self.switch_key()?;
        let id = self.keys.prepare_next()?;
        if self.head.is_none() {
            self.keys.switch()?;
            return Ok(id);
        }
        self.sign_head(Some(id))?;
        self.sign_head(None)?;
        Ok(id)
    }

    fn rotate(&mut self) -> Result<(), AuditError> {
        self.checkpoint()?;
        self.cut_tail()?;
        fault::point("audit.rotate")
            .map_err(|error| AuditError::io("begin the segment after", &self.path, error))?;
        let file = create_segment(&self.dir, self.segment + 1)?;
        self.file = file;
        self.segment += 1;
        self.path = self.dir.path(&segment_name(self.segment));
        self.length = 0;
        self.records = 0;
        Ok(())
    }

    /// The last record's number and hash.
    pub fn head(&self) -> Option<(Seq, Digest)> {
        self.head.map(|head| (head.seq, head.hash))
    }

    pub fn key_id(&self) -> Digest {
        self.keys.current_id()
    }

    /// Signs, syncs and gives the directory free.
    pub fn close(mut self) -> Result<(), AuditError> {
        self.checkpoint()
    }
}

/// The `prev` of a first record: random, so that it names the chain, and checkpoints of another do not fit.
fn new_chain() -> Result<Digest, AuditError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        AuditError::io(
            "read randomness for",
            "chain",
            io::Error::other(error.to_string()),
        )
    })?;
    Ok(Digest(bytes))
}
