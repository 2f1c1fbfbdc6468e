//! Descriptors in tokio's event loop.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// Types that own their descriptor: it stays open, and the same, as long as the value lives.
pub trait Owner: AsRawFd {}

impl Owner for OwnedFd {}
impl Owner for crate::confine::notify::Listener {}

/// Watches a descriptor; must be called inside a runtime.
pub fn watch<T: Owner>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `Owner` is implemented only for types that own one descriptor and return that one, so it
    // outlives the registration, which the `AsyncFd` that owns the value ends first.
    unsafe { AsyncFd::register_with_interest(inner, interest) }.map_err(io::Error::from)
}
