//! The audit trail: records, hash chain, checkpoints, segments, verification.
//!
//! One directory holds one chain, split into segments; one writer at a time has it by a lock.
//! The file format is a contract, written down in `docs/audit.md`.

mod body;
mod call;
mod canonical;
mod chain;
mod checkpoint;
mod count;
mod dir;
mod error;
mod filter;
mod keys;
mod lines;
mod number;
mod open;
mod query;
mod record;
mod tail;
mod text;
mod trail;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use body::{
    Attribution, Decision, Enforcement, Exit, Field, Gap, GapKind, Kernel, Launch, LaunchLimits, LaunchRoot,
    LaunchUser, Layer, Lost, Missing, NotEnforced, PathSource, ResourceUse, ResourcesReport, call_name,
    errno_name,
};
pub use call::{Activity, Call, Identity, OpCounts, Phase, Status, Verdict};
pub use chain::{Digest, MAX_RECORD, VERSION};
pub use checkpoint::Checkpoint;
pub use count::{By, Counts, Group, Groups};
pub use dir::default_directory;
pub use error::AuditError;
pub use filter::{AddressPattern, Errno, Filter, Op, PathPattern};
pub use number::Number;
pub use query::{Damage, Found, Query, is_empty};
pub use record::{Body, Durability, Kind, Origin, Record, Seq, Stamp};
pub use tail::{Entry, Tail};
pub use text::{escape, line as text_line};
pub use trail::{Options, Trail};
pub use verify::{Bad, Reason, Report, VerifyOptions, verify};
pub use writer::AuditHandle;
