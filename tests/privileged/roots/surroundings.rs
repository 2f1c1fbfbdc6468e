//! What a server has besides its roots: `/tmp`, a home, an environment, three descriptors.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    refused::{PATIENCE, Stage, USER},
};
use serde_json::json;

use super::{IDS, VIEWS, launch};

/// The size of `/tmp` when nobody says.
const TMP: u64 = 64 << 20;

#[test]
fn tmp_is_its_own_and_sized() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("tmp")?;
        // Outside, the same names.
        let outside = tempfile::Builder::new()
            .prefix("guard-roots-")
            .tempdir_in("/tmp")?;
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777))?;
        fs::write(outside.path().join("secret"), "GUARD-SECRET")?;
        let mut left = Inside::start(launch(&stage, view).option("--name", "left"))?;
        let mut right = Inside::start(launch(&stage, view).option("--name", "right"))?;
        left.gives("os.listdir('/tmp')", json!([]))?;
        left.fails(
            &format!("text({})", py(outside.path().join("secret"))),
            &["ENOENT"],
        )?;
        left.works("write('/tmp/mine', 'left')")?;
        right.gives("os.listdir('/tmp')", json!([]))?;
        let name = py(Path::new("/tmp").join(outside.path().file_name().context("a name")?));
        left.works(&format!("os.mkdir({name})"))?;
        // In parts: a single write beyond the end would fail at once, whatever the size.
        let fill = "(lambda file: attempt(lambda: [file.write(bytes(1 << 20)) for _ in range(200)]))(open('/tmp/fill', 'wb', buffering=0))";
        left.gives(fill, "ENOSPC")?;
        let filled = left
            .works("os.stat('/tmp/fill').st_size")?
            .as_u64()
            .unwrap_or_default();
        ensure!((TMP - (2 << 20)..=TMP).contains(&filled), "{filled} bytes fitted");
        // The other's is not full, and the host's has none of it.
        right.works("write('/tmp/mine', bytes(1 << 20), 'wb')")?;
        ensure!(
            !Path::new("/tmp/fill").exists() && !Path::new("/tmp/mine").exists(),
            "on the host"
        );
        ensure!(fs::read_dir(outside.path())?.count() == 1, "on the host");
        // No program is started from there.
        left.works("[os.unlink('/tmp/fill'), write('/tmp/run', '#!/usr/bin/python3\\n'), os.chmod('/tmp/run', 0o755)]")?;
        left.fails("run('/tmp/run')", &["EACCES"])?;
        left.end()?;
        right.end()?;
    }
    Ok(())
}

/// What is no root is read-only or holds no program; Landlock, where there is one, refuses it too.
#[test]
fn the_mounts_hold_by_themselves() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("mounts")?;
        let mut inside = Inside::start(launch(&stage, view))?;
        for flag in ["ST_RDONLY", "ST_NOEXEC", "ST_NOSUID", "ST_NODEV"] {
            inside.gives(&format!("bool(os.statvfs('/').f_flag & os.{flag})"), true)?;
        }
        for own in ["/tmp", "/run", "/dev", "/dev/shm", "/proc"] {
            inside.gives(&format!("bool(os.statvfs('{own}').f_flag & os.ST_NOEXEC)"), true)?;
            inside.gives(&format!("bool(os.statvfs('{own}').f_flag & os.ST_NOSUID)"), true)?;
        }
        // The host's tree is not kept below the view, where `/..` would lead.
        inside.gives(
            "[line.split()[4] for line in open('/proc/self/mountinfo')].count('/')",
            1,
        )?;
        // Granted for its time zones, not for code.
        let zone = "/usr/share/zoneinfo/UTC";
        inside.gives(&format!("bool(os.statvfs('{zone}').f_flag & os.ST_RDONLY)"), true)?;
        inside.gives(&format!("bool(os.statvfs('{zone}').f_flag & os.ST_NOEXEC)"), true)?;
        inside.end()?;
    }
    Ok(())
}

#[test]
fn home_of_an_account() -> Result<()> {
    let stage = Stage::new("home")?;
    let home = "/usr/games";
    let before = Path::new(home)
        .is_dir()
        .then(|| fs::read_dir(home).map(Iterator::count))
        .transpose()?;
    let mut inside = Inside::start(launch(&stage, "private"))?;
    inside.gives("os.environ['HOME']", home)?;
    inside.gives("[os.environ['USER'], os.environ['LOGNAME']]", vec![USER, USER])?;
    inside.gives("os.path.expanduser('~')", home)?;
    inside.gives("os.listdir(os.environ['HOME'])", json!([]))?;
    inside.gives("oct(os.stat(os.environ['HOME']).st_mode & 0o777)", "0o700")?;
    inside.works("write(os.environ['HOME'] + '/.cache', 'x')")?;
    inside.gives(
        "[os.getuid(), os.getgid(), os.getgroups()]",
        json!([IDS.0, IDS.1, []]),
    )?;
    let mut other = Inside::start(launch(&stage, "private"))?;
    other.gives("os.listdir(os.environ['HOME'])", json!([]))?;
    inside.end()?;
    other.end()?;
    let after = Path::new(home)
        .is_dir()
        .then(|| fs::read_dir(home).map(Iterator::count))
        .transpose()?;
    ensure!(before == after, "the host's home was changed");
    Ok(())
}

