//! When something that goes on is told again: after one tick, then two, four … so that what never ends fills nothing.
#![forbid(unsafe_code)]

/// Ticks between two records about the same thing, at most.
const LONGEST: u64 = 512;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    due: u64,
    wait: u64,
}

impl Backoff {
    pub(super) fn is_due(self, tick: u64) -> bool {
        tick >= self.due
    }

    pub(super) fn told(&mut self, tick: u64) {
        self.wait = (self.wait * 2).clamp(1, LONGEST);
        self.due = tick + self.wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_it_is_told_in_some_hundred_records() {
        let mut when = Backoff::default();
        let mut told = 0;
        for tick in 0..86_400 {
            if when.is_due(tick) {
                when.told(tick);
                told += 1;
            }
        }
        assert!((170..190).contains(&told), "{told}");
    }
}
