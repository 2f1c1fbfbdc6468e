//! Which calls are in flight and what they may do, written where the kernel half reads it, before a call is passed on
//! and after its answer. Stores to a page, no system call.
//!
//! A call that runs never lacks what it needs: rights are added before its bit is set and taken away after it is
//! cleared. In between more is allowed than has to be, for some instructions.

use std::{
    io,
    os::fd::AsFd,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use guard_common::stamp::{STAMP_CALLS, STAMP_MARKS};

use crate::{
    config::rights::Rights,
    sys::{fs::memory_file, stamp::StampPage},
};

/// Bytes of a page of stamps.
const STAMP_PAGE: u64 = 4096;

/// The stamp of the one sandbox this gateway has.
#[derive(Debug)]
pub struct Stamp {
    page: StampPage,
    state: Mutex<State>,
}

/// A call and the bit of an event's `calls` that stands for it. Given back to [`Stamp::free`], once.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    bit: u32,
    needs: u32,
}

impl Call {
    pub fn bit(&self) -> u32 {
        self.bit
    }
}

/// What is written into the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Calls(u64),
    Mask(u32),
}

/// One bit: many calls have it when there are more calls than bits.
#[derive(Debug, Clone, Copy, Default)]
struct Bit {
    /// Calls that have it, set or not.
    taken: u32,
    /// Those for which it is set.
    set: u32,
    /// Of them, those that are waited for.
    awaited: u32,
    /// What they need together. Of many it is only taken back when the last is over.
    needs: u32,
}

#[derive(Debug)]
struct State {
    /// What the server was launched with: more the kernel half allows to nobody.
    launch: u32,
    bits: [Bit; STAMP_CALLS],
    /// Where the search for a free bit begins: one that was just given back is the last to be used again, so that what
    /// is still told of its call is not taken for the next one's.
    next: u32,
    /// What the server may do without a call; nothing is known of that before its first answer.
    idle: Option<u32>,
}

impl Stamp {
    /// Maps the stamp that the warden has sent; the descriptor is of no use any more. Nothing is said of calls yet.
    pub fn map(stamp: impl AsFd) -> io::Result<Self> {
        let page = StampPage::map(stamp)?;
        Ok(Self {
            state: Mutex::new(State::new(page.mask().load(Ordering::Relaxed))),
            page,
        })
    }

    /// Where no program reads one: calls have their bits all the same.
    pub fn unread() -> io::Result<Self> {
        let file = std::fs::File::from(memory_file(c"stamp", 0)?);
        file.set_len(STAMP_PAGE)?;
        Self::map(&file)
    }

    /// From now on every call is told, so that without a bit none is in flight.
    pub fn mark(&self) {
        self.page.flags().store(STAMP_MARKS, Ordering::Release);
    }

    /// A bit for a call that needs these rights. Nothing is said of it yet.
    pub fn reserve(&self, rights: Rights) -> Call {
        let bit = self.state().reserve();
        Call {
            bit,
            needs: rights.bits(),
        }
    }

    /// It is about to be passed on.
    pub fn begin(&self, call: &Call) {
        let mut state = self.state();
        let stores = state.begin(call.bit, call.needs);
        self.write(&stores);
    }

    /// Nobody waits for its answer any more, but the server may still be at it: its rights end, its bit stays.
    pub fn leave(&self, call: &Call) {
        let mut state = self.state();
        let stores = state.leave(call.bit);
        self.write(&stores);
    }

    /// It is over. `left`: nobody waited for it.
    pub fn end(&self, call: &Call, left: bool) {
        let mut state = self.state();
        let stores = state.end(call.bit, left);
        self.write(&stores);
    }

    /// Its bit may be another's.
    #[expect(clippy::needless_pass_by_value, reason = "it is over")]
    pub fn free(&self, call: Call) {
        self.state().free(call.bit);
    }

    /// The server has answered, which ends its start: without a call it may do this from now on. Said again it changes
    /// nothing.
    pub fn answered(&self, idle: Rights) {
        let mut state = self.state();
        if state.idle.is_none() {
            state.idle = Some(idle.bits());
            self.write(&[Store::Mask(state.mask())]);
        }
    }

    /// In this order.
    fn write(&self, stores: &[Store]) {
        for store in stores {
            match store {
                Store::Calls(calls) => self.page.calls().store(*calls, Ordering::Release),
                Store::Mask(mask) => self.page.mask().store(*mask, Ordering::Release),
            }
        }
    }

