//! `guard-caller STATE AUDIT POLICY`: plays the gateway of a session with a sandbox a call. It asks the warden of STATE for
//! the plan of the policy's one server, gives everything up as a gateway does, and then does what each line of its input
//! says: a JSON object with `do`, answered by one.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use guard_agent::{
    cli::run_args::{RunArgs, Tier},
    config::{environment, host::Host, resolved},
    gateway,
    link::{
        calls::{Call, Calls},
        connect,
        message::{FromWarden, Isolation, LaunchRequest, STDERR_TAIL, ToWarden},
    },
    octets::Octets,
    refusal::Refusal,
    runtime::{self, Ask, LOOKUPS},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many seconds an order may take: whoever waits for it waits for ever otherwise.
const MOST_SECONDS: u64 = 90;
/// How long the warden may take to say something.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
enum Order {
    /// The next call gets its server.
    Start,
    /// One line for the server; its next line.
    Ask { line: String },
    /// The call is over.
    End,
    /// Until the server ends by itself.
    Wait,
    /// All of it, with the time each part took.
    Call { line: String },
    /// A message as it is given, whatever that makes of the protocol.
    Say { message: ToWarden },
    /// A launch request in the middle of the session, for another root.
    Other { root: PathBuf },
    /// The next message of the warden.
    Hear,
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` calls")]
fn refused(refusal: Refusal) -> anyhow::Error {
    anyhow!("{refusal}")
}

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let mut word = || words.next().context("guard-caller STATE AUDIT POLICY");
    let (state, audit, policy) = (word()?, word()?, word()?);
    let request = request(&state, audit, policy)?;
    let calls = connect::plan(&state, request.clone()).map_err(refused)?;
    gateway::confine(calls.planned().gateway_uid).map_err(refused)?;
    let planned = calls.planned();
    say(&json!({"session": planned.session, "uid": planned.gateway_uid}))?;
    let mut caller = Caller {
        calls,
        request,
        server: None,
    };
    for line in io::stdin().lock().lines() {
        let line = line?;
        let done = watch(&line);
        let answer = caller.obey(serde_json::from_str(&line)?);
        done.store(true, Ordering::Relaxed);
        say(&answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")})))?;
    }
    Ok(())
}

/// Ends this program when the order is not done in time.
fn watch(order: &str) -> Arc<AtomicBool> {
    let done = Arc::new(AtomicBool::new(false));
    let (order, seen) = (order.to_owned(), done.clone());
    std::thread::spawn(move || {
        for _ in 0..MOST_SECONDS {
            if seen.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        if !seen.load(Ordering::Relaxed) {
            eprintln!("guard-caller: nothing came of {order}");
            std::process::exit(3);
        }
    });
    done
}

fn say(value: &Value) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

/// As `run` makes it from a policy.
fn request(state: &std::path::Path, audit: PathBuf, policy: PathBuf) -> Result<LaunchRequest> {
    let tier = match std::env::var("GUARD_CALLER_TIER").as_deref() {
        Ok("T1") => Some(Tier::T1),
        Ok("T2") => Some(Tier::T2),
        _ => None,
    };
    let args = RunArgs {
        policy: Some(policy),
        state: Some(state.to_path_buf()),
        audit: Some(audit),
        tier,
        ..RunArgs::default()
    };
    let host = Host::current().map_err(refused)?;
    let plan = resolved::resolve(&args, &host).map_err(refused)?;
    let ask = Ask {
        command: plan.command.iter().map(|word| word.as_os_str().into()).collect(),
        kind: plan.runtime_asked,
        path: std::env::var_os("PATH").unwrap_or_default().into(),
        directory: plan.directory.clone(),
        environment: LOOKUPS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?.into())))
            .collect(),
        roots: plan
            .roots
            .iter()
            .map(|root| (root.path.clone(), root.rights))
            .collect(),
    };
    let runtime = runtime::resolve(&ask).map_err(refused)?;
    let environment = environment::build(&plan, &runtime, &plan.user, std::env::vars_os());
    let mut request = plan.into_request(runtime, environment);
    if let (Isolation::Call { limit_ms }, Ok(ms)) =
        (&mut request.isolation, std::env::var("GUARD_CALLER_LIMIT_MS"))
    {
        *limit_ms = ms.parse()?;
    }
    Ok(request)
}

struct Caller {
    calls: Calls,
    request: LaunchRequest,
    server: Option<Server>,
}

struct Server {
    call: Call,
    stdin: File,
    stdout: BufReader<File>,
    stderr: File,
}

impl Server {
    fn new(mut call: Call) -> Result<Self> {
        let own = |fd: &OwnedFd| fd.try_clone().map(File::from);
        let [stdin, stdout, stderr] = &mut call.pipes;
        Ok(Self {
            stdin: own(stdin)?,
            stdout: BufReader::new(own(stdout)?),
            stderr: own(stderr)?,
            call,
        })
    }

    fn ask(&mut self, line: &str) -> Result<String> {
        writeln!(self.stdin, "{line}")?;
        let mut answer = String::new();
        if self.stdout.read_line(&mut answer)? == 0 {
            bail!("its output has ended");
        }
        Ok(answer.trim_end().to_owned())
    }
}

/// The end of what it wrote, read when nobody can write more.
fn tail(mut stderr: File) -> Octets {
    let mut words = Vec::new();
    drop(stderr.read_to_end(&mut words));
    words.drain(..words.len().saturating_sub(STDERR_TAIL));
    Octets(words)
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Caller {
    fn obey(&mut self, order: Order) -> Result<Value> {
        Ok(match order {
            Order::Start => {
                self.start()?;
                let server = self.server()?;
                json!({"call": server.call.number, "tier": server.call.launched.tier})
            }
            Order::Ask { line } => json!({"line": self.server()?.ask(&line)?}),
            Order::End => self.ended(true)?,
            Order::Wait => self.ended(false)?,
            Order::Call { line } => {
                let start = Instant::now();
                self.start()?;
                let started = micros(start);
                let answer = self.server()?.ask(&line)?;
                let answered = micros(start);
                self.ended(true)?;
                json!({"answer": answer, "started": started, "answered": answered, "ended": micros(start)})
            }
            Order::Say { message } => {
                self.say(&message)?;
                json!({})
            }
            Order::Other { root } => {
                let mut request = self.request.clone();
                for known in &mut request.roots {
                    known.path = root.as_path().into();
                }
                self.say(&ToWarden::Launch(Box::new(request)))?;
                json!({})
            }
            Order::Hear => {
                let channel = self.calls.channel();
                let (message, descriptors) = channel.receive_within::<FromWarden>(PATIENCE)?;
                json!({"message": message, "descriptors": descriptors.len()})
            }
        })
    }

    fn start(&mut self) -> Result<()> {
        let call = self.calls.start().map_err(refused)?;
        self.server = Some(Server::new(call)?);
        Ok(())
    }

    fn server(&mut self) -> Result<&mut Server> {
        self.server.as_mut().context("no call runs")
    }

    fn ended(&mut self, now: bool) -> Result<Value> {
        let Server {
            call,
            stdin,
            stdout,
            stderr,
        } = self.server.take().context("no call runs")?;
        let exited = if now {
            self.calls.end(&call, || tail(stderr))
        } else {
            drop(stdin);
            drop(stdout);
            self.calls.wait(&call, || tail(stderr))
        };
        Ok(json!({"exited": exited.map_err(refused)?}))
    }

    fn say(&self, message: &ToWarden) -> Result<()> {
        Ok(self.calls.channel().send(message, &[])?)
    }
}
