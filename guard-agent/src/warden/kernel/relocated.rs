//! Loads the programs that the eBPF library does not load as they have to be: those on unix sockets have attach types
//! that it does not know, and for each security hook it would search the kernel's types anew. The object is relocated
//! a second time, against the maps that are already there, and the instructions go to the kernel as they are.

use std::{
    collections::HashSet,
    ffi::{CStr, CString},
    os::fd::{AsRawFd, OwnedFd},
};

use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use aya_obj::{Object, generated::bpf_insn};

use super::{
    error::{KernelError, log_reason},
    loader::Spec,
};
use crate::sys::bpf;

/// The object, relocated against the maps of a loaded one.
pub(super) struct Relocated(Object);

impl Relocated {
    pub(super) fn against(object: &[u8], loaded: &Ebpf) -> Result<Self, KernelError> {
        let mut object = Object::parse(object).map_err(KernelError::object)?;
        let maps = std::mem::take(&mut object.maps);
        let code: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let found = maps.iter().filter_map(|(name, map)| {
            let data = data(loaded.map(name)?)?;
            Some((
                name.as_str(),
                std::os::fd::AsFd::as_fd(data.fd()).as_raw_fd(),
                map,
            ))
        });
        object.relocate_maps(found, &code).map_err(KernelError::object)?;
        object.relocate_calls(&code).map_err(KernelError::object)?;
        Ok(Self(object))
    }

    /// Loads one program under the attach type it is really for.
    pub(super) fn load(&self, spec: &Spec) -> Result<OwnedFd, KernelError> {
        self.program(spec.op.name(), |name, license, instructions| {
            bpf::load_sock_addr(name, license, instructions, spec.attach_type)
        })
    }

    /// Loads one program for the security hook whose function has this number in the kernel's types.
    pub(super) fn load_hook(&self, name: &'static str, hook: u32) -> Result<OwnedFd, KernelError> {
        self.program(name, |name, license, instructions| {
            bpf::load_hook(name, license, instructions, hook)
        })
    }

    fn program(
        &self,
        name: &'static str,
        load: impl FnOnce(&CStr, &CStr, &[bpf_insn]) -> Result<OwnedFd, bpf::LoadFailure>,
    ) -> Result<OwnedFd, KernelError> {
        let missing = || KernelError::Missing { name };
        let program = self.0.programs.get(name).ok_or_else(missing)?;
        let function = self
            .0
            .functions
            .get(&program.function_key())
            .ok_or_else(missing)?;
        let c_name = CString::new(name).map_err(KernelError::object)?;
        load(&c_name, &program.license, &function.instructions).map_err(|failure| KernelError::Load {
            program: name,
            verifier: log_reason(&failure.log),
            source: failure.error,
        })
    }
}

/// The kinds of map the object has.
fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::RingBuf(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::SkStorage(data)
        // Storage in tasks: the library has no type for it.
        | Map::Unsupported(data) => Some(data),
        _ => None,
    }
}
