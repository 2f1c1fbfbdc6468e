//! The observing programs against a real kernel: what a process in a sandbox tried is reported, once and as it
//! was, what others do is not, and nothing is lost without being counted.
//!
//! Takes root and a cgroup v2 hierarchy.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a step that fails is a test that fails"
)]

mod calls;
mod executed;
mod load;
mod paths;
mod rows;
mod scope;
mod slots;
mod stamps;
