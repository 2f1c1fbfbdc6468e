//! Pinned tool definitions: what a server says of its tools is compared with what was accepted. Pure: no input and
//! output of its own.
//!
//! Not in use yet: no session reads this. What holds pins durably is a [`Store`] at the warden, which comes with it.
//!
//! A session reads all pages of `tools/list` into [`Definitions`], has them judged by [`judge`], and passes on what
//! [`Filter::apply`] leaves of each page. What is not found is listed in `docs/pins.md`, each gap with a test that shows it.

mod definition;
mod diff;
mod list;
mod looks;
mod pin;
mod pointer;
mod shown;
mod tree;

#[cfg(test)]
mod tests;

pub use definition::{Definition, Definitions, Limits, Refused};
pub use diff::{Change, Diff, Kind, Span};
pub use list::{Filter, NotFiltered};
pub use looks::{Look, Names, Rule};
pub use pin::{Accepted, By, Entry, Judged, NotAccepted, Store, Verdict, Version, Why, accept, judge};
pub use pointer::{NotAPointer, Pointer};
