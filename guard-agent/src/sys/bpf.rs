//! The few `bpf(2)` calls the eBPF library does not make: programs of attach
//! types it does not know, links as plain descriptors, facts about a program.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use aya_obj::generated::bpf_insn;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_BTF_LOAD: libc::c_long = 18;
const BPF_MAP_FREEZE: libc::c_long = 22;
const BPF_LINK_CREATE: libc::c_long = 28;

const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_CGROUP_SOCK: u32 = 9;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_PROG_TYPE_LSM: u32 = 29;
const BPF_TRACE_FEXIT: u32 = 25;
const BPF_LSM_MAC: u32 = 27;
const BPF_CGROUP_INET_SOCK_CREATE: u32 = 2;

/// Enough for the end of any log, which is where the verifier says why.
const LOG_BYTES: usize = 1 << 20;

/// What the kernel says about a loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramFacts {
    pub id: u32,
    /// Instructions the verifier walked; 0 before Linux 5.16.
    pub verified_instructions: u32,
    /// Runs the kernel skipped because the program was already running on that processor.
    pub recursion_misses: u64,
}

/// A program the kernel did not take.
#[derive(Debug)]
pub struct LoadFailure {
    pub error: io::Error,
    /// What the verifier wrote, empty when it was not reached.
    pub log: String,
}

/// Loads a program on the making of sockets.
pub fn load_sock(name: &CStr, license: &CStr, instructions: &[bpf_insn]) -> Result<OwnedFd, LoadFailure> {
    let base = ProgLoad::new(BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET_SOCK_CREATE);
    load_program(name, license, instructions, LsmLoad::of(base))
}

/// Loads a program on socket addresses.
pub fn load_sock_addr(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
    attach_type: u32,
) -> Result<OwnedFd, LoadFailure> {
    let base = ProgLoad::new(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, attach_type);
    load_program(name, license, instructions, LsmLoad::of(base))
}

/// Loads a program on a tracepoint.
pub fn load_tracepoint(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
) -> Result<OwnedFd, LoadFailure> {
    let base = ProgLoad::new(BPF_PROG_TYPE_RAW_TRACEPOINT, 0);
    load_program(name, license, instructions, LsmLoad::of(base))
}

/// Loads a program on the security hook whose function has this number in the kernel's types.
pub fn load_hook(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
    hook: u32,
) -> Result<OwnedFd, LoadFailure> {
    let kind = (BPF_PROG_TYPE_LSM, BPF_LSM_MAC);
    load_for_function(name, license, instructions, kind, hook)
}

/// Loads a program for the end of the kernel function with this number in the kernel's types.
pub fn load_exit(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
    function: u32,
) -> Result<OwnedFd, LoadFailure> {
    let kind = (BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT);
    load_for_function(name, license, instructions, kind, function)
}

fn load_for_function(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
    (prog_type, expected_attach_type): (u32, u32),
    function: u32,
) -> Result<OwnedFd, LoadFailure> {
    let attr = LsmLoad {
        attach_btf_id: function,
        ..LsmLoad::of(ProgLoad::new(prog_type, expected_attach_type))
    };
    load_program(name, license, instructions, attr)
}

fn load_program(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
    mut attr: LsmLoad,
) -> Result<OwnedFd, LoadFailure> {
    let base = &mut attr.base;
    base.insn_cnt = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
    base.insns = address(instructions.as_ptr());
    base.license = address(license.as_ptr());
    // The kernel wants a terminating zero in the sixteen bytes.
    for (to, from) in base.prog_name.iter_mut().take(15).zip(name.to_bytes()) {
        *to = *from;
    }
    // The log costs time, so it is only asked for once there is something to explain.
    if let Ok(program) = bpf_fd(BPF_PROG_LOAD, &mut attr) {
        return Ok(program);
    }
    let mut log = vec![0u8; LOG_BYTES];
    attr.base.log_level = 1;
    attr.base.log_size = u32::try_from(log.len()).unwrap_or(0);
    attr.base.log_buf = address(log.as_mut_ptr());
    bpf_fd(BPF_PROG_LOAD, &mut attr).map_err(|error| LoadFailure {
        error,
        log: CStr::from_bytes_until_nul(&log)
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default(),
    })
}

/// Gives the kernel types, which maps can then refer to.
pub fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let mut attr = BtfLoad {
        btf: address(types.as_ptr()),
        log_buf: 0,
        btf_size: u32::try_from(types.len()).unwrap_or(u32::MAX),
        log_size: 0,
    };
    bpf_fd(BPF_BTF_LOAD, &mut attr)
}