#[test]
fn home_of_nobody_in_particular() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("dynamic")?;
        let mut inside = Inside::start(stage.plain().view(view))?;
        inside.gives("os.environ['HOME']", "/tmp")?;
        inside.gives("os.environ['USER']", "sandbox")?;
        inside.works("write(os.environ['HOME'] + '/.cache', 'x')")?;
        inside.gives("os.getuid() >= 2100000000 and os.getuid() == os.getgid()", true)?;
        inside.gives("os.getgroups()", json!([]))?;
        inside.end()?;
    }
    Ok(())
}

/// Names as people give to secrets; none is on the allow-list.
const SECRETS: [&str; 20] = [
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "DATABASE_URL",
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "NPM_TOKEN",
    "PIP_INDEX_URL",
    "HTTP_PROXY",
    "https_proxy",
    "KUBECONFIG",
    "VAULT_TOKEN",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "LD_PRELOAD_SECRET",
    "PATH_SECRET",
    "HOME_SECRET",
    "SUDO_COMMAND",
    "SECRET",
];

#[test]
fn environment_by_allow_list() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("environment")?;
        let run = SECRETS
            .iter()
            .fold(launch(&stage, view), |run, name| {
                run.outer_env(name, "GUARD-SECRET")
            })
            .outer_env("PASSED", "by name")
            .outer_env("LANG", "C.UTF-8")
            .option("--env", "PASSED")
            .option("--env", "GIVEN=a=b c")
            .option("--env", "NOT_THERE");
        let mut inside = Inside::start(run)?;
        inside.gives(
            "[name for name, value in os.environ.items() if 'SECRET' in value]",
            json!([]),
        )?;
        inside.gives("'SECRET' in text('/proc/self/environ')", false)?;
        inside.gives(
            "[os.environ['PASSED'], os.environ['GIVEN'], os.environ['LANG']]",
            json!(["by name", "a=b c", "C.UTF-8"]),
        )?;
        inside.gives("'NOT_THERE' in os.environ", false)?;
        let known = json!([
            "GIVEN", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PASSED", "PATH", "SHELL",
            "TERM", "TZ", "USER"
        ]);
        inside.gives(
            &format!(
                "[name for name in os.environ if name not in {known} and not name.startswith('PYTHON')]"
            ),
            json!([]),
        )?;
        inside.end()?;
        // The record has the names, no value.
        let records = stage.bench.records()?;
        let launch = records
            .iter()
            .find(|record| record.kind == "launch")
            .context("no launch")?;
        let text = launch.body.to_string();
        ensure!(
            text.contains("\"GIVEN\"") && !text.contains("a=b c") && !text.contains("SECRET"),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn three_descriptors() -> Result<()> {
    let stage = Stage::new("descriptors")?;
    fs::write(stage.path("secret"), "GUARD-SECRET")?;
    let script = format!("exec \"$@\" 7<{} 9</dev/null", stage.path("secret").display());
    for view in VIEWS {
        let run = launch(&stage, view).around(["bash", "-c", &script, "bash"]);
        let mut inside = Inside::start(run)?;
        // The fourth is the listing itself.
        inside.gives(
            "sorted(map(int, os.listdir('/proc/self/fd')))[:-1]",
            json!([0, 1, 2]),
        )?;
        inside.gives("len(os.listdir('/proc/self/fd'))", 4)?;
        inside.gives(
            "[stat.S_ISFIFO(os.fstat(number).st_mode) for number in (0, 1, 2)]",
            json!([true, true, true]),
        )?;
        inside.end()?;
    }
    Ok(())
}

/// The working directory is a root's, when the client's is in one; never one of the host that is not.
#[test]
fn working_directory() -> Result<()> {
    let stage = Stage::new("directory")?;
    let (root, elsewhere) = (super::tree(&stage, "root")?, stage.directory("elsewhere")?);
    let run = launch(&stage, "private")
        .root(&root, "r")
        .option("--directory", root.join("sub"));
    let mut inside = Inside::start(run)?;
    inside.gives("os.getcwd()", json!(root.join("sub")))?;
    inside.end()?;
    let mut inside = Inside::start(
        launch(&stage, "private")
            .root(&root, "r")
            .option("--directory", elsewhere),
    )?;
    inside.gives("os.getcwd()", json!(root))?;
    inside.end()?;
    let finished = stage
        .run()
        .option("--directory", stage.path("gone"))
        .run("", PATIENCE)?;
    let what = format!(
        "error: cannot use working directory `{}`\n",
        stage.path("gone").display()
    );
    ensure!(finished.stderr.starts_with(&what), "{}", finished.stderr);
    Ok(())
}
