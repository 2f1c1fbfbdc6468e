//! Tier T3: the warden of an ordinary user. The same roles without a privilege; namespaces where the machine lets
//! anybody make a user namespace, otherwise Landlock and seccomp alone.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    os::fd::AsFd as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use nix::unistd::{getegid, geteuid, getgroups};

use super::{
    hold::{Children, Parent, Processes},
    launch::{
        Context, Parked,
        report::{Facets, KernelFacts},
        step_failed,
    },
    reaper,
    start::{Started, listen, step},
    state, sweep,
};
use crate::{
    audit::{Enforcement, Layer, Missing},
    init::{
        self,
        message::{Ground, Ids},
    },
    link::{
        channel::Channel,
        message::{Facet, LaunchRequest, View},
    },
    refusal::{Refusal, chain},
    sys::{
        self,
        clone::{Image, USER_NAMESPACES},
    },
};

/// How long the try of a user namespace may take; emulated machines are slow.
const TRY: Duration = Duration::from_secs(10);

/// From the lock to ready.
pub(super) fn start(directory: &Path, lock: File) -> Result<Started, Refusal> {
    let swept = step("warden.sweep", || {
        sweep::sweep(directory, "warden: it died; swept by the next one")
    })?;
    if swept > 0 {
        tracing::warn!(swept, "recorded sandboxes that an earlier warden left");
    }
    let program = step("warden.program", || File::open("/proc/self/exe"))?;
    let null = step("warden.null", || {
        File::options().read(true).write(true).open("/dev/null")
    })?;
    let children = Children::default();
    // What a sandbox leaves whose init is gone becomes a child of this process, which ends it.
    step("warden.subreaper", sys::process::adopt_orphans)?;
    let reaper = step("warden.reaper", || {
        reaper::start(&program, &null, directory, &children)
    })?;
    let no_user_namespace = step("warden.user-namespace", || {
        Ok(try_user_namespace(&program, &null))
    })?;
    let ground = match &no_user_namespace {
        None => Ground::UserNamespace,
        Some(why) => {
            tracing::info!(why, "no user namespaces");
            Ground::Bare
        }
    };
    let parent = Parent::Processes(Processes::new(directory, ground, children));
    let reaper = step("warden.links", || reaper.hold(&[]))?;
    let listener = step("warden.socket", || listen(&directory.join(state::SOCKET)))?;
    let facts = KernelFacts {
        release: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        unix_hooks_missing: Some("eBPF programs need root".to_owned()),
        limits_missing: parent.limits_unavailable(),
        ground,
        no_user_namespace,
    };
    let context = Context {
        program,
        null,
        state: directory.to_path_buf(),
        scaffold: state::scaffold(directory),
        parent,
        ground,
        inet_hooks: false,
        unix_hooks: false,
    };
    Ok(Started {
        context: Arc::new(context),
        programs: None,
        reaper,
        listener,
        facts,
        lock,
    })
}

/// `None` when a process of this user can have all the namespaces and mounts of a sandbox, else why not.
fn try_user_namespace(program: &File, null: &File) -> Option<String> {
    match attempt(program, null) {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(explained(&why)),
        Err(error) => Some(explained(&error.to_string())),
    }
}

fn attempt(program: &File, null: &File) -> io::Result<Result<(), String>> {
    let (channel, theirs) = Channel::pair()?;
    let argv = [
        CString::new(init::PROBE)?,
        CString::new(geteuid().to_string())?,
        CString::new(getegid().to_string())?,
    ];
    let image = Image {
        program: program.as_fd(),
        argv: &argv,
        environment: &[],
        channel: theirs.as_fd(),
        null: null.as_fd(),
    };
    let born = sys::clone::spawn(USER_NAMESPACES, None, &image)?;
    drop(theirs);
    let answer = channel.receive_within::<Result<(), String>>(TRY);
    let _ = sys::process::pidfd_kill(&born.pidfd, libc::SIGKILL);
    let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(born.pid), None);
    answer
        .map(|(result, _)| result)
        .map_err(|error| io::Error::other(format!("trying it: {}", chain(&error))))
}

/// The kernel's settings that forbid it, and what they are; what is said when none explains it.
fn explained(why: &str) -> String {
    let reads = |knob: &str, value: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(knob)).is_ok_and(|text| text.trim() == value)
    };
    let settings = [
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("user/max_user_namespaces", "0", "a number above 0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    for (knob, value, change) in settings {
        if reads(knob, value) {
            let name = knob.replace('/', ".");
            return format!(
                "this machine gives ordinary users no user namespace: `{name}` is {value} (an administrator may set it to {change})"
            );
        }
    }
    format!("this machine gives ordinary users no user namespace: {why}")
}

