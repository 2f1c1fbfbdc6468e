//! One server as flags or a policy file describe it; the same shape from here on.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    environment,
    host::Host,
    raw,
    rights::Rights,
    root_arg::RootArg,
    roots,
    rules::{self},
    shown,
};
use crate::{
    cli::run_args::{RunArgs, Switch},
    gateway::gates::scope::{self, Rules},
    link::message::{Facet, Isolation, Limits, OverBudget, Protocol, View},
    refusal::Refusal,
    runtime::RuntimeKind,
    warden::launch::protect,
};

/// Facets that must be enforced when nobody says.
pub const REQUIRED: [Facet; 4] = [Facet::Fs, Facet::Net, Facet::Exec, Facet::Ipc];
/// The sandbox's first process counts too.
const MIN_PIDS: u32 = 2;
/// The kernel's own ceiling of process ids.
const MAX_PIDS: u32 = 4 << 20;
/// Under this, nothing starts, and the error would not say why.
const MIN_MEMORY: u64 = 4 << 20;
/// A size of 0 is "no limit" to tmpfs.
const MIN_TMP: u64 = 64 << 10;
pub(super) const MAX_NAME: usize = 64;
/// A clock that is looked at once a second measures nothing shorter.
const MIN_TIME: Duration = Duration::from_secs(1);

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// To its first answer.
    pub start: Duration,
    /// To the answer of one call.
    pub call: Duration,
}

impl Default for TimeLimits {
    /// Clients give up sooner.
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            call: Duration::from_mins(10),
        }
    }
}

/// One server as described, by flags or by a policy: the same from here on.
pub(super) struct Described {
    pub(super) server: String,
    pub(super) command: Vec<OsString>,
    pub(super) runtime: Option<RuntimeKind>,
    pub(super) user: Option<String>,
    pub(super) roots: Vec<roots::Asked>,
    pub(super) environment: Vec<environment::Asked>,
    pub(super) directory: Option<PathBuf>,
    pub(super) view: Option<View>,
    pub(super) limits: Limits,
    pub(super) times: TimeLimits,
    pub(super) require: Vec<Facet>,
    pub(super) free_names: Vec<String>,
    pub(super) observe: bool,
    pub(super) over_budget: OverBudget,
    pub(super) isolation: Isolation,
    pub(super) protocol: Protocol,
    pub(super) policy: Option<(PathBuf, String)>,
    pub(super) scope: Option<Scope>,
}

/// Who may call what of one server, and with which rights.
#[derive(Debug, Clone)]
pub struct Scope {
    pub rules: Arc<Rules>,
    /// While no call runs; where a tool has rights of its own, or a rule says so.
    pub idle_rights: Option<Rights>,
    /// What an operator should look at.
    pub hints: Vec<String>,
}

/// The server that the flags describe.
pub(super) fn from_flags(args: &RunArgs, host: &Host) -> Result<Described, Refusal> {
    let Some(program) = args.command.first() else {
        return Err(Refusal::usage(
            "nothing to run",
            "neither a command nor `--policy` is given",
            "put the server's command after `--`: `guard-agent run --root /srv/docs:r -- node server.js`",
        ));
    };
    check_command(&args.command, "after `--`")?;
    let asked_roots = args.roots.iter().map(|text| {
        let root = RootArg::parse(text);
        roots::Asked {
            mistyped_rights: root.rights.is_none().then(|| root.mistyped_rights()).flatten(),
            rights: root.rights.unwrap_or(Rights::R),
            path: root.path,
            directory: Some(host.directory.clone()),
        }
    });
    Ok(Described {
        server: args.name.clone().unwrap_or_else(|| name_of(program)),
        command: args.command.clone(),
        runtime: args.runtime,
        user: args.user.clone(),
        roots: asked_roots.collect(),
        environment: args
            .env
            .iter()
            .map(environment::Asked::parse)
            .collect::<Result<_, _>>()?,
        directory: args.directory.clone(),
        view: args.view,
        limits: Limits::default(),
        times: TimeLimits::default(),
        require: REQUIRED.to_vec(),
        free_names: Vec::new(),
        observe: args.observe != Some(Switch::Off),
        over_budget: OverBudget::default(),
        isolation: Isolation::Session,
        protocol: args.protocol.unwrap_or_default(),
        policy: None,
        scope: None,
    })
}

