//! Each kind of attempt leaves exactly one record, with the right operation, errno, layer and path.

use std::{fs, os::unix::fs::MetadataExt as _};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use guard_tests::{
    acting::{Stage, VIEWS, act},
    tier::Tier,
};

/// errno, layer, reason.
type Refused = (&'static str, &'static str, &'static str);

struct Kind {
    what: &'static str,
    act: Value,
    op: &'static str,
    /// As it is to stand in the record.
    path: String,
    path2: Option<String>,
    /// What it leads to, where the kernel names that instead.
    object: Option<String>,
    private: Option<Refused>,
    host: Option<Refused>,
}

const HIDDEN: Option<Refused> = Some(("ENOENT", "view", "outside-view"));
const LANDLOCK: Option<Refused> = Some(("EACCES", "unknown", "landlock-or-permissions"));
const BY_LANDLOCK: Option<Refused> = Some(("EACCES", "landlock", "not-granted"));
const READ_ONLY: Option<Refused> = Some(("EROFS", "view", "read-only"));
const NO_EXEC: Option<Refused> = Some(("EACCES", "view", "no-exec"));

fn kind(
    what: &'static str,
    act: Value,
    op: &'static str,
    path: &str,
    private: Option<Refused>,
    host: Option<Refused>,
) -> Kind {
    Kind {
        what,
        act,
        op,
        path: path.to_owned(),
        path2: None,
        object: None,
        private,
        host,
    }
}

fn at_tier_one() -> bool {
    matches!(Tier::current(), Ok(Tier::T1))
}

/// Where the refusals of the two views differ, the private one hides and the host one refuses.
fn outside(stage: &Stage) -> Vec<Kind> {
    let at = |name: &str| stage.text(name);
    let relative = |name: &str| at(name).trim_start_matches('/').to_owned();
    let file = |what, name: &str| kind(what, act("open", at(name)), "open", &at(name), HIDDEN, LANDLOCK);
    let dots = at("rw/sub/../../outside/dots");
    let mut from_root = act("open-at", relative("outside/at"));
    from_root["to"] = "/".into();
    let by = |what, name: &str, who: &str| {
        let mut kind = file(what, name);
        kind.act["who"] = who.into();
        kind
    };
    let to = |what, path: &str, object: &str| Kind {
        object: Some(at(object)),
        ..kind(what, act("open", path), "open", path, HIDDEN, LANDLOCK)
    };
    vec![
        file("by its path", "outside/secret"),
        to("by ..", &dots, "outside/dots"),
        to("by a link", &at("rw/link"), "outside/linked"),
        to("below a link", &at("rw/sub/way-out/below"), "outside/below"),
        kind(
            "after chdir",
            act("open", relative("outside/relative")),
            "open",
            &at("outside/relative"),
            HIDDEN,
            LANDLOCK,
        ),
        kind(
            "by a descriptor",
            from_root,
            "open",
            &at("outside/at"),
            HIDDEN,
            LANDLOCK,
        ),
        by("by a thread", "outside/thread", "thread"),
        by("by a grandchild", "outside/grandchild", "grandchild"),
        // The host view shows what exists.
        kind(
            "looked at",
            act("stat", at("outside/secret")),
            "stat",
            &at("outside/secret"),
            HIDDEN,
            None,
        ),
        kind(
            "program",
            act("exec", at("outside/program")),
            "exec",
            &at("outside/program"),
            HIDDEN,
            NO_EXEC,
        ),
    ]
}

fn changes(stage: &Stage) -> Vec<Kind> {
    let at = |name: &str| stage.text(name);
    let simple = |what, name: &'static str, path: &str| {
        kind(what, act(name, at(path)), name, &at(path), HIDDEN, READ_ONLY)
    };
    let mut rename = act("rename", at("rw/moved"));
    rename["to"] = at("outside/moved-over").into();
    let mut link = act("link", at("outside/source"));
    link["to"] = at("rw/linked").into();
    vec![
        simple("removed", "unlink", "outside/unlinked"),
        simple("made", "mkdir", "outside/made"),
        simple("cut", "truncate", "outside/cut"),
        simple("its mode", "chmod", "outside/mode"),
        simple("its attribute", "setxattr", "outside/attribute"),
        Kind {
            path2: Some(at("outside/moved-over")),
            ..kind(
                "moved",
                rename,
                "rename",
                &at("rw/moved"),
                HIDDEN,
                Some(("EXDEV", "unknown", "landlock-or-mounts")),
            )
        },
        Kind {
            path2: Some(at("outside/source")),
            ..kind(
                "linked",
                link,
                "link",
                &at("rw/linked"),
                HIDDEN,
                Some(("EXDEV", "unknown", "landlock-or-mounts")),
            )
        },
    ]
}