/// Without privilege the child has this process's own ids: a request of another login is not for this warden.
pub(super) fn same_ids(ground: Ground, ids: &Ids) -> Result<(), Refusal> {
    if ground == Ground::Machine {
        return Ok(());
    }
    let mut groups: Vec<u32> = getgroups()
        .map_err(|error| step_failed("launch.ids", error))?
        .into_iter()
        .map(nix::unistd::Gid::as_raw)
        .collect();
    groups.sort_unstable();
    let own = (geteuid().as_raw(), getegid().as_raw(), groups);
    let mut asked = ids.groups.clone();
    asked.sort_unstable();
    if own == (ids.uid, ids.gid, asked) {
        return Ok(());
    }
    Err(Refusal::usage(
        "cannot use the running warden",
        format!(
            "it was started with other groups than this run has: it has gid {} and groups {:?}",
            own.1, own.2
        ),
        "wait until it has left (some seconds after its last session), or give this run a state directory of its own with `--state`",
    ))
}

/// The view that is possible. Private by default, but not where nothing can be mounted.
pub(super) fn with_view(facts: &KernelFacts, mut request: LaunchRequest) -> Result<LaunchRequest, Refusal> {
    if facts.ground == Ground::Bare && request.view == View::Private {
        if request.view_asked {
            return Err(Refusal::not_enforced(
                format!("cannot give `{}` a private view", request.server),
                facts.no_user_namespace.clone().unwrap_or_default(),
                "allow user namespaces, start it as root, or leave the view out: it is then `host`",
            ));
        }
        request.view = View::Host;
    }
    Ok(request)
}

/// What the operator is told at a launch without root.
pub(super) fn notes(facts: &KernelFacts, parked: &Parked) -> Vec<String> {
    let mut notes = parked.confinement.notes.clone();
    if facts.ground == Ground::Machine {
        return notes;
    }
    if let Some(why) = &facts.no_user_namespace {
        notes.push(format!("no namespaces and no private view: {why}"));
        notes.push(
            "of the host the server can see names, sizes and times of files, and the machine's processes"
                .to_owned(),
        );
        if parked.pinned > 0 {
            notes.push(format!(
                "{} protected names in writable roots (such as `.git/hooks`) can be changed: holding them needs a private view",
                parked.pinned
            ));
        }
    }
    notes
}

/// Layers in force and missing, by facet.
pub(super) fn facets(parked: &Parked, facts: &KernelFacts) -> Facets {
    let confinement = &parked.confinement;
    let landlock = |enforcement: &mut Enforcement| {
        if confinement.landlock_abi > 0 {
            enforcement.layers.push(Layer::Landlock);
        }
        for why in &confinement.landlock_missing {
            miss(enforcement, Layer::Landlock, why.clone());
        }
    };
    let bare = facts.ground == Ground::Bare;
    let no_namespace = facts.no_user_namespace.clone().unwrap_or_default();
    let with = |namespaces: &[Layer], layers: &[Layer]| {
        let mut enforcement = Enforcement {
            layers: Vec::new(),
            missing: Vec::new(),
            self_test: None,
        };
        for layer in namespaces {
            if bare {
                miss(&mut enforcement, *layer, no_namespace.clone());
            } else {
                enforcement.layers.push(*layer);
            }
        }
        enforcement.layers.extend(layers);
        enforcement
    };

    let mut fs = with(
        &[Layer::Namespaces, Layer::View],
        if bare { &[Layer::Seccomp] } else { &[] },
    );
    landlock(&mut fs);
    if bare && parked.pinned > 0 {
        let why = "protected names in writable roots are not held read-only".to_owned();
        miss(&mut fs, Layer::View, why);
    } else if parked.protection_incomplete {
        let why = "protected names were searched four levels and 5000 entries deep, no further".to_owned();
        miss(&mut fs, Layer::View, why);
    }

    let mut net = with(&[Layer::Namespaces], &[Layer::Seccomp]);
    if confinement.landlock_abi >= 4 {
        net.layers.push(Layer::Landlock);
    }
    miss(
        &mut net,
        Layer::CgroupBpf,
        "eBPF programs need root; no socket can be made at all".to_owned(),
    );

    let mut exec = with(&[Layer::View], &[Layer::Seccomp]);
    landlock(&mut exec);
    if bare {
        let why = "a file of a root without x can still be run by a loader that may read it: that takes noexec mounts";
        miss(&mut exec, Layer::View, why.to_owned());
    }

    let mut ipc = with(&[Layer::Namespaces], &[Layer::Seccomp]);
    if confinement.landlock_scopes {
        ipc.layers.push(Layer::Landlock);
    } else {
        let why = if bare {
            "signals of the user's own processes need Landlock ABI 6 or a pid namespace; seccomp lets the server signal nobody"
        } else {
            "signal and abstract socket scopes need Landlock ABI 6; the namespaces hold alone"
        };
        miss(&mut ipc, Layer::Landlock, why.to_owned());
    }

    let mut resources = with(&[], if bare { &[] } else { &[Layer::Rlimits] });
    let why = if bare {
        "without root there is no cgroup for the sandbox"
    } else {
        "without root there is no cgroup for the sandbox: memory and processor have no ceiling, processes have"
    };
    miss(&mut resources, Layer::CgroupLimits, why.to_owned());
    [
        (Facet::Fs, fs),
        (Facet::Net, net),
        (Facet::Exec, exec),
        (Facet::Ipc, ipc),
        (Facet::Resources, resources),
    ]
    .into()
}

fn miss(enforcement: &mut Enforcement, layer: Layer, why: String) {
    enforcement.missing.push(Missing { layer, why });
}
