//! The audit trail: records, hash chain, checkpoints, segments, verification.
