//! Test harness: starts the real agent, reads its records, cleans up after itself.

pub mod fixtures;
