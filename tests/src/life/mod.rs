//! Life and death of sessions: a stage of its own for each test, who runs on it, and what is left of it.

pub mod chance;
pub mod left;
pub mod stage;
pub mod steps;
pub mod trail;

use std::time::Duration;

/// A time limit as it is meant for a machine that has a processor free: stretched by the load there is, since
/// what is measured is the agent and not the queue before it. `GUARD_TEST_SLOW` stretches it further (emulation).
#[must_use]
pub fn limit(base: Duration) -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
    let queue = (load / processors as f64).max(1.0);
    let slow = std::env::var("GUARD_TEST_SLOW")
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .unwrap_or(1.0);
    base.mul_f64(queue * slow.max(1.0))
}

/// How long after a death nothing of ours may be left.
#[must_use]
pub fn second() -> Duration {
    limit(Duration::from_secs(1))
}

/// How long anything at all may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(120);
