//! The gates a call passes: pure decisions on what was parsed, without I/O.

pub mod scope;
