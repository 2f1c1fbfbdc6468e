//! What proofs mean for the facets: one function for the launch record, for `require` and for `check`.

use std::collections::BTreeMap;

use super::{Mode, Proofs, Verdict};
use crate::{
    audit::{
        Enforcement,
        Layer::{self, BpfLsm, CgroupBpf, CgroupLimits, Namespaces, Rlimits, Seccomp, View},
        Missing,
    },
    confine::landlock::{self, LandlockState},
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
}

pub type Facets = BTreeMap<Facet, Enforcement>;

/// The layers of each facet, in the order the record has them.
pub fn layers(mode: Mode) -> &'static [(Facet, &'static [Layer])] {
    const LANDLOCK: Layer = Layer::Landlock;
    match mode {
        Mode::Root => &[
            (Facet::Fs, &[Namespaces, View, LANDLOCK, BpfLsm]),
            (Facet::Net, &[Namespaces, CgroupBpf, Seccomp]),
            (Facet::Exec, &[View, Seccomp, LANDLOCK, BpfLsm]),
            (Facet::Ipc, &[Namespaces, Seccomp, CgroupBpf, LANDLOCK]),
            (Facet::Resources, &[CgroupLimits]),
        ],
        Mode::UserNamespace => &[
            (Facet::Fs, &[Namespaces, View, LANDLOCK]),
            (Facet::Net, &[Namespaces, Seccomp, LANDLOCK]),
            (Facet::Exec, &[View, Seccomp, LANDLOCK]),
            (Facet::Ipc, &[Namespaces, Seccomp, LANDLOCK]),
            (Facet::Resources, &[Rlimits]),
        ],
        Mode::Plain => &[
            (Facet::Fs, &[LANDLOCK]),
            (Facet::Net, &[Seccomp, LANDLOCK]),
            (Facet::Exec, &[Seccomp, LANDLOCK]),
            (Facet::Ipc, &[Seccomp, LANDLOCK]),
            (Facet::Resources, &[Rlimits]),
        ],
    }
}

/// The layers without which a facet does not hold: each stops something that no other stops.
pub fn needed(mode: Mode, facet: Facet) -> &'static [Layer] {
    const LANDLOCK: Layer = Layer::Landlock;
    match (mode, facet) {
        (Mode::Root | Mode::UserNamespace, Facet::Fs) => &[Namespaces, View, LANDLOCK],
        (Mode::Root, Facet::Net) => &[Namespaces, CgroupBpf, Seccomp],
        (Mode::UserNamespace, Facet::Net) => &[Namespaces, Seccomp],
        (Mode::Root | Mode::UserNamespace, Facet::Exec) => &[View, Seccomp, LANDLOCK],
        (Mode::Root | Mode::UserNamespace, Facet::Ipc) => &[Namespaces, Seccomp],
        (Mode::Root, Facet::Resources) => &[CgroupLimits],
        (Mode::Plain, Facet::Fs) => &[LANDLOCK],
        (Mode::Plain, Facet::Net) => &[Seccomp],
        (Mode::Plain, Facet::Exec | Facet::Ipc) => &[Seccomp, LANDLOCK],
        (Mode::UserNamespace | Mode::Plain, Facet::Resources) => &[Rlimits],
    }
}

/// Layers in force and missing, by facet: in force is what was proved on this machine *and* is there in this sandbox.
pub fn facets(proofs: &Proofs, found: &InForce) -> Facets {
    layers(proofs.mode)
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
        if let Some(why) = verdict.why() {
            // Tier T1 is not attacked for what it holds, only for whether it could.
            if matches!(verdict, Verdict::NotEnforced(_)) && *layer != BpfLsm {
                through.push(format!("{layer}: {}", why.why));
            }
            result.missing.push(missing(why.why.clone()));
        } else if let Some(why) = absent(found, facet, *layer) {
            result.missing.push(missing(why));
        } else {
            result.layers.push(*layer);
            result
                .missing
                .extend(gaps(found, facet, *layer).into_iter().map(missing));
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
        Layer::Landlock if facet == Facet::Ipc && !found.landlock.scopes => {
            Some("the sandbox has no signal and abstract socket scopes".to_owned())
        }
        _ => None,
    }
}

/// What a layer that is in force does not cover here.
fn gaps(found: &InForce, facet: Facet, layer: Layer) -> Vec<String> {
    match (facet, layer) {
        (Facet::Fs | Facet::Exec, Layer::Landlock) => found.landlock.missing.clone(),
        (Facet::Fs, View) if found.protection_incomplete => {
            vec!["protected names were searched four levels and 5000 entries deep, no further".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// What would make a facet hold that does not, for those layers it stands on.
pub fn changes(proofs: &Proofs, facet: Facet) -> Vec<String> {
    let mut changes = Vec::new();
    for layer in needed(proofs.mode, facet) {
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
pub fn holds(mode: Mode, facet: Facet, facets: &Facets) -> bool {
    facets.get(&facet).is_some_and(|enforcement| {
        needed(mode, facet)
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
        .find(|facet| !holds(proofs.mode, **facet, facets))?;
    let why = facets.get(&facet).map(|enforcement| {
        let stands_on = |missing: &&Missing| {
            needed(proofs.mode, facet).contains(&missing.layer)
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
