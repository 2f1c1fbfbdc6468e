//! The thread that owns a trail: everyone else sends it records and waits for its word.

use std::{
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{
    mpsc::{Receiver, Sender, channel},
    oneshot,
};

use super::{
    chain::Digest,
    error::AuditError,
    record::{Body, Durability, Origin, Seq},
    trail::Trail,
};
use crate::refusal::chain;

/// Records that may wait; who sends more waits itself.
const QUEUE: usize = 1024;
/// Records written between two syncs, at most.
const BATCH: usize = 256;
/// A chain that nothing was added to for so long gets a checkpoint.
const IDLE: Duration = Duration::from_secs(2);

enum Command {
    Append {
        body: Body,
        origin: Origin,
        durability: Durability,
        answer: oneshot::Sender<Result<Seq, AuditError>>,
    },
    Head {
        answer: oneshot::Sender<Option<(Seq, Digest)>>,
    },
    RotateKey {
        answer: oneshot::Sender<Result<Digest, AuditError>>,
    },
    Close {
        answer: oneshot::Sender<Result<(), AuditError>>,
    },
}

/// Sends records to one chain's writer. When the last handle is gone, the chain is closed.
#[derive(Clone)]
pub struct AuditHandle {
    commands: Sender<Command>,
}

impl AuditHandle {
    /// Gives the trail to a thread of its own.
    pub fn spawn(trail: Trail) -> Result<Self, AuditError> {
        let failed = |error| AuditError::io("start the writer of", "audit trail", error);
        let clock = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(failed)?;
        let (commands, receiver) = channel(QUEUE);
        thread::Builder::new()
            .name("audit".into())
            .spawn(move || {
                let writer = Writer {
                    trail,
                    receiver,
                    flush_failed: false,
                };
                clock.block_on(writer.run());
            })
            .map_err(failed)?;
        Ok(Self { commands })
    }

    /// Returns when the record is written, and on the disk where `durability` or its body demands that.
    /// A caller that stops waiting does not take the record back.
    pub async fn append(
        &self,
        body: Body,
        origin: Origin,
        durability: Durability,
    ) -> Result<Seq, AuditError> {
        let (answer, result) = oneshot::channel();
        self.send(Command::Append {
            body,
            origin,
            durability,
            answer,
        })
        .await?;
        result.await.map_err(|_| AuditError::Closed)?
    }

    /// As `append`, for threads outside of an async runtime (inside one it panics).
    pub fn append_blocking(
        &self,
        body: Body,
        origin: Origin,
        durability: Durability,
    ) -> Result<Seq, AuditError> {
        let (answer, result) = oneshot::channel();
        self.commands
            .blocking_send(Command::Append {
                body,
                origin,
                durability,
                answer,
            })
            .map_err(|_| AuditError::Closed)?;
        result.blocking_recv().map_err(|_| AuditError::Closed)?
    }

    /// Number and hash of the last record.
    pub async fn head(&self) -> Result<Option<(Seq, Digest)>, AuditError> {
        let (answer, result) = oneshot::channel();
        self.send(Command::Head { answer }).await?;
        result.await.map_err(|_| AuditError::Closed)
    }

    pub async fn rotate_key(&self) -> Result<Digest, AuditError> {
        let (answer, result) = oneshot::channel();
        self.send(Command::RotateKey { answer }).await?;
        result.await.map_err(|_| AuditError::Closed)?
    }

    /// Signs, syncs and gives the directory free. Records sent later, by any handle, are refused.
    pub async fn close(self) -> Result<(), AuditError> {
        let (answer, result) = oneshot::channel();
        self.send(Command::Close { answer }).await?;
        result.await.map_err(|_| AuditError::Closed)?
    }

    /// As `close`, for threads outside of an async runtime (inside one it panics).
    pub fn close_blocking(self) -> Result<(), AuditError> {
        let (answer, result) = oneshot::channel();
        self.commands
            .blocking_send(Command::Close { answer })
            .map_err(|_| AuditError::Closed)?;
        result.blocking_recv().map_err(|_| AuditError::Closed)?
    }

    async fn send(&self, command: Command) -> Result<(), AuditError> {
        self.commands.send(command).await.map_err(|_| AuditError::Closed)
    }
}

struct Writer {
    trail: Trail,
    receiver: Receiver<Command>,
    flush_failed: bool,
}

impl Writer {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let deadline = self.deadline();
            let received = self.receiver.recv_many(&mut batch, BATCH);
            let count = match deadline {
                Some(deadline) => match tokio::time::timeout_at(deadline.into(), received).await {
                    Ok(count) => count,
                    Err(_) => {
                        self.flush();
                        continue;
                    }
                },
                None => received.await,
            };
            if count == 0 {
                if let Err(error) = self.trail.close() {
                    tracing::error!("the audit chain could not be closed: {}", chain(&error));
                }
                return;
            }
            if let Some(answer) = self.write(batch.drain(..)) {
                self.receiver.close();
                let _ = answer.send(self.trail.close());
                return;
            }
            if self.trail.sync_due().is_some_and(|due| due <= Instant::now()) {
                self.flush();
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.flush_failed {
            return Some(Instant::now() + super::trail::SOON);
        }
        let idle = || self.trail.needs_checkpoint().then(|| Instant::now() + IDLE);
        self.trail.sync_due().or_else(idle)
    }

    /// The time has come for what was to be on the disk soon, or nothing happens and the head gets signed.
    fn flush(&mut self) {
        let idle = self.trail.sync_due().is_none();
        let result = if idle {
            self.trail.checkpoint()
        } else {
            self.trail.sync()
        };
        if let Err(error) = &result
            && !self.flush_failed
        {
            // Tried again every 100 ms; until it works, appends are refused.
            tracing::error!("the audit is not being written: {}", chain(error));
        }
        self.flush_failed = result.is_err();
    }

    /// Writes a batch, syncs once for all that need it, answers. What is returned asks for the end.
    fn write(
        &mut self,
        batch: impl Iterator<Item = Command>,
    ) -> Option<oneshot::Sender<Result<(), AuditError>>> {
        let mut waiting = Vec::new();
        let mut close = None;
        for command in batch {
            match command {
                Command::Append { answer, .. } if close.is_some() => {
                    let _ = answer.send(Err(AuditError::Closed));
                }
                Command::Append {
                    body,
                    origin,
                    durability,
                    answer,
                } => match self.trail.append_unsynced(&body, origin) {
                    Ok(seq) if durability.max(body.durability()) == Durability::Sync => {
                        waiting.push((answer, seq));
                    }
                    result => {
                        let _ = answer.send(result);
                    }
                },
                Command::Head { answer } => {
                    let _ = answer.send(self.trail.head());
                }
                Command::RotateKey { answer } => {
                    let _ = answer.send(self.trail.rotate_key());
                }
                Command::Close { answer } => close = Some(answer),
            }
        }
        if !waiting.is_empty() {
            let synced = self.trail.sync();
            for (answer, seq) in waiting {
                let _ = answer.send(synced.clone().map(|()| seq));
            }
        }
        close
    }
}
