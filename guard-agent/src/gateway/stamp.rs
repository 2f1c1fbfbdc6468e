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

use crate::{config::rights::Rights, sys::stamp::StampPage};

/// The stamp of the one sandbox this gateway has.
#[derive(Debug)]
pub struct Stamp {
    page: StampPage,
    state: Mutex<State>,
}

/// A call in flight. Given back to [`Stamp::end`], once.
#[derive(Debug, PartialEq, Eq)]
pub struct Call(u32);

impl Call {
    /// Which bit of an event's `calls` stands for it.
    pub fn bit(&self) -> u32 {
        self.0
    }
}

/// As many calls are in flight as there are bits: this one has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{STAMP_CALLS} calls are in flight, and no more can be told apart; wait for one of them to end")]
pub struct TooManyCalls;

/// What is written into the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Calls(u64),
    Mask(u32),
}

#[derive(Debug)]
struct State {
    /// What the server was launched with: more the kernel half allows to nobody.
    launch: u32,
    calls: u64,
    /// What each of them needs.
    needs: [u32; STAMP_CALLS],
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

    /// From now on every call is told, so that without a bit none is in flight.
    pub fn mark(&self) {
        self.page.flags().store(STAMP_MARKS, Ordering::Release);
    }

    /// A call that needs these rights is about to be passed on.
    pub fn begin(&self, rights: Rights) -> Result<Call, TooManyCalls> {
        let mut state = self.state();
        let (call, stores) = state.begin(rights.bits()).ok_or(TooManyCalls)?;
        self.write(&stores);
        Ok(Call(call))
    }

    /// It was answered, or nobody waits for its answer any more.
    #[expect(clippy::needless_pass_by_value, reason = "it is over")]
    pub fn end(&self, call: Call) {
        let mut state = self.state();
        self.write(&state.end(call.0));
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
            calls: 0,
            needs: [0; STAMP_CALLS],
            next: 0,
            idle: None,
        }
    }

    /// Which bit a new call gets, and what is written for it.
    fn begin(&mut self, rights: u32) -> Option<(u32, [Store; 3])> {
        let call = self.free()?;
        if let Some(needs) = self.needs.get_mut(call as usize) {
            *needs = rights;
        }
        let before = self.mask();
        self.calls |= 1 << call;
        let after = self.mask();
        let stores = [
            Store::Mask(before | after),
            Store::Calls(self.calls),
            Store::Mask(after),
        ];
        Some((call, stores))
    }

    /// What is written when a call is over.
    fn end(&mut self, call: u32) -> [Store; 2] {
        self.calls &= !(1 << call);
        [Store::Calls(self.calls), Store::Mask(self.mask())]
    }

    /// What may be done now.
    fn mask(&self) -> u32 {
        let Some(idle) = self.idle else {
            return self.launch;
        };
        let allowed = if self.calls == 0 {
            idle
        } else {
            self.needs
                .iter()
                .enumerate()
                .filter(|(call, _)| self.calls >> call & 1 != 0)
                .fold(0, |all, (_, needs)| all | needs)
        };
        allowed & self.launch
    }

    fn free(&mut self) -> Option<u32> {
        let bits = u64::BITS;
        let call = (0..bits)
            .map(|step| (self.next + step) % bits)
            .find(|call| self.calls >> call & 1 == 0)?;
        self.next = (call + 1) % bits;
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use guard_common::hooks::{EXECUTE, MAP, READ, WRITE};
    use proptest::prelude::*;

    use super::*;
    use crate::sys::fs::memory_file;

    const ALL: u32 = READ | WRITE | EXECUTE | MAP;

    /// A stamp as the warden makes one, and the page as the kernel half sees it.
    fn stamp(launch: u32) -> (Stamp, StampPage) {
        let file = std::fs::File::from(memory_file(c"stamp", 0).unwrap());
        file.set_len(4096).unwrap();
        let seen = StampPage::map(&file).unwrap();
        seen.mask().store(launch, Ordering::Relaxed);
        (Stamp::map(&file).unwrap(), seen)
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
        let first = stamp.begin(Rights::R).unwrap();
        assert_eq!(seen(&page), (1, READ | WRITE));
        stamp.answered(Rights::R);
        assert_eq!(seen(&page), (1, READ));
        stamp.end(first);
        assert_eq!(seen(&page), (0, READ));
        // It has answered before.
        stamp.answered(Rights::RW);
        assert_eq!(seen(&page), (0, READ));
    }

    #[test]
    fn the_mask_is_what_the_calls_in_flight_need_together_and_no_more_than_the_launch_gave() {
        let (stamp, page) = stamp(ALL & !WRITE);
        stamp.answered(Rights::R);
        let read = stamp.begin(Rights::R).unwrap();
        let execute = stamp.begin(Rights::RX).unwrap();
        let write = stamp.begin(Rights::RW).unwrap();
        assert_eq!(seen(&page), (0b111, READ | EXECUTE | MAP));
        stamp.end(execute);
        assert_eq!(seen(&page), (0b101, READ));
        stamp.end(write);
        stamp.end(read);
        assert_eq!(seen(&page), (0, READ));
    }

    #[test]
    fn a_call_that_needs_less_than_idling_has_no_more() {
        let (stamp, page) = stamp(ALL);
        stamp.answered(Rights::RW);
        assert_eq!(seen(&page), (0, READ | WRITE));
        let call = stamp.begin(Rights::R).unwrap();
        assert_eq!(seen(&page), (1, READ));
        stamp.end(call);
        assert_eq!(seen(&page), (0, READ | WRITE));
    }

    #[test]
    fn sixty_four_calls_and_no_more() {
        let (stamp, page) = stamp(READ | WRITE);
        stamp.answered(Rights::R);
        let mut calls: Vec<Call> = (0..64).map(|_| stamp.begin(Rights::R).unwrap()).collect();
        assert!(calls.iter().map(Call::bit).eq(0..64));
        assert_eq!(stamp.begin(Rights::RW), Err(TooManyCalls));
        assert_eq!(seen(&page), (u64::MAX, READ));
        stamp.end(calls.remove(5));
        assert_eq!(stamp.begin(Rights::RW).unwrap().bit(), 5);
        assert_eq!(seen(&page), (u64::MAX, READ | WRITE));
    }

    #[test]
    fn a_bit_is_used_again_as_late_as_can_be() {
        let (stamp, _) = stamp(READ);
        let bits: Vec<u32> = (0..66)
            .map(|_| {
                let call = stamp.begin(Rights::R).unwrap();
                let bit = call.bit();
                stamp.end(call);
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
                    Some(at) => state.end(running[at].0).to_vec(),
                    None => {
                        let Some((call, stores)) = state.begin(needs) else { continue };
                        running.push((call, needs));
                        stores.to_vec()
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