    /// Nothing that can be left half done happens under it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(launch: u32) -> Self {
        Self {
            launch,
            bits: [Bit::default(); STAMP_CALLS],
            next: 0,
            idle: None,
        }
    }

    /// A free one, or else the last: it is then told that an attempt was of one of those that share it.
    fn reserve(&mut self) -> u32 {
        let bits = u64::BITS;
        let free = (0..bits)
            .map(|step| (self.next + step) % bits)
            .find(|bit| self.bits.get(*bit as usize).is_some_and(|bit| bit.taken == 0));
        let bit = free.unwrap_or(bits - 1);
        if free.is_some() {
            self.next = (bit + 1) % bits;
        }
        if let Some(bit) = self.bits.get_mut(bit as usize) {
            bit.taken += 1;
        }
        bit
    }

    fn free(&mut self, bit: u32) {
        if let Some(bit) = self.bits.get_mut(bit as usize) {
            bit.taken = bit.taken.saturating_sub(1);
        }
    }

    /// What is written for a call that begins.
    fn begin(&mut self, bit: u32, needs: u32) -> [Store; 3] {
        let before = self.mask();
        if let Some(bit) = self.bits.get_mut(bit as usize) {
            bit.needs = if bit.awaited == 0 {
                needs
            } else {
                bit.needs | needs
            };
            bit.set += 1;
            bit.awaited += 1;
        }
        let after = self.mask();
        [
            Store::Mask(before | after),
            Store::Calls(self.calls()),
            Store::Mask(after),
        ]
    }

    fn leave(&mut self, bit: u32) -> [Store; 1] {
        if let Some(bit) = self.bits.get_mut(bit as usize) {
            bit.awaited = bit.awaited.saturating_sub(1);
        }
        [Store::Mask(self.mask())]
    }

    /// What is written when a call is over.
    fn end(&mut self, bit: u32, left: bool) -> [Store; 2] {
        if let Some(bit) = self.bits.get_mut(bit as usize) {
            bit.set = bit.set.saturating_sub(1);
            if !left {
                bit.awaited = bit.awaited.saturating_sub(1);
            }
        }
        [Store::Calls(self.calls()), Store::Mask(self.mask())]
    }

    fn calls(&self) -> u64 {
        let set = (0u64..).zip(&self.bits).filter(|(_, bit)| bit.set > 0);
        set.fold(0, |calls, (at, _)| calls | 1 << at)
    }

    /// What may be done now.
    fn mask(&self) -> u32 {
        let Some(idle) = self.idle else {
            return self.launch;
        };
        let mut awaited = self.bits.iter().filter(|bit| bit.awaited > 0).peekable();
        let allowed = if awaited.peek().is_none() {
            idle
        } else {
            awaited.fold(0, |all, bit| all | bit.needs)
        };
        allowed & self.launch
    }
}

#[cfg(test)]
mod tests {
    use guard_common::hooks::{EXECUTE, MAP, READ, WRITE};
    use proptest::prelude::*;

    use super::*;

    const ALL: u32 = READ | WRITE | EXECUTE | MAP;

    /// A stamp as the warden makes one, and the page as the kernel half sees it.
    fn stamp(launch: u32) -> (Stamp, StampPage) {
        let file = std::fs::File::from(memory_file(c"stamp", 0).unwrap());
        file.set_len(4096).unwrap();
        let seen = StampPage::map(&file).unwrap();
        seen.mask().store(launch, Ordering::Relaxed);
        (Stamp::map(&file).unwrap(), seen)
    }

    impl Stamp {
        fn start(&self, rights: Rights) -> Call {
            let call = self.reserve(rights);
            self.begin(&call);
            call
        }

        fn over(&self, call: Call) {
            self.end(&call, false);
            self.free(call);
        }
    }

    fn seen(page: &StampPage) -> (u64, u32) {
        (
            page.calls().load(Ordering::Acquire),
            page.mask().load(Ordering::Acquire),
        )
    }

    #[test]
    fn its_start_has_the_rights_of_the_launch_until_the_first_answer() {
        let (stamp, page) = stamp(READ | WRITE);
        assert_eq!(seen(&page), (0, READ | WRITE));
        let first = stamp.start(Rights::R);
        assert_eq!(seen(&page), (1, READ | WRITE));
        stamp.answered(Rights::R);
        assert_eq!(seen(&page), (1, READ));
        stamp.over(first);
        assert_eq!(seen(&page), (0, READ));
        // It has answered before.
        stamp.answered(Rights::RW);
        assert_eq!(seen(&page), (0, READ));
    }

    #[test]
    fn the_mask_is_what_the_calls_in_flight_need_together_and_no_more_than_the_launch_gave() {
        let (stamp, page) = stamp(ALL & !WRITE);
        stamp.answered(Rights::R);
        let read = stamp.start(Rights::R);
        let execute = stamp.start(Rights::RX);
        let write = stamp.start(Rights::RW);
        assert_eq!(seen(&page), (0b111, READ | EXECUTE | MAP));
        stamp.over(execute);
        assert_eq!(seen(&page), (0b101, READ));
        stamp.over(write);
        stamp.over(read);
        assert_eq!(seen(&page), (0, READ));
    }

