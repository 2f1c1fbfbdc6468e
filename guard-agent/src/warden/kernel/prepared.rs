//! The object made ready: its maps made, its globals set and frozen, its instructions relocated against both.
//!
//! The eBPF library reads the object and has the maps' types. Its own loader is not used: it reads all types of the
//! kernel into memory before anything else (14 MB, for relocations this object has none of) and does not know how to
//! load some of the programs here.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use aya::maps::{Map, MapData};
use aya_obj::{EbpfSectionKind, Object, generated::bpf_insn};

use super::error::{KernelError, log_reason};
use crate::sys::bpf;

/// Programs to be loaded, and maps until somebody takes them.
pub(super) struct Prepared {
    object: Object,
    maps: BTreeMap<String, MapData>,
}

impl Prepared {
    /// Makes the maps and freezes the globals.
    pub(super) fn new(object: &[u8], globals: &[(&'static str, u64)]) -> Result<Self, KernelError> {
        let mut object = Object::parse(object).map_err(KernelError::object)?;
        let values: Vec<(&str, [u8; 8])> = globals
            .iter()
            .map(|(name, value)| (*name, value.to_ne_bytes()))
            .collect();
        let values: HashMap<&str, (&[u8], bool)> = values
            .iter()
            .map(|(name, value)| (*name, (value.as_slice(), true)))
            .collect();
        object.patch_map_data(values).map_err(KernelError::object)?;
        let types = types(&mut object)?;
        let declared = std::mem::take(&mut object.maps);
        let mut maps = BTreeMap::new();
        for (name, map) in &declared {
            maps.insert(name.clone(), make(map, name, types.as_ref().map(OwnedFd::as_fd))?);
        }
        let code: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let found = declared.iter().filter_map(|(name, map)| {
            let made = maps.get(name)?;
            Some((name.as_str(), made.fd().as_fd().as_raw_fd(), map))
        });
        object.relocate_maps(found, &code).map_err(KernelError::object)?;
        object.relocate_calls(&code).map_err(KernelError::object)?;
        Ok(Self { object, maps })
    }

    /// A map, once.
    pub(super) fn take_map(&mut self, name: &'static str) -> Result<Map, KernelError> {
        let data = self.maps.remove(name).ok_or(KernelError::Missing { name })?;
        Map::from_map_data(data).map_err(KernelError::map(name))
    }

    /// A map that stays here.
    pub(super) fn map(&self, name: &'static str) -> Result<&MapData, KernelError> {
        self.maps.get(name).ok_or(KernelError::Missing { name })
    }

    /// Loads one program on sockets of a cgroup.
    pub(super) fn load_sock(&self, name: &'static str) -> Result<OwnedFd, KernelError> {
        self.program(name, bpf::load_sock)
    }

    /// Loads one on socket addresses under the attach type it is for.
    pub(super) fn load_sock_addr(
        &self,
        name: &'static str,
        attach_type: u32,
    ) -> Result<OwnedFd, KernelError> {
        self.program(name, |name, license, instructions| {
            bpf::load_sock_addr(name, license, instructions, attach_type)
        })
    }

    /// Loads one on a tracepoint.
    pub(super) fn load_tracepoint(&self, name: &'static str) -> Result<OwnedFd, KernelError> {
        self.program(name, bpf::load_tracepoint)
    }

    /// Loads one for the security hook whose function has this number in the kernel's types.
    pub(super) fn load_hook(&self, name: &'static str, hook: u32) -> Result<OwnedFd, KernelError> {
        self.program(name, |name, license, instructions| {
            bpf::load_hook(name, license, instructions, hook)
        })
    }

    /// Loads one for the end of the kernel function that has this number there.
    pub(super) fn load_exit(&self, name: &'static str, function: u32) -> Result<OwnedFd, KernelError> {
        self.program(name, |name, license, instructions| {
            bpf::load_exit(name, license, instructions, function)
        })
    }

    fn program(
        &self,
        name: &'static str,
        load: impl FnOnce(&CStr, &CStr, &[bpf_insn]) -> Result<OwnedFd, bpf::LoadFailure>,
    ) -> Result<OwnedFd, KernelError> {
        let missing = || KernelError::Missing { name };
        let program = self.object.programs.get(name).ok_or_else(missing)?;
        let function = self
            .object
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

/// Gives the kernel the object's own types: storage in tasks and sockets has to say what it holds.
fn types(object: &mut Object) -> Result<Option<OwnedFd>, KernelError> {
    let Some(features) = aya::features().btf() else {
        return Ok(None);
    };
    let types = object
        .fixup_and_sanitize_btf(features)
        .map_err(KernelError::object)?;
    let Some(types) = types else { return Ok(None) };
    bpf::load_types(&types.to_bytes())
        .map(Some)
        .map_err(KernelError::object)
}

fn make(map: &aya_obj::Map, name: &str, types: Option<BorrowedFd<'_>>) -> Result<MapData, KernelError> {
    if let Some(inner) = map.inner() {
        // The library makes such a map in its own loader alone. The inner one only says what may be put into it.
        let inner = MapData::create(inner, name, types).map_err(KernelError::object)?;
        let outer = bpf::new_outer(name, map.map_type(), map.max_entries(), inner.fd().as_fd());
        return MapData::from_fd(outer.map_err(KernelError::object)?).map_err(KernelError::object);
    }
    let made = MapData::create(map.clone(), name, types).map_err(KernelError::object)?;
    if !map.data().is_empty() {
        if map.data().len() != map.value_size() as usize {
            return Err(KernelError::object(io::Error::other(format!(
                "map `{name}` and its first value are not of one size"
            ))));
        }
        bpf::set_first(made.fd().as_fd(), map.data()).map_err(KernelError::object)?;
    }
    if map.section_kind() == EbpfSectionKind::Rodata {
        bpf::freeze(made.fd().as_fd()).map_err(KernelError::object)?;
    }
    Ok(made)
}
