//! Bytes → lines → messages: what a message is, and nothing of what it is for.

pub(super) mod answer;
mod json;
pub(super) mod lines;
pub(super) mod message;
pub(super) mod names;
pub(super) mod revision;
pub(super) mod skim;
pub(super) mod splice;
