//! How a session ends when its client goes: in order, and before clients lose patience (they escalate at 2 s).

use std::time::Duration;

/// Calls may still be in flight when the client closes its end: its server's stdin stays open while answers
/// come, at most this long.
pub(super) const DRAIN: Duration = Duration::from_millis(1000);
/// Silence of both that counts as "no more answers", when the server spoke last.
pub(super) const QUIET: Duration = Duration::from_millis(150);
/// After the client's end: SIGTERM, then the end of the sandbox.
pub(super) const TERMINATE: Duration = Duration::from_millis(1200);
pub(super) const KILL: Duration = Duration::from_millis(1600);
/// After a SIGTERM, what a dead server had written waits so long for a client that takes nothing.
pub(super) const URGENT_DELIVER: Duration = Duration::from_millis(50);
/// Without a word of the server's end (the warden is gone) what it wrote is delivered, but not waited for longer than
/// this without a byte: without root, what outlived all of ours holds the pipe for ever.
pub(super) const LOST_DELIVER: Duration = Duration::from_secs(15);
/// The rungs after a SIGTERM of our own: everything is over within 0.7 s.
pub(super) const URGENT_TERMINATE: Duration = Duration::from_millis(200);
pub(super) const URGENT_KILL: Duration = Duration::from_millis(600);
