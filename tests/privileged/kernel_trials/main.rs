//! Tier T1 where others act at the same moment: races for what is opened, maps and rings that are full, programs that
//! come and go. `cargo xtask vm --cpus 2 --kernel 6.12 test:kernel_trials`.
//!
//! `GUARD_TEST_ROUNDS` (default 1000) is how often each race opens, a flipped path ten times as often.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod churn;
mod failures;
mod holders;
mod paths;
mod races;
#[path = "../kernel_lsm/stage.rs"]
mod stage;

fn rounds() -> u64 {
    std::env::var("GUARD_TEST_ROUNDS").map_or(1000, |text| text.parse().unwrap())
}
