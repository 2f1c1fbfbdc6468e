//! Everything that touches untrusted bytes, without privilege.
//!
//! At this stage the gateway relays the lines of client and server untouched: one bounded buffer a direction,
//! a writer that waits for its reader, and the shutdown ladder.

mod activity;
mod bytes;
mod confine;
mod failure;
mod ladder;
pub mod redact;
mod relay;
mod stamp;
mod stderr;

pub use confine::confine;
pub use failure::Rules;
pub use relay::run;
pub use stamp::{Call, Stamp, TooManyCalls};
