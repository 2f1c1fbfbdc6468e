//! Loads the network programs and attaches them to the cgroup that holds
//! nothing but sandboxes: every required one, or none.
//!
//! Attachments are links held by descriptors. As long as any process has a
//! duplicate, the kernel enforces; when the last one is closed, it stops.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use aya::{
    Ebpf, EbpfLoader,
    programs::{Program, ProgramError},
};
use guard_common::{
    abi::{self, Counters},
    event::NetOp,
};

use super::{
    btf::KernelTypes,
    counters::CounterReader,
    error::{KernelError, log_tail},
    events::Events,
    object::OBJECT,
    probe,
    unix::Relocated,
};
use crate::sys::bpf;

/// One program: what it denies, and the kernel's number of the place it is attached to.
pub(super) struct Spec {
    pub(super) op: NetOp,
    pub(super) attach_type: u32,
    /// Exists on every supported kernel. The others are loaded by [`Relocated`].
    pub(super) required: bool,
}

/// `enum bpf_attach_type` of the kernel's interface.
pub(super) const PROGRAMS: [Spec; 9] = [
    Spec {
        op: NetOp::SockCreate,
        attach_type: 2,
        required: true,
    },
    Spec {
        op: NetOp::Bind4,
        attach_type: 8,
        required: true,
    },
    Spec {
        op: NetOp::Bind6,
        attach_type: 9,
        required: true,
    },
    Spec {
        op: NetOp::Connect4,
        attach_type: 10,
        required: true,
    },
    Spec {
        op: NetOp::Connect6,
        attach_type: 11,
        required: true,
    },
    Spec {
        op: NetOp::Sendmsg4,
        attach_type: 14,
        required: true,
    },
    Spec {
        op: NetOp::Sendmsg6,
        attach_type: 15,
        required: true,
    },
    Spec {
        op: NetOp::UnixConnect,
        attach_type: 49,
        required: false,
    },
    Spec {
        op: NetOp::UnixSendmsg,
        attach_type: 50,
        required: false,
    },
];

/// What became of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInfo {
    pub name: &'static str,
    pub attached: bool,
    pub why_not: Option<String>,
    /// Instructions the verifier walked, where the kernel tells (5.16).
    pub verified_instructions: Option<u32>,
    /// Runs the kernel skipped; anything but 0 means the claim is broken.
    pub recursion_misses: u64,
}

struct Attached {
    link: OwnedFd,
    facts: Option<bpf::ProgramFacts>,
}

/// The programs in force. Dropping it drops this process's links and programs.
pub struct Programs {
    /// Owns the maps and the programs the library loaded.
    _loaded: Ebpf,
    attached: Vec<(&'static Spec, Result<Attached, String>)>,
    counters: CounterReader,
    events: Option<Events>,
    ring: OwnedFd,
}

impl Programs {
    /// Loads everything, then attaches everything to `parent`, an open cgroup directory.
    ///
    /// `level` is the depth of the sandboxes' own cgroups, the children of
    /// `parent`, counted from the root of the hierarchy, which is 0.
    pub fn load_and_attach(parent: &File, level: u32) -> Result<Self, KernelError> {
        Self::load_and_attach_object(OBJECT, parent, level)
    }

    /// The same with another object than the embedded one: how the task runner tries a fresh build.
    pub fn load_and_attach_object(object: &[u8], parent: &File, level: u32) -> Result<Self, KernelError> {
        let mut loaded = prepare(object, level)?;
        let mut ready = Vec::with_capacity(PROGRAMS.len());
        for spec in PROGRAMS.iter().filter(|spec| spec.required) {
            ready.push((spec, Ok(load(&mut loaded, spec)?)));
        }
        let relocated = Relocated::against(object, &loaded)?;
        for spec in PROGRAMS.iter().filter(|spec| !spec.required) {
            ready.push((spec, relocated.load(spec)));
        }
        let mut attached = Vec::with_capacity(PROGRAMS.len());
        for (spec, program) in ready {
            let result = program.and_then(|program| attach(spec, &program, parent));
            match result {
                Err(error) if spec.required => return Err(error),
                Err(error) => attached.push((spec, Err(crate::refusal::chain(&error)))),
                Ok(link) => attached.push((spec, Ok(link))),
            }
        }
        Self::assemble(loaded, attached)
    }

