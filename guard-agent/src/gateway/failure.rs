//! The last words about a server that failed: how it ended, what it was refused, which rule would allow that, and
//! what it said itself. For the operator's stderr; nothing of it goes to the client.

use std::{ffi::OsStr, fmt::Write as _, path::Path, time::Duration};

use nix::sys::signal::Signal;

use crate::{
    audit::escape,
    config::rights::Rights,
    link::message::{Exited, RefusedPath},
    octets::Octets,
};

/// Paths that are named; the records have them all.
const NAMED: usize = 3;
/// Lines of its stderr that are repeated, and what of each.
const LINES: usize = 20;
const LINE: usize = 200;
/// All of it goes out in one write that must not block for long: a page of a pipe.
const ROOM: usize = 4096;

/// Trees of which the sandbox has its own: no root can be there.
const OWN: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// Names of files and directories that hold secrets: somebody tired must not paste a rule for them.
const SECRET: [&str; 14] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "shadow",
    "gshadow",
    "sudoers",
    "sudoers.d",
];

/// What the C library and the runtimes of every program look for and do without: named only if the server does.
const USUAL: [&str; 7] = [
    "/etc/host.conf",
    "/etc/ld.so.preload",
    "/proc",
    "/sys",
    "/usr/etc",
    "/usr/lib/locale",
    "/usr/share/locale",
];

/// Where this launch has its rules.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The policy file, as typed; without one they are flags.
    pub policy: Option<String>,
    pub roots: Vec<(Octets, Rights)>,
    /// The audit directory, when it is not the default one.
    pub audit: Option<String>,
}

impl Rules {
    fn rule(&self, server: &str, path: &Path, rights: Rights) -> String {
        let path = shown(path);
        match &self.policy {
            None => format!("`--root {path}:{rights}`"),
            Some(file) => format!(
                "`{{ path = \"{path}\", rights = \"{rights}\" }}` among the `roots` of `[server.{server}]` in `{file}`"
            ),
        }
    }

    /// The rule that would allow it, or why there is none.
    fn suggestion(&self, server: &str, refused: &RefusedPath) -> Result<String, &'static str> {
        let path = refused.path.as_path();
        if OWN.iter().any(|own| path.starts_with(own)) {
            return Err("the sandbox has its own");
        }
        if path
            .components()
            .any(|part| SECRET.iter().any(|secret| part.as_os_str() == *secret))
        {
            return Err("it may hold secrets, so no rule is proposed");
        }
        let inside = |(root, _): &&(Octets, Rights)| path.starts_with(root.as_path());
        // The innermost root decides.
        let root = self
            .roots
            .iter()
            .filter(inside)
            .max_by_key(|(root, _)| root.0.len());
        if let Some((root, rights)) = root {
            if rights.contains(refused.rights) {
                return Err("its root allows that: ordinary permissions or a protected name refused it");
            }
            let wider = Rights {
                write: rights.write || refused.rights.write,
                exec: rights.exec || refused.rights.exec,
            };
            return Ok(self.rule(server, root.as_path(), wider));
        }
        Ok(match refused.exists.as_ref().map(Octets::as_path) {
            // Something that is to be made: in a directory that is there, or in one that must be made first.
            Some(there) if refused.absent => {
                let missing = path
                    .ancestors()
                    .take_while(|part| *part != there)
                    .last()
                    .unwrap_or(path);
                if missing == path && !refused.op.starts_with("mkdir") && !is_wide(there) {
                    self.rule(server, there, refused.rights)
                } else {
                    let rule = self.rule(server, missing, refused.rights);
                    format!("{rule} once that directory is made")
                }
            }
            Some(there) if is_wide(there) => {
                return Err("it holds more than this server's files: name what of it is needed");
            }
            Some(there) => self.rule(server, there, refused.rights),
            None => self.rule(server, path, refused.rights),
        })
    }

    fn records(&self, session: &str) -> String {
        let audit = self
            .audit
            .as_ref()
            .map_or_else(String::new, |place| format!(" --audit {place}"));
        format!("`guard-agent audit query --session {session}{audit}`")
    }
}

