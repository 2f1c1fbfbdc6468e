//! Which records are wanted. Values are parsed when they are given: a name that no record can have is a mistake,
//! not an empty answer.

use std::{
    net::IpAddr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};
use ipnet::IpNet;
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    body::{Decision, Layer, errno_name},
    call::Status,
    record::{Kind, Stamp},
};
use crate::{confine::seccomp::names, octets::Octets};

/// What is empty or not set does not matter; of several values one must fit, and every field that is set.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub kinds: Vec<Kind>,
    pub sessions: Vec<String>,
    pub servers: Vec<String>,
    /// Records of these calls, and what may have happened in them.
    pub calls: Vec<String>,
    pub tools: Vec<String>,
    pub statuses: Vec<Status>,
    pub since: Option<Stamp>,
    pub until: Option<Stamp>,
    pub ops: Vec<Op>,
    pub decision: Option<Decision>,
    pub layers: Vec<Layer>,
    pub errnos: Vec<Errno>,
    pub paths: Vec<PathPattern>,
    pub addresses: Vec<AddressPattern>,
    /// Of the process or of the thread.
    pub pids: Vec<u32>,
}

impl Filter {
    /// Whether a record of that time can be wanted.
    pub fn admits_time(&self, time: Stamp) -> bool {
        self.since.is_none_or(|since| since <= time) && self.until.is_none_or(|until| time <= until)
    }

    /// Everything but the time.
    pub fn admits(&self, record: &Value) -> bool {
        let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
        one_of(&self.kinds, |kind| kind.name() == text("kind"))
            && one_of(&self.sessions, |session| session == text("session"))
            && one_of(&self.servers, |server| server == text("server"))
            && one_of(&self.calls, |call| is_of_call(record, call))
            && (!self.is_about_calls() || self.admits_call(text))
            && (!self.is_about_kernel() || self.admits_kernel(record, text))
    }

    fn admits_call<'a>(&self, text: impl Fn(&str) -> &'a str) -> bool {
        text("kind") == Kind::Call.name()
            && one_of(&self.tools, |tool| tool == text("tool"))
            && one_of(&self.statuses, |status| status.name() == text("status"))
    }

    fn admits_kernel<'a>(&self, record: &'a Value, text: impl Fn(&str) -> &'a str) -> bool {
        text("kind") == Kind::Kernel.name()
            && one_of(&self.ops, |op| op.fits(text("op")))
            && self
                .decision
                .is_none_or(|decision| decision.name() == text("decision"))
            && one_of(&self.layers, |layer| layer.name() == text("layer"))
            && one_of(&self.errnos, |errno| errno.0 == text("errno"))
            && one_of(&self.paths, |pattern| {
                paths(record).any(|path| pattern.matches(&path.0))
            })
            && one_of(&self.addresses, |pattern| pattern.matches(record))
            && one_of(&self.pids, |pid| {
                ["pid", "tid"]
                    .iter()
                    .any(|name| record.get(name).and_then(Value::as_u64) == Some((*pid).into()))
            })
    }

    /// Whether it asks for something that only `kernel` records have.
    pub fn is_about_kernel(&self) -> bool {
        self.decision.is_some()
            || !(self.ops.is_empty()
                && self.layers.is_empty()
                && self.errnos.is_empty()
                && self.paths.is_empty()
                && self.addresses.is_empty()
                && self.pids.is_empty())
    }

    /// Whether it asks for something that only `call` records have.
    pub fn is_about_calls(&self) -> bool {
        !(self.tools.is_empty() && self.statuses.is_empty())
    }

    /// Why nothing can ever pass, when that is so.
    pub fn contradiction(&self) -> Option<String> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since > until
        {
            return Some(format!(
                "it asks for records since {since} until {until}, which is before"
            ));
        }
        if self.is_about_calls()
            && (self.is_about_kernel() || !one_of(&self.kinds, |kind| *kind == Kind::Call))
        {
            return Some("only records of the kind `call` have a tool or a status".into());
        }
        if !self.calls.is_empty() && self.kinds == [Kind::Checkpoint] {
            return Some("records of the kind `checkpoint` name no call".into());
        }
        if self.is_about_kernel() && !one_of(&self.kinds, |kind| *kind == Kind::Kernel) {
            return Some(
                "only records of the kind `kernel` have an operation, a decision, a layer, an errno, a path, \
                 an address or a process"
                    .into(),
            );
        }
        let without_server = |kind: &Kind| matches!(kind, Kind::Checkpoint | Kind::Gap);
        if !self.servers.is_empty() && !self.kinds.is_empty() && self.kinds.iter().all(without_server) {
            return Some("records of the kinds `gap` and `checkpoint` name no server".into());
        }
        (!self.sessions.is_empty() && self.kinds == [Kind::Checkpoint])
            .then(|| "records of the kind `checkpoint` name no session".into())
    }
}

fn is_of_call(record: &Value, call: &str) -> bool {
    let among = |calls: &Value| {
        calls
            .as_array()
            .is_some_and(|calls| calls.iter().any(|one| one == call))
    };
    record.get("call").is_some_and(|one| one == call) || record.get("calls").is_some_and(among)
}

fn one_of<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}

/// The paths a record speaks of: that of the operation, and those among its arguments.
fn paths(record: &Value) -> impl Iterator<Item = Octets> {
    let arguments = record.get("detail").and_then(Value::as_object);
    let arguments = arguments.into_iter().flat_map(serde_json::Map::values);
    (["path", "path2"].iter())
        .filter_map(|name| record.get(*name))
        .chain(arguments)
        .filter(|value| value.is_string() || value.get("b64").is_some())
        .filter_map(|value| Octets::deserialize(value).ok())
}