/// The server that a policy file describes.
pub(super) fn from_policy(args: &RunArgs, path: &Path, host: &Host) -> Result<Described, Refusal> {
    check_flags_beside_policy(args)?;
    let loaded = raw::load(path)?;
    let shown_path = shown(path);
    let (name, server) = pick(loaded.policy.server, args.name.as_deref(), &shown_path)?;
    let place = format!("`{shown_path}`, [server.{name}]");
    let command: Vec<OsString> = server.command.into_iter().map(OsString::from).collect();
    check_command(&command, &format!("in {place}"))?;
    let asked_roots = server.roots.into_iter().map(|root| roots::Asked {
        path: root.path,
        rights: root.rights,
        mistyped_rights: None,
        directory: None,
    });
    if let Some(directory) = server
        .directory
        .as_ref()
        .filter(|directory| directory.is_relative())
    {
        return Err(Refusal::usage(
            format!("cannot use working directory `{}`", shown(directory)),
            format!("it is a relative path in {place}"),
            "write the absolute path",
        ));
    }
    let times = times(&server.limits, &place)?;
    let scope = loaded.rules.map(|rules| scope(rules, &name)).transpose()?;
    if scope.is_some() && server.protocol == Protocol::None {
        return Err(Refusal::usage(
            format!("cannot use `protocol = \"none\"` of {place}"),
            "the policy says who may call what, and without reading messages nobody can hold them to it",
            "leave `protocol` out, or the roles and rules for tools",
        ));
    }
    Ok(Described {
        server: name,
        command,
        runtime: server.runtime,
        user: server.user,
        roots: asked_roots.collect(),
        environment: passed_names(&server.env, &place)?,
        directory: server.directory,
        view: server.view,
        limits: limits(&server.limits, &place)?,
        times,
        require: require(server.require, &place)?,
        free_names: free_names(server.free_names, &place)?,
        observe: server.observe.unwrap_or(true),
        over_budget: server.over_budget,
        isolation: match server.isolation {
            raw::Isolation::Session => Isolation::Session,
            raw::Isolation::Call => Isolation::Call {
                limit_ms: u64::try_from(times.call.as_millis()).unwrap_or(u64::MAX),
            },
        },
        protocol: server.protocol,
        // Kept as it was found: the links on the way to it count too.
        policy: Some((host.directory.join(path), loaded.hash)),
        scope,
    })
}

/// A policy is the whole description: its hash in the record tells what ran.
fn check_flags_beside_policy(args: &RunArgs) -> Result<(), Refusal> {
    let given = [
        ("a command", !args.command.is_empty(), "command"),
        ("`--root`", !args.roots.is_empty(), "roots"),
        ("`--runtime`", args.runtime.is_some(), "runtime"),
        ("`--env`", !args.env.is_empty(), "env"),
        ("`--directory`", args.directory.is_some(), "directory"),
        ("`--user`", args.user.is_some(), "user"),
        ("`--view`", args.view.is_some(), "view"),
        ("`--observe`", args.observe.is_some(), "observe"),
        ("`--protocol`", args.protocol.is_some(), "protocol"),
    ];
    match given.iter().find(|(_, given, _)| *given) {
        None => Ok(()),
        Some((flag, _, key)) => Err(Refusal::usage(
            format!("cannot use {flag} together with `--policy`"),
            "the policy describes the whole server, so that its hash in the record tells what ran",
            format!("set `{key}` in the policy, or leave `--policy` out"),
        )),
    }
}

fn pick(
    mut servers: BTreeMap<String, raw::Server>,
    name: Option<&str>,
    path: &str,
) -> Result<(String, raw::Server), Refusal> {
    let names = servers
        .keys()
        .map(|name| format!("`{}`", shown(name)))
        .collect::<Vec<_>>()
        .join(", ");
    let hint = "name one of these with `--name`";
    if let Some(name) = name
        && !servers.is_empty()
    {
        return servers.remove_entry(name).ok_or_else(|| {
            let what = format!("no server `{}` in policy `{path}`", shown(name));
            Refusal::usage(what, format!("it has {names}"), hint)
        });
    }
    match (servers.pop_first(), servers.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(Refusal::usage(
            format!("cannot tell which server of policy `{path}` to run"),
            format!("it has {names}"),
            hint,
        )),
        (None, _) => Err(Refusal::usage(
            format!("nothing to run in policy `{path}`"),
            "it has no [server.NAME]",
            "add one; `docs/policy.md` has an example",
        )),
    }
}

fn check_command(command: &[OsString], place: &str) -> Result<(), Refusal> {
    let hint = "name the server's program first, then its arguments";
    match command.first() {
        None => Err(Refusal::usage(
            "nothing to run",
            format!("there is no command {place}"),
            hint,
        )),
        Some(program) if program.is_empty() => Err(Refusal::usage(
            "nothing to run",
            format!("the command {place} is an empty string"),
            hint,
        )),
        Some(_) if command.iter().any(|argument| argument.as_bytes().contains(&0)) => Err(Refusal::usage(
            "cannot run the command",
            format!("an argument {place} holds a zero byte"),
            "remove it: no program can be given one",
        )),
        Some(_) => Ok(()),
    }
}

