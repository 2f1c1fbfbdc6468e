//! Real MCP servers under the agent on a stock kernel: `cargo xtask vm vm_servers` brings them along.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::Bench,
    fixtures,
    guards::{Scratch, cgroup2},
    mcp::Client,
    programs,
    records::Record,
};
use serde_json::{Value, json};

/// Emulation is slow, and Python reads a thousand files before its first answer.
const LONG: Duration = Duration::from_secs(120);
const SECRET: &str = "GUARD-SECRET beside the root";

/// A root, and beside it what must stay out of reach.
struct Ground {
    scratch: Scratch,
    bench: Bench,
}

impl Ground {
    fn new(name: &str) -> Result<Self> {
        let ground = Self {
            scratch: Scratch::new(name)?,
            bench: Bench::new(name)?,
        };
        fs::create_dir(ground.docs())?;
        fs::write(ground.docs().join("hello.txt"), "hello from inside the root")?;
        fs::write(ground.secret(), SECRET)?;
        Ok(ground)
    }
    fn docs(&self) -> PathBuf {
        self.scratch.path().join("docs")
    }
    fn secret(&self) -> PathBuf {
        self.scratch.path().join("secret.txt")
    }

    fn guarded(&self, server: &[&Path], arguments: &[&str]) -> Result<Client> {
        let mut root = self.docs().into_os_string();
        root.push(":r");
        let mut command = Command::new(programs::agent()?);
        command
            .arg("run")
            .args(guard_tests::tier::Tier::insisted()?)
            .arg("--state")
            .arg(self.bench.state())
            .arg("--audit")
            .arg(self.bench.audit());
        command
            .arg("--root")
            .arg(root)
            .arg("--")
            .args(server)
            .args(arguments);
        // The last checkpoint is written when the warden leaves.
        command.env("GUARD_AGENT_IDLE_MS", "100");
        start(&mut command)
    }

    fn record(&self, kind: &'static str) -> Result<Record> {
        self.bench.wait_record(LONG, |record| record.kind == kind)
    }

    /// What holds for any server while it runs, asked of the kernel and not of the agent.
    fn contained(&self, program: &str) -> Result<u32> {
        let launch = self.record("launch")?;
        ensure!(launch.field("tier") == Some(&json!("T2")), "{:?}", launch.body);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        ensure!(
            launch.field("kernel_release") == Some(&json!(release.trim())),
            "{:?}",
            launch.body
        );
        let resources = launch
            .field("resources")
            .context("the launch record has no `resources`")?;
        ensure!(
            *resources == json!({"enforced": ["memory", "cpu", "pids"], "not_enforced": []}),
            "{resources}"
        );
        let uid = launch.body["user"]["uid"]
            .as_u64()
            .and_then(|uid| u32::try_from(uid).ok());
        let uid = uid.context("the launch record has no uid")?;
        let server = process(uid, program)?;

        let status = fs::read_to_string(server.join("status"))?;
        for wanted in [
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
        ] {
            ensure!(
                status.contains(wanted),
                "`{program}` runs without `{wanted}`:\n{status}"
            );
        }
        // The sandbox's own first process is one more than the 64 of the policy.
        for (file, wanted) in [
            ("memory.max", "536870912"),
            ("pids.max", "65"),
            ("cpu.max", "100000 100000"),
        ] {
            let found = ceiling(&server, file)?;
            ensure!(
                found == wanted,
                "`{file}` of `{program}` is `{found}`, not `{wanted}`"
            );
        }
        // Its tree, through the kernel's own door.
        let seen = |path: &Path| server.join("root").join(path.strip_prefix("/").unwrap_or(path));
        ensure!(
            seen(&self.docs().join("hello.txt")).is_file(),
            "the root is in the view"
        );
        for hidden in [
            self.secret(),
            "/etc/shadow".into(),
            self.bench.audit(),
            self.bench.state(),
        ] {
            ensure!(
                hidden.exists() && !seen(&hidden).exists(),
                "`{}` is in the view",
                hidden.display()
            );
        }
        Ok(uid)
    }

    /// What the trail says after the end, and that nothing is left.
    fn ended(&self, uid: u32) -> Result<()> {
        let exit = self.record("exit")?;
        // In an emulator Python takes longer to leave than the 1.2 s after which it is asked by signal.
        let asked = exit.field("signal") == Some(&json!(libc::SIGTERM));
        ensure!(asked || exit.field("code") == Some(&json!(0)), "{:?}", exit.body);
        ensure!(
            exit.field("reason") == Some(&json!(if asked { "signaled" } else { "exited" })),
            "{:?}",
            exit.body
        );
        let used = exit.body["resources"]["cpu_stat"]["usage_usec"].as_u64();
        ensure!(
            used.is_some_and(|used| used > 0),
            "no processor time was counted: {:?}",
            exit.body
        );
        self.record("checkpoint")?;
        let verify = Command::new(programs::agent()?)
            .args(["audit", "verify", "--json", "--audit"])
            .arg(self.bench.audit())
            .output()?;
        ensure!(
            verify.status.success(),
            "{}",
            String::from_utf8_lossy(&verify.stdout)
        );
        let left = processes(uid)?;
        ensure!(left.is_empty(), "processes of uid {uid} are left: {left:?}");
        Ok(())
    }
}

