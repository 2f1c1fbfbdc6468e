//! The only process with privilege and input.