/// A name for records from the program's file name.
fn name_of(program: &OsString) -> String {
    let file = Path::new(program)
        .file_name()
        .unwrap_or(program)
        .to_string_lossy();
    let kept = |character: char| if is_name(character) { character } else { '_' };
    file.chars().map(kept).take(MAX_NAME).collect()
}

pub(super) fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// Names are parts of records, log lines and rules such as `files/read_*`.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_name) {
        return Ok(());
    }
    Err(Refusal::usage(
        format!("cannot use server name `{}`", shown(name)),
        format!("a name has 1 to {MAX_NAME} letters, digits, `_`, `-` and `.`"),
        "choose another name",
    ))
}

fn limits(raw: &raw::Limits, place: &str) -> Result<Limits, Refusal> {
    let wrong = |key: &str, why: String| {
        Err(Refusal::usage(
            format!("cannot use limit `{key}` of {place}"),
            why,
            "give another amount",
        ))
    };
    let mut limits = Limits::default();
    if let Some(memory) = raw.memory {
        if memory.0 < MIN_MEMORY {
            return wrong("memory", "no server starts with less than \"4M\"".into());
        }
        limits.memory = memory.0;
    }
    if let Some(cpu) = raw.cpu {
        if cpu.0 == 0 {
            return wrong("cpu", "with \"0%\" nothing would run".into());
        }
        limits.cpu_percent = cpu.0;
    }
    if let Some(pids) = raw.pids {
        if !(MIN_PIDS..=MAX_PIDS).contains(&pids) {
            return wrong(
                "pids",
                format!("it is {MIN_PIDS} (the server and its init) to {MAX_PIDS}"),
            );
        }
        limits.pids = pids;
    }
    if let Some(tmp) = raw.tmp {
        if tmp.0 < MIN_TMP {
            return wrong("tmp", "the smallest is \"64K\"".into());
        }
        limits.tmp = tmp.0;
    }
    Ok(limits)
}

fn scope(policy: rules::Policy, server: &str) -> Result<Scope, Refusal> {
    let rules = scope::Rules::of_policy(&policy, server)?;
    let idle_rights = policy.servers.get(server).and_then(|server| server.idle_rights);
    Ok(Scope {
        rules: Arc::new(rules),
        idle_rights,
        hints: policy.hints,
    })
}

fn times(raw: &raw::Limits, place: &str) -> Result<TimeLimits, Refusal> {
    let mut times = TimeLimits::default();
    let given = [
        ("call_timeout", raw.call_timeout, &mut times.call),
        ("start_timeout", raw.start_timeout, &mut times.start),
    ];
    for (key, span, time) in given {
        let Some(span) = span else { continue };
        if span.0 < MIN_TIME {
            return Err(Refusal::usage(
                format!("cannot use limit `{key}` of {place}"),
                "the shortest is \"1s\"",
                "give another time",
            ));
        }
        *time = span.0;
    }
    Ok(times)
}

fn require(facets: Option<Vec<Facet>>, place: &str) -> Result<Vec<Facet>, Refusal> {
    let Some(mut facets) = facets else {
        return Ok(REQUIRED.to_vec());
    };
    if facets.is_empty() {
        return Err(Refusal::usage(
            format!("cannot use `require = []` of {place}"),
            "it would launch the server with nothing enforced",
            "leave `require` out, or name what must be enforced, such as `require = [\"fs\", \"net\"]`",
        ));
    }
    facets.sort_unstable();
    facets.dedup();
    Ok(facets)
}

fn passed_names(names: &[String], place: &str) -> Result<Vec<environment::Asked>, Refusal> {
    let parse = |name: &String| {
        if let Some((name, _)) = name.split_once('=') {
            return Err(Refusal::usage(
                format!("cannot set variable `{}` in {place}", shown(name)),
                "`env` holds names only, so that no secret stands in a policy",
                format!(
                    "write `{}`, and set it where the client starts guard-agent",
                    shown(name)
                ),
            ));
        }
        environment::Asked::parse(&OsString::from(name))
    };
    names.iter().map(parse).collect()
}

fn free_names(names: Vec<String>, place: &str) -> Result<Vec<String>, Refusal> {
    match names.iter().find(|name| !protect::can_be_freed(name)) {
        None => Ok(names),
        Some(name) => Err(Refusal::usage(
            format!("cannot free name `{}` in {place}", shown(name)),
            "it is no protected name, so it would free nothing",
            format!(
                "write it as the documentation lists it: `.git`, `.git/config.worktree`, `{}`",
                protect::PROTECTED.join("`, `")
            ),
        )),
    }
}
