//! What the kernel half and the host half agree on: plain data, no logic that can fail silently.
#![no_std]

pub mod abi;
pub mod event;
pub mod hooks;
pub mod layout;
pub mod measured;
pub mod record;
pub mod stamp;
pub mod syscalls;
pub mod told;
pub mod verdict;