/// The name of an operation that records can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op(String);

impl Op {
    /// What records call by one name whichever way it was done.
    const GENERAL: [(&str, &[&str]); 2] = [
        ("open", &["openat", "openat2", "creat"]),
        ("exec", &["execve", "execveat"]),
    ];

    fn fits(&self, op: &str) -> bool {
        self.0 == op
            || Self::GENERAL
                .iter()
                .any(|(general, ways)| *general == op && ways.contains(&self.0.as_str()))
    }
}

impl std::str::FromStr for Op {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.strip_prefix("syscall-")
                .is_some_and(|number| number.parse::<i32>().is_ok())
        };
        let general = Self::GENERAL.iter().any(|(name, _)| *name == text);
        if general || names::KNOWN.iter().any(|(_, name)| *name == text) || number(text) {
            return Ok(Self(text.to_owned()));
        }
        let stem = text.trim_end_matches(|end: char| end.is_ascii_digit());
        let near: Vec<String> = (names::KNOWN.iter())
            .map(|(_, name)| *name)
            .filter(|name| !stem.is_empty() && (name.contains(stem) || stem.contains(name) && name.len() > 3))
            .take(8)
            .map(|name| format!("`{name}`"))
            .collect();
        let near = if near.is_empty() {
            String::new()
        } else {
            format!("; similar are {}", near.join(", "))
        };
        Err(format!(
            "no such operation: known are `open`, `exec` and the names of the system calls, such as `connect`, \
             `bind`, `sendmsg`, `socket`, `mount` and `ptrace`{near}"
        ))
    }
}

/// The name of an error number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errno(String);

impl std::str::FromStr for Errno {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        /// Those of Linux end at 133; what lies above never leaves the kernel.
        const LAST: i32 = 133;
        let name = text.to_ascii_uppercase();
        let mut known = (1..=LAST).map(errno_name);
        if known.any(|known| known == name) {
            return Ok(Self(name));
        }
        // Two numbers have no name and are spelled `E41`, `E58`.
        let known: Vec<String> = (1..=LAST)
            .map(errno_name)
            .filter(|name| !name.ends_with(|end: char| end.is_ascii_digit()) || name == "E2BIG")
            .collect();
        Err(format!("no such errno: known are {}", known.join(", ")))
    }
}

/// A place in the tree: everything at or below a path, or what a pattern with `*` fits.
#[derive(Debug, Clone)]
pub enum PathPattern {
    Below(PathBuf),
    Glob(GlobMatcher),
}

impl PathPattern {
    /// `*` and `?` stop at `/`, `**` does not. Without a `*` no character is special.
    pub fn new(text: &std::ffi::OsStr) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".into());
        }
        if !text.as_bytes().contains(&b'*') {
            return Ok(Self::Below(match text.as_bytes().strip_prefix(b"@") {
                // A socket without a file: its name begins with a zero byte, which no argument can.
                Some(name) => Octets([b"\0", name].concat()).to_path_buf(),
                None => PathBuf::from(text),
            }));
        }
        let text = text
            .to_str()
            .ok_or("a pattern with `*` must be UTF-8; a prefix need not be")?;
        GlobBuilder::new(text)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map(|glob| Self::Glob(glob.compile_matcher()))
            .map_err(|error| format!("as a pattern: {}", error.kind()))
    }

    pub fn matches(&self, path: &[u8]) -> bool {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        match self {
            Self::Below(prefix) => path.starts_with(prefix),
            Self::Glob(glob) => glob.is_match(path),
        }
    }
}

/// A network or an address, and perhaps a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPattern {
    net: IpNet,
    port: Option<u16>,
}

impl std::str::FromStr for AddressPattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "not an address: known forms are `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1:443`, `2001:db8::1`, \
             `2001:db8::/32` and `[2001:db8::1]:443`; a unix socket is found with `--path`"
                .to_owned()
        };
        let (address, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, port) = rest.split_once(']').ok_or_else(wrong)?;
            match port.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if port.is_empty() => (address, None),
                None => return Err(wrong()),
            }
        } else if text.bytes().filter(|byte| *byte == b':').count() == 1 {
            text.split_once(':')
                .map(|(address, port)| (address, Some(port)))
                .ok_or_else(wrong)?
        } else {
            (text, None)
        };
        let net = address
            .parse::<IpNet>()
            .or_else(|_| {
                address
                    .parse::<IpAddr>()
                    .map(|address| IpNet::from(address.to_canonical()))
            })
            .map_err(|_| wrong())?;
        let port = port.map(|port| port.parse().map_err(|_| format!("`{port}` is no port")));
        Ok(Self {
            net,
            port: port.transpose()?,
        })
    }
}

impl AddressPattern {
    fn matches(&self, record: &Value) -> bool {
        let address = record.get("address").and_then(Value::as_str);
        // A scope after `%` does not belong to the address.
        let address = address.and_then(|text| text.split('%').next()?.parse::<IpAddr>().ok());
        let port = record.get("port").and_then(Value::as_u64);
        // IPv4 in the clothes of IPv6 is the same destination.
        address
            .is_some_and(|address| self.net.contains(&address) || self.net.contains(&address.to_canonical()))
            && self.port.is_none_or(|wanted| port == Some(wanted.into()))
    }
}
