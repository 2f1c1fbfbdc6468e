//! Everything that touches untrusted bytes, without privilege.
