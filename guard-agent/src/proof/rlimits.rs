//! The resource limit on processes, which counts a sandbox's alone in a user namespace of its own.

use nix::sys::resource::{Resource, setrlimit};

use super::{
    attacks,
    attempt::{Answer, Attempt, Finding},
    namespaces::Owner,
};
use crate::{audit::Layer, fault, link::message::Facet};

pub(super) const FACETS: [Facet; 1] = [Facet::Resources];

/// This process and three more.
const MOST: u64 = 4;
const FORKS: usize = 8;

/// Attacks before and behind.
pub(super) fn attack() -> Vec<Finding> {
    let layer = Layer::Rlimits;
    if let Err(why) = Owner::Anybody.enter() {
        return FACETS
            .map(|facet| Finding::unavailable(facet, layer, &why))
            .into();
    }
    let (_, without) = attacks::fork_until_refused(FORKS);
    if fault::point("proof.rlimits").is_ok()
        && let Err(error) = setrlimit(Resource::RLIMIT_NPROC, MOST, MOST)
    {
        return vec![Finding::failed(
            Facet::Resources,
            layer,
            format!("setrlimit: {error}"),
        )];
    }
    let (made, behind) = attacks::fork_until_refused(FORKS);
    if made == 0 && behind != Answer::WORKED {
        let cause = "the limit counts the user's other processes too";
        return vec![Finding::failed(Facet::Resources, layer, cause)];
    }
    let attempt = Attempt::new("start one process too many", &[libc::EAGAIN])
        .without(without)
        .behind(behind);
    vec![Finding::attempts(Facet::Resources, layer, vec![attempt])]
}
