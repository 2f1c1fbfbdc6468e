//! The client's side: find the warden of a state directory, start it when there is none, ask for a launch.

use std::{
    fs,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    calls::Calls,
    channel::{Channel, ChannelError},
    message::{FromWarden, LaunchRequest, Launched, ToWarden, VERSION},
};
use crate::{
    proof::Tier,
    refusal::{Refusal, chain},
    sys,
    warden::state::{self, SOCKET},
};

/// How long to try: a warden that leaves at this moment, one that starts, one that ends what another left.
const LIMIT: Duration = Duration::from_secs(30);
/// A launch takes milliseconds; emulated machines are slow.
const LAUNCH_LIMIT: Duration = Duration::from_secs(60);

/// A launched server.
#[derive(Debug)]
pub struct Connection {
    pub channel: Channel,
    pub launched: Launched,
    /// The child's stdin (write), stdout and stderr (read).
    pub pipes: [OwnedFd; 3],
    /// Where calls are told, where they are.
    pub calls: Option<Channel>,
    /// The sandbox's call stamp, where eBPF programs read it.
    pub stamp: Option<OwnedFd>,
}

pub(super) fn failed(why: impl Into<String>) -> Refusal {
    Refusal::internal(
        "cannot reach the warden",
        why,
        "look into `warden.log` of the state directory, then try again",
    )
}

/// Launches through the directory's warden.
pub fn launch(directory: &Path, request: LaunchRequest) -> Result<Connection, Refusal> {
    let (channel, (answer, pipes)) = ask(directory, request)?;
    match answer {
        FromWarden::Launched(launched) => {
            let handed = handed(pipes, &launched)?;
            Ok(Connection {
                channel,
                launched,
                pipes: handed.pipes,
                calls: handed.calls,
                stamp: handed.stamp,
            })
        }
        other => Err(unexpected(&other)),
    }
}

/// Has the directory's warden hold a plan, whose calls are started one by one.
pub fn plan(directory: &Path, request: LaunchRequest) -> Result<Calls, Refusal> {
    let (channel, (answer, _)) = ask(directory, request)?;
    match answer {
        FromWarden::Planned(planned) => Ok(Calls::new(channel, planned)),
        other => Err(unexpected(&other)),
    }
}

/// The first answer to a request that was not refused.
fn ask(directory: &Path, request: LaunchRequest) -> Result<(Channel, (FromWarden, Vec<OwnedFd>)), Refusal> {
    let hooks = request.tier != Some(Tier::T2);
    let request = ToWarden::Launch(Box::new(request));
    // Checked before anything is started: a message that cannot be sent is the caller's problem.
    super::channel::encode(&request).map_err(|error| {
        Refusal::usage(
            "cannot launch this command",
            chain(&error),
            "shorten its arguments or its environment",
        )
    })?;
    let channel = greet(directory, hooks)?;
    channel
        .send(&request, &[])
        .map_err(|error| failed(chain(&error)))?;
    let answer = answer(&channel)?;
    Ok((channel, answer))
}

/// What the warden says to a request for a sandbox, if it does not refuse it.
pub(super) fn answer(channel: &Channel) -> Result<(FromWarden, Vec<OwnedFd>), Refusal> {
    match channel.receive_within::<FromWarden>(LAUNCH_LIMIT) {
        Ok((FromWarden::Refused(refusal), _)) => Err(refusal),
        Ok(answer) => Ok(answer),
        Err(ChannelError::Closed) => Err(failed(
            "it ended during the launch; what it had begun was ended with it",
        )),
        Err(error) => Err(failed(chain(&error))),
    }
}

/// What comes with a sandbox.
pub(super) struct Handed {
    pub(super) pipes: [OwnedFd; 3],
    pub(super) calls: Option<Channel>,
    pub(super) stamp: Option<OwnedFd>,
}

pub(super) fn handed(descriptors: Vec<OwnedFd>, launched: &Launched) -> Result<Handed, Refusal> {
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next();
    let [Some(stdin), Some(stdout), Some(stderr)] = [next(), next(), next()] else {
        return Err(failed("it sent the wrong descriptors"));
    };
    let calls = if launched.tells_calls {
        let socket = next().ok_or_else(|| failed("it sent no socket for calls"))?;
        Some(Channel::new(socket).map_err(|error| failed(error.to_string()))?)
    } else {
        None
    };
    Ok(Handed {
        pipes: [stdin, stdout, stderr],
        calls,
        stamp: next(),
    })
}

pub(super) fn unexpected(message: &FromWarden) -> Refusal {
    failed(format!("unexpected message {message:?}"))
}