    fn assemble(
        mut loaded: Ebpf,
        attached: Vec<(&'static Spec, Result<Attached, String>)>,
    ) -> Result<Self, KernelError> {
        let missing = |name| KernelError::Missing { name };
        let ring = loaded
            .take_map(abi::MAP_EVENTS)
            .ok_or_else(|| missing(abi::MAP_EVENTS))?;
        let counters = loaded
            .take_map(abi::MAP_COUNTERS)
            .ok_or_else(|| missing(abi::MAP_COUNTERS))?;
        let counters = CounterReader::new(counters)?;
        let events = Events::new(ring).map_err(KernelError::map(abi::MAP_EVENTS))?;
        let ring = events.as_fd().try_clone_to_owned().map_err(KernelError::object)?;
        Ok(Self {
            _loaded: loaded,
            attached,
            counters,
            events: Some(events),
            ring,
        })
    }

    /// Duplicates of the attachments, to be held by a process that must outlive this one.
    /// Never give one to an unprivileged process: it can detach what it holds.
    pub fn link_fds(&self) -> io::Result<Vec<OwnedFd>> {
        self.links().map(|attached| attached.link.try_clone()).collect()
    }

    /// A duplicate of the ring's descriptor, for [`Events::from_fd`] in a process that takes over.
    pub fn ring_fd(&self) -> io::Result<OwnedFd> {
        self.ring.try_clone()
    }

    /// A duplicate of the counters' descriptor, for [`CounterReader::from_fd`] there.
    pub fn counters_fd(&self) -> io::Result<OwnedFd> {
        self.counters.fd()
    }

    /// Whether unix sockets are covered, or why not.
    pub fn unix_hooks(&self) -> Result<(), String> {
        let optional = self.attached.iter().filter(|(spec, _)| !spec.required);
        let refused: Vec<String> = optional
            .filter_map(|(spec, result)| Some(format!("`{}`: {}", spec.op.name(), result.as_ref().err()?)))
            .collect();
        if refused.is_empty() {
            Ok(())
        } else {
            Err(refused.join("; "))
        }
    }

    /// Every program of the object and what became of it.
    pub fn programs(&self) -> Vec<ProgramInfo> {
        let describe = |(spec, result): &(&'static Spec, Result<Attached, String>)| {
            let facts = result.as_ref().ok().and_then(|attached| attached.facts);
            ProgramInfo {
                name: spec.op.name(),
                attached: result.is_ok(),
                why_not: result.as_ref().err().cloned(),
                verified_instructions: facts.map(|f| f.verified_instructions).filter(|count| *count > 0),
                recursion_misses: facts.map_or(0, |facts| facts.recursion_misses),
            }
        };
        self.attached.iter().map(describe).collect()
    }

    /// The reading end of the ring: once, there is one reader.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }

    /// The same end, looked into before it is taken.
    pub fn events(&mut self) -> Option<&mut Events> {
        self.events.as_mut()
    }

    /// What became of all records so far; see [`CounterReader::total`].
    pub fn counters(&self) -> Result<Counters, KernelError> {
        self.counters.total()
    }

    /// The same for each operation.
    pub fn counters_by_op(&self) -> Result<Vec<(NetOp, Counters)>, KernelError> {
        self.counters.by_op()
    }

    fn links(&self) -> impl Iterator<Item = &Attached> {
        self.attached
            .iter()
            .filter_map(|(_, result)| result.as_ref().ok())
    }
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("programs", &self.programs())
            .finish_non_exhaustive()
    }
}

/// Makes the maps and freezes the globals.
fn prepare(object: &[u8], level: u32) -> Result<Ebpf, KernelError> {
    let types = probe::kernel_types()
        .ok()
        .and_then(|data| KernelTypes::parse(&data));
    // Only the names in records depend on these, no verdict: what this kernel does not tell is left out.
    let offset = |member| {
        types
            .as_ref()
            .and_then(|types| types.member_offset("bpf_sock_addr_kern", member))
            .unwrap_or(abi::ABSENT)
    };
    let (uaddr, uaddrlen, level) = (offset("uaddr"), offset("uaddrlen"), u64::from(level));
    EbpfLoader::new()
        .override_global(abi::GLOBAL_SANDBOX_LEVEL, &level, true)
        .override_global(abi::GLOBAL_UADDR_OFFSET, &uaddr, true)
        .override_global(abi::GLOBAL_UADDRLEN_OFFSET, &uaddrlen, true)
        .load(object)
        .map_err(KernelError::object)
}

/// Loads a program the library knows the type of.
fn load(loaded: &mut Ebpf, spec: &Spec) -> Result<OwnedFd, KernelError> {
    let name = spec.op.name();
    let program = loaded.program_mut(name).ok_or(KernelError::Missing { name })?;
    let result = match program {
        Program::CgroupSockAddr(program) => program.load(),
        Program::CgroupSock(program) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    };
    let fd = result.and_then(|()| {
        program
            .fd()?
            .as_fd()
            .try_clone_to_owned()
            .map_err(ProgramError::IOError)
    });
    fd.map_err(|error| match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => KernelError::Load {
            program: name,
            verifier: log_tail(&verifier_log.to_string()),
            source: io_error,
        },
        other => KernelError::Prepare {
            program: name,
            source: Box::new(other),
        },
    })
}

fn attach(spec: &Spec, program: &OwnedFd, parent: &File) -> Result<Attached, KernelError> {
    let program: BorrowedFd<'_> = program.as_fd();
    let link = bpf::attach_to_cgroup(program, parent.as_fd(), spec.attach_type).map_err(|source| {
        KernelError::Attach {
            program: spec.op.name(),
            source,
        }
    })?;
    Ok(Attached {
        link,
        facts: bpf::program_facts(program).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_object_has_every_program_and_map() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        let mut names: Vec<&str> = object.programs.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = PROGRAMS.iter().map(|spec| spec.op.name()).collect();
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        for map in [abi::MAP_EVENTS, abi::MAP_COUNTERS] {
            assert!(object.maps.contains_key(map), "no map `{map}`");
        }
        assert_eq!(object.license.to_bytes(), b"Dual MIT/GPL");
    }

    /// Two processors meet in a counter too rarely for a test at run time (measured: 400,000
    /// denials with plain adds lost none), so the instructions are looked at.
    #[test]
    fn the_counters_are_added_to_atomically() {
        const ATOMIC_ADD_64: u8 = 0xdb;
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        for (name, program) in &object.programs {
            let function = &object.functions[&program.function_key()];
            let adds = function
                .instructions
                .iter()
                .filter(|instruction| instruction.code == ATOMIC_ADD_64);
            assert_eq!(
                adds.count(),
                2,
                "`{name}`: one add for `reserved`, one for `lost`"
            );
        }
    }
}
