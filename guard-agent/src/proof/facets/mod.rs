//! What proofs mean for the facets: one function for the launch record, for `require` and for `check`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{Proofs, Verdict};
use crate::{
    audit::{
        Enforcement,
        Layer::{
            self, BpfLsm, CgroupBpf, CgroupLimits, Landlock as LANDLOCK, Namespaces, Rlimits, Seccomp, View,
        },
        Missing,
    },
    confine::landlock::{self, LandlockState},
    init::message::Ground,
    link::message::Facet,
};

/// Landlock in one sandbox, or in the child that proved it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Landlock {
    /// 0: it is not in force.
    pub abi: u32,
    /// What this kernel's version lacks, a line each; where it is not in force, why.
    pub missing: Vec<String>,
    /// Signals and abstract sockets end at the sandbox's edge.
    pub scopes: bool,
}

impl From<LandlockState> for Landlock {
    fn from(state: LandlockState) -> Self {
        let line = |missing: &landlock::Missing| {
            format!(
                "{} needs Landlock ABI {}: {}",
                missing.what, missing.since, missing.why
            )
        };
        Self {
            abi: state.abi,
            missing: state.missing.iter().map(line).collect(),
            scopes: state.scopes,
        }
    }
}

/// What one sandbox has, as it found itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    pub landlock: Landlock,
    /// Names that were to be read-only in a writable root were not all looked for.
    pub protection_incomplete: bool,
    /// How many such names there are that nothing holds.
    pub unprotected: usize,
    /// Its roots are known to the security hooks.
    pub hooks: bool,
    /// Why those are not to be relied on all the same.
    pub doubt: Option<String>,
}

pub type Facets = BTreeMap<Facet, Enforcement>;

/// The layers of each facet, in the order the record has them. Those that a tier has not are in it too: the record
/// says why.
pub fn layers(ground: Ground) -> &'static [(Facet, &'static [Layer])] {
    match ground {
        Ground::Machine => &[
            (Facet::Fs, &[Namespaces, View, LANDLOCK, BpfLsm]),
            (Facet::Net, &[Namespaces, CgroupBpf, Seccomp, BpfLsm]),
            (Facet::Exec, &[View, Seccomp, LANDLOCK, BpfLsm]),
            (Facet::Ipc, &[Namespaces, Seccomp, CgroupBpf, LANDLOCK, BpfLsm]),
            (Facet::Resources, &[CgroupLimits]),
        ],
        Ground::UserNamespace => &[
            (Facet::Fs, &[Namespaces, View, LANDLOCK]),
            (Facet::Net, &[Namespaces, Seccomp, LANDLOCK, CgroupBpf]),
            (Facet::Exec, &[View, Seccomp, LANDLOCK]),
            (Facet::Ipc, &[Namespaces, Seccomp, LANDLOCK]),
            (Facet::Resources, &[Rlimits, CgroupLimits]),
        ],
        Ground::Bare => &[
            (Facet::Fs, &[Namespaces, View, Seccomp, LANDLOCK]),
            (Facet::Net, &[Namespaces, Seccomp, LANDLOCK, CgroupBpf]),
            (Facet::Exec, &[View, Seccomp, LANDLOCK]),
            (Facet::Ipc, &[Namespaces, Seccomp, LANDLOCK]),
            (Facet::Resources, &[CgroupLimits]),
        ],
    }
}

/// The layers without which a facet does not hold: each stops something that no other stops.
pub fn needed(ground: Ground, facet: Facet) -> &'static [Layer] {
    match (ground, facet) {
        (Ground::Bare, Facet::Fs | Facet::Exec | Facet::Ipc) => &[Seccomp, LANDLOCK],
        // No socket can be made at all.
        (Ground::Bare, Facet::Net) => &[Seccomp],
        (_, Facet::Fs) => &[Namespaces, View, LANDLOCK],
        (Ground::Machine, Facet::Net) => &[Namespaces, CgroupBpf, Seccomp],
        (Ground::UserNamespace, Facet::Net) => &[Namespaces, Seccomp],
        (_, Facet::Exec) => &[View, Seccomp, LANDLOCK],
        (_, Facet::Ipc) => &[Namespaces, Seccomp],
        (_, Facet::Resources) => &[CgroupLimits],
    }
}

/// Layers in force and missing, by facet: in force is what was proved on this machine *and* is there in this sandbox.
pub fn facets(proofs: &Proofs, found: &InForce) -> Facets {
    layers(proofs.ground)
        .iter()
        .map(|(facet, layers)| (*facet, enforcement(proofs, found, *facet, layers)))
        .collect()
}

fn enforcement(proofs: &Proofs, found: &InForce, facet: Facet, layers: &[Layer]) -> Enforcement {
    let mut result = Enforcement {
        layers: Vec::new(),
        missing: Vec::new(),
        self_test: None,
    };
    let mut through = Vec::new();
    for layer in layers {
        let verdict = proofs.verdict(facet, *layer);
        let missing = |why| Missing { layer: *layer, why };
        let not_in_force = if let Some(why) = verdict.why() {
            let left_out = *layer == BpfLsm && proofs.hooks_left_out;
            if matches!(verdict, Verdict::NotEnforced(_)) && !left_out {
                through.push(format!("{layer}: {}", why.why));
            }
            Some(why.why.clone())
        } else {
            absent(found, facet, *layer)
        };
        match not_in_force {
            Some(why) => {
                result.missing.push(missing(why));
                let follows = consequences(proofs.ground, found, facet, *layer);
                result.missing.extend(follows.into_iter().map(missing));
            }
            None => {
                result.layers.push(*layer);
                result
                    .missing
                    .extend(gaps(found, facet, *layer).into_iter().map(missing));
            }
        }
    }
    if !through.is_empty() {
        result.self_test = Some(through.join("; "));
    } else if !result.layers.is_empty() {
        result.self_test = Some(PASSED.to_owned());
    }
    result
}