/// A connection that was welcomed, with the warden started if need be.
fn greet(directory: &Path, hooks: bool) -> Result<Channel, Refusal> {
    let directory = state::prepare(directory)?;
    let limit = LIMIT * crate::fault::PATIENCE;
    let end = Instant::now() + limit;
    loop {
        match connect(&directory.join(SOCKET)) {
            Ok((channel, warden)) => match hello(&channel).and_then(|files| same_files(warden, files)) {
                Ok(()) => return Ok(channel),
                // It left between accepting us and hearing us.
                Err(Greeting::Gone) => {}
                Err(Greeting::Refused(refusal)) => return Err(refusal),
            },
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                tracing::debug!("no warden is there: one is started");
                start(&directory, hooks)?;
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        if Instant::now() > end {
            return Err(failed(format!("no warden answered within {} s", limit.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The channel, and the warden's pid.
fn connect(path: &Path) -> io::Result<(Channel, i32)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    let socket = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &UnixAddr::new(path)?)?;
    // Only root can have made it in a directory that only root may write; looked at all the same.
    let peer = sys::seqpacket::peer(&socket)?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the warden's socket belongs to another user",
        ));
    }
    Ok((Channel::new(socket)?, peer.pid()))
}

/// A warden in another mount namespace would open the paths of this command line elsewhere: other files by the
/// same names.
///
/// Root looks for itself. An ordinary user cannot: the warden, of the same user, is not to be looked into, and says it.
fn same_files(warden: i32, said: (u64, u64)) -> Result<(), Greeting> {
    let namespace = |process: &str| match process {
        "self" => state::files(),
        _ if !nix::unistd::geteuid().is_root() => Ok(said),
        process => fs::metadata(format!("/proc/{process}/ns/mnt")).map(|meta| (meta.dev(), meta.ino())),
    };
    let refuse = |why: String| {
        Err(Greeting::Refused(Refusal::usage(
            "cannot use the running warden",
            why,
            "give this run a state directory of its own with `--state`, or start it where the warden was started",
        )))
    };
    match (namespace("self"), namespace(&warden.to_string())) {
        (Ok(ours), Ok(theirs)) if ours == theirs => Ok(()),
        (Ok(_), Ok(_)) => {
            refuse("it is in another mount namespace, where the same paths are other files".to_owned())
        }
        // A warden of another pid namespace has no pid here: that is no answer of one that has just left.
        (_, Err(error)) if warden != 0 && error.kind() == io::ErrorKind::NotFound => Err(Greeting::Gone),
        (Err(error), _) | (_, Err(error)) => refuse(format!(
            "cannot tell whether it is in the same mount namespace: {error}"
        )),
    }
}

enum Greeting {
    Gone,
    Refused(Refusal),
}

/// Where the warden's files are.
fn hello(channel: &Channel) -> Result<(u64, u64), Greeting> {
    let hello = ToWarden::Hello {
        link: VERSION,
        build: crate::BUILD.into(),
    };
    if channel.send(&hello, &[]).is_err() {
        return Err(Greeting::Gone);
    }
    match channel.receive_within::<FromWarden>(Duration::from_secs(10)) {
        Ok((
            FromWarden::Welcome {
                link: VERSION,
                build,
                files,
            },
            _,
        )) if build == crate::BUILD => Ok(files),
        Ok((FromWarden::Welcome { link, build, .. }, _)) => Err(Greeting::Refused(Refusal::usage(
            "cannot use the running warden",
            format!(
                "it is build `{build}` with link version {link}, this program is build `{}` with link version {VERSION}",
                crate::BUILD
            ),
            "end the sessions of the other build, or give this run a state directory of its own with `--state`",
        ))),
        Ok((FromWarden::Refused(refusal), _)) => Err(Greeting::Refused(refusal)),
        Ok((other, _)) => Err(Greeting::Refused(failed(format!("unexpected message {other:?}")))),
        Err(ChannelError::Closed | ChannelError::Receive(_)) => Err(Greeting::Gone),
        Err(error) => Err(Greeting::Refused(failed(chain(&error)))),
    }
}

/// Starts a warden and waits for its word. Another one may win; that is as good.
fn start(directory: &Path, hooks: bool) -> Result<(), Refusal> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("warden")
        .arg("--state")
        .arg(directory)
        .env_clear()
        .current_dir("/");
    for variable in [
        crate::config::env::GUARD_AGENT_LOG,
        crate::config::env::GUARD_AGENT_FAULT,
    ] {
        if let Some(value) = variable.get() {
            command.env(variable.name, value);
        }
    }
    if !hooks {
        command.arg("--no-hooks");
    }
    if let Some(idle) = crate::config::env::GUARD_AGENT_IDLE_MS.get() {
        command.arg("--idle-ms").arg(idle);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("cannot start one: {error}")))?;
    let mut word = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout
            .take(64 << 10)
            .read_to_string(&mut word)
            .map_err(|error| failed(error.to_string()))?;
    }
    match word.trim() {
        // Another one has the directory, or clears it up. Ours ends now; nobody else fetches its status.
        state::TAKEN => child.wait().map(drop).map_err(|error| failed(error.to_string())),
        "" if word.ends_with('\n') => Ok(()),
        "" => {
            let status = child.wait().map_err(|error| failed(error.to_string()))?;
            Err(failed(format!(
                "the one started here ended before it was ready ({status})"
            )))
        }
        text => {
            Err(serde_json::from_str::<Refusal>(text).unwrap_or_else(|_| failed("it said something unknown")))
        }
    }
}
