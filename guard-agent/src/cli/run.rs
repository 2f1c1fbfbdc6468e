//! `run`: from the command line to a running, contained server; then this process is its gateway.

use std::os::unix::fs::MetadataExt as _;

use caps::{CapSet, Capability};

use super::{
    resolve::{self, Question},
    run_args::RunArgs,
};
use crate::{
    audit,
    config::{self, environment, host::Host, resolved::RunPlan},
    exit::ExitStatus,
    gateway,
    init::message::Ids,
    link::{
        connect,
        message::{Isolation, Launched, Protocol, User},
    },
    octets::Octets,
    refusal::Refusal,
    runtime::{Ask, LOOKUPS},
    sys,
};

pub(super) fn run(args: &RunArgs) -> Result<ExitStatus, Refusal> {
    // What the client left open is nothing of ours: the gateway would keep what root had opened, the resolver get it.
    sys::process::close_from(3).map_err(|error| {
        Refusal::internal(
            "cannot start",
            format!("inherited descriptors cannot be closed: {error}"),
            "report this with the kernel's version",
        )
    })?;
    log_to_stderr();
    let host = Host::current()?;
    let plan = config::resolved::resolve(args, &host)?;
    one_sandbox(&plan)?;
    tracing::debug!(server = plan.server, user = ?plan.user, view = ?plan.view, roots = plan.roots.len(), "the command line is understood");
    if host.is_root() {
        enough_rights(&plan.server)?;
    } else {
        // The server has this uid too.
        sys::process::not_dumpable().map_err(|error| {
            Refusal::internal(
                "cannot start",
                error.to_string(),
                "report this with the kernel's version",
            )
        })?;
    }
    let runtime = resolve::ask(&question(&plan))?;
    for note in &runtime.notes {
        eprintln!("[{}] {note}", plan.server);
    }
    // Neither arguments nor values of variables: either may be a secret.
    tracing::debug!(program = %runtime.program, kind = ?runtime.kind, grants = runtime.grants.len(), links = runtime.links.len(), "the command is resolved");
    let environment = environment::build(&plan, &runtime, &plan.user, std::env::vars_os());
    let (name, state, protocol, times) = (plan.server.clone(), plan.state.clone(), plan.protocol, plan.times);
    let scope = plan.scope.clone();
    let asker = asker(&host, scope.as_ref(), &name)?;
    let rules = rules(args, &plan);
    let request = plan.into_request(runtime, environment);
    let connection = connect::launch(&state, request)?;
    tracing::debug!(session = connection.launched.session, "launched");
    warn(&name, &connection.launched);
    for hint in scope.iter().flat_map(|scope| &scope.hints) {
        eprintln!("[{name}] policy: {hint}");
    }
    if protocol == Protocol::None {
        eprintln!("[{name}] messages: not checked, as `protocol = none` says; the sandbox alone holds");
    }
    gateway::run(connection, &name, &rules, protocol, times, asker, scope.as_ref())
}

/// A sandbox a call is built up to the link; what is missing is a gateway that begins the protocol anew with each.
fn one_sandbox(plan: &RunPlan) -> Result<(), Refusal> {
    match plan.isolation {
        Isolation::Session => Ok(()),
        Isolation::Call { .. } => Err(Refusal::usage(
            format!("cannot run `{}` with `isolation = \"call\"`", plan.server),
            "each call would need a server that has been greeted as the client greeted the first one, and `run` cannot repeat \
             a greeting yet",
            "write `isolation = \"session\"` in the policy, or leave it out",
        )),
    }
}

/// Log lines of this process, if the environment asks for them; what everybody is told goes there anyway.
fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    if let Some(filter) = config::env::GUARD_AGENT_LOG.get() {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter.to_string_lossy()))
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .try_init();
    }
}

/// Who started this: all that is known of who asks for calls. With rules it is somebody they know.
fn asker(host: &Host, scope: Option<&config::Scope>, server: &str) -> Result<gateway::Asker, Refusal> {
    let sudo = host.sudo_uid.as_ref().and_then(|uid| uid.to_str()?.parse().ok());
    let (uid, via) = match sudo.filter(|_| host.is_root()) {
        Some(uid) => (uid, "sudo"),
        None => (host.uid, "run"),
    };
    let mut identity = audit::Identity {
        user: None,
        uid: Some(uid),
        roles: Vec::new(),
        tenant: None,
        via: via.to_owned(),
    };
    if let Some(scope) = scope {
        let Some(who) = scope.rules.identity(uid) else {
            return Err(Refusal::new(
                ExitStatus::Failed,
                format!("uid {uid} may call nothing of `{server}`"),
                "the policy knows nobody with that uid, and whoever it does not know is allowed nothing",
                format!(
                    "add `{uid} = {{ user = \"…\", roles = [\"…\"] }}` to `[identity.peer.uid]`, or start it as somebody it knows"
                ),
            ));
        };
        identity.user = Some(who.user.clone());
        identity.roles.clone_from(&who.roles);
        identity.tenant.clone_from(&who.tenant);
    } else {
        let account = host.accounts.by_uid(uid).ok().flatten();
        identity.user = account.map(|account| account.name);
    }
    Ok(gateway::Asker {
        identity,
        flow: format!("uid:{uid}"),
    })
}

