//! The programs of tier T1 against a real kernel: what each hook refuses to a process of a sandbox and to nobody else.
//!
//! Takes root, a cgroup v2 hierarchy and a kernel that runs BPF LSM programs.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod battery;
mod elf;
mod ends;
mod filesystems;
mod load;
mod others;
mod place;
mod rows;
mod scope;
mod stage;
mod stamps;
mod told;
