//! What a `run` means once all of it is known.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Scope, TimeLimits, described, environment,
    host::Host,
    places::{Trace, clean},
    raw,
    roots::{self, Guarded},
    shown, user,
};
use crate::{
    cli::run_args::{self, RunArgs},
    link::message::{Facet, Isolation, LaunchRequest, Limits, OverBudget, Protocol, Root, User, View},
    octets::Octets,
    proof::Tier,
    refusal::{Refusal, chain},
    runtime::{Runtime, RuntimeKind},
};

/// Where clients keep the list of programs they start, beneath a home.
pub const CLIENT_CONFIGS: &[&str] = &[
    ".config/Claude/claude_desktop_config.json",
    ".claude.json",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".config/Code/User/mcp.json",
    ".config/Code/User/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".config/zed/settings.json",
    ".codeium/windsurf/mcp_config.json",
];

/// Everything of a launch that is known before the command is looked at.
#[derive(Debug, Clone)]
pub struct RunPlan {
    pub server: String,
    /// As typed; not empty.
    pub command: Vec<OsString>,
    pub runtime_asked: RuntimeKind,
    /// Variables the server gets beyond the allow-list.
    pub environment: Vec<environment::Asked>,
    /// Absolute, lexically clean.
    pub directory: Octets,
    pub roots: Vec<Root>,
    pub free_names: Vec<String>,
    pub user: User,
    pub view: View,
    /// Somebody asked for that view.
    pub view_asked: bool,
    pub limits: Limits,
    pub times: TimeLimits,
    /// Sorted, not empty.
    pub require: Vec<Facet>,
    pub allow_unenforced: bool,
    /// Absolute; need not exist.
    pub audit: Octets,
    /// Absolute; need not exist.
    pub state: PathBuf,
    /// `sha256:` of the policy file's bytes, or of the canonical form of the resolved command line.
    pub policy_hash: String,
    pub observe: bool,
    pub over_budget: OverBudget,
    /// Only a policy can ask for a sandbox a call.
    pub isolation: Isolation,
    pub protocol: Protocol,
    /// The tier that was insisted on.
    pub tier: Option<Tier>,
    /// Who may call what, where a policy says so.
    pub scope: Option<Scope>,
}

impl RunPlan {
    /// The launch, once the command is resolved and the environment built.
    pub fn into_request(self, runtime: Runtime, environment: Vec<(Octets, Octets)>) -> LaunchRequest {
        LaunchRequest {
            server: self.server,
            runtime,
            runtime_asked: self.runtime_asked,
            environment,
            directory: self.directory,
            roots: self.roots,
            free_names: self.free_names,
            user: self.user,
            view: self.view,
            view_asked: self.view_asked,
            limits: self.limits,
            require: self.require,
            allow_unenforced: self.allow_unenforced,
            audit: self.audit,
            policy_hash: self.policy_hash,
            observe: self.observe,
            over_budget: self.over_budget,
            tier: self.tier,
            isolation: self.isolation,
            protocol: self.protocol,
            tool_rights: self.scope.is_some_and(|scope| scope.idle_rights.is_some()),
        }
    }
}

/// Checks everything that can be checked without privilege.
pub fn resolve(args: &RunArgs, host: &Host) -> Result<RunPlan, Refusal> {
    check_tier(args.tier, host)?;
    let described = match &args.policy {
        Some(path) => described::from_policy(args, path, host)?,
        None => described::from_flags(args, host)?,
    };
    described::check_name(&described.server)?;
    let audit = match &args.audit {
        Some(path) => own_directory("--audit", path, host)?,
        None => host.default_audit()?,
    };
    let state = own_directory(
        "--state",
        &args.state.clone().unwrap_or_else(|| host.default_state()),
        host,
    )?;
    apart(&state, &audit)?;
    let user = user::resolve(described.user.as_deref(), host)?;
    let policy_path = described.policy.as_ref().map(|(path, _)| path.as_path());
    let guarded = guarded(&audit, &state, policy_path, &user, host);
    let roots = roots::resolve(&described.roots, &guarded, &host.mounts)?;
    let directory = working_directory(described.directory.as_deref(), host)?;
    let mut plan = RunPlan {
        server: described.server,
        command: described.command,
        runtime_asked: described.runtime.unwrap_or(RuntimeKind::Auto),
        environment: described.environment,
        directory: directory.into(),
        roots,
        free_names: described.free_names,
        user,
        view: described.view.unwrap_or(View::Private),
        view_asked: described.view.is_some(),
        limits: described.limits,
        times: described.times,
        require: described.require,
        allow_unenforced: args.allow_unenforced,
        audit: audit.into(),
        state,
        policy_hash: String::new(),
        observe: described.observe,
        over_budget: described.over_budget,
        isolation: described.isolation,
        protocol: described.protocol,
        tier: args.tier.map(Tier::from),
        scope: described.scope,
    };
    plan.policy_hash = match described.policy {
        Some((_, hash)) => hash,
        None => hash(&plan)?,
    };
    Ok(plan)
}

