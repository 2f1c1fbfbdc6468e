//! Test harness: starts the real agent, reads its records, cleans up after itself.

pub mod acting;
pub mod agent;
pub mod arena;
mod bystander;
pub mod control;
pub mod fixtures;
pub mod guards;
pub mod inside;
pub mod leftovers;
pub mod life;
pub mod mcp;
pub mod picture;
pub mod programs;
pub mod records;
pub mod refused;
pub mod report;
pub mod require;
pub mod suite;
pub mod tier;
pub mod tiny_elf;
pub mod workers;
pub mod world;
