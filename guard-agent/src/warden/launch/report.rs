//! What is enforced in one launch, facet by facet: said in the launch record and to the operator.

use super::{Parked, roots::Opened};
use crate::{
    audit::{LaunchRoot, Layer, NotEnforced, ResourcesReport},
    config::rights::Rights,
    init::message::Ground,
    link::message::{Facet, LaunchRequest},
    octets::Octets,
    proof::{InForce, Proofs, Tier, facets},
    refusal::Refusal,
};

/// A root as the launch record shows it.
#[derive(Debug, Clone)]
pub struct RootFacts {
    path: Octets,
    resolved: Option<Octets>,
    rights: Rights,
    device: u64,
    inode: u64,
}

impl RootFacts {
    pub fn new(opened: &Opened, rights: Rights) -> Self {
        Self {
            path: Octets::from(opened.path.as_path()),
            resolved: (opened.resolved != opened.path).then(|| Octets::from(opened.resolved.as_path())),
            rights,
            device: opened.device,
            inode: opened.inode,
        }
    }

    pub fn record(&self) -> LaunchRoot {
        LaunchRoot {
            path: self.path.clone(),
            resolved: self.resolved.clone(),
            rights: self.rights,
            dev: self.device.into(),
            ino: self.inode.into(),
        }
    }
}

pub use crate::proof::facets::Facets;

/// What this machine offers this warden, and what of it was proved.
#[derive(Debug, Clone)]
pub struct KernelFacts {
    pub release: String,
    pub proofs: Proofs,
    /// `None`, or why limits cannot be enforced.
    pub limits_missing: Option<String>,
    pub ground: Ground,
}

impl KernelFacts {
    /// The tier of one sandbox: tier T1 is the one whose roots the security hooks know, and that they have not failed.
    pub fn tier(&self, parked: &Parked) -> Tier {
        if parked.enrolled.is_some() && parked.doubt.is_none() {
            Tier::T1
        } else {
            self.ground.into()
        }
    }

    /// At tier T3: `None`, or why there is no user namespace.
    pub fn no_user_namespace(&self) -> Option<String> {
        match self.ground {
            Ground::Machine | Ground::UserNamespace => None,
            Ground::Bare => self
                .proofs
                .verdict(Facet::Net, Layer::Namespaces)
                .why()
                .map(|why| why.why.clone()),
        }
    }
}

/// Whether the kernel counts the sandbox's processes apart from all others of their user: then a resource limit
/// holds them.
pub fn counted_alone(ground: Ground, dynamic: bool) -> bool {
    dynamic || ground == Ground::UserNamespace
}

/// Layers in force and missing, by facet: what was proved when the warden started and is there in this sandbox.
pub fn facets(parked: &Parked, kernel: &KernelFacts) -> Facets {
    let confinement = &parked.confinement;
    let found = InForce {
        landlock: facets::Landlock {
            abi: confinement.landlock_abi,
            missing: confinement.landlock_missing.clone(),
            scopes: confinement.landlock_scopes,
        },
        protection_incomplete: parked.protection_incomplete,
        unprotected: parked.pinned,
        hooks: parked.enrolled.is_some(),
        doubt: parked.doubt.clone(),
    };
    facets::facets(&kernel.proofs, &found)
}

/// Lines for the operator: what does not hold here.
pub fn not_enforced(ground: Ground, facets: &Facets) -> Vec<String> {
    facets
        .iter()
        .filter(|(facet, _)| !facets::holds(ground, **facet, facets))
        .map(|(facet, enforcement)| {
            let why: Vec<&str> = enforcement
                .missing
                .iter()
                .map(|missing| missing.why.as_str())
                .collect();
            format!("{}: not enforced: {}", facets::name(*facet), why.join("; "))
        })
        .collect()
}

/// Refuses when the tier that was insisted on is not there, or is and is in doubt.
pub fn tier(request: &LaunchRequest, kernel: &KernelFacts, doubt: Option<&str>) -> Result<(), Refusal> {
    if request.tier != Some(Tier::T1) {
        return Ok(());
    }
    if kernel.proofs.hooked() {
        return match doubt {
            None => Ok(()),
            Some(doubt) => Err(Refusal::not_enforced(
                format!("cannot launch `{}` at tier T1", request.server),
                doubt,
                "use a kernel of 6.2 or later, which skips none, or boot this one without `preempt=full`",
            )),
        };
    }
    let why = kernel.proofs.why_not_hooked();
    Err(Refusal::not_enforced(
        format!("cannot launch `{}` at tier T1", request.server),
        why.as_ref().map_or_else(String::new, |why| why.why.clone()),
        why.and_then(|why| why.change)
            .unwrap_or_else(|| "see `guard-agent check`, or leave `--tier` out".to_owned()),
    ))
}

/// Refuses when a required facet does not hold.
pub fn require(
    request: &LaunchRequest,
    kernel: &KernelFacts,
    facets: &Facets,
    tier: Tier,
) -> Result<(), Refusal> {
    if request.allow_unenforced {
        return Ok(());
    }
    if request.tool_rights && tier != Tier::T1 {
        return Err(Refusal::not_enforced(
            format!(
                "cannot launch `{}`: its tools have rights of their own",
                request.server
            ),
            "only tier T1 holds a server to the rights of the calls in flight, and this is not T1",
            "see `guard-agent check` for what T1 takes; leave `rights` and `idle_rights` out of the policy, or say `--allow-unenforced`",
        ));
    }
    match facets::unmet(&request.require, &kernel.proofs, facets) {
        None => Ok(()),
        Some(unmet) => Err(Refusal::not_enforced(
            format!(
                "cannot launch `{}`: the facet `{}` is required",
                request.server,
                facets::name(unmet.facet)
            ),
            unmet.why,
            unmet.hint,
        )),
    }
}

/// The resources part of the launch record. A uid that only this sandbox has is held by a resource limit where no
/// cgroup holds it.
pub fn resources(kernel: &KernelFacts, dynamic: bool) -> ResourcesReport {
    let alone = counted_alone(kernel.ground, dynamic);
    let limits = || ["memory", "cpu", "pids"].map(str::to_owned);
    match &kernel.limits_missing {
        None => ResourcesReport {
            enforced: limits().to_vec(),
            not_enforced: Vec::new(),
        },
        Some(why) => {
            let (enforced, missing) = limits().into_iter().partition(|limit| alone && limit == "pids");
            let without = |limit| NotEnforced {
                limit,
                why: why.clone(),
            };
            ResourcesReport {
                enforced,
                not_enforced: Vec::into_iter(missing).map(without).collect(),
            }
        }
    }
}
