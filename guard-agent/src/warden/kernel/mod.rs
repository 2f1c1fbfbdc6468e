//! The kernel half seen from the host: load and attach its programs, read what they report.
//!
//! Order of reading: `probe` (can this host do it), `object` (what is loaded),
//! `layout`, `btf` and `offsets` (where this kernel keeps things), `prepared`, `loader`, `lsm`, `told`, `observe`,
//! `slots`, `events`, `event`.

mod btf;
mod decode;
mod error;
mod event;
mod events;
mod layout;
mod loader;
mod lsm;
mod object;
mod observe;
mod offsets;
mod prepared;
mod probe;
mod skipped;
mod slots;
mod sockaddr;
mod stamps;
#[cfg(test)]
mod tests;
mod told;

pub use btf::{Argument, KernelTypes};
pub use decode::{Endpoint, NetEvent};
pub use error::{KernelError, locked_down};
pub use event::{CallEvent, DecodeError, Event, ExecEvent, KernelPath, Origin, UserPath, VerdictEvent};
pub use events::{Drained, Events};
pub use loader::{ProgramInfo, Programs};
pub use lsm::Enroller;
pub use object::{MANIFEST, OBJECT};
pub use probe::{Facts, probe};
pub use skipped::Skipped;
pub use slots::{Consumed, CounterReader, SlotCounters};