/// Where a rule would be written that allows more, for the message about a server that fails.
fn rules(args: &RunArgs, plan: &RunPlan) -> gateway::Rules {
    let shown = |path: &std::path::PathBuf| config::shown(path.display().to_string());
    gateway::Rules {
        policy: args.policy.as_ref().map(shown),
        roots: plan
            .roots
            .iter()
            .map(|root| (root.path.clone(), root.rights))
            .collect(),
        audit: args.audit.as_ref().map(shown),
    }
}

/// What the roles of one launch use of root's rights, and for what. `CAP_SYS_ADMIN` includes `CAP_BPF`.
const NEEDED: [(Capability, &str); 7] = [
    (Capability::CAP_SYS_ADMIN, "namespaces, mounts and eBPF programs"),
    (Capability::CAP_NET_ADMIN, "eBPF programs on a cgroup"),
    (Capability::CAP_SETUID, "the server's uid"),
    (Capability::CAP_SETGID, "the server's groups"),
    (Capability::CAP_SETPCAP, "giving all rights up"),
    (Capability::CAP_SYS_PTRACE, "the look at the sandbox from outside"),
    (Capability::CAP_MKNOD, "the sandbox's own `/dev/null`"),
];

/// The kernel's fixed number (`USER_NS_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Root in a container or a service may lack some: said before anything begins.
pub(super) fn enough_rights(server: &str) -> Result<(), Refusal> {
    let what = || format!("cannot contain `{server}`");
    let hint = "start it as root with all capabilities (look at `CapabilityBoundingSet=` of the service, or the container's)";
    let user_namespace = std::fs::metadata("/proc/self/ns/user");
    if user_namespace.is_ok_and(|namespace| namespace.ino() != INITIAL_USER_NAMESPACE) {
        return Err(Refusal::not_enforced(
            what(),
            "this root is root of a user namespace only, and the kernel gives that no cgroups and eBPF programs",
            "start it as root of the machine itself",
        ));
    }
    let has = caps::read(None, CapSet::Effective).map_err(|error| {
        Refusal::internal(
            what(),
            format!("cannot read this process's capabilities: {error}"),
            "mount `/proc`",
        )
    })?;
    match NEEDED.iter().find(|(capability, _)| !has.contains(capability)) {
        None => Ok(()),
        Some((capability, needed_for)) => {
            let why = format!("this root lacks {capability}, which is needed for {needed_for}");
            Err(Refusal::not_enforced(what(), why, hint))
        }
    }
}

/// Said at every launch: what a person would otherwise believe.
fn warn(name: &str, launched: &Launched) {
    eprintln!(
        "[{name}] session {} contained at tier {}",
        launched.session, launched.tier
    );
    for line in launched.not_enforced.iter().chain(&launched.notes) {
        eprintln!("[{name}] {line}");
    }
    if let Some(why) = &launched.not_observed {
        eprintln!("[{name}] files, programs and processes: not observed: {why}");
    }
}

fn question(plan: &RunPlan) -> Question {
    // For a dynamic uid any uid without an account stands: ordinary permissions give it the same.
    const NOBODY: u32 = 2_100_000_000;
    let ids = match &plan.user {
        User::Account { uid, gid, groups, .. } => Ids {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        },
        User::Dynamic => Ids {
            uid: NOBODY,
            gid: NOBODY,
            groups: Vec::new(),
        },
    };
    let octets = |text: std::ffi::OsString| Octets::from(text);
    let value = |name: &&str| Some(((*name).to_owned(), octets(std::env::var_os(name)?)));
    Question {
        ids,
        ask: Ask {
            command: plan.command.iter().cloned().map(octets).collect(),
            kind: plan.runtime_asked,
            path: octets(
                config::env::PATH
                    .get()
                    .unwrap_or_else(|| environment::DEFAULT_PATH.into()),
            ),
            directory: plan.directory.clone(),
            environment: LOOKUPS.iter().filter_map(value).collect(),
            roots: plan
                .roots
                .iter()
                .map(|root| (root.path.clone(), root.rights))
                .collect(),
        },
    }
}
