//! Random moments that can be repeated: a printed seed, and numbers that follow from it alone.

use anyhow::{Context as _, Result};

/// SplitMix64: small, and good enough to spread moments.
#[derive(Debug)]
pub struct Chance {
    pub seed: u64,
    state: u64,
}

impl Chance {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// `GUARD_TEST_SEED`, or a seed of the moment.
    ///
    /// # Errors
    /// When the variable is no number.
    pub fn from_environment() -> Result<Self> {
        match std::env::var("GUARD_TEST_SEED") {
            Ok(text) => Ok(Self::new(
                text.parse()
                    .with_context(|| format!("no seed: GUARD_TEST_SEED=`{text}`"))?,
            )),
            Err(_) => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
                Ok(Self::new(u64::from(now.subsec_nanos()) ^ now.as_secs()))
            }
        }
    }

    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }
}
