//! Every environment variable that guard-agent itself reads. Nothing else of the environment has a meaning.

use std::ffi::OsString;

/// A variable that guard-agent reads.
#[derive(Debug)]
pub struct Variable {
    pub name: &'static str,
    /// For `docs/commands.md`.
    pub doc: &'static str,
}

impl Variable {
    pub fn get(&self) -> Option<OsString> {
        std::env::var_os(self.name)
    }
}

pub const SUDO_UID: Variable = Variable {
    name: "SUDO_UID",
    doc: "read when run as root: the person who asked, whom the server runs as",
};
pub const SUDO_GID: Variable = Variable {
    name: "SUDO_GID",
    doc: "read with `SUDO_UID` when that person has no line in `/etc/passwd`",
};
pub const HOME: Variable = Variable {
    name: "HOME",
    doc: "where clients keep the configuration that a root must not let a server rewrite",
};
pub const PATH: Variable = Variable {
    name: "PATH",
    doc: "where a command without a `/` is looked for",
};
pub const XDG_STATE_HOME: Variable = Variable {
    name: "XDG_STATE_HOME",
    doc: "without root: the default audit directory is `guard-agent` in it",
};
pub const XDG_RUNTIME_DIR: Variable = Variable {
    name: "XDG_RUNTIME_DIR",
    doc: "without root: the default state directory is `guard-agent` in it",
};
pub const GUARD_AGENT_LOG: Variable = Variable {
    name: "GUARD_AGENT_LOG",
    doc: "what to log: `run` on stderr, a warden that it starts in `warden.log` of the state directory; such as `debug` or `guard_agent::warden=trace`. Neither arguments nor values of variables are logged",
};
pub const GUARD_AGENT_FAULT: Variable = Variable {
    name: "GUARD_AGENT_FAULT",
    doc: "failures to inject; has no effect in a release build",
};

pub const GUARD_AGENT_IDLE_MS: Variable = Variable {
    name: "GUARD_AGENT_IDLE_MS",
    doc: "how many milliseconds a warden started by `run` stays without a session; 5000 when unset",
};

/// All of them.
pub const ALL: &[&Variable] = &[
    &SUDO_UID,
    &SUDO_GID,
    &HOME,
    &PATH,
    &XDG_STATE_HOME,
    &XDG_RUNTIME_DIR,
    &GUARD_AGENT_LOG,
    &GUARD_AGENT_FAULT,
    &GUARD_AGENT_IDLE_MS,
];

/// Names with this beginning are ours and never reach a server.
pub const OUR_PREFIX: &str = "GUARD_AGENT_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_them_all() {
        let page = include_str!("../../../docs/commands.md");
        for variable in ALL {
            let row = format!("| `{}` | {} |", variable.name, variable.doc);
            assert!(page.contains(&row), "docs/commands.md lacks the row: {row}");
        }
    }

    #[test]
    fn no_other_is_read() {
        let declared: Vec<&str> = ALL.iter().map(|variable| variable.name).collect();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut files = 0;
        for entry in walkdir::WalkDir::new(source) {
            let entry = entry.unwrap();
            if entry.path().extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            // Tests may read what they like, for instance whether to write a page anew.
            let mut parts = entry.path().strip_prefix(source).unwrap().components();
            if parts.any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs") {
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(entry.path()).unwrap();
            for call in ["env::var(\"", "env::var_os(\""] {
                for (at, _) in text.match_indices(call) {
                    let name = text[at + call.len()..].split('"').next().unwrap();
                    // The two literals of this loop are no calls.
                    assert!(
                        name.is_empty() || name == ", " || declared.contains(&name),
                        "{}: {name}",
                        entry.path().display()
                    );
                }
            }
        }
        assert!(files > 10);
    }
}
