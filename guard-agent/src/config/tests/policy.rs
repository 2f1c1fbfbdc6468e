//! The policy file: what is read, what is refused and how.

use std::{collections::BTreeSet, os::unix::fs::symlink};

use super::{super::raw, *};
use crate::link::message::{Facet, Isolation, OverBudget, User, View};

const PAGE: &str = include_str!("../../../../docs/policy.md");

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/config/fixtures")
        .join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn valid_files() {
    let files = fixtures("valid");
    assert!(files.len() >= 3);
    for file in files {
        raw::load(&file).unwrap_or_else(|refusal| panic!("{}: {refusal}", file.display()));
    }
}

/// The first line of each says at which line it fails, and why.
#[test]
fn invalid_files() {
    let files = fixtures("invalid");
    assert!(files.len() >= 20);
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# ").unwrap();
        let found = match raw::load(&file) {
            Ok(_) => "accepted".to_owned(),
            Err(refusal) => {
                assert_eq!(refusal.exit, ExitStatus::Usage);
                let place = format!("cannot use policy `{}`, ", file.display());
                format!(
                    "{}: {}",
                    refusal.what.strip_prefix(&place).unwrap_or(&refusal.what),
                    refusal.why
                )
            }
        };
        if found != expected {
            wrong.push(format!(
                "{}\n  expected {expected}\n  found    {found}",
                file.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_unknown_key_in_three_lines() {
    Case::new().policy_refused(
        "[server.a]\ncommand = [\"x\"]\nlimits = { output = \"8M\" }\n",
        "cannot use policy `BASE/policy.toml`, line 3",
        "unknown key `output`, expected one of `memory`, `cpu`, `pids`, `tmp`, `call_timeout`, `start_timeout`",
        "remove or correct the key; `docs/policy.md` explains each, and none is accepted that nothing enforces",
    );
}

#[test]
fn files_that_cannot_be_read() {
    let case = Case::new();
    let hint = "correct the path after `--policy`";
    case.refused(
        &["--policy", "BASE/gone"],
        "cannot read policy `BASE/gone`",
        "no such file or directory",
        hint,
    );
    symlink("loop", case.at("loop")).unwrap();
    let hint = "name a regular file that can be read";
    case.refused(
        &["--policy", "BASE/loop"],
        "cannot read policy `BASE/loop`",
        "too many symbolic links encountered",
        hint,
    );
    nix::unistd::mkfifo(&case.at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in ["docs", "pipe"] {
        let line = ["--policy", &format!("BASE/{path}")];
        case.refused(
            &line,
            &format!("cannot read policy `BASE/{path}`"),
            "it is not a regular file",
            "name a policy file",
        );
    }
    fs::write(case.at("binary"), b"\xff").unwrap();
    case.refused(
        &["--policy", "BASE/binary"],
        "cannot read policy `BASE/binary`",
        "it is not UTF-8 text",
        "write the policy as TOML",
    );
    fs::write(case.at("large"), vec![b'#'; (1 << 20) + 1]).unwrap();
    case.refused(
        &["--policy", "BASE/large"],
        "cannot read policy `BASE/large`",
        "it is larger than 1 MiB",
        "name a policy file",
    );
    case.write("open", "");
    fs::set_permissions(case.at("open"), fs::Permissions::from_mode(0o666)).unwrap();
    case.refused(
        &["--policy", "BASE/open"],
        "cannot use policy `BASE/open`",
        "everybody on this machine may change it",
        "check what it says, then `chmod o-w BASE/open`",
    );
}

#[test]
fn which_server() {
    let case = Case::new();
    case.policy_refused(
        "",
        "nothing to run in policy `BASE/policy.toml`",
        "it has no [server.NAME]",
        "add one; `docs/policy.md` has an example",
    );
    let two = "[server.b]\ncommand = [\"y\"]\n[server.a]\ncommand = [\"x\"]\n";
    case.policy_refused(
        two,
        "cannot tell which server of policy `BASE/policy.toml` to run",
        "it has `a`, `b`",
        "name one of these with `--name`",
    );
    case.refused(
        &["--policy", "BASE/policy.toml", "--name", "c"],
        "no server `c` in policy `BASE/policy.toml`",
        "it has `a`, `b`",
        "name one of these with `--name`",
    );
    let plan = case.accepted(&["--policy", "BASE/policy.toml", "--name", "b"]);
    assert_eq!(
        (plan.server.as_str(), &plan.command[..]),
        ("b", &[OsString::from("y")][..])
    );
    assert_eq!(plan.policy_hash, raw::sha256(two.as_bytes()));
    case.policy_refused(
        "[server.\"a/b\"]\ncommand = [\"x\"]\n",
        "cannot use server name `a/b`",
        "a name has 1 to 64 letters, digits, `_`, `-` and `.`",
        "choose another name",
    );
    case.policy_refused(
        "[server.a]\n",
        "nothing to run",
        "there is no command in `BASE/policy.toml`, [server.a]",
        "name the server's program first, then its arguments",
    );
}

#[test]
fn flags_beside_a_policy() {
    let case = Case::new();
    case.write("policy.toml", "[server.a]\ncommand = [\"x\"]\n");
    let flags: [(&[&str], &str, &str); 8] = [
        (&["--", "x"], "a command", "command"),
        (&["--root", "BASE/docs"], "`--root`", "roots"),
        (&["--runtime", "node"], "`--runtime`", "runtime"),
        (&["--env", "A"], "`--env`", "env"),
        (&["--directory", "/"], "`--directory`", "directory"),
        (&["--user", "dynamic"], "`--user`", "user"),
        (&["--view", "host"], "`--view`", "view"),
        (&["--observe", "off"], "`--observe`", "observe"),
    ];
    for (flag, shown, key) in flags {
        case.refused(
            &[&["--policy", "BASE/policy.toml"], flag].concat(),
            &format!("cannot use {shown} together with `--policy`"),
            "the policy describes the whole server, so that its hash in the record tells what ran",
            &format!("set `{key}` in the policy, or leave `--policy` out"),
        );
    }
    assert!(
        case.accepted(&["--policy", "BASE/policy.toml", "--allow-unenforced"])
            .allow_unenforced
    );
}

#[test]
fn values_without_sense() {
    let case = Case::new();
    let place = "`BASE/policy.toml`, [server.a]";
    let server = |rest: &str| format!("[server.a]\ncommand = [\"x\"]\n{rest}\n");
    for (key, value, why) in [
        ("memory", "\"1M\"", "no server starts with less than \"4M\""),
        ("cpu", "\"0%\"", "with \"0%\" nothing would run"),
        ("pids", "1", "it is 2 (the server and its init) to 4194304"),
        ("tmp", "\"0\"", "the smallest is \"64K\""),
    ] {
        let what = format!("cannot use limit `{key}` of {place}");
        case.policy_refused(
            &server(&format!("limits.{key} = {value}")),
            &what,
            why,
            "give another amount",
        );
    }
    case.policy_refused(
        &server("require = []"),
        &format!("cannot use `require = []` of {place}"),
        "it would launch the server with nothing enforced",
        "leave `require` out, or name what must be enforced, such as `require = [\"fs\", \"net\"]`",
    );
    case.policy_refused(
        &server("env = [\"TOKEN=secret\"]"),
        &format!("cannot set variable `TOKEN` in {place}"),
        "`env` holds names only, so that no secret stands in a policy",
        "write `TOKEN`, and set it where the client starts guard-agent",
    );
    let listed = format!(
        "write it as the documentation lists it: `.git`, `.git/config.worktree`, `{}`",
        crate::warden::launch::protect::PROTECTED.join("`, `")
    );
    for name in [
        "",
        "/etc",
        "../x",
        "a/./../b",
        ".git/hook",
        ".GIT/hooks",
        "hooks",
        ".git/",
    ] {
        case.policy_refused(
            &server(&format!("free_names = [\"{name}\"]")),
            &format!("cannot free name `{name}` in {place}"),
            "it is no protected name, so it would free nothing",
            &listed,
        );
    }
    case.policy_refused(
        &server("roots = [{ path = \"docs\" }]"),
        "cannot use root `docs`",
        "it is a relative path, and a policy holds for whatever directory a client starts in",
        "write the absolute path",
    );
    case.policy_refused(
        &server("directory = \"docs\""),
        "cannot use working directory `docs`",
        &format!("it is a relative path in {place}"),
        "write the absolute path",
    );
    case.policy_refused(
        &server("command = [\"x\\u0000\"]").replacen("command = [\"x\"]\n", "", 1),
        "cannot run the command",
        &format!("an argument in {place} holds a zero byte"),
        "remove it: no program can be given one",
    );
}

#[test]
fn everything_a_policy_says_arrives() {
    let case = Case::root();
    case.write(
        "policy.toml",
        "[server.a]\ncommand = [\"x\", \"y\"]\nruntime = \"static\"\nuser = \"bob\"\nview = \"host\"\n\
         roots = [{ path = \"BASE/docs/\", rights = \"rwx\" }]\nenv = [\"TOKEN\"]\ndirectory = \"BASE/docs\"\n\
         limits = { memory = \"1G\", cpu = \"250%\", pids = 9, tmp = \"1M\" }\nfree_names = [\".git/hooks\"]\n\
         require = [\"resources\", \"fs\", \"fs\"]\nnetwork = \"none\"\nisolation = \"session\"\n\
         observe = false\nover_budget = \"quarantine\"\n",
    );
    let plan = case.accepted(&["--policy", "BASE/policy.toml"]);
    assert_eq!(plan.command, ["x", "y"]);
    assert_eq!(plan.runtime_asked, crate::runtime::RuntimeKind::Static);
    assert!(matches!(&plan.user, User::Account { name, .. } if name == "bob"));
    assert_eq!(plan.view, View::Host);
    assert_eq!(Case::roots(&plan), [case.filled("BASE/docs:rwx")]);
    assert_eq!(plan.environment[0].name, "TOKEN");
    assert_eq!(plan.directory.as_path(), case.at("docs"));
    let limits = &plan.limits;
    assert_eq!(
        (limits.memory, limits.cpu_percent, limits.pids, limits.tmp),
        (1 << 30, 250, 9, 1 << 20)
    );
    assert_eq!(plan.free_names, [".git/hooks"]);
    assert!(!plan.observe);
    assert_eq!(plan.over_budget, OverBudget::Quarantine);
    assert_eq!(plan.require, [Facet::Fs, Facet::Resources]);
    assert_eq!(plan.isolation, Isolation::Session);
}

#[test]
fn a_sandbox_a_call_is_part_of_the_plan() {
    let case = Case::root();
    case.write(
        "policy.toml",
        "[server.a]\ncommand = [\"x\"]\nisolation = \"call\"\n",
    );
    let plan = case.accepted(&["--policy", "BASE/policy.toml"]);
    assert_eq!(plan.isolation, Isolation::Call { limit_ms: 600_000 });
}

#[test]
fn the_documented_example_parses_and_shows_every_key() {
    let example = PAGE
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let policy: raw::Policy = toml::from_str(example).unwrap();
    // Its rules are ones that are obeyed.
    crate::config::rules::in_force(Path::new("example"), example, String::new()).unwrap();
    assert_eq!(policy.server.keys().collect::<Vec<_>>(), ["files"]);
    let table: toml::Table = example.parse().unwrap();
    let shown: BTreeSet<String> = table["server"]["files"]
        .as_table()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(shown, keys_of::<raw::Server>());
}

/// The keys a type takes, from the error it gives for one it does not.
fn keys_of<T: serde::de::DeserializeOwned>() -> BTreeSet<String> {
    let error = toml::from_str::<T>("no_such_key = 1").err().unwrap();
    let (_, keys) = error.message().split_once("expected").unwrap();
    keys.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn documentation_and_types_have_the_same_keys() {
    let documented = |heading: &str| -> BTreeSet<String> {
        let section = PAGE.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
        section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(documented("\n## `[server.NAME]`\n"), keys_of::<raw::Server>());
    assert_eq!(documented("\n## Roots\n"), keys_of::<raw::Root>());
    assert_eq!(documented("\n## Limits\n"), keys_of::<raw::Limits>());
    let sections = ["server", "role", "identity", "approval"].map(str::to_owned);
    assert_eq!(keys_of::<raw::Policy>(), BTreeSet::from(sections));
}

#[test]
fn documentation_lists_the_client_configurations() {
    for config in resolved::CLIENT_CONFIGS {
        assert!(PAGE.contains(&format!("`{config}`")), "{config}");
    }
}
