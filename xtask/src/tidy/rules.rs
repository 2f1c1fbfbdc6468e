//! The rules a single file has to keep.

use super::source::{code, without_tests};

/// Where unsafe code may be: `ARCHITECTURE.md` says why.
const UNSAFE: &[&str] = &[
    "guard-agent/src/sys/",
    "guard-common/src/user.rs",
    "guard-ebpf/src/",
    "tests/probes/",
];
/// Files of the agent that start programs: itself, in another role.
const STARTS_PROGRAMS: &[&str] = &[
    "guard-agent/src/cli/resolve.rs",
    "guard-agent/src/link/connect.rs",
];
/// Files of the agent that read the environment: the list of our variables, and what is passed on to the server.
const READS_ENVIRONMENT: &[&str] = &[
    "guard-agent/src/config/env.rs",
    "guard-agent/src/cli/run.rs",
    // What the warden hands to its reaper and init, and what a test build is told to let fail.
    "guard-agent/src/fault.rs",
    "guard-agent/src/warden/reaper.rs",
    // The default audit directory, found without a configuration.
    "guard-agent/src/audit/dir.rs",
];
/// Names that stand for anybody in examples.
const ANYBODY: &[&str] = &["user", "u", "you", "ann", "bob", "twin", "nis", "odd"];

const LINES_WARN: usize = 400;
const LINES_MOST: usize = 600;

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) place: String,
    pub(super) what: String,
    pub(super) only_a_warning: bool,
}

/// A file of the repository.
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl File<'_> {
    fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            place: format!("{}:{}", self.path, line + 1),
            what: what.into(),
            only_a_warning: false,
        }
    }

    fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    fn within(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }
}

/// Everything that is wrong with a file.
pub(super) fn check(file: &File<'_>) -> Vec<Finding> {
    let mut findings = any_text(file);
    if file.path.ends_with(".rs") {
        findings.extend(rust(file));
    }
    findings
}

fn any_text(file: &File<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Put together here so that this file passes its own rules.
    let marks = [concat!("FIX", "ME"), concat!("XX", "X:")];
    for (number, line) in file.text.lines().enumerate() {
        for mark in marks {
            if line.contains(mark) {
                findings.push(file.finding(number, format!("`{mark}`: do it or file an issue")));
            }
        }
        if let Some(path) = developer_path(line) {
            findings.push(file.finding(number, format!("`{path}` is a path of somebody's machine")));
        }
    }
    findings
}

/// A path in the home of a person, of root, or in the place projects are worked on.
fn developer_path(line: &str) -> Option<&str> {
    let start =
        |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '/' | '}'));
    let word = |text: &str| {
        text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'))
            .unwrap_or(text.len())
    };
    for (home, needs_name) in [
        (concat!("/ro", "ot/"), true),
        (concat!("/ho", "me/"), true),
        (concat!("/wo", "rk/"), false),
    ] {
        for (at, _) in line.match_indices(home) {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let rest = line.get(at + home.len()..).unwrap_or_default();
            let name = rest.get(..word(rest)).unwrap_or_default();
            if !start(before) || (needs_name && (name.is_empty() || ANYBODY.contains(&name))) {
                continue;
            }
            return line.get(at..at + home.len() + name.len());
        }
    }
    None
}

fn rust(file: &File<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !is_introduced(file.text) {
        findings.push(file.finding(0, "does not start with `//!` and what the module is for"));
    }
    let product = without_tests(file.text);
    let length = product.lines().count();
    if length > LINES_WARN {
        findings.push(Finding {
            only_a_warning: length <= LINES_MOST,
            ..file.finding(
                length - 1,
                format!("{length} lines, {LINES_MOST} at most and better under {LINES_WARN}"),
            )
        });
    }
    let whole = code(file.text);
    for (number, line) in whole.lines().enumerate() {
        for name in [
            concat!("to", "do!"),
            concat!("unimple", "mented!"),
            concat!("d", "bg!"),
        ] {
            if has_word(line, name) {
                findings.push(file.finding(number, format!("`{name}` in committed code")));
            }
        }
        if line.replace(' ', "").contains("#[ignore]") {
            findings.push(file.finding(number, "an ignored test says why: `#[ignore = \"…\"]`"));
        }
        if has_word(line, "unsafe") && !file.within(UNSAFE) {
            findings.push(file.finding(number, format!("unsafe code outside {}", UNSAFE.join(", "))));
        }
    }
    if file.path.starts_with("guard-agent/src/") && !file.is_test() {
        findings.extend(agent(file, &code(product)));
    }
    findings
}