fn inside(stage: &Stage) -> Vec<Kind> {
    let at = |name: &str| stage.text(name);
    let kind = |what, act, op, path: &str, refused| kind(what, act, op, path, refused, refused);
    vec![
        kind(
            "write",
            act("open-write", at("r/file")),
            "open",
            &at("r/file"),
            READ_ONLY,
        ),
        kind(
            "create",
            act("create", at("r/new")),
            "open",
            &at("r/new"),
            READ_ONLY,
        ),
        kind(
            "program in rw",
            act("exec", at("rw/program")),
            "exec",
            &at("rw/program"),
            NO_EXEC,
        ),
        kind(
            "mapped executable",
            act("map", at("rw/program")),
            "mmap",
            &at("rw/program"),
            // The hook is asked before the mount is.
            if at_tier_one() {
                Some(("EACCES", "bpf-lsm", "right-missing"))
            } else {
                Some(("EPERM", "view", "no-exec"))
            },
        ),
    ]
}

impl Kind {
    /// As it is to be recorded. At tier T1 what Landlock refuses is told by the kernel, and of what it is about.
    fn refused(&self, view: &str) -> Option<Refused> {
        let refused = if view == "private" {
            self.private
        } else {
            self.host
        };
        if refused == LANDLOCK && at_tier_one() {
            return BY_LANDLOCK;
        }
        refused
    }

    /// Whether a record is about it. The kernel's path of an object is one of several where its filesystem is mounted
    /// twice.
    fn is_about(&self, view: &str, record: &Value) -> bool {
        if self.refused(view) != BY_LANDLOCK {
            return record["path"] == self.path;
        }
        let object = fs::metadata(self.object.as_ref().unwrap_or(&self.path));
        object.is_ok_and(|object| record["ino"] == object.ino() && record["dev"] == object.dev())
    }

    fn judge(&self, view: &str, outcome: &str, records: &[&Value]) -> Result<()> {
        let Some((errno, layer, reason)) = self.refused(view) else {
            ensure!(outcome == "ok", "gave {outcome}");
            ensure!(records.is_empty(), "nothing was refused, recorded is {records:?}");
            return Ok(());
        };
        ensure!(outcome == errno, "gave {outcome}, not {errno}");
        let denials: Vec<_> = records
            .iter()
            .filter(|record| record["decision"] == "deny")
            .collect();
        ensure!(
            denials.len() == 1,
            "recorded {} times: {denials:?}",
            denials.len()
        );
        let record = denials[0];
        let source = match layer {
            "landlock" | "bpf-lsm" => "kernel",
            _ => "user-memory",
        };
        for (field, wanted) in [
            ("errno", errno),
            ("layer", layer),
            ("reason", reason),
            ("path_source", source),
        ] {
            ensure!(record[field] == wanted, "{field} is not `{wanted}`: {record}");
        }
        ensure!(record["repeat"].is_null(), "it is told as repeated: {record}");
        ensure!(
            record["path_complete"].is_null(),
            "its path is not complete: {record}"
        );
        ensure!(
            record["path2"].as_str() == self.path2.as_deref(),
            "path2 is not {:?}: {record}",
            self.path2
        );
        Ok(())
    }
}

