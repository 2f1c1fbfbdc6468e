//! Every refusal by its exact text: these lines are what an operator has at three in the morning.

mod environment;
mod flags;
mod policy;
mod roots;
mod users;

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use clap::Parser as _;

use super::{
    host::Host,
    resolved::{self, RunPlan},
    shown,
    user::Accounts,
};
use crate::{cli::run_args::RunArgs, exit::ExitStatus, refusal::Refusal};

#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    run: RunArgs,
}

/// A person with a home, accounts and a working directory, all in a directory of the test's own.
struct Case {
    _guard: tempfile::TempDir,
    base: PathBuf,
    host: Host,
}

impl Case {
    fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let base = guard.path().canonicalize().unwrap();
        let host = Host {
            directory: base.join("cwd"),
            uid: 1000,
            gid: 1000,
            groups: vec![1000, 44],
            sudo_uid: None,
            sudo_gid: None,
            home: Some(base.join("home/ann")),
            xdg_state_home: None,
            xdg_runtime_dir: None,
            accounts: Accounts {
                passwd: base.join("passwd"),
                group: base.join("group"),
            },
            mounts: Vec::new(),
        };
        let case = Self {
            _guard: guard,
            base,
            host,
        };
        for dir in ["cwd", "docs/deep", "home/ann", "home/bob", "audit", "state"] {
            case.mkdir(dir);
        }
        case.write(
            "passwd",
            "root:x:0:0:root:/root:/bin/sh\n\
             toor:x:0:0::/root:/bin/sh\n\
             operator:x:11:0::/root:/bin/false\n\
             +nis:x:700:700::/home/nis:/bin/sh\n\
             broken:x:many:1:/:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n\
             ann:x:1000:1000:Ann:BASE/home/ann:/bin/sh\n\
             bob:x:1001:1001:B\u{f6}b:BASE/home/bob:/bin/sh\n\
             homeless:x:1002:1002:::/bin/sh\n\
             twin:x:1001:4000::/home/twin:/bin/sh\n",
        );
        case.write(
            "group",
            "root:x:0:bob\nvideo:x:44:ann,bob\nbob:x:1001:bob\ndocs:x:300:carl,bob\nodd:x:301\n",
        );
        case
    }

    fn root() -> Self {
        let mut case = Self::new();
        (case.host.uid, case.host.gid, case.host.groups) = (0, 0, vec![0]);
        case
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    fn mkdir(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    /// `BASE` in the text is the test's directory.
    fn write(&self, path: &str, text: &str) {
        fs::write(self.at(path), self.filled(text)).unwrap();
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn filled(&self, text: &str) -> String {
        text.replace("BASE", self.base.to_str().unwrap())
    }

    fn args(&self, line: &[&str]) -> RunArgs {
        let filled = line.iter().map(|word| OsString::from(self.filled(word)));
        CommandLine::try_parse_from(std::iter::once(OsString::from("run")).chain(filled))
            .unwrap()
            .run
    }

    fn resolve(&self, line: &[&str]) -> Result<RunPlan, Refusal> {
        let mut args = self.args(line);
        args.audit.get_or_insert_with(|| self.at("audit"));
        args.state.get_or_insert_with(|| self.at("state"));
        resolved::resolve(&args, &self.host)
    }

    #[track_caller]
    fn accepted(&self, line: &[&str]) -> RunPlan {
        self.resolve(line).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// The three lines without their labels, `BASE` for the test's directory.
    #[track_caller]
    fn refused(&self, line: &[&str], what: &str, why: &str, hint: &str) {
        self.refused_with(ExitStatus::Usage, line, what, why, hint);
    }

    #[track_caller]
    fn refused_with(&self, exit: ExitStatus, line: &[&str], what: &str, why: &str, hint: &str) {
        match self.resolve(line) {
            Ok(plan) => panic!("accepted: {plan:?}"),
            Err(refusal) => {
                let base = self.base.to_str().unwrap();
                assert_eq!(
                    refusal.to_string().replace(base, "BASE"),
                    format!("error: {what}\n  why: {why}\n  fix: {hint}")
                );
                assert_eq!(refusal.exit, exit);
            }
        }
    }

    /// The same for a policy with this text.
    #[track_caller]
    fn policy_refused(&self, text: &str, what: &str, why: &str, hint: &str) {
        self.write("policy.toml", text);
        self.refused(&["--policy", "BASE/policy.toml"], what, why, hint);
    }

    fn roots(plan: &RunPlan) -> Vec<String> {
        plan.roots
            .iter()
            .map(|root| format!("{}:{}", shown(root.path.as_os_str()), root.rights))
            .collect()
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn shown_text_stays_on_its_line() {
    assert_eq!(shown("docs/ä b"), "docs/ä b");
    assert_eq!(shown("a\nb\x1b[2J\u{202e}"), "a\\nb\\u{1b}[2J\\u{202e}");
    assert_eq!(shown(OsStr::from_bytes(b"\xffx")), "\\xffx");
}