/// Writes the first value of an array; `value` is as long as the map's values, or the kernel reads beyond it.
pub fn set_first(map: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    let key = 0u32;
    let mut attr = MapElement {
        map_fd: raw(map),
        pad: 0,
        key: address(&raw const key),
        value: address(value.as_ptr()),
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// From now on nobody can change the map from outside the kernel.
pub fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = MapFreeze { map_fd: raw(map) };
    bpf(BPF_MAP_FREEZE, &mut attr).map(drop)
}

/// Gives a task, by its pidfd, a value in a task storage map.
pub fn set_task_value<const WORDS: usize>(
    map: BorrowedFd<'_>,
    pidfd: BorrowedFd<'_>,
    value: [u64; WORDS],
) -> io::Result<()> {
    let mut value = value;
    task_element(BPF_MAP_UPDATE_ELEM, map, pidfd, &mut value)
}

/// The value a task has, by its pidfd.
pub fn task_value<const WORDS: usize>(
    map: BorrowedFd<'_>,
    pidfd: BorrowedFd<'_>,
) -> io::Result<[u64; WORDS]> {
    let mut value = [0; WORDS];
    task_element(BPF_MAP_LOOKUP_ELEM, map, pidfd, &mut value)?;
    Ok(value)
}

/// The map's values must have this size, which the kernel half declares.
fn task_element<const WORDS: usize>(
    command: libc::c_long,
    map: BorrowedFd<'_>,
    pidfd: BorrowedFd<'_>,
    value: &mut [u64; WORDS],
) -> io::Result<()> {
    let key = pidfd.as_raw_fd();
    let mut attr = MapElement {
        map_fd: raw(map),
        pad: 0,
        key: address(&raw const key),
        value: address(value.as_mut_ptr()),
        flags: 0,
    };
    bpf(command, &mut attr).map(drop)
}

/// Makes an array of one value that can be mapped: a page of its own, in which the kernel sees what is stored.
pub fn new_page<const WORDS: usize>(name: &CStr) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: BPF_MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: u32::try_from(WORDS * 8).unwrap_or(u32::MAX),
        max_entries: 1,
        map_flags: BPF_F_MMAPABLE,
        ..MapCreate::default()
    };
    create(attr, name.to_bytes())
}

/// Makes a map of maps of that kind; `inner` is a map like those it will hold.
pub fn new_outer(name: &str, map_type: u32, max_entries: u32, inner: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type,
        key_size: 4,
        value_size: 4,
        max_entries,
        inner_map_fd: raw(inner),
        ..MapCreate::default()
    };
    create(attr, name.as_bytes())
}

fn create(mut attr: MapCreate, name: &[u8]) -> io::Result<OwnedFd> {
    // The kernel wants a terminating zero in the sixteen bytes.
    for (to, from) in attr.map_name.iter_mut().take(15).zip(name) {
        *to = *from;
    }
    bpf_fd(BPF_MAP_CREATE, &mut attr)
}

/// Sets the one value of such an array. Its values must have this size.
pub fn set_page<const WORDS: usize>(page: BorrowedFd<'_>, value: [u64; WORDS]) -> io::Result<()> {
    update(page, 0, address(value.as_ptr()))
}

/// Puts a map into an array of maps, where programs find it from now on. Waits until no program uses the one before.
pub fn set_inner(outer: BorrowedFd<'_>, index: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    let inner = inner.as_raw_fd();
    update(outer, index, address(&raw const inner))
}