/// The self-test's result when nothing got through.
pub const PASSED: &str = "passed";

/// Why a layer that works on this machine is not in force in this sandbox.
fn absent(found: &InForce, facet: Facet, layer: Layer) -> Option<String> {
    match layer {
        Layer::Landlock if found.landlock.abi == 0 => Some(match found.landlock.missing.as_slice() {
            [] => "the sandbox has none".to_owned(),
            missing => missing.join("; "),
        }),
        Layer::BpfLsm if !found.hooks => Some("`--tier T2` leaves the security hooks out".to_owned()),
        Layer::BpfLsm => found.doubt.clone(),
        Layer::Landlock if facet == Facet::Ipc && !found.landlock.scopes => {
            Some("the sandbox has no signal and abstract socket scopes".to_owned())
        }
        _ => None,
    }
}

/// What a layer that is in force does not cover here.
fn gaps(found: &InForce, facet: Facet, layer: Layer) -> Vec<String> {
    match (facet, layer) {
        (_, LANDLOCK) => {
            let of_facet = |line: &&String| concerns(line) == facet;
            found.landlock.missing.iter().filter(of_facet).cloned().collect()
        }
        (Facet::Fs, View) if found.protection_incomplete => {
            vec!["protected names were searched four levels and 5000 entries deep, no further".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// The facet that a line of what this version of Landlock lacks is about.
fn concerns(line: &str) -> Facet {
    match line {
        _ if line.starts_with("TCP ") || line.starts_with("UDP ") => Facet::Net,
        _ if line.starts_with("unix sockets ") || line.starts_with("scopes ") => Facet::Ipc,
        _ => Facet::Fs,
    }
}

/// What follows from a layer that is not in force, where nothing else does its part.
fn consequences(ground: Ground, found: &InForce, facet: Facet, layer: Layer) -> Vec<String> {
    let line = |text: &str| vec![text.to_owned()];
    match (ground, facet, layer) {
        (Ground::Bare, Facet::Fs, View) if found.unprotected > 0 => {
            line("protected names in writable roots are not held read-only")
        }
        (Ground::Bare, Facet::Exec, View) => line(
            "a file of a root without x can still be run by a loader that may read it: that takes noexec mounts",
        ),
        (Ground::Bare, Facet::Ipc, LANDLOCK) => line(
            "the user's other processes are in no other namespace; seccomp lets the server signal nobody",
        ),
        (Ground::UserNamespace, Facet::Resources, CgroupLimits) => {
            line("memory and processor have no ceiling, processes have")
        }
        _ => Vec::new(),
    }
}

/// What would make a facet hold that does not, for those layers it stands on.
pub fn changes(proofs: &Proofs, facet: Facet) -> Vec<String> {
    let mut changes = Vec::new();
    for layer in needed(proofs.ground, facet) {
        let verdict = proofs.verdict(facet, *layer);
        if let Some(change) = verdict.why().and_then(|why| why.change.clone())
            && !changes.contains(&change)
        {
            changes.push(change);
        }
    }
    changes
}

/// Whether a facet holds.
pub fn holds(ground: Ground, facet: Facet, facets: &Facets) -> bool {
    facets.get(&facet).is_some_and(|enforcement| {
        needed(ground, facet)
            .iter()
            .all(|layer| enforcement.layers.contains(layer))
    })
}

/// The word for a facet in policies, records and messages.
pub fn name(facet: Facet) -> &'static str {
    match facet {
        Facet::Fs => "fs",
        Facet::Net => "net",
        Facet::Exec => "exec",
        Facet::Ipc => "ipc",
        Facet::Resources => "resources",
    }
}

/// A facet that is required and does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    pub facet: Facet,
    /// The layers it stands on that are not in force, and why.
    pub why: String,
    pub hint: String,
}

/// The first of `required` that does not hold.
pub fn unmet(required: &[Facet], proofs: &Proofs, facets: &Facets) -> Option<Unmet> {
    let facet = *required
        .iter()
        .find(|facet| !holds(proofs.ground, **facet, facets))?;
    let why = facets.get(&facet).map(|enforcement| {
        let stands_on = |missing: &&Missing| {
            needed(proofs.ground, facet).contains(&missing.layer)
                && !enforcement.layers.contains(&missing.layer)
        };
        let why: Vec<String> = enforcement
            .missing
            .iter()
            .filter(stands_on)
            .map(|missing| format!("{}: {}", missing.layer, missing.why))
            .collect();
        why.join("; ")
    });
    let changes = changes(proofs, facet);
    let first = if changes.is_empty() {
        "see `guard-agent check`".to_owned()
    } else {
        changes.join("; ")
    };
    let hint = format!(
        "{first}; or drop `{}` from `require`, or launch without it and have that recorded with `--allow-unenforced`",
        name(facet)
    );
    Some(Unmet {
        facet,
        why: why.unwrap_or_default(),
        hint,
    })
}
