//! Which calls are in flight, by the gateway's word, and which of them an attempt may belong to.
//!
//! A bit of the stamp stands for one call after the other. Which one it was is told by time: the kernel half says when
//! an attempt was, and here is known since when, by the same clock, a bit stands for a call. A bit is set only after that
//! and cleared before its end is heard of, so no clock of the gateway counts.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};

use nix::time::{ClockId, clock_gettime};

use crate::{
    audit::{Attribution, call_name},
    link::told::BITS,
};

/// Calls that are over and still remembered, for each bit: what was reported during them may not be read yet.
const KEPT: usize = 8;

/// What an attempt may belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct During {
    pub(super) attribution: Attribution,
    pub(super) calls: Vec<u64>,
}

impl During {
    pub(super) fn unknown() -> Self {
        Self {
            attribution: Attribution::Unknown,
            calls: Vec::new(),
        }
    }

    fn of(calls: Vec<u64>) -> Self {
        let attribution = match calls.len() {
            0 => Attribution::Idle,
            1 => Attribution::Sole,
            _ => Attribution::OneOf,
        };
        Self { attribution, calls }
    }

    /// As records name them.
    pub(super) fn names(&self) -> Vec<String> {
        self.calls.iter().copied().map(call_name).collect()
    }
}

#[derive(Debug)]
struct Bound {
    call: u64,
    since: u64,
    until: Option<u64>,
}

/// The calls of one sandbox.
#[derive(Debug)]
pub(super) struct InFlight {
    bits: Vec<VecDeque<Bound>>,
    /// Whether anybody tells of calls.
    told: bool,
}

/// The clock of the kernel half, nanoseconds.
pub(super) fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}

impl InFlight {
    pub(super) fn new(told: bool) -> Self {
        Self {
            bits: (0..BITS).map(|_| VecDeque::new()).collect(),
            told,
        }
    }

    pub(super) fn begin(&mut self, call: u64, bit: u32, now: u64) {
        if let Some(bound) = self.bits.get_mut(bit as usize) {
            bound.push_back(Bound {
                call,
                since: now,
                until: None,
            });
            let over = bound.iter().filter(|bound| bound.until.is_some()).count();
            if over > KEPT
                && let Some(oldest) = bound.iter().position(|bound| bound.until.is_some())
            {
                bound.remove(oldest);
            }
        }
    }

    /// `false`: it is not in flight.
    pub(super) fn end(&mut self, call: u64, now: u64) -> bool {
        let mut all = self.bits.iter_mut().flatten();
        match all.find(|bound| bound.call == call && bound.until.is_none()) {
            Some(bound) => {
                bound.until = Some(now);
                true
            }
            None => false,
        }
    }

    /// Those in flight, in their order.
    pub(super) fn open(&self) -> Vec<u64> {
        let open = self.bits.iter().flatten().filter(|bound| bound.until.is_none());
        open.map(|bound| bound.call)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Of what is reported without a stamp, and looked at while it waits.
    pub(super) fn at_present(&self) -> During {
        if self.told {
            During::of(self.open())
        } else {
            During::unknown()
        }
    }

    /// Of what was reported with these bits at this time.
    pub(super) fn at(&self, bits: Option<u64>, time: u64) -> During {
        let Some(bits) = bits else {
            return During::unknown();
        };
        let mut calls = BTreeSet::new();
        for (bit, bound) in self.bits.iter().enumerate() {
            if bits >> bit & 1 == 0 {
                continue;
            }
            let before = calls.len();
            let mut then = bound.iter().filter(|bound| bound.since <= time);
            calls.extend(
                then.clone()
                    .filter(|bound| bound.until.is_none_or(|until| time <= until))
                    .map(|bound| bound.call),
            );
            // Nobody else can have had the bit.
            if calls.len() == before {
                calls.extend(then.next_back().map(|bound| bound.call));
            }
        }
        if calls.is_empty() && bits != 0 {
            return During::unknown();
        }
        During::of(calls.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn during(attribution: Attribution, calls: &[u64]) -> During {
        During {
            attribution,
            calls: calls.to_vec(),
        }
    }

    #[test]
    fn a_bit_stands_for_the_call_that_had_it_then() {
        let mut flight = InFlight::new(true);
        flight.begin(1, 0, 10);
        assert!(flight.end(1, 20));
        assert!(!flight.end(1, 21));
        flight.begin(2, 0, 30);
        flight.begin(3, 5, 35);
        let sole = |call| during(Attribution::Sole, &[call]);
        // Read late, long after the bit is another's.
        assert_eq!(flight.at(Some(1), 15), sole(1));
        assert_eq!(flight.at(Some(1), 20), sole(1));
        // Between an end and its word.
        assert_eq!(flight.at(Some(1), 25), sole(1));
        assert_eq!(flight.at(Some(1), 30), sole(2));
        assert_eq!(
            flight.at(Some(0b10_0001), 40),
            during(Attribution::OneOf, &[2, 3])
        );
        assert_eq!(flight.at(Some(0), 40), during(Attribution::Idle, &[]));
        assert_eq!(flight.at(None, 40), During::unknown());
        // A bit that nobody was given.
        assert_eq!(flight.at(Some(1 << 9), 40), During::unknown());
        assert_eq!(flight.open(), [2, 3]);
    }

    #[test]
    fn a_bit_of_many_calls_stands_for_all_that_have_it() {
        let mut flight = InFlight::new(true);
        for call in 1..=20 {
            flight.begin(call, 63, call);
        }
        assert!(flight.end(4, 30));
        let at = |time| flight.at(Some(1 << 63), time).calls;
        assert_eq!(at(2), [1, 2]);
        assert_eq!(at(25).len(), 20);
        assert_eq!(at(31).len(), 19);
    }

    #[test]
    fn what_is_over_is_forgotten_one_after_the_other() {
        let mut flight = InFlight::new(true);
        for call in 0..100 {
            flight.begin(call, 0, call * 10);
            flight.end(call, call * 10 + 5);
        }
        let calls = |time| flight.at(Some(1), time).calls;
        assert_eq!(calls(992), [99]);
        assert_eq!(calls(932), [93]);
        assert_eq!(calls(100), [] as [u64; 0]);
        assert_eq!(flight.at(Some(1), 100), During::unknown());
    }

    #[test]
    fn without_a_stamp_it_is_those_in_flight_or_unknown() {
        let mut flight = InFlight::new(true);
        assert_eq!(flight.at_present(), during(Attribution::Idle, &[]));
        flight.begin(7, 1, 1);
        assert_eq!(flight.at_present(), during(Attribution::Sole, &[7]));
        flight.begin(8, 2, 2);
        assert_eq!(flight.at_present(), during(Attribution::OneOf, &[7, 8]));
        assert_eq!(InFlight::new(false).at_present(), During::unknown());
    }
}