fn judged(view: &'static str) -> Result<()> {
    let mut stage = Stage::started(view)?;
    let kinds: Vec<Kind> = [outside(&stage), changes(&stage), inside(&stage)]
        .into_iter()
        .flatten()
        .collect();
    let mut outcomes = Vec::new();
    for kind in &kinds {
        if kind.what == "after chdir" {
            ensure!(stage.act(&act("chdir", "/"))? == "ok");
        }
        outcomes.push(stage.act(&kind.act)?);
        // What it started at is looked up after the fact: the next act is not to change that.
        if kind.what == "after chdir" {
            stage.wait("the relative open", |record| kind.is_about(view, record))?;
            let home = act("chdir", stage.at("rw"));
            ensure!(stage.act(&home)? == "ok");
        }
        if kind.op == "mmap" {
            stage.wait("the mapping", |record| record["op"] == "mmap")?;
        }
    }
    let told = stage.told()?;
    let mut wrong = Vec::new();
    for (kind, outcome) in kinds.iter().zip(&outcomes) {
        let records: Vec<&Value> = told
            .kernel
            .iter()
            .filter(|record| record["op"] == kind.op && kind.is_about(view, record))
            .collect();
        if let Err(error) = kind.judge(view, outcome, &records) {
            wrong.push(format!("{}: {error}", kind.what));
        }
    }
    ensure!(told.gaps.is_empty(), "something is missing: {:?}", told.gaps);
    ensure!(wrong.is_empty(), "{view} view:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn each_kind_once_in_the_private_view() -> Result<()> {
    judged("private")
}

#[test]
fn each_kind_once_in_the_host_view() -> Result<()> {
    judged("host")
}

/// The filter and the network programs report by themselves: the end of the call is not reported on top.
#[test]
fn what_another_layer_records_is_recorded_once() -> Result<()> {
    for view in VIEWS {
        let mut stage = Stage::started(view)?;
        let mount = act("mount", stage.at("rw"));
        for (what, act, layer) in [
            ("mount", mount, "seccomp"),
            ("ptrace", json!({"act": "ptrace", "number": 1}), "seccomp"),
            ("connect", json!({"act": "connect", "number": 7}), "cgroup-bpf"),
        ] {
            ensure!(stage.act(&act)? == "EPERM");
            stage.wait(what, |record| record["op"] == what && record["layer"] == layer)?;
        }
        ensure!(stage.act(&json!({"act": "kill", "number": 4_000_001}))? == "ESRCH");
        let told = stage.told()?;
        for (op, layer) in [
            ("mount", "seccomp"),
            ("ptrace", "seccomp"),
            ("connect", "cgroup-bpf"),
            ("kill", "namespaces"),
        ] {
            let all: Vec<_> = told.kernel.iter().filter(|record| record["op"] == op).collect();
            ensure!(
                all.len() == 1 && all[0]["layer"] == layer,
                "{view}: `{op}` by `{layer}`: {all:?}"
            );
            ensure!(all[0]["repeat"].is_null(), "{view}: {:?}", all[0]);
        }
    }
    Ok(())
}

#[test]
fn a_started_program_is_told_with_its_inode() -> Result<()> {
    for view in VIEWS {
        let mut stage = Stage::started(view)?;
        let outcome = stage.act(&act("exec", stage.at("bin/allowed")))?;
        ensure!(outcome == "ok", "{outcome}");
        let told = stage.told()?;
        let path = stage.text("bin/allowed");
        let records = told.about("exec", &path);
        ensure!(records.len() == 1, "{view}: {records:?}");
        let (record, file) = (records[0], fs::metadata(stage.at("bin/allowed"))?);
        ensure!(record["decision"] == "allow" && record["exe"] == path, "{record}");
        ensure!(record["path_source"] == "kernel", "{record}");
        for (field, wanted) in [("dev", file.dev()), ("ino", file.ino()), ("nlink", 2)] {
            ensure!(
                record[field] == wanted,
                "{view}: {field} is not {wanted}: {record}"
            );
        }
        let server = told.about("exec", &stage.text("bin/guard-probe"));
        ensure!(server.len() == 1, "{view}: the server's own start: {server:?}");
    }
    Ok(())
}
