//! The servers: how each is started, what it may have, and what is asked of it. Arguments are chosen so that answers hold
//! no time, number of a process or name of a place that another run would have otherwise.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{agent::AgentBuilder, fixtures, refused::text};
use serde_json::json;

use crate::steps::{End, Step, call, get, list, read};

/// The distribution's. Another in `/usr/local` would come first by the search path.
const GIT: &str = "/usr/bin/git";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Everything,
    Fetch,
    Filesystem,
    Git,
    Memory,
    Sqlite,
    Time,
}

/// A virtual environment for two servers and the client of the SDK they are made with.
pub(crate) fn python_two() -> Result<std::path::PathBuf> {
    fixtures::python_venv(&[
        "mcp==2.3.0",
        "mcp-server-git==2026.10.19",
        "mcp-server-fetch==2026.10.24",
    ])
}

/// The same with the SDK before that, which one server still needs.
pub(crate) fn python_one() -> Result<std::path::PathBuf> {
    fixtures::python_venv(&["mcp==1.30.0", "mcp-server-sqlite==2025.4.25"])
}

impl Server {
    pub(crate) const ALL: [Self; 7] = [
        Self::Everything,
        Self::Fetch,
        Self::Filesystem,
        Self::Git,
        Self::Memory,
        Self::Sqlite,
        Self::Time,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Fetch => "fetch",
            Self::Filesystem => "filesystem",
            Self::Git => "git",
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Time => "time",
        }
    }

    /// It knows the era without `initialize`, too.
    pub(crate) fn is_modern(self) -> bool {
        matches!(self, Self::Fetch | Self::Git | Self::Time)
    }

    /// Its command line; `data` is a directory of its own.
    pub(crate) fn command(self, data: &Path) -> Result<Vec<OsString>> {
        let node = |script: std::path::PathBuf, arguments: &[&Path]| {
            let mut words: Vec<OsString> = vec!["/usr/bin/node".into(), script.into()];
            words.extend(arguments.iter().map(OsString::from));
            words
        };
        let python = |venv: std::path::PathBuf, words: &[&str]| -> Vec<OsString> {
            let program = venv.join("bin/python").into_os_string();
            std::iter::once(program)
                .chain(words.iter().map(OsString::from))
                .collect()
        };
        let repository = text(&data.join("repository"));
        let database = text(&data.join("database"));
        Ok(match self {
            Self::Everything => node(fixtures::node_server_everything()?, &[]),
            Self::Fetch => python(python_two()?, &["-m", "mcp_server_fetch"]),
            Self::Filesystem => node(fixtures::node_server_filesystem()?, &[data]),
            Self::Git => python(
                python_two()?,
                &["-m", "mcp_server_git", "--repository", &repository],
            ),
            Self::Memory => node(fixtures::node_server_memory()?, &[]),
            Self::Sqlite => {
                let venv = python_one()?;
                let script = text(&venv.join("bin/mcp-server-sqlite"));
                python(venv, &[&script, "--db-path", &database])
            }
            Self::Time => python(
                fixtures::python_venv(&["mcp-server-time"])?,
                &["-m", "mcp_server_time", "--local-timezone", "UTC"],
            ),
        })
    }

    /// What its environment has beside what the sandbox gives everybody.
    pub(crate) fn environment(self, data: &Path) -> Vec<(&'static str, String)> {
        match self {
            Self::Git => vec![("GIT_PYTHON_GIT_EXECUTABLE", GIT.to_owned())],
            Self::Memory => vec![("MEMORY_FILE_PATH", text(&data.join("memory.jsonl")))],
            _ => Vec::new(),
        }
    }

    /// The launch may touch nothing but the directory, and start nothing but git where the server is made of that.
    pub(crate) fn grants(self, run: AgentBuilder, data: &Path) -> AgentBuilder {
        let environment = self.environment(data);
        let mut run = run.root(data, "rw");
        if self == Self::Git {
            run = run.root(Path::new(GIT), "rx");
        }
        environment.into_iter().fold(run, |run, (name, value)| {
            run.option("--env", format!("{name}={value}"))
        })
    }

    /// Its directory as it is before each run.
    pub(crate) fn prepare(self, data: &Path) -> Result<()> {
        match self {
            Self::Filesystem => {
                fs::write(data.join("note"), "a note: é ☃ \u{2028} \u{1f600}\r\n")?;
                fs::write(data.join("long"), "0123456789 \"quoted\" \\ \t\n".repeat(20_000))?;
            }
            Self::Git => {
                let repository = data.join("repository");
                fs::create_dir(&repository)?;
                let git = |words: &[&str]| git(&repository, words);
                git(&["init", "--quiet", "--initial-branch=main"])?;
                for (name, message) in [("one", "first: é"), ("two", "second")] {
                    fs::write(repository.join(name), format!("{name}\n"))?;
                    git(&["add", name])?;
                    git(&["commit", "--quiet", "--message", message])?;
                }
                fs::write(repository.join("one"), "changed\n")?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn steps(self, data: &Path) -> Vec<Step> {
        let at = |name: &str| text(&data.join(name));
        let unknown = call("no_such_tool", &json!({})).ends(End::Failed);
        match self {
            Self::Everything => {
                let long = |duration: f64, steps: u32| {
                    call(
                        "trigger-long-running-operation",
                        &json!({"duration": duration, "steps": steps}),
                    )
                };
                let document = |name: &str| format!("demo://resource/static/document/{name}");
                vec![
                    list("tools"),
                    call("echo", &json!({"message": "é ☃ \u{2028} \u{1f600}"})),
                    call("get-sum", &json!({"a": 1.5, "b": 2})),
                    call("get-sum", &json!({"a": "one", "b": 2})).ends(End::Failed),
                    unknown,
                    call("get-structured-content", &json!({"location": "Chicago"})),
                    call("get-tiny-image", &json!({})),
                    call("get-resource-links", &json!({"count": 3})),
                    list("resources"),
                    list("templates"),
                    read(&document("architecture.md")),
                    read("demo://no/such").ends(End::Failed),
                    list("prompts"),
                    get("args-prompt", &json!({"city": "Tallinn"})),
                    get("no-such-prompt", &json!({})).ends(End::Failed),
                    long(0.5, 5).progress(),
                    long(1.0, 1).cancelled(),
                    call("echo", &json!({"message": "after"})),
                ]
            }
            Self::Fetch => vec![
                list("tools"),
                list("prompts"),
                // Nothing leaves the machine for it, in a sandbox or not.
                call("fetch", &json!({"url": "no address"})).ends(End::Failed),
                call("fetch", &json!({"url": 7})).ends(End::Failed),
                unknown,
            ],
            Self::Filesystem => vec![
                list("tools"),
                call("read_text_file", &json!({"path": at("note")})),
                call("read_text_file", &json!({"path": at("long")})),
                call(
                    "write_file",
                    &json!({"path": at("new"), "content": "new: \u{2028}\n"}),
                ),
                call("read_text_file", &json!({"path": at("new")})),
                call("list_directory", &json!({"path": text(data)})),
                call("read_text_file", &json!({"path": at("absent")})).ends(End::Failed),
                unknown,
            ],
            Self::Git => {
                let path = at("repository");
                let of = |name: &str| call(name, &json!({"repo_path": path}));
                vec![
                    list("tools"),
                    of("git_status"),
                    of("git_log"),
                    of("git_diff_unstaged"),
                    call("git_show", &json!({"repo_path": path, "revision": "HEAD"})),
                    call("git_add", &json!({"repo_path": path, "files": ["one"]})),
                    of("git_status"),
                    call("git_status", &json!({"repo_path": at("absent")})).ends(End::Failed),
                    unknown,
                ]
            }
            Self::Memory => {
                let entity =
                    |name: &str| json!({"name": name, "entityType": "é", "observations": ["\u{2028}", name]});
                let relation = json!({"from": "one", "to": "two", "relationType": "knows"});
                vec![
                    list("tools"),
                    call(
                        "create_entities",
                        &json!({"entities": [entity("one"), entity("two")]}),
                    ),
                    call("create_relations", &json!({"relations": [relation]})),
                    call("read_graph", &json!({})),
                    call("search_nodes", &json!({"query": "tw"})),
                    list("resources"),
                    read("memory://knowledge-graph"),
                    unknown,
                ]
            }
            Self::Sqlite => {
                let query = |name: &str, text: &str| call(name, &json!({"query": text}));
                vec![
                    list("tools"),
                    query("create_table", "CREATE TABLE note (number INTEGER, text TEXT)"),
                    query("write_query", "INSERT INTO note VALUES (1, 'é ☃'), (2, '😀')"),
                    query("read_query", "SELECT * FROM note ORDER BY number"),
                    call("describe_table", &json!({"table_name": "note"})),
                    call("append_insight", &json!({"insight": "two notes"})),
                    list("resources"),
                    read("memo://insights"),
                    list("prompts"),
                    get("mcp-demo", &json!({"topic": "notes"})),
                    query("read_query", "SELECT nothing FROM nowhere").ends(End::Either),
                    unknown.ends(End::Either),
                ]
            }
            Self::Time => {
                let convert = |time: &str| {
                    let (from, to) = ("UTC", "Asia/Tokyo");
                    call(
                        "convert_time",
                        &json!({"source_timezone": from, "time": time, "target_timezone": to}),
                    )
                };
                vec![
                    list("tools"),
                    convert("12:00"),
                    convert("never").ends(End::Failed),
                    unknown,
                ]
            }
        }
    }
}

/// With nothing of the machine's in it, so that commits have the same names everywhere.
fn git(repository: &Path, words: &[&str]) -> Result<()> {
    const WHEN: &str = "2026-01-02T03:04:05+00:00";
    let output = Command::new(GIT)
        .args(["-c", "user.name=Tests", "-c", "user.email=tests@example.org"])
        .args(words)
        .current_dir(repository)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", WHEN)
        .env("GIT_COMMITTER_DATE", WHEN)
        .output()
        .context("failed to start git")?;
    ensure!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
