//! The typed protocol between gateway and warden, nothing else shared.

pub mod message;
