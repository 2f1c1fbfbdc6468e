//! The only process with privilege and input.

pub mod kernel;
