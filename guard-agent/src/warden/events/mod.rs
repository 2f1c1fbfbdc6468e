//! From what the kernel reports to records: events of the programs and notifications of the filter become attempts,
//! attempts collapse into records, and what cannot be told is counted.

mod admission;
mod attempt;
mod backoff;
mod calls;
mod classify;
mod desk;
mod in_flight;
mod ledger;
mod look;
mod losses;
mod modules;
mod mounts;
mod of_call;
mod of_exec;
mod of_net;
mod of_notification;
mod of_verdict;
mod places;
mod ring;

pub(super) use admission::{Admission, Observation, tells_calls};
pub(super) use ring::Ring;
