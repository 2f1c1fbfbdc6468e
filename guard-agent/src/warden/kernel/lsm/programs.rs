//! Tier T1 as the owner of all programs has it.

use std::os::fd::BorrowedFd;

use guard_common::{abi::HitValue, hooks::Hook};

use super::{
    super::{
        error::KernelError,
        loader::{Programs, lock},
        told::{self, Tellers},
    },
    Enroller, Lsm,
};

impl Programs {
    /// Whether this kernel has all that tier T1 needs to know of it.
    pub fn hooks_known(&self) -> Result<(), KernelError> {
        self.places.complete()
    }

    /// Puts the programs of tier T1 in force, all or none. Nobody is under them before [`Self::enforce`]. Once: after
    /// it has failed it fails.
    pub fn hooks_start(&mut self) -> Result<(), KernelError> {
        let prepared = self.prepared.take().ok_or(KernelError::HooksTwice)?;
        // Loaded first: then the maps are taken out. Attached when there is something to tell of.
        let telling = told::Loaded::load(&prepared, &self.places.told);
        self.lsm = Some(Lsm::start(prepared, &self.places)?);
        self.tellers = Some(telling.attach());
        Ok(())
    }

    /// Whether what other security modules refuse is told on every hook where they may refuse first, or of which it is
    /// not and why.
    pub fn verdicts(&self) -> Result<(), String> {
        self.tellers.as_ref().map_or(Ok(()), Tellers::complete)
    }

    /// Puts in their place, on a machine that takes none, a program that costs what the verdict on an open does and refuses
    /// nothing: to be measured. What is enrolled then is the directory that this process is in. Once, and not after
    /// [`Self::hooks_start`].
    pub fn hooks_measured(&mut self) -> Result<(), KernelError> {
        let prepared = self.prepared.take().ok_or(KernelError::HooksTwice)?;
        self.lsm = Some(Lsm::start_measured(prepared, &self.places)?);
        Ok(())
    }

    /// Takes them out of force again, or lets go of what they would be loaded from: they are not started after this.
    pub fn hooks_stop(&mut self) {
        self.lsm = None;
        self.tellers = None;
        self.prepared = None;
    }

    /// How often a hook decided for tasks of sandboxes.
    pub fn hits(&self, hook: &Hook) -> Result<HitValue, KernelError> {
        self.lsm.as_ref().ok_or(KernelError::NoHooks)?.hits(hook)
    }

    /// Lets a sandbox use an object and everything below it in its filesystem. The object is to be kept open as long
    /// as the sandbox lives.
    pub fn enrol(&mut self, cgroup_id: u64, object: BorrowedFd<'_>, rights: u32) -> Result<(), KernelError> {
        let enroller = self.lsm.as_mut().and_then(|lsm| lsm.enroller().as_mut());
        enroller
            .ok_or(KernelError::NoHooks)?
            .enrol(cgroup_id, object, rights)
    }

    /// The same for what the operator named as a root: a stamp cuts the rights.
    pub fn enrol_root(
        &mut self,
        cgroup_id: u64,
        object: BorrowedFd<'_>,
        rights: u32,
    ) -> Result<(), KernelError> {
        let enroller = self.lsm.as_mut().and_then(|lsm| lsm.enroller().as_mut());
        enroller
            .ok_or(KernelError::NoHooks)?
            .enrol_root(cgroup_id, object, rights)
    }

    /// What enrols, for another thread; from then on the three methods here have nothing to do it with.
    pub fn take_enroller(&mut self) -> Option<Enroller> {
        self.lsm.as_mut()?.enroller().take()
    }

    /// From now on the hooks decide for what is in the sandbox with this slot, and for a process that was started
    /// there, wherever it goes.
    pub fn enforce(
        &mut self,
        cgroup_id: u64,
        slot: u32,
        observe: bool,
        init: BorrowedFd<'_>,
    ) -> Result<(), KernelError> {
        let lsm = self.lsm.as_ref().ok_or(KernelError::NoHooks)?;
        let label = |source| KernelError::Label { source };
        lock(&self.slots).enforce(cgroup_id, slot, observe)?;
        lsm.label(init, cgroup_id).map_err(label)
    }

    /// The sandbox that a process is labelled with, if any.
    pub fn label_of(&self, process: BorrowedFd<'_>) -> Result<u64, KernelError> {
        let lsm = self.lsm.as_ref().ok_or(KernelError::NoHooks)?;
        lsm.label_of(process)
            .map_err(|source| KernelError::Label { source })
    }

    /// The roots of a sandbox that is over.
    pub fn forget(&mut self, cgroup_id: u64) {
        if let Some(enroller) = self.lsm.as_mut().and_then(|lsm| lsm.enroller().as_mut()) {
            enroller.forget(cgroup_id);
        }
    }
}
