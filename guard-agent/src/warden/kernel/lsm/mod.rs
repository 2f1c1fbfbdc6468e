//! Tier T1: the programs on the security hooks, what they are told of sandboxes, and what they decided.
//!
//! Order of reading: `places` (what this kernel has where), this file (load and attach: every hook or none), `enrol`
//! (roots), `programs` (all of it as the warden uses it).

mod enrol;
pub(super) mod places;
mod programs;

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use aya::maps::{Array, Map, MapData};
use guard_common::{
    abi::{self, HitRaw, HitValue},
    hooks::{FILE_OPEN, HOOKS, Hook, Presence},
    measured,
};

pub use self::enrol::Enroller;
use self::places::Places;
use super::{error::KernelError, loader::ProgramInfo, observe, prepared::Prepared};
use crate::{fault, sys::bpf};

/// The programs in force, and their maps.
pub(super) struct Lsm {
    attached: Vec<(&'static Hook, Attached)>,
    labels: OwnedFd,
    hits: Array<MapData, HitRaw>,
    /// Until somebody takes it.
    enroller: Option<Enroller>,
}

struct Attached {
    program: OwnedFd,
    link: OwnedFd,
}

impl Lsm {
    /// Loads every hook's program, then attaches all of them; what is not there refuses the tier.
    pub(super) fn start(prepared: Prepared, places: &Places) -> Result<Self, KernelError> {
        fault::point("hooks.programs").map_err(|source| KernelError::Load {
            program: "file_open",
            verifier: String::new(),
            source,
        })?;
        places.complete()?;
        let mut programs = Vec::with_capacity(places.hooks.len());
        for (hook, number) in &places.hooks {
            programs.push((*hook, prepared.load_hook(hook.name, *number)?));
        }
        let mut lsm = Self::with_maps(prepared, programs.len())?;
        for (hook, program) in programs {
            // Until all are attached no sandbox is under any.
            let link = bpf::attach_lsm(&program).map_err(|source| KernelError::Hook {
                hook: hook.name,
                source,
            })?;
            lsm.attached.push((hook, Attached { program, link }));
        }
        Ok(lsm)
    }

    /// The program that is only measured, instead: nothing is refused by it.
    pub(super) fn start_measured(prepared: Prepared, places: &Places) -> Result<Self, KernelError> {
        places.complete()?;
        let program = prepared.load_tracepoint(measured::PROGRAM)?;
        let mut lsm = Self::with_maps(prepared, 1)?;
        let link = observe::attach(measured::TRACEPOINT, &program)?;
        lsm.attached.push((&FILE_OPEN, Attached { program, link }));
        Ok(lsm)
    }

    /// Takes the maps that say what sandboxes may do.
    fn with_maps(mut prepared: Prepared, programs: usize) -> Result<Self, KernelError> {
        let mut take = |name| prepared.take_map(name);
        let labels = match take(abi::MAP_LABELS)? {
            Map::Unsupported(data) => data.fd().as_fd().try_clone_to_owned(),
            _ => Err(io::Error::other("it is no storage of tasks")),
        };
        Ok(Self {
            attached: Vec::with_capacity(programs),
            labels: labels.map_err(KernelError::object)?,
            enroller: Some(Enroller::new(take(abi::MAP_ROOTS)?, take(abi::MAP_PENDING)?)?),
            hits: Array::try_from(take(abi::MAP_HITS)?).map_err(KernelError::map(abi::MAP_HITS))?,
        })
    }

    pub(super) fn enroller(&mut self) -> &mut Option<Enroller> {
        &mut self.enroller
    }

    /// From now on a process belongs to a sandbox, whatever cgroup it is in, and so does everything it starts.
    pub(super) fn label(&self, pidfd: BorrowedFd<'_>, sandbox: u64) -> io::Result<()> {
        bpf::set_task_value(self.labels.as_fd(), pidfd, [sandbox, 0])?;
        if self.label_of(pidfd)? == sandbox {
            Ok(())
        } else {
            Err(io::Error::other("another label stands in its place"))
        }
    }

    /// The sandbox that a process is labelled with.
    pub(super) fn label_of(&self, pidfd: BorrowedFd<'_>) -> io::Result<u64> {
        bpf::task_value::<2>(self.labels.as_fd(), pidfd).map(|[sandbox, _]| sandbox)
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &OwnedFd> {
        self.attached.iter().map(|(_, attached)| &attached.link)
    }

    /// How often a hook decided, since the programs were loaded.
    pub(super) fn hits(&self, hook: &Hook) -> Result<HitValue, KernelError> {
        let [allowed, denied] = self
            .hits
            .get(&u32::from(hook.id), 0)
            .map_err(KernelError::map(abi::MAP_HITS))?;
        Ok(HitValue { allowed, denied })
    }

    /// Every hook and what became of its program.
    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramInfo> {
        HOOKS.iter().map(|hook| {
            let attached = self.attached.iter().find(|(one, _)| *one == hook);
            let why_not = match (&attached, hook.presence) {
                (None, Presence::Since { version, without }) => {
                    Some(format!("came with Linux {version}; before, {without}"))
                }
                _ => None,
            };
            let facts = attached.and_then(|(_, attached)| bpf::program_facts(attached.program.as_fd()).ok());
            ProgramInfo::new(hook.name, attached.is_some(), why_not, facts)
        })
    }
}
