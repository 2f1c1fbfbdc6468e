//! What the operator asked for: raw (as typed) → resolved (as meant).

pub mod rights;
