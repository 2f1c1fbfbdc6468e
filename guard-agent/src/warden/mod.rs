//! The only process with privilege and input: it launches, kills, records, and never parses MCP.

mod calls;
pub mod cgroup;
mod ending;
mod events;
pub mod hold;
pub mod kernel;
pub mod launch;
mod launcher;
pub mod reaper;
mod refused;
pub mod registry;
mod running;
mod sandbox;
mod scratch;
mod serve;
mod session;
pub(crate) mod start;
pub mod state;
mod subject;
pub mod sweep;
mod told;
mod trails;
mod unprivileged;

pub use serve::{Args, main};
