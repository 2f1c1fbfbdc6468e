//! The programs that only look: loaded with the others, attached only while some sandbox is observed,
//! because every task of the host pays for a tracepoint that is in use.

use std::{
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{Array, HashMap, Map, MapData};
use guard_common::{
    abi::{self, AnsweredRaw, CallRaw, PROGRAM_EXEC, PROGRAM_SYS_EXIT},
    syscalls::{CALLS, Call},
};

use super::{error::KernelError, loader::ProgramInfo, prepared::Prepared};
use crate::{refusal::chain, sys::bpf};

/// Program and raw tracepoint have one name.
pub(super) const OBSERVERS: [&str; 2] = [PROGRAM_SYS_EXIT, PROGRAM_EXEC];

/// The observing programs and what they are told.
pub(super) struct Observer {
    programs: Vec<(&'static str, Result<OwnedFd, String>)>,
    answered: HashMap<MapData, u32, AnsweredRaw>,
    /// Attached while there are any.
    links: Vec<OwnedFd>,
    references: u32,
}

impl Observer {
    /// Loads them; one that the kernel does not take is no error, it says why.
    pub(super) fn load(prepared: &mut Prepared) -> Result<Self, KernelError> {
        let load = |name| prepared.load_tracepoint(name).map_err(|error| chain(&error));
        let programs = OBSERVERS.iter().map(|name| (*name, load(name))).collect();
        fill(prepared.take_map(abi::MAP_CALLS)?)?;
        let answered = prepared.take_map(abi::MAP_ANSWERED)?;
        Ok(Self {
            programs,
            answered: HashMap::try_from(answered).map_err(KernelError::map(abi::MAP_ANSWERED))?,
            links: Vec::new(),
            references: 0,
        })
    }

    /// Whether they can be attached, or why not.
    pub(super) fn possible(&self) -> Result<(), String> {
        let refused: Vec<&str> = self
            .programs
            .iter()
            .filter_map(|(_, program)| program.as_ref().err().map(String::as_str))
            .collect();
        if refused.is_empty() {
            Ok(())
        } else {
            Err(refused.join("; "))
        }
    }

    pub(super) fn start(&mut self) -> Result<(), KernelError> {
        if self.references == 0 {
            self.possible().map_err(|why| KernelError::Unobservable { why })?;
            let links: Result<Vec<_>, _> = self
                .programs
                .iter()
                .filter_map(|(name, program)| Some(attach(name, program.as_ref().ok()?)))
                .collect();
            self.links = links?;
        }
        self.references = self.references.saturating_add(1);
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        self.references = self.references.saturating_sub(1);
        if self.references == 0 {
            self.links.clear();
        }
    }

    /// Only a call whose exit would be reported needs to be remembered.
    pub(super) fn answered(&mut self, tid: u32, nr: u32, errno: i32) -> Result<(), KernelError> {
        let reported =
            |call: &Call| u16::try_from(errno).is_ok_and(|errno| errno != 0 && call.reports(errno));
        if self.links.is_empty() || !Call::find(nr).is_some_and(reported) {
            return Ok(());
        }
        self.answered
            .insert(tid, [nr, errno.unsigned_abs()], 0)
            .map_err(KernelError::map(abi::MAP_ANSWERED))
    }

    /// The answer did not reach the caller.
    pub(super) fn unanswered(&mut self, tid: u32) {
        // Not there: forgotten at an exit already.
        let _ = self.answered.remove(&tid);
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramInfo> {
        self.programs.iter().map(|(name, program)| {
            let facts = program
                .as_ref()
                .ok()
                .and_then(|fd| bpf::program_facts(fd.as_fd()).ok());
            ProgramInfo::new(
                name,
                !self.links.is_empty(),
                program.as_ref().err().cloned(),
                facts,
            )
        })
    }
}

/// The kernel half's copy of the table.
fn fill(map: Map) -> Result<(), KernelError> {
    let failed = KernelError::map(abi::MAP_CALLS);
    let mut specs: Array<MapData, CallRaw> = Array::try_from(map).map_err(&failed)?;
    for call in CALLS {
        specs.set(call.nr, call.spec().raw(), 0).map_err(&failed)?;
    }
    Ok(())
}

pub(super) fn attach(name: &'static str, program: &OwnedFd) -> Result<OwnedFd, KernelError> {
    let tracepoint = CString::new(name).map_err(KernelError::object)?;
    bpf::attach_tracepoint(&tracepoint, program).map_err(|source| KernelError::Tracepoint {
        program: name,
        source,
    })
}
