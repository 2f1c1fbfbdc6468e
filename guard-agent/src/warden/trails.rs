//! The audit trails in use: one writer an audit directory, open while a session writes to it.

use std::{
    collections::HashMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use tokio::{sync::Mutex, time::sleep};

use super::serve::Warden;
use crate::{
    audit::{AuditError, AuditHandle, Body, Options, Origin, Trail},
    refusal::{Refusal, chain},
};

/// How long a trail stays open after its last session: opening one reads its last segment again, which a client
/// that starts servers one after the other should not pay for each.
const LINGER: Duration = Duration::from_secs(2);

struct Open {
    handle: AuditHandle,
    users: usize,
    /// Counts the users there ever were, so that a late closer sees that it is too late.
    generation: u64,
    /// The lock file it holds: when another one lies at its place, the directory was replaced.
    identity: Option<(u64, u64)>,
}

#[derive(Default)]
pub(super) struct Trails {
    open: Mutex<HashMap<PathBuf, Open>>,
}

fn identity(directory: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(directory.join("lock")).ok()?;
    Some((meta.dev(), meta.ino()))
}

async fn close(directory: &Path, open: Open) {
    if let Err(error) = open.handle.close().await {
        tracing::error!(directory = %directory.display(), error = %chain(&error), "cannot close the audit trail");
    }
}

impl Trails {
    /// The directory's trail; opened (locked, its tail repaired) by its first user.
    pub(super) async fn acquire(&self, directory: &Path) -> Result<AuditHandle, Refusal> {
        let mut all = self.open.lock().await;
        if let Some(open) = all.get_mut(directory) {
            if open.users > 0 || open.identity == identity(directory) {
                open.users += 1;
                open.generation += 1;
                return Ok(open.handle.clone());
            }
            if let Some(replaced) = all.remove(directory) {
                close(directory, replaced).await;
            }
        }
        let path = directory.to_path_buf();
        let opened = tokio::task::spawn_blocking(move || {
            Trail::open(&path, Options::default()).and_then(AuditHandle::spawn)
        })
        .await
        .map_err(|error| super::launch::step_failed("launch.audit", error))?;
        let handle = opened.map_err(|error| error.refusal())?;
        let open = Open {
            handle: handle.clone(),
            users: 1,
            generation: 0,
            identity: identity(directory),
        };
        all.insert(directory.to_path_buf(), open);
        Ok(handle)
    }

    /// Some time after the last user it is closed: a checkpoint is signed and the lock given up.
    pub(super) async fn release(warden: &Rc<Warden>, directory: &Path) {
        let generation = {
            let mut all = warden.trails.open.lock().await;
            let Some(open) = all.get_mut(directory) else {
                return;
            };
            open.users -= 1;
            if open.users > 0 {
                return;
            }
            open.generation
        };
        let (warden, directory) = (warden.clone(), directory.to_path_buf());
        tokio::task::spawn_local(async move {
            sleep(LINGER).await;
            let mut all = warden.trails.open.lock().await;
            let unused = all
                .get(&directory)
                .is_some_and(|open| open.users == 0 && open.generation == generation);
            if unused && let Some(open) = all.remove(&directory) {
                close(&directory, open).await;
            }
        });
    }

    /// All of them, now: the warden leaves.
    pub(super) async fn close_all(&self) {
        for (directory, open) in self.open.lock().await.drain() {
            close(&directory, open).await;
        }
    }

    /// One record to every open trail: what concerns them all.
    pub(super) async fn broadcast(&self, body: &Body) {
        for (directory, Open { handle, .. }) in &*self.open.lock().await {
            if let Err(error) = write(handle, body.clone()).await {
                tracing::error!(directory = %directory.display(), error = %chain(&error), "cannot write a record");
            }
        }
    }
}

/// Appends several with one wait: what must be on the disk gets there together. An error comes with how many were
/// not written.
pub(super) async fn write_all(handle: &AuditHandle, bodies: Vec<Body>) -> Result<(), (AuditError, u64)> {
    // Started in order, so they reach the writer's queue in order.
    let writes: Vec<_> = bodies
        .into_iter()
        .map(|body| {
            let handle = handle.clone();
            tokio::task::spawn_local(async move { write(&handle, body).await })
        })
        .collect();
    let mut result = Ok(());
    for written in writes {
        if let Err(error) = written.await.unwrap_or(Err(AuditError::Closed)) {
            let before = result.err().map_or(0, |(_, count)| count);
            result = Err((error, before + 1));
        }
    }
    result
}

/// Appends with the durability its kind asks for.
pub(super) async fn write(handle: &AuditHandle, body: Body) -> Result<(), AuditError> {
    let durability = body.durability();
    handle.append(body, Origin::Warden, durability).await.map(drop)
}
