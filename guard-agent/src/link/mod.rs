//! The typed protocol between gateway and warden, nothing else shared.

pub mod asynchronous;
pub mod calls;
pub mod channel;
pub mod connect;
pub mod message;
pub mod told;