/// Whether a module says what it is for before its first line of code; a lint's exception may come first.
fn is_introduced(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(attribute) = rest.strip_prefix("#![") {
        if attribute.starts_with("doc") {
            return true;
        }
        // Ends at the first bracket that closes a line.
        let end = attribute.find("]\n").map_or(attribute.len(), |end| end + 2);
        rest = attribute.get(end..).unwrap_or_default().trim_start();
    }
    rest.starts_with("//! ")
}

/// Habits of the agent that the compiler cannot hold it to.
fn agent(file: &File<'_>, product: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in product.lines().enumerate() {
        if ["println!", "print!"].iter().any(|name| has_word(line, name)) {
            findings.push(file.finding(number, "data goes to stdout through `cli::out`"));
        }
        let starts = line.contains("process::Command") || has_word(line, "Command::new");
        if starts && !file.within(STARTS_PROGRAMS) {
            findings.push(file.finding(
                number,
                format!("only {} start programs", STARTS_PROGRAMS.join(" and ")),
            ));
        }
        if line.contains("env::var") && !file.within(READS_ENVIRONMENT) {
            findings.push(file.finding(number, "variables are read through `config::env`"));
        }
    }
    findings
}

/// Whether `line` has `word` with nothing of a longer name before or after it.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !part(before) && !part(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(path: &str, text: &str) -> Vec<String> {
        check(&File { path, text })
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    fn broken(path: &str, text: &str, part: &str) {
        let found = what(path, &format!("//! m\n{text}\n"));
        assert!(
            found.iter().any(|what| what.contains(part)),
            "{path}: `{text}` gave {found:?}"
        );
    }

    fn fine(path: &str, text: &str) {
        assert_eq!(
            what(path, &format!("//! m\n{text}\n")),
            Vec::<String>::new(),
            "{path}: `{text}`"
        );
    }

    #[test]
    fn each_rule_catches() {
        let agent = "guard-agent/src/warden/x.rs";
        broken(agent, "unsafe { f() }", "unsafe code outside");
        broken(agent, "println!(\"x\");", "cli::out");
        broken(agent, "std::process::Command::new(\"x\");", "start programs");
        broken(agent, "std::env::var(\"X\");", "config::env");
        broken(agent, concat!("to", "do!()"), "committed code");
        broken(agent, "#[ignore]", "says why");
        broken("docs/a.md", concat!("FIX", "ME later"), "file an issue");
        broken("docs/a.md", concat!("see /ro", "ot/x"), "somebody's machine");
        broken(
            "docs/a.md",
            concat!("see `/ho", "me/jane/x`"),
            "somebody's machine",
        );
        broken("docs/a.md", concat!("(/wo", "rk/x)"), "somebody's machine");
        assert_eq!(what("xtask/src/a.rs", "fn a() {}\n").len(), 1);
        assert_eq!(
            what(
                "xtask/src/a.rs",
                "#![expect(\n    x,\n    reason = \"y\"\n)]\nfn a() {}\n"
            )
            .len(),
            1
        );
        let long = "\n".repeat(LINES_MOST);
        let finding = check(&File {
            path: "xtask/src/a.rs",
            text: &format!("//! m\n{long}"),
        });
        assert!(!finding[0].only_a_warning);
    }

    #[test]
    fn each_rule_lets_pass() {
        let agent = "guard-agent/src/warden/x.rs";
        let late = "#![expect(\n    x,\n    reason = \"y\"\n)]\n//! m\n";
        assert_eq!(what("xtask/src/a.rs", late), Vec::<String>::new());
        fine("guard-agent/src/sys/x.rs", "unsafe { f() }");
        fine(agent, "#![forbid(unsafe_code)] // unsafe\nlet x = \"unsafe\";");
        fine(agent, "eprintln!(\"x\");");
        fine(
            agent,
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { println!(); }\n}",
        );
        fine("guard-agent/src/link/connect.rs", "Command::new(\"x\");");
        fine(
            "docs/a.md",
            concat!(
                "`/ho",
                "me/user/x`, `BASE/ho",
                "me/ann`, /sys/kernel/wo",
                "rk, the /ro",
                "ot/ itself"
            ),
        );
        let long = "\n".repeat(LINES_WARN);
        let finding = check(&File {
            path: "xtask/src/a.rs",
            text: &format!("//! m\n{long}"),
        });
        assert!(finding[0].only_a_warning);
    }
}
