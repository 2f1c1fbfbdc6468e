#![doc = include_str!("../../ARCHITECTURE.md")]

pub mod exit;
pub mod fault;
pub mod octets;
pub mod refusal;

pub mod cli;
pub mod config;
pub mod runtime;

pub mod gateway;
pub mod link;

pub mod audit;
pub mod confine;
pub mod init;
pub mod warden;

pub mod sys;

/// Identifies this build: two programs that talk over a link must be the same one.
pub const BUILD: &str = env!("GUARD_BUILD_ID");
