//! The audit trails in use: one writer an audit directory, open while a session writes to it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use tokio::sync::Mutex;

use crate::{
    audit::{AuditError, AuditHandle, Body, Options, Origin, Trail},
    refusal::{Refusal, chain},
};

#[derive(Default)]
pub(super) struct Trails {
    open: Mutex<HashMap<PathBuf, (AuditHandle, usize)>>,
}

impl Trails {
    /// The directory's trail; opened (locked, its tail repaired) by its first user.
    pub(super) async fn acquire(&self, directory: &Path) -> Result<AuditHandle, Refusal> {
        let mut open = self.open.lock().await;
        if let Some((handle, users)) = open.get_mut(directory) {
            *users += 1;
            return Ok(handle.clone());
        }
        let path = directory.to_path_buf();
        let opened = tokio::task::spawn_blocking(move || {
            Trail::open(&path, Options::default()).and_then(AuditHandle::spawn)
        })
            .await
            .map_err(|error| super::launch::step_failed("launch.audit", error))?;
        let handle = opened.map_err(|error| error.refusal())?;
        open.insert(directory.to_path_buf(), (handle.clone(), 1));
        Ok(handle)
    }

    /// The last user closes it: a checkpoint is signed and the lock given up.
    pub(super) async fn release(&self, directory: &Path) {
        let mut open = self.open.lock().await;
        let Some((_, users)) = open.get_mut(directory) else { return };
        *users -= 1;
        if *users == 0
            && let Some((handle, _)) = open.remove(directory)
            && let Err(error) = handle.close().await
        {
            tracing::error!(directory = %directory.display(), error = %chain(&error), "cannot close the audit trail");
        }
    }

    /// One record to every open trail: what concerns them all.
    pub(super) async fn broadcast(&self, body: &Body) {
        for (directory, (handle, _)) in &*self.open.lock().await {
            if let Err(error) = write(handle, body.clone()).await {
                tracing::error!(directory = %directory.display(), error = %chain(&error), "cannot write a record");
            }
        }
    }
}

/// Appends with the durability its kind asks for.
pub(super) async fn write(handle: &AuditHandle, body: Body) -> Result<(), AuditError> {
    let durability = body.durability();
    handle.append(body, Origin::Warden, durability).await.map(drop)
}