fn start(command: &mut Command) -> Result<Client> {
    let mut client = Client::start(command)?;
    client.patience = LONG;
    Ok(client)
}

fn processes(uid: u32) -> Result<Vec<PathBuf>> {
    let owner = format!("Uid:\t{uid}\t");
    let all = fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(all
        .filter(|path| fs::read_to_string(path.join("status")).is_ok_and(|status| status.contains(&owner)))
        .collect())
}

/// The server among the processes of its uid.
fn process(uid: u32, program: &str) -> Result<PathBuf> {
    let until = Instant::now() + LONG;
    loop {
        let found = processes(uid)?.into_iter().find(|path| {
            let name = fs::read_link(path.join("exe")).unwrap_or_default();
            name.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(program))
        });
        match found {
            Some(path) => return Ok(path),
            None => ensure!(Instant::now() < until, "no `{program}` of uid {uid} runs"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The limit of the nearest cgroup around the process that has one.
fn ceiling(process: &Path, file: &str) -> Result<String> {
    let top = cgroup2().context("no cgroup v2")?;
    let cgroups = fs::read_to_string(process.join("cgroup"))?;
    let own = cgroups
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .context("no cgroup of v2")?;
    let mut here = top.join(own);
    while here != top {
        let found = fs::read_to_string(here.join(file)).unwrap_or_default();
        if !found.is_empty() && !found.starts_with("max") {
            return Ok(found.trim().to_owned());
        }
        here.pop();
    }
    Ok("max".into())
}

fn text(path: &Path) -> Value {
    json!(path.display().to_string())
}

#[test]
fn node_server_filesystem() -> Result<()> {
    let ground = Ground::new("vm-node")?;
    let (node, script) = (Path::new("/usr/bin/node"), fixtures::node_server_filesystem()?);
    // Its own check of paths must not be what refuses: it is told that all of the ground is its to serve.
    let served = ground.scratch.path().display().to_string();
    let read = |client: &mut Client, path: &Path| client.call("read_text_file", &json!({"path": text(path)}));

    let mut direct = start(Command::new(node).arg(&script).arg(&served))?;
    direct.initialize()?;
    ensure!(
        read(&mut direct, &ground.secret())? == (false, SECRET.into()),
        "the control reads the secret"
    );
    ensure!(direct.close()?.success(), "the control leaves well");

    let mut client = ground.guarded(&[node, &script], &[&served])?;
    let hello = client.initialize()?;
    ensure!(
        hello["serverInfo"]["name"] == "secure-filesystem-server",
        "{hello}"
    );
    let tools = client.tools()?;
    for tool in ["read_text_file", "write_file", "list_directory"] {
        ensure!(tools.iter().any(|name| name == tool), "no `{tool}` in {tools:?}");
    }
    let uid = ground.contained("node")?;
    let allowed = read(&mut client, &ground.docs().join("hello.txt"))?;
    ensure!(
        allowed == (false, "hello from inside the root".into()),
        "{allowed:?}"
    );
    let listed = client.call("list_directory", &json!({"path": served}))?;
    ensure!(
        listed.0 && listed.1.contains("EACCES"),
        "the names beside the root: {listed:?}"
    );
    let (failed, said) = read(&mut client, &ground.secret())?;
    // `ENOENT` for the file, and for the look around that the server takes then, `EACCES`; not its own refusal.
    let by_kernel = ["ENOENT", "EACCES"].iter().any(|errno| said.contains(errno));
    ensure!(
        failed && by_kernel && !said.contains("allowed directories"),
        "the read outside: `{said}`"
    );
    let new = ground.docs().join("new.txt");
    let (failed, said) = client.call("write_file", &json!({"path": text(&new), "content": "x"}))?;
    ensure!(
        failed && (said.contains("EROFS") || said.contains("EACCES")),
        "the write to a read-only root: `{said}`"
    );
    ensure!(!new.exists(), "a refused write left a file");
    ensure!(client.close()?.success(), "the server leaves well");
    ground.ended(uid)
}

#[test]
fn python_server_time() -> Result<()> {
    let ground = Ground::new("vm-python")?;
    let python = fixtures::python_venv(&["mcp-server-time"])?.join("bin/python");
    let mut client = ground.guarded(&[&python], &["-m", "mcp_server_time", "--local-timezone", "UTC"])?;
    let hello = client.initialize()?;
    ensure!(hello["serverInfo"]["name"] == "mcp-time", "{hello}");
    let mut tools = client.tools()?;
    tools.sort();
    ensure!(tools == ["convert_time", "get_current_time"], "{tools:?}");
    let uid = ground.contained("python3")?;
    let question =
        json!({"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"});
    let (failed, said) = client.call("convert_time", &question)?;
    ensure!(!failed, "{said}");
    let answer: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let time = answer["target"]["datetime"].as_str().unwrap_or_default();
    ensure!(
        time.ends_with("T08:30:00+05:30") && answer["time_difference"] == "-3.5h",
        "{answer}"
    );
    let (failed, said) = client.call("get_current_time", &json!({"timezone": "No/Where"}))?;
    ensure!(failed && said.contains("No/Where"), "{said}");
    ensure!(client.close()?.success(), "the server leaves well");
    ground.ended(uid)
}
