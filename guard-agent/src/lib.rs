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
pub mod proof;
pub mod warden;

pub mod sys;

/// What `--version` says. A build into which faults can be injected names itself: it is for tests only.
pub const VERSION: &str = if cfg!(feature = "faults") {
    concat!(env!("CARGO_PKG_VERSION"), " (faults)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Identifies this build: two programs that talk over a link must be the same one.
pub const BUILD: &str = env!("GUARD_BUILD_ID");
