//! The only unsafe code of the agent: system calls that no library wraps.
#![expect(unsafe_code, reason = "this is where it lives; every block says why it is sound")]
