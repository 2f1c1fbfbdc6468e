//! What is enforced in one launch, facet by facet: said in the launch record and to the operator.

use std::collections::BTreeMap;

use super::{Parked, roots::Opened};
use crate::warden::unprivileged;
use crate::{
    audit::{Enforcement, LaunchRoot, Layer, Missing, NotEnforced, ResourcesReport},
    config::rights::Rights,
    init::message::Ground,
    link::message::{Facet, LaunchRequest},
    octets::Octets,
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

/// What the kernel offers this warden.
#[derive(Debug, Clone)]
pub struct KernelFacts {
    pub release: String,
    /// `None`, or why the unix hooks are not there.
    pub unix_hooks_missing: Option<String>,
    /// `None`, or why limits cannot be enforced.
    pub limits_missing: Option<String>,
    pub ground: Ground,
    /// At tier T3: `None`, or why there is no user namespace.
    pub no_user_namespace: Option<String>,
}

impl KernelFacts {
    pub fn tier(&self) -> &'static str {
        match self.ground {
            Ground::Machine => "T2",
            Ground::UserNamespace | Ground::Bare => "T3",
        }
    }
}

/// Whether the kernel counts the sandbox's processes apart from all others of their user: then a resource limit
/// holds them.
pub fn counted_alone(ground: Ground, dynamic: bool) -> bool {
    dynamic || ground == Ground::UserNamespace
}

pub type Facets = BTreeMap<Facet, Enforcement>;

/// Layers in force and missing, by facet.
pub fn facets(parked: &Parked, kernel: &KernelFacts) -> Facets {
    if kernel.ground != Ground::Machine {
        return unprivileged::facets(parked, kernel);
    }
    let confinement = &parked.confinement;
    let mut facets = Facets::new();
    let landlock = |fs: &mut Enforcement| {
        if confinement.landlock_abi > 0 {
            fs.layers.push(Layer::Landlock);
        }
        for why in &confinement.landlock_missing {
            fs.missing.push(Missing {
                layer: Layer::Landlock,
                why: why.clone(),
            });
        }
    };
    let with = |layers: &[Layer]| Enforcement {
        layers: layers.to_vec(),
        missing: Vec::new(),
        self_test: None,
    };
    let no_lsm = || Missing {
        layer: Layer::BpfLsm,
        why: "not part of tier T2".to_owned(),
    };

    let mut fs = with(&[Layer::Namespaces, Layer::View]);
    landlock(&mut fs);
    if parked.protection_incomplete {
        let why = "protected names were searched four levels and 5000 entries deep, no further".to_owned();
        fs.missing.push(Missing {
            layer: Layer::View,
            why,
        });
    }
    fs.missing.push(no_lsm());
    facets.insert(Facet::Fs, fs);

    facets.insert(
        Facet::Net,
        with(&[Layer::Namespaces, Layer::CgroupBpf, Layer::Seccomp]),
    );

    let mut exec = with(&[Layer::View, Layer::Seccomp]);
    landlock(&mut exec);
    exec.missing.push(no_lsm());
    facets.insert(Facet::Exec, exec);

    let mut ipc = with(&[Layer::Namespaces, Layer::Seccomp]);
    match &kernel.unix_hooks_missing {
        None => ipc.layers.push(Layer::CgroupBpf),
        Some(why) => {
            let why = format!("{why}; seccomp refuses to make unix sockets instead");
            ipc.missing.push(Missing {
                layer: Layer::CgroupBpf,
                why,
            });
        }
    }
    if confinement.landlock_scopes {
        ipc.layers.push(Layer::Landlock);
    } else {
        let why =
            "signal and abstract socket scopes need Landlock ABI 6; the namespaces hold alone".to_owned();
        ipc.missing.push(Missing {
            layer: Layer::Landlock,
            why,
        });
    }
    facets.insert(Facet::Ipc, ipc);

    let resources = match &kernel.limits_missing {
        None => with(&[Layer::CgroupLimits]),
        Some(why) => Enforcement {
            layers: Vec::new(),
            missing: vec![Missing {
                layer: Layer::CgroupLimits,
                why: why.clone(),
            }],
            self_test: None,
        },
    };
    facets.insert(Facet::Resources, resources);
    facets
}

/// Whether a facet holds: every layer that alone can hold it.
fn holds(facet: Facet, ground: Ground, facets: &Facets) -> bool {
    let has = |layer| {
        facets
            .get(&facet)
            .is_some_and(|enforcement| enforcement.layers.contains(&layer))
    };
    match (facet, ground) {
        (Facet::Fs | Facet::Exec, Ground::Bare) => has(Layer::Landlock) && has(Layer::Seccomp),
        (Facet::Fs | Facet::Exec, _) => has(Layer::Landlock) && has(Layer::View),
        // No socket can be made at all.
        (Facet::Net, Ground::Bare) => has(Layer::Seccomp),
        (Facet::Net, Ground::UserNamespace) => has(Layer::Namespaces) && has(Layer::Seccomp),
        (Facet::Net, Ground::Machine) => has(Layer::Namespaces) && has(Layer::CgroupBpf),
        (Facet::Ipc, Ground::Bare) => has(Layer::Landlock) && has(Layer::Seccomp),
        (Facet::Ipc, _) => has(Layer::Namespaces) && has(Layer::Seccomp),
        (Facet::Resources, _) => has(Layer::CgroupLimits),
    }
}

fn name(facet: Facet) -> &'static str {
    match facet {
        Facet::Fs => "fs",
        Facet::Net => "net",
        Facet::Exec => "exec",
        Facet::Ipc => "ipc",
        Facet::Resources => "resources",
    }
}

/// Lines for the operator: what does not hold here.
pub fn not_enforced(ground: Ground, facets: &Facets) -> Vec<String> {
    facets
        .iter()
        .filter(|(facet, _)| !holds(**facet, ground, facets))
        .map(|(facet, enforcement)| {
            let why: Vec<&str> = enforcement
                .missing
                .iter()
                .map(|missing| missing.why.as_str())
                .collect();
            format!("{}: not enforced: {}", name(*facet), why.join("; "))
        })
        .collect()
}

/// Refuses when a required facet does not hold.
pub fn require(request: &LaunchRequest, ground: Ground, facets: &Facets) -> Result<(), Refusal> {
    if request.allow_unenforced {
        return Ok(());
    }
    for facet in &request.require {
        if !holds(*facet, ground, facets) {
            let why = facets
                .get(facet)
                .map(|enforcement| {
                    let why: Vec<String> = enforcement
                        .missing
                        .iter()
                        .map(|missing| format!("{}: {}", missing.layer, missing.why))
                        .collect();
                    why.join("; ")
                })
                .unwrap_or_default();
            return Err(Refusal::not_enforced(
                format!(
                    "cannot launch `{}`: the facet `{}` is required",
                    request.server,
                    name(*facet)
                ),
                why,
                format!(
                    "change the kernel or drop `{}` from `require`; `--allow-unenforced` launches without it, and records that",
                    name(*facet)
                ),
            ));
        }
    }
    Ok(())
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
