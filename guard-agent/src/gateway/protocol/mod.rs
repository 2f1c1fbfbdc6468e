//! Bytes → lines → messages: what a message is, and nothing of what it is for.

pub(super) mod answer;
pub(super) mod json;
pub(super) mod lines;
pub(super) mod message;
pub(super) mod names;
pub(super) mod revision;
pub(super) mod skim;
pub(super) mod splice;
