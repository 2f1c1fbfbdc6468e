//! The gates: pure decisions about one call. A gate is given bytes and what the policy says of them and answers with a
//! verdict. It reads no file, asks no clock and starts nothing, so what it says depends on what it was given alone.

pub mod form;
pub mod scope;
