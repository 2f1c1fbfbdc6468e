//! Call stamps: a page for each sandbox, which its gateway writes and the kernel half reads, and what only an approved
//! call may do, which the gateway cannot write.
//!
//! A page is never used for a second sandbox: the first one's gateway may have it mapped still. A new one is put into
//! its slot ahead of time and by another thread, since the kernel waits for programs under way when that is done.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    thread::{self, JoinHandle},
};

use aya::maps::MapData;
use guard_common::{
    abi::SLOT_COUNT,
    stamp::{StampRaw, StampValue},
};

use super::{
    error::KernelError,
    loader::{Programs, lock},
};
use crate::sys::bpf;

/// Enough for one system call and its error.
const STACK: usize = 64 << 10;

impl Programs {
    /// Gives the sandbox in this slot a stamp, which says at first that no call is in flight and that all rights of the
    /// launch may be used. What comes back is for its gateway alone: who maps it writes it.
    ///
    /// `approval_only`: rights, as in [`guard_common::hooks`], that no stamp gives, see [`Self::raise`].
    pub fn stamp(
        &self,
        cgroup_id: u64,
        slot: u32,
        launch: u32,
        approval_only: u32,
    ) -> Result<OwnedFd, KernelError> {
        lock(&self.slots).stamp(cgroup_id, slot, launch, approval_only)
    }

    /// An approved call has these rights from now on, as far as only such a call may have them. By the warden alone,
    /// once it has verified the approval. Each is taken back with [`Self::lower`].
    pub fn raise(&self, cgroup_id: u64, slot: u32, rights: u32) -> Result<(), KernelError> {
        lock(&self.slots).approve(cgroup_id, slot, |approvals| approvals.raise(rights))
    }

    /// It is over, and its rights with it, unless another approved call has them.
    pub fn lower(&self, cgroup_id: u64, slot: u32, rights: u32) -> Result<(), KernelError> {
        lock(&self.slots).approve(cgroup_id, slot, |approvals| approvals.lower(rights))
    }
}

/// The pages of all slots.
pub(super) struct Stamps {
    outer: Arc<OwnedFd>,
    /// Slots in which a new page stands, or will in a moment.
    fresh: HashMap<u32, JoinHandle<io::Result<OwnedFd>>>,
}

impl Stamps {
    pub(super) fn new(map: &MapData) -> Result<Self, KernelError> {
        let outer = map.fd().as_fd().try_clone_to_owned();
        Ok(Self {
            outer: Arc::new(outer.map_err(|source| KernelError::Stamp { source })?),
            fresh: HashMap::new(),
        })
    }

    /// Puts a new page into a slot that is not in use, ahead of time.
    pub(super) fn prepare(&mut self, slot: u32) {
        if slot as usize >= SLOT_COUNT || self.fresh.contains_key(&slot) {
            return;
        }
        let outer = self.outer.clone();
        let work = move || place(&outer, slot);
        // Without a thread it is done when it is needed.
        if let Ok(placing) = thread::Builder::new()
            .name("stamps".into())
            .stack_size(STACK)
            .spawn(work)
        {
            self.fresh.insert(slot, placing);
        }
    }

    /// The new page of a slot.
    pub(super) fn take(&mut self, slot: u32, value: StampValue) -> Result<OwnedFd, KernelError> {
        let placed = match self.fresh.remove(&slot) {
            Some(placing) => placing
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("its thread ended"))),
            None => place(&self.outer, slot),
        };
        let raw: StampRaw = value.raw();
        placed
            .and_then(|page| bpf::set_page(page.as_fd(), raw).map(|()| page))
            .map_err(|source| KernelError::Stamp { source })
    }
}

fn place(outer: &OwnedFd, slot: u32) -> io::Result<OwnedFd> {
    const WORDS: usize = size_of::<StampRaw>() / 8;
    let page = bpf::new_page::<WORDS>(c"STAMP")?;
    bpf::set_inner(outer.as_fd(), slot, page.as_fd())?;
    Ok(page)
}

/// Which rights approved calls have of those that only they may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Approvals {
    only: u32,
    /// By right: how many calls have it.
    raised: [u32; u32::BITS as usize],
}

impl Approvals {
    pub(super) fn of(only: u32) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    fn raise(&mut self, rights: u32) {
        self.counts(rights)
            .for_each(|count| *count = count.saturating_add(1));
    }

    fn lower(&mut self, rights: u32) {
        self.counts(rights)
            .for_each(|count| *count = count.saturating_sub(1));
    }

    /// What no stamp gives now.
    pub(super) fn withheld(&self) -> u32 {
        let raised = (0..u32::BITS)
            .zip(self.raised)
            .filter(|(_, count)| *count > 0)
            .fold(0, |raised, (bit, _)| raised | 1 << bit);
        self.only & !raised
    }

    fn counts(&mut self, rights: u32) -> impl Iterator<Item = &mut u32> {
        let wanted = rights & self.only;
        (0..u32::BITS)
            .zip(&mut self.raised)
            .filter(move |(bit, _)| wanted >> bit & 1 != 0)
            .map(|(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use guard_common::hooks::{EXECUTE, READ, WRITE};

    use super::*;

    #[test]
    fn what_two_approved_calls_have_is_withheld_when_both_are_over() {
        let mut approvals = Approvals::of(WRITE | EXECUTE);
        assert_eq!(approvals.withheld(), WRITE | EXECUTE);
        approvals.raise(READ | WRITE);
        assert_eq!(approvals.withheld(), EXECUTE);
        approvals.raise(WRITE | EXECUTE);
        assert_eq!(approvals.withheld(), 0);
        approvals.lower(READ | WRITE);
        assert_eq!(approvals.withheld(), 0);
        approvals.lower(WRITE | EXECUTE);
        assert_eq!(approvals.withheld(), WRITE | EXECUTE);
    }

    #[test]
    fn nothing_is_taken_back_that_was_not_given() {
        let mut approvals = Approvals::of(WRITE);
        approvals.lower(WRITE);
        approvals.raise(WRITE);
        assert_eq!(approvals.withheld(), 0);
        // What anybody may have is nothing of theirs.
        approvals.raise(READ);
        assert_eq!(approvals, {
            let mut other = Approvals::of(WRITE);
            other.raise(WRITE);
            other
        });
    }
}