/// Who asks decides the tier: root gets T2, an ordinary user T3. A tier that was insisted on is that one, or none.
fn check_tier(tier: Option<run_args::Tier>, host: &Host) -> Result<(), Refusal> {
    let refuse = |name: &str, why: String, hint: &str| {
        Err(Refusal::not_enforced(
            format!("cannot enforce at tier {name}"),
            why,
            hint,
        ))
    };
    use run_args::Tier::{T1, T2, T3};
    match (tier, host.is_root()) {
        // Whether this machine has T1 is for the warden to find out.
        (None, _) | (Some(T1 | T2), true) | (Some(T3), false) => Ok(()),
        (Some(asked @ (T1 | T2)), false) => refuse(
            if asked == T1 { "T1" } else { "T2" },
            format!("uid {} may not make cgroups and eBPF links", host.uid),
            "start it as root, for instance `sudo guard-agent run …` (the server itself then runs as you), or use `--tier T3`",
        ),
        (Some(T3), true) => refuse(
            "T3",
            "it is the tier of ordinary users, and this is root".to_owned(),
            "start it as the user the server is to run as, or leave `--tier` out",
        ),
    }
}

/// One holds what dies with the warden, the other what must outlive everything.
fn apart(state: &Path, audit: &Path) -> Result<(), Refusal> {
    let (real_state, real_audit) = (Trace::new(state).real, Trace::new(audit).real);
    let how = if real_state == real_audit {
        "is"
    } else if real_state.starts_with(&real_audit) {
        "lies in"
    } else if real_audit.starts_with(&real_state) {
        "holds"
    } else {
        return Ok(());
    };
    Err(Refusal::usage(
        format!("cannot use state directory `{}`", shown(state)),
        format!(
            "it {how} the audit directory `{}`: neither may hold files of the other",
            shown(audit)
        ),
        "give them directories apart with `--state` and `--audit`",
    ))
}

/// A directory of ours, named by a flag.
fn own_directory(flag: &str, path: &Path, host: &Host) -> Result<PathBuf, Refusal> {
    if path.as_os_str().is_empty() {
        return Err(Refusal::usage(
            format!("cannot use `{flag}`"),
            "its value is empty",
            "name a directory",
        ));
    }
    clean(&host.directory, path).ok_or_else(|| {
        Refusal::usage(
            format!("cannot use `{flag} {}`", shown(path)),
            "what `..` means depends on the symbolic links before it",
            "name its absolute path without `..`",
        )
    })
}

fn working_directory(asked: Option<&Path>, host: &Host) -> Result<PathBuf, Refusal> {
    let Some(asked) = asked else {
        return Ok(host.directory.clone());
    };
    let cannot = |why: String, hint: &str| {
        Refusal::usage(
            format!("cannot use working directory `{}`", shown(asked)),
            why,
            hint,
        )
    };
    let path = clean(&host.directory, asked).ok_or_else(|| {
        cannot(
            "what `..` means depends on the symbolic links before it".into(),
            "name its absolute path without `..`",
        )
    })?;
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(cannot("it is not a directory".into(), "name a directory")),
        Err(error) => Err(cannot(raw::reason(&error), "name a directory that exists")),
    }
}

/// What no root may hold.
fn guarded(audit: &Path, state: &Path, policy: Option<&Path>, user: &User, host: &Host) -> Vec<Guarded> {
    let place = |what, path: &Path, danger| Guarded {
        what,
        path: path.to_owned(),
        writes_only: false,
        danger,
    };
    let mut places = vec![
        place(
            "the audit directory",
            audit,
            "a server must not reach the record of what it does",
        ),
        place(
            "the state directory",
            state,
            "a server must not reach the sockets and state of its guard",
        ),
    ];
    if let Some(policy) = policy {
        places.push(place(
            "the policy",
            policy,
            "a server must not reach the rules it runs under",
        ));
    }
    let mut configs: Vec<PathBuf> = Vec::new();
    for home in host.homes() {
        configs.extend(CLIENT_CONFIGS.iter().map(|name| home.join(name)));
    }
    if let User::Account { home, .. } = user {
        // Perhaps a service's account, whose home is its data: only what a client really uses counts.
        let there = CLIENT_CONFIGS.iter().map(|name| home.as_path().join(name));
        configs.extend(there.filter(|path| path.symlink_metadata().is_ok()));
    }
    let danger = "clients start the programs that are listed there";
    places.extend(configs.into_iter().map(|path| Guarded {
        what: "a client's configuration",
        path,
        writes_only: true,
        danger,
    }));
    places
}

/// Over the meaning, so that the same launch has the same hash however it was spelled. Values of variables stay
/// out: a hash in a record would let them be guessed.
fn hash(plan: &RunPlan) -> Result<String, Refusal> {
    #[derive(Serialize)]
    struct Form<'a> {
        server: &'a str,
        command: Vec<Octets>,
        runtime: RuntimeKind,
        environment: Vec<&'a str>,
        directory: &'a Octets,
        roots: &'a [Root],
        free_names: &'a [String],
        user: &'a User,
        view: View,
        limits: &'a Limits,
        require: &'a [Facet],
        allow_unenforced: bool,
        observe: bool,
        over_budget: OverBudget,
        protocol: Protocol,
    }
    let form = Form {
        server: &plan.server,
        command: plan
            .command
            .iter()
            .map(|argument| argument.as_os_str().into())
            .collect(),
        runtime: plan.runtime_asked,
        environment: plan.environment.iter().map(|asked| asked.name.as_str()).collect(),
        directory: &plan.directory,
        roots: &plan.roots,
        free_names: &plan.free_names,
        user: &plan.user,
        view: plan.view,
        limits: &plan.limits,
        require: &plan.require,
        allow_unenforced: plan.allow_unenforced,
        observe: plan.observe,
        over_budget: plan.over_budget,
        protocol: plan.protocol,
    };
    match serde_json_canonicalizer::to_vec(&form) {
        Ok(bytes) => Ok(raw::sha256(&bytes)),
        Err(error) => Err(Refusal::internal(
            "cannot hash the command line",
            chain(&error),
            "report this",
        )),
    }
}
