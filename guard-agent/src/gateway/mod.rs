//! Everything that touches untrusted bytes, without privilege.
//!
//! Lines of client and server are read as messages, and pass with their bytes as they were: a bounded buffer a
//! direction, a writer that waits for its reader, and the shutdown ladder.

mod activity;
mod bytes;
mod calls;
mod confine;
mod exchange;
mod failure;
pub mod gates;
mod ladder;
mod noise;
pub mod pins;
mod protocol;
pub mod redact;
mod relay;
mod sides;
mod stamp;
mod stderr;
mod words;

pub use calls::Asker;
pub use confine::confine;
pub use failure::Rules;
pub use relay::run;
pub use stamp::{Call, Stamp};
