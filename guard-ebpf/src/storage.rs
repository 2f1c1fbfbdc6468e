//! Storage in the kernel's own tasks and sockets: gone with them, and never another's.

use core::{marker::PhantomData, ptr};

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_LOCAL_STORAGE_GET_F_CREATE, bpf_map_type, task_struct},
    helpers::generated::{bpf_sk_storage_get, bpf_task_storage_get},
};

pub(crate) const TASK_STORAGE: usize = bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE as usize;
pub(crate) const SOCKET_STORAGE: usize = bpf_map_type::BPF_MAP_TYPE_SK_STORAGE as usize;

/// Declared as the other maps are; the library has no type for the first kind, and takes only a network program's
/// context for the second.
#[repr(C)]
pub(crate) struct Storage<T, const KIND: usize> {
    r#type: *const [i32; KIND],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
    owned: PhantomData<T>,
}

// SAFETY: the program never reads the declaration; the kernel half has its address only.
unsafe impl<T, const KIND: usize> Sync for Storage<T, KIND> {}

impl<T, const KIND: usize> Storage<T, KIND> {
    pub(crate) const fn new() -> Self {
        Self {
            r#type: ptr::null(),
            key: ptr::null(),
            value: ptr::null(),
            max_entries: ptr::null(),
            map_flags: ptr::null(),
            owned: PhantomData,
        }
    }

    #[inline(always)]
    fn map(&self) -> *mut core::ffi::c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

impl<T> Storage<T, TASK_STORAGE> {
    /// What a task has, null for nothing.
    #[inline(always)]
    pub(crate) fn of(&self, task: u64) -> *mut T {
        // SAFETY: the verifier takes nothing but a task for `task`; nothing is made.
        unsafe { bpf_task_storage_get(self.map(), task as *mut task_struct, ptr::null_mut(), 0) }.cast()
    }

    /// Gives it to a task that has none. Null: no memory.
    #[inline(always)]
    pub(crate) fn give(&self, task: u64, mut value: T) -> *mut T {
        let flags = u64::from(BPF_LOCAL_STORAGE_GET_F_CREATE);
        // SAFETY: the verifier takes nothing but a task for `task`; the value is copied.
        unsafe {
            bpf_task_storage_get(
                self.map(),
                task as *mut task_struct,
                (&raw mut value).cast(),
                flags,
            )
        }
        .cast()
    }
}

impl<T> Storage<T, SOCKET_STORAGE> {
    /// What a socket has, null for nothing.
    #[inline(always)]
    pub(crate) fn of(&self, socket: u64) -> *mut T {
        // SAFETY: the verifier takes nothing but a socket for `socket`; nothing is made.
        unsafe { bpf_sk_storage_get(self.map(), socket as *mut _, ptr::null_mut(), 0) }.cast()
    }

    /// Gives it to a socket that has none. Null: no memory.
    #[inline(always)]
    pub(crate) fn give(&self, socket: u64, mut value: T) -> *mut T {
        let flags = u64::from(BPF_LOCAL_STORAGE_GET_F_CREATE);
        // SAFETY: the verifier takes nothing but a socket for `socket`; the value is copied.
        unsafe { bpf_sk_storage_get(self.map(), socket as *mut _, (&raw mut value).cast(), flags) }.cast()
    }
}