/// Whether a directory holds more than one program's files.
fn is_wide(directory: &Path) -> bool {
    let depth = directory.components().count();
    depth <= 2
        || depth == 3
            && ["/home", "/usr", "/var"]
                .iter()
                .any(|top| directory.starts_with(top))
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// What is known of a server that failed.
#[derive(Debug)]
pub(super) struct Failure<'a> {
    pub(super) server: &'a str,
    pub(super) session: &'a str,
    pub(super) exited: &'a Exited,
    /// Whether it ever said something to its client.
    pub(super) answered: bool,
    /// Whether refused files are on record at all.
    pub(super) observed: bool,
    pub(super) lived: Duration,
    pub(super) rules: &'a Rules,
    /// Harmless for a terminal.
    pub(super) tail: Vec<String>,
}

impl Failure<'_> {
    pub(super) fn text(&self) -> String {
        let (named, more) = self.named();
        let mut text = format!("error: the server `{}` ended", self.server);
        if !self.answered {
            text.push_str(" during its start");
        }
        let _ = write!(text, "\n  why: {}", self.how());
        if !self.answered {
            let _ = match self.lived.as_millis() {
                millis @ ..1000 => write!(text, " after {millis} ms, before it said a word"),
                millis => write!(
                    text,
                    " after {}.{} s, before it said a word",
                    millis / 1000,
                    millis % 1000 / 100
                ),
            };
        }
        for (index, refused) in named.iter().enumerate() {
            text.push_str(if index == 0 { "; it was refused " } else { ", " });
            let _ = write!(
                text,
                "`{}` ({}",
                shown(refused.path.as_path()),
                escape(&refused.op)
            );
            if let Some(errno) = &refused.errno {
                let _ = write!(text, ": {}", escape(errno));
            }
            text.push(')');
        }
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        let _ = writeln!(text, "\n  fix: {}", self.fix(&named));
        self.last_words(&mut text);
        text
    }

    fn how(&self) -> String {
        match (self.exited.code, self.exited.signal) {
            (Some(code), _) => format!("it exited with status {code}"),
            (None, Some(signal)) => {
                let signal =
                    Signal::try_from(signal).map_or_else(|_| signal.to_string(), |signal| signal.to_string());
                match &self.exited.cause {
                    Some(cause) => format!("it was killed by the {cause}"),
                    None => format!("it ended by {signal} ({})", self.exited.reason),
                }
            }
            (None, None) => format!("it ended ({})", self.exited.reason),
        }
    }

    /// What it spoke of itself counts first, then what it was refused last. A server that had answered before is no
    /// longer starting: only what it names says anything.
    fn named(&self) -> (Vec<&RefusedPath>, usize) {
        let spoken = |refused: &&RefusedPath| {
            let path = refused.path.as_path();
            let whole = shown(path);
            // Of a program it is mostly the name alone: `spawn sh ENOENT`.
            let name = path
                .file_name()
                .filter(|_| refused.rights.exec)
                .and_then(OsStr::to_str);
            let quotes = |letter: char| letter.is_whitespace() || "'\"`:,()".contains(letter);
            let named = |line: &String| name.is_some_and(|name| line.split(quotes).any(|word| word == name));
            self.tail.iter().any(|line| line.contains(&whole) || named(line))
        };
        let usual = |refused: &&RefusedPath| {
            let path = refused.path.as_path();
            // Tables of character sets, by machine.
            let gconv = path.components().any(|part| part.as_os_str() == "gconv");
            gconv || USUAL.iter().any(|usual| path.starts_with(usual))
        };
        let refused = self.exited.refused.iter().rev();
        let (mut named, mut others): (Vec<_>, Vec<_>) = refused.partition(spoken);
        others.retain(|refused| !self.answered && !usual(refused));
        let mut more = 0;
        if named.is_empty() {
            more = others.len().saturating_sub(NAMED);
            named = others;
        }
        named.truncate(NAMED);
        (named, more)
    }

    fn fix(&self, named: &[&RefusedPath]) -> String {
        let (mut rules, mut without) = (Vec::new(), Vec::new());
        for refused in named {
            match self.rules.suggestion(self.server, refused) {
                Ok(rule) if !rules.contains(&rule) => rules.push(rule),
                Ok(_) => {}
                Err(why) => without.push(format!("`{}`: {why}", shown(refused.path.as_path()))),
            }
        }
        let mut parts = Vec::new();
        if !rules.is_empty() {
            parts.push(format!("if it needs that, allow it with {}", rules.join(", ")));
        }
        parts.extend(without);
        if named.is_empty() && !self.observed && !self.answered {
            parts.push("what it was refused is not known, files are not observed here".to_owned());
        }
        parts.push(format!(
            "see the session's records: {}",
            self.rules.records(self.session)
        ));
        parts.join("; ")
    }

    /// As many of its last lines as there is room for.
    fn last_words(&self, text: &mut String) {
        const TITLE: &str = "  its last words:\n";
        let mut room = ROOM.saturating_sub(text.len() + TITLE.len());
        let mut lines = Vec::new();
        for line in self.tail.iter().rev().take(LINES) {
            let end = line.char_indices().nth(LINE).map(|(end, _)| end);
            let line = match end {
                Some(end) => format!("    {}…\n", &line[..end]),
                None => format!("    {line}\n"),
            };
            if line.len() > room {
                break;
            }
            room -= line.len();
            lines.push(line);
        }
        if !lines.is_empty() {
            text.push_str(TITLE);
            text.extend(lines.into_iter().rev());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str, op: &str, rights: Rights, exists: Option<&str>) -> RefusedPath {
        RefusedPath {
            path: path.into(),
            op: op.into(),
            errno: Some("ENOENT".into()),
            rights,
            exists: exists.map(Octets::from),
            absent: exists.is_some_and(|there| there != path),
        }
    }

    fn exited(refused: Vec<RefusedPath>) -> Exited {
        Exited {
            reason: "exited".into(),
            code: Some(1),
            signal: None,
            cause: None,
            refused,
        }
    }

    fn exited_with(refused: Vec<RefusedPath>) -> Exited {
        exited(refused)
    }

    fn text(exited: &Exited, rules: &Rules, answered: bool, tail: &[&str]) -> String {
        Failure {
            server: "files",
            session: "s-1",
            exited,
            answered,
            observed: true,
            lived: Duration::from_millis(1234),
            rules,
            tail: tail.iter().map(|line| (*line).to_owned()).collect(),
        }
        .text()
    }

    #[test]
    fn a_start_that_fails_names_path_rule_and_last_words() {
        let exited = exited(vec![
            refused("/etc/other", "open", Rights::R, Some("/etc/other")),
            refused("/opt/lib/x.js", "open", Rights::R, Some("/opt/lib/x.js")),
            refused("/etc/last", "open", Rights::R, Some("/etc/last")),
        ]);
        let tail = ["Error: Cannot find module '/opt/lib/x.js'", "    at main.js"];
        assert_eq!(
            text(&exited, &Rules::default(), false, &tail),
            "error: the server `files` ended during its start\n  why: it exited with status 1 after 1.2 s, before it \
             said a word; it was refused `/opt/lib/x.js` (open: ENOENT)\n  fix: if it needs that, allow it with \
             `--root /opt/lib/x.js:r`; see the session's records: `guard-agent audit query --session s-1`\n  its last \
             words:\n    Error: Cannot find module '/opt/lib/x.js'\n        at main.js\n"
        );
        // It names nothing: what it was refused last, the latest first.
        let silent = text(&exited, &Rules::default(), false, &[]);
        assert!(
            silent.contains(
                "it was refused `/etc/last` (open: ENOENT), `/opt/lib/x.js` (open: ENOENT), `/etc/other`"
            ),
            "{silent}"
        );
        assert!(!silent.contains("last words"), "{silent}");
        // What every program looks for is no news.
        let usual = exited_with(vec![refused(
            "/usr/lib/locale/C.utf8/LC_CTYPE",
            "open",
            Rights::R,
            None,
        )]);
        assert!(!text(&usual, &Rules::default(), false, &[]).contains("refused"));
        let unseen = Failure {
            server: "files",
            session: "s-1",
            exited: &exited_with(Vec::new()),
            answered: false,
            observed: false,
            lived: Duration::ZERO,
            rules: &Rules::default(),
            tail: Vec::new(),
        };
        assert!(
            unseen.text().contains("  fix: what it was refused is not known"),
            "{}",
            unseen.text()
        );
        // A program is spoken of by its name.
        let tool = exited_with(vec![
            refused("/usr/bin/sh", "exec", Rights::RX, Some("/usr/bin/sh")),
            refused("/etc/last", "open", Rights::R, Some("/etc/last")),
        ]);
        let spawned = text(
            &tool,
            &Rules::default(),
            false,
            &["npm error enoent spawn sh ENOENT"],
        );
        assert!(
            spawned.contains("it was refused `/usr/bin/sh` (exec: ENOENT)\n"),
            "{spawned}"
        );
        // One that had answered is not starting any more.
        let later = text(&exited, &Rules::default(), true, &[]);
        assert!(
            later.starts_with("error: the server `files` ended\n  why: it exited with status 1\n  fix: see"),
            "{later}"
        );
    }

    #[test]
    fn the_rule_stands_where_the_launch_has_its_rules() {
        let exited = exited(vec![refused("/opt/x", "exec", Rights::RX, Some("/opt/x"))]);
        let rules = Rules {
            policy: Some("/etc/p.toml".into()),
            roots: Vec::new(),
            audit: Some("/a".into()),
        };
        let text = text(&exited, &rules, false, &[]);
        assert!(
            text.contains("`{ path = \"/opt/x\", rights = \"rx\" }` among the `roots` of `[server.files]` in `/etc/p.toml`"),
            "{text}"
        );
        assert!(text.contains("audit query --session s-1 --audit /a`"), "{text}");
    }

    #[test]
    fn each_kind_of_path_has_its_rule_or_none() {
        let rules = Rules {
            policy: None,
            roots: vec![
                ("/srv/docs".into(), Rights::R),
                (
                    "/srv/all".into(),
                    Rights {
                        write: true,
                        exec: true,
                    },
                ),
            ],
            audit: None,
        };
        let rule =
            |path: &str, op: &str, rights, exists| rules.suggestion("x", &refused(path, op, rights, exists));
        for (path, op, rights, exists, expected) in [
            ("/opt/a", "open", Rights::R, Some("/opt/a"), "`--root /opt/a:r`"),
            ("/opt/a", "open", Rights::R, None, "`--root /opt/a:r`"),
            (
                "/usr/bin/git",
                "exec",
                Rights::RX,
                Some("/usr/bin/git"),
                "`--root /usr/bin/git:rx`",
            ),
            // A file that is to be made needs its directory.
            (
                "/srv/out/new",
                "open",
                Rights::RW,
                Some("/srv/out"),
                "`--root /srv/out:rw`",
            ),
            // Never a whole home or all of `/srv`.
            (
                "/home/u/.npm",
                "mkdir",
                Rights::RW,
                Some("/home/u"),
                "`--root /home/u/.npm:rw` once that directory is made",
            ),
            (
                "/home/u/.npm/_logs/x",
                "open",
                Rights::RW,
                Some("/home/u"),
                "`--root /home/u/.npm:rw` once that directory is made",
            ),
            (
                "/srv/file",
                "open",
                Rights::RW,
                Some("/srv"),
                "`--root /srv/file:rw` once that directory is made",
            ),
            // Inside a root that allows less.
            (
                "/srv/docs/a/b",
                "open",
                Rights::RW,
                Some("/srv/docs/a/b"),
                "`--root /srv/docs:rw`",
            ),
            (
                "/srv/docs/tool",
                "exec",
                Rights::RX,
                Some("/srv/docs/tool"),
                "`--root /srv/docs:rx`",
            ),
        ] {
            assert_eq!(rule(path, op, rights, exists).as_deref(), Ok(expected), "{path}");
        }
        for (path, why) in [
            ("/proc/1/environ", "its own"),
            ("/run/docker.sock", "its own"),
            ("/home/u/.ssh/id_ed25519", "secrets"),
            ("/etc/shadow", "secrets"),
            ("/srv", "more than"),
            ("/home/u", "more than"),
            ("/srv/all/x", "ordinary permissions"),
        ] {
            let refusal = rule(path, "open", Rights::R, Some(path)).unwrap_err();
            assert!(refusal.contains(why), "{path}: {refusal}");
        }
    }

    #[test]
    fn nothing_it_says_forges_a_line_or_takes_all_the_room() {
        let hostile = exited(vec![refused(
            "/a\nerror: forged\u{1b}[2J",
            "open",
            Rights::R,
            None,
        )]);
        let said = text(&hostile, &Rules::default(), false, &[]);
        assert_eq!(said.lines().count(), 3, "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
        let long = "x".repeat(100_000);
        let lines: Vec<&str> = std::iter::repeat_n(long.as_str(), 100).collect();
        let said = text(&exited(Vec::new()), &Rules::default(), false, &lines);
        assert!(said.len() <= ROOM, "{}", said.len());
        assert!((10..=LINES + 4).contains(&said.lines().count()), "{said}");
        let short: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
        let short: Vec<&str> = short.iter().map(String::as_str).collect();
        let said = text(&exited(Vec::new()), &Rules::default(), false, &short);
        assert!(
            said.ends_with("    line 98\n    line 99\n")
                && said.contains("line 80\n")
                && !said.contains("line 79\n")
        );
    }
}
