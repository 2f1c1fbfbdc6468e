//! The kernel half seen from the host: load and attach its programs, read what they report.
//!
//! Order of reading: `probe` (can this host do it), `object` (what is loaded),
//! `btf` (where this kernel keeps things), `loader`, `events`, `decode`.

mod btf;
mod counters;
mod decode;
mod error;
mod events;
mod loader;
mod object;
mod probe;
mod unix;

pub use btf::KernelTypes;
pub use counters::CounterReader;
pub use decode::{DecodeError, Endpoint, NetEvent};
pub use error::KernelError;
pub use events::{Drained, Events};
pub use loader::{ProgramInfo, Programs};
pub use object::{MANIFEST, OBJECT};
pub use probe::{Facts, probe};