    #[test]
    fn a_call_that_needs_less_than_idling_has_no_more() {
        let (stamp, page) = stamp(ALL);
        stamp.answered(Rights::RW);
        assert_eq!(seen(&page), (0, READ | WRITE));
        let call = stamp.start(Rights::R);
        assert_eq!(seen(&page), (1, READ));
        stamp.over(call);
        assert_eq!(seen(&page), (0, READ | WRITE));
    }

    #[test]
    fn sixty_four_calls_have_a_bit_each_and_more_share_the_last() {
        let (stamp, page) = stamp(READ | WRITE);
        stamp.answered(Rights::R);
        let mut calls: Vec<Call> = (0..64).map(|_| stamp.start(Rights::R)).collect();
        assert!(calls.iter().map(Call::bit).eq(0..64));
        let more = [stamp.start(Rights::RW), stamp.start(Rights::R)];
        assert!(more.iter().all(|call| call.bit() == 63));
        assert_eq!(seen(&page), (u64::MAX, READ | WRITE));
        stamp.over(calls.remove(5));
        assert_eq!(stamp.start(Rights::R).bit(), 5);
        // Two of three that share it are over.
        stamp.over(calls.pop().unwrap());
        let [first, second] = more;
        stamp.over(first);
        assert_eq!(seen(&page), (u64::MAX, READ | WRITE));
        stamp.over(second);
        assert_eq!(seen(&page), (u64::MAX >> 1, READ));
        assert_eq!(stamp.start(Rights::R).bit(), 63);
    }

    #[test]
    fn a_call_that_nobody_waits_for_has_its_bit_and_no_rights() {
        let (stamp, page) = stamp(READ | WRITE);
        stamp.answered(Rights::R);
        let left = stamp.start(Rights::RW);
        let read = stamp.start(Rights::R);
        assert_eq!(seen(&page), (0b11, READ | WRITE));
        stamp.leave(&left);
        assert_eq!(seen(&page), (0b11, READ));
        stamp.over(read);
        assert_eq!(seen(&page), (0b1, READ));
        stamp.end(&left, true);
        assert_eq!(seen(&page), (0, READ));
        stamp.free(left);
    }

    #[test]
    fn a_bit_is_taken_before_it_is_set() {
        let (stamp, page) = stamp(READ | WRITE);
        stamp.answered(Rights::R);
        let (first, second) = (stamp.reserve(Rights::RW), stamp.reserve(Rights::RW));
        assert_eq!((first.bit(), second.bit()), (0, 1));
        assert_eq!(seen(&page), (0, READ));
        stamp.begin(&second);
        assert_eq!(seen(&page), (0b10, READ | WRITE));
    }

    #[test]
    fn a_bit_is_used_again_as_late_as_can_be() {
        let (stamp, _) = stamp(READ);
        let bits: Vec<u32> = (0..66)
            .map(|_| {
                let call = stamp.start(Rights::R);
                let bit = call.bit();
                stamp.over(call);
                bit
            })
            .collect();
        assert!(bits.into_iter().eq((0..64).chain([0, 1])));
    }

    #[test]
    fn nothing_is_said_of_calls_before_they_are_marked() {
        let (stamp, page) = stamp(READ);
        assert_eq!(page.flags().load(Ordering::Acquire), 0);
        stamp.mark();
        assert_eq!(page.flags().load(Ordering::Acquire), STAMP_MARKS);
    }

    proptest! {
        /// Between any two stores, whatever came before.
        #[test]
        fn no_call_lacks_its_rights_while_it_runs(
            launch in 0..=ALL,
            idle in 0..=ALL,
            steps in proptest::collection::vec((0..=ALL, any::<bool>(), any::<prop::sample::Index>()), 0..200),
        ) {
            let mut state = State::new(launch);
            state.idle = Some(idle);
            let (mut calls, mut mask) = (0, state.mask());
            let mut running: Vec<(u32, u32)> = Vec::new();
            for (needs, begins, which) in steps {
                let over = (!begins && !running.is_empty()).then(|| which.index(running.len()));
                let stores = match over {
                    Some(at) => {
                        let stores = state.end(running[at].0, false).to_vec();
                        state.free(running[at].0);
                        stores
                    }
                    None => {
                        let call = state.reserve();
                        running.push((call, needs));
                        state.begin(call, needs).to_vec()
                    }
                };
                for store in stores {
                    match store {
                        Store::Calls(now) => calls = now,
                        Store::Mask(now) => mask = now,
                    }
                    // Each call whose bit is seen may do what it needs, as far as the launch goes.
                    for (call, needs) in &running {
                        prop_assert!(calls >> call & 1 == 0 || needs & launch & !mask == 0);
                    }
                }
                over.map(|at| running.swap_remove(at));
            }
        }
    }
}
