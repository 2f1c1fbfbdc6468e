//! The command line: one file a subcommand.

pub mod audit;
pub mod out;