/// `value` is the address of a live value of the size that the map's values have.
fn update(map: BorrowedFd<'_>, index: u32, value: u64) -> io::Result<()> {
    let mut attr = MapElement {
        map_fd: raw(map),
        pad: 0,
        key: address(&raw const index),
        value,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// Attaches a program to a cgroup. The attachment lives as long as any
/// duplicate of the descriptor, in any process.
pub fn attach_to_cgroup(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    attach_type: u32,
) -> io::Result<OwnedFd> {
    let mut attr = LinkCreate {
        prog_fd: raw(program),
        target_fd: raw(cgroup),
        attach_type,
        ..LinkCreate::default()
    };
    bpf_fd(BPF_LINK_CREATE, &mut attr)
}

/// One instruction of a program that is written by hand.
pub fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    u64::from(code)
        | u64::from(from << 4 | to) << 8
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(immediate.cast_unsigned()) << 32
}

/// Loads a program on the security hook whose function has this number in the kernel's types.
pub fn load_lsm(name: &CStr, instructions: &[u64], hook: u32) -> io::Result<OwnedFd> {
    let mut attr = LsmLoad {
        base: ProgLoad {
            prog_type: BPF_PROG_TYPE_LSM,
            insn_cnt: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
            insns: address(instructions.as_ptr()),
            license: address(c"Dual MIT/GPL".as_ptr()),
            expected_attach_type: BPF_LSM_MAC,
            ..ProgLoad::default()
        },
        attach_btf_id: hook,
        ..LsmLoad::default()
    };
    for (to, from) in attr.base.prog_name.iter_mut().take(15).zip(name.to_bytes()) {
        *to = *from;
    }
    bpf_fd(BPF_PROG_LOAD, &mut attr)
}

/// Attaches a program to the hook or function it was loaded for, for as long as the descriptor is open.
pub fn attach_lsm(program: &OwnedFd) -> io::Result<OwnedFd> {
    attach_raw(0, program)
}

/// Attaches it to the tracepoint of that name for as long as the descriptor is open.
pub fn attach_tracepoint(name: &CStr, program: &OwnedFd) -> io::Result<OwnedFd> {
    attach_raw(address(name.as_ptr()), program)
}

fn attach_raw(name: u64, program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attr = RawTracepointOpen {
        name,
        prog_fd: raw(std::os::fd::AsFd::as_fd(program)),
        pad: 0,
    };
    bpf_fd(BPF_RAW_TRACEPOINT_OPEN, &mut attr)
}

/// Facts about a loaded program.
pub fn program_facts(program: BorrowedFd<'_>) -> io::Result<ProgramFacts> {
    let mut info = ProgInfo::default();
    let mut attr = ObjectInfo {
        bpf_fd: raw(program),
        info_len: size_of::<ProgInfo>() as u32,
        info: address(&raw mut info),
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(ProgramFacts {
        id: info.id,
        verified_instructions: info.verified_insns,
        recursion_misses: info.recursion_misses,
    })
}

/// Makes the smallest map and drops it: says whether this process may use `bpf(2)` at all.
pub fn may_create_maps() -> io::Result<()> {
    let mut attr = MapCreate {
        map_type: BPF_MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        ..MapCreate::default()
    };
    bpf_fd(BPF_MAP_CREATE, &mut attr).map(drop)
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    // A borrowed descriptor is never negative.
    fd.as_raw_fd().cast_unsigned()
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

fn bpf_fd<T: Attr>(command: libc::c_long, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the command returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T: Attr>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is a live, exclusively borrowed structure of exactly the size
    // given, laid out as the kernel's `union bpf_attr` for `command` (the structures
    // below, sizes asserted); every pointer in it was made from a reference that
    // outlives this call in the function that built it, with its true length.
    match unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) } {
        result if result < 0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A structure that is a prefix of `union bpf_attr`.
trait Attr {}
impl Attr for MapCreate {}
impl Attr for MapElement {}
impl Attr for ProgLoad {}
impl Attr for LsmLoad {}
impl Attr for RawTracepointOpen {}
impl Attr for LinkCreate {}
impl Attr for ObjectInfo {}
impl Attr for BtfLoad {}
impl Attr for MapFreeze {}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    log_buf: u64,
    btf_size: u32,
    log_size: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapFreeze {
    map_fd: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

impl ProgLoad {
    fn new(prog_type: u32, expected_attach_type: u32) -> Self {
        Self {
            prog_type,
            expected_attach_type,
            ..Self::default()
        }
    }
}

/// A load that says which kernel function it is for.
#[repr(C)]
#[derive(Default)]
struct LsmLoad {
    base: ProgLoad,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    attach_prog_fd: u32,
    core_relo_cnt: u32,
}

impl LsmLoad {
    fn of(base: ProgLoad) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ObjectInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to what is read here; the kernel fills no more than the length given.
#[repr(C)]
#[derive(Default)]
struct ProgInfo {
    kind: u32,
    id: u32,
    skipped: [u64; 25],
    recursion_misses: u64,
    verified_insns: u32,
    pad: u32,
}

const _: () = assert!(std::mem::offset_of!(MapCreate, map_name) == 28 && size_of::<MapCreate>() == 44);
const _: () = assert!(size_of::<ProgLoad>() == 72);
const _: () = assert!(std::mem::offset_of!(LsmLoad, attach_btf_id) == 108);
const _: () = assert!(size_of::<LsmLoad>() == 120);
const _: () = assert!(size_of::<LinkCreate>() == 16);
const _: () = assert!(std::mem::offset_of!(ProgInfo, recursion_misses) == 208);
const _: () = assert!(std::mem::offset_of!(ProgInfo, verified_insns) == 216);
