//! Bytes between client and server, and the end of both.
//!
//! Threads with blocking reads, on purpose: the client's descriptors are shared with other processes, and making
//! them non-blocking would change theirs too.

use std::{
    fs::File,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, OFlag},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};

use super::{
    bytes::last_words,
    calls::{Asker, Calls},
    confine,
    exchange::{Ended, Exchange, Scope},
    failure::{Failure, Rules},
    ladder, noise,
    sides::{self, Sides, wait_for, wait_until},
    stderr,
    words::{no_server, noisy, quarantined, too_slow},
};
use crate::{
    config::{self, TimeLimits, rights::Rights},
    exit::ExitStatus,
    link::{
        channel::Channel,
        connect::Connection,
        message::{Exited, FromWarden, Protocol, ToWarden},
    },
    refusal::Refusal,
};

/// Lines of the server's stderr that its failure may repeat.
const LAST_LINES: usize = 20;
/// How long the end of its stderr may take to come, once it is dead: our own stderr may have a slow reader.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// The same of its last answers.
const LAST_TOLD: Duration = Duration::from_millis(150);
/// How often time limits are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How long a server may take to show that it is there, after a call of it took too long.
const GRACE: Duration = Duration::from_secs(5);
/// When a server that owes its first answer is spoken of: clients show nothing until they give up.
const SILENCE: Duration = Duration::from_secs(10);

/// What a call may do whose tool has no rights of its own: what its server was launched with.
const ALL: Rights = Rights {
    write: true,
    exec: true,
};

/// What the parts of a session tell its main thread.
#[derive(Debug)]
pub(super) enum Event {
    /// The client closed its end (or cannot be read).
    ClientClosed,
    /// The client no longer reads.
    ClientGone,
    /// The server closed its stdout and everything it wrote was delivered.
    ServerClosed,
    Signal(Signal),
    /// The sandbox is frozen, and why.
    Quarantined(String),
    /// The server has written more lines that are no messages than anybody wants.
    Noise,
    /// A call took too long, and the server was asked by this number whether it is there.
    Probed(u64),
    Exited(Exited),
    /// The warden is gone; the reaper ends the sandbox.
    WardenGone,
}

/// What is said of a session.
struct About<'a> {
    name: &'a str,
    session: &'a str,
    observed: bool,
    rules: &'a Rules,
}

/// Runs a session to its end. Everything privileged is given up first.
pub fn run(
    connection: Connection,
    name: &str,
    rules: &Rules,
    protocol: Protocol,
    limits: TimeLimits,
    asker: Asker,
    scope: Option<&config::Scope>,
) -> Result<ExitStatus, Refusal> {
    let Connection {
        channel,
        launched,
        pipes,
        calls,
        stamp,
    } = connection;
    let failed = |step: &str, error: &dyn std::fmt::Display| {
        Refusal::internal(
            format!("gateway step `{step}` failed"),
            error.to_string(),
            "the server is ended; try again",
        )
    };
    // Blocked in every thread, read by one.
    let mut wanted = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        wanted.add(signal);
    }
    wanted.thread_block().map_err(|error| failed("signals", &error))?;
    let signals =
        SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC).map_err(|error| failed("signals", &error))?;
    // Unbuffered copies: `Stdin` and `Stdout` would keep bytes of their own.
    let client_in = File::from(nix::unistd::dup(io::stdin()).map_err(|error| failed("stdin", &error))?);
    let client_out = File::from(nix::unistd::dup(io::stdout()).map_err(|error| failed("stdout", &error))?);
    let [to_server, from_server, errors] = pipes;
    let who = match scope {
        None => None,
        Some(scope) => {
            let known = asker.identity.uid.and_then(|uid| scope.rules.identity(uid));
            Some((
                scope,
                known.ok_or_else(|| failed("scope", &"nobody is known by that uid"))?,
            ))
        }
    };
    let exchange = (protocol == Protocol::Mcp).then(|| {
        let scope = who.map(|(scope, who)| Scope {
            rules: scope.rules.clone(),
            who: who.clone(),
        });
        let roots = rules.roots.iter().map(|(root, _)| root.as_path().to_owned());
        Exchange::new(name, roots.collect(), scope)
    });
    // Its description is ours alone: the server has the other end.
    nix::fcntl::fcntl(&to_server, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(|error| failed("pipes", &error))?;
    if protocol == Protocol::Mcp && calls.is_none() {
        return Err(failed(
            "calls",
            &"the warden gave no socket for them, and none would be on record",
        ));
    }
    let idle = scope.and_then(|scope| scope.idle_rights);
    let calls = calls
        .map(|link| Calls::new(link, stamp, ALL, idle, asker))
        .transpose()
        .map_err(|error| failed("calls", &error))?;
    let sides = Arc::new(Sides::new(
        client_in,
        client_out,
        File::from(to_server),
        exchange,
        calls,
    ));
    confine(launched.gateway_uid)?;
    tracing::debug!(
        session = launched.session,
        uid = launched.gateway_uid,
        "the gateway has given everything up"
    );

    let channel = Arc::new(channel);
    let tail = Arc::new(Mutex::new(stderr::Tail::default()));
    let (events, inbox) = mpsc::channel();

    spawn("client", {
        let (events, sides) = (events.clone(), sides.clone());
        move || sides.read_client(&events)
    })?;
    let (answers, queue) = sides::answers();
    let queued = answers.clone();
    spawn("answers", {
        let (events, sides) = (events.clone(), sides.clone());
        move || sides.answer_server(&queue, &events)
    })?;
    let (noise, shown) = noise::Log::new(events.clone());
    spawn("noise", {
        let name = name.to_owned();
        move || noise::show(&name, &shown)
    })?;
    let output = spawn("server", {
        let (events, sides) = (events.clone(), sides.clone());
        move || sides.read_server(&File::from(from_server), &events, &answers, &noise)
    })?;
    let log = spawn("stderr", {
        let (name, tail) = (name.to_owned(), tail.clone());
        move || {
            stderr::pass_on(&name, File::from(errors), |work| {
                work(&mut tail.lock().unwrap_or_else(PoisonError::into_inner));
            });
        }
    })?;
    spawn("signals", {
        let events = events.clone();
        move || read_signals(&signals, &events)
    })?;
    let log = Arc::new(log);
    spawn("link", {
        let (channel, tail, log, events) = (channel.clone(), tail.clone(), log.clone(), events.clone());
        let sides = sides.clone();
        move || read_link(&channel, &events, &tail, &log, &sides)
    })?;

    let about = About {
        name,
        session: &launched.session,
        observed: launched.not_observed.is_none(),
        rules,
    };
    let mut outcome = Session {
        name,
        channel: &channel,
        sides: &sides,
        events,
        answers: queued,
        limits,
    }
    .wait(&inbox);
    sides.server_ended(outcome.exited.clone());
    // Whatever the server wrote before its end is delivered first, and then who still waits is told.
    deliver(&output, &sides, &inbox, &mut outcome);
    wait_for(&log, LAST_WORDS);
    let tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(conclude(&about, &outcome, &sides, &tail))
}

/// Waits until the client has everything, however slowly it reads: the sandbox is dead and recorded, all that waits
/// is this process. A signal ends that too, unless the client is just taking something.
fn deliver(
    output: &thread::JoinHandle<()>,
    sides: &Sides,
    inbox: &mpsc::Receiver<Event>,
    outcome: &mut Outcome,
) {
    let mut taken = 0;
    let mut since = Instant::now();
    while !output.is_finished() && !outcome.client_gone {
        match inbox.recv_timeout(Duration::from_millis(2)) {
            Ok(Event::ClientGone) => outcome.client_gone = true,
            Ok(Event::Signal(signal)) => {
                outcome.signal.get_or_insert(signal);
                since = Instant::now();
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // All threads that tell something have ended.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(2)),
        }
        let now = sides.activity.to_client.load(Ordering::Relaxed);
        if now != taken {
            (taken, since) = (now, Instant::now());
        }
        let hurry = if outcome.signal.is_some() {
            Some(ladder::URGENT_DELIVER)
        } else {
            outcome.exited.is_none().then_some(ladder::LOST_DELIVER)
        };
        if hurry.is_some_and(|limit| since.elapsed() >= limit) {
            return;
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, Refusal> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(256 << 10)
        .spawn(work)
        .map_err(|error| {
            Refusal::internal(
                format!("cannot start thread `{name}`"),
                error.to_string(),
                "look at the limits of processes and memory",
            )
        })
}

fn read_signals(signals: &SignalFd, events: &Sender<Event>) {
    while let Ok(Some(info)) = signals.read_signal() {
        let number = i32::try_from(info.ssi_signo).unwrap_or(libc::SIGTERM);
        let _ = events.send(Event::Signal(Signal::try_from(number).unwrap_or(Signal::SIGTERM)));
    }
}

fn read_link(
    channel: &Channel,
    events: &Sender<Event>,
    tail: &Mutex<stderr::Tail>,
    log: &thread::JoinHandle<()>,
    sides: &Sides,
) {
    loop {
        match channel.receive::<FromWarden>() {
            Ok((FromWarden::Ending, _)) => {
                wait_for(log, LAST_WORDS);
                // The warden closes the calls whose end is not told before this answer.
                wait_until(LAST_TOLD, || sides.is_read());
                sides.finish_calls();
                let stderr = tail.lock().unwrap_or_else(PoisonError::into_inner).bytes();
                // A warden that is gone is seen by the next turn.
                let _ = channel.send(&ToWarden::LastWords { stderr }, &[]);
            }
            Ok((FromWarden::Exited(exited), _)) => {
                let _ = events.send(Event::Exited(exited));
                return;
            }
            Ok((FromWarden::Quarantined { why }, _)) => {
                let _ = events.send(Event::Quarantined(why));
            }
            Ok(_) => {}
            Err(_) => {
                let _ = events.send(Event::WardenGone);
                return;
            }
        }
    }
}

/// How a session ended, for the last words and the exit status.
#[derive(Debug, Default)]
struct Outcome {
    exited: Option<Exited>,
    /// From the launch to the word of its end.
    lived: Duration,
    /// Whether the client (or a signal to us) ended it.
    asked: bool,
    client_gone: bool,
    /// The signal that told us to end.
    signal: Option<Signal>,
    /// Whether we told the server to end, beyond closing its stdin.
    ended: bool,
    /// Frozen: it cannot answer, nor end by itself.
    quarantined: bool,
    /// It does not speak the protocol, or not in time, and was killed for it.
    killed: bool,
}

struct Session<'a> {
    name: &'a str,
    channel: &'a Channel,
    sides: &'a Arc<Sides>,
    events: Sender<Event>,
    answers: Sender<Vec<u8>>,
    limits: TimeLimits,
}

/// Where the ladder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rung {
    Running,
    Draining,
    Closed,
    Terminated,
    Killed,
}

impl Session<'_> {
    fn wait(&self, inbox: &mpsc::Receiver<Event>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut rung = Rung::Running;
        let mut asked_at = self.sides.activity.start;
        let mut silent = SILENCE;
        let mut probe = None;
        loop {
            let patience = if rung == Rung::Running {
                TICK
            } else {
                Duration::from_millis(10)
            };
            let event = inbox.recv_timeout(patience);
            if rung == Rung::Running && !outcome.killed {
                self.note_silence(&mut silent);
                outcome.killed = self.is_too_slow(&mut probe);
            }
            match event {
                Ok(Event::Exited(exited)) => {
                    tracing::debug!(
                        reason = exited.reason,
                        code = exited.code,
                        signal = exited.signal,
                        "the server has ended"
                    );
                    outcome.exited = Some(exited);
                    outcome.lived = self.sides.activity.start.elapsed();
                    return outcome;
                }
                Ok(Event::WardenGone) | Err(RecvTimeoutError::Disconnected) => return outcome,
                Ok(Event::ServerClosed) => {}
                // The first question counts: calls that take too long one after the other put nothing off.
                Ok(Event::Probed(number)) => {
                    probe.get_or_insert((number, Instant::now()));
                }
                Ok(Event::Quarantined(why)) => {
                    outcome.quarantined = true;
                    last_words(&quarantined(self.name, &why));
                    self.tell_the_client(Ended::Quarantined);
                }
                Ok(Event::Noise) => {
                    outcome.killed = true;
                    last_words(&noisy(self.name));
                    let _ = self.channel.send(&ToWarden::Kill, &[]);
                }
                Ok(event @ (Event::ClientClosed | Event::ClientGone | Event::Signal(_))) => {
                    tracing::debug!(?event, "the client ends it");
                    outcome.client_gone |= matches!(event, Event::ClientGone);
                    if let Event::Signal(signal) = event {
                        outcome.signal.get_or_insert(signal);
                    }
                    if rung == Rung::Running {
                        (rung, asked_at) = (Rung::Draining, Instant::now());
                        outcome.asked = true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if rung != Rung::Running {
                let before = rung;
                rung = self.climb(rung, asked_at, &outcome);
                if rung != before {
                    tracing::debug!(?rung, "the session is being ended");
                }
                outcome.ended = rung >= Rung::Terminated;
            }
        }
    }

    /// From a thread of its own: a client that does not read must not keep us from ending its server.
    fn tell_the_client(&self, ended: Ended) {
        let (sides, events) = (self.sides.clone(), self.events.clone());
        // Without a thread the client learns it from the end of the session.
        let _ = spawn("failures", move || sides.fail(ended, &events));
    }

    /// A start that takes long is told once, as long as somebody waits for it.
    fn note_silence(&self, silent: &mut Duration) {
        let waited = self.sides.activity.unheard_for();
        if let Some(waited) = waited.filter(|waited| waited >= silent) {
            *silent = Duration::MAX;
            last_words(&format!(
                "[{}] has not answered its client yet, after {} s\n",
                self.name,
                waited.as_secs()
            ));
        }
    }

    /// Whether the server has to be killed for what it does not answer.
    fn is_too_slow(&self, probe: &mut Option<(u64, Instant)>) -> bool {
        let limits = self.limits;
        let unheard = self.sides.activity.unheard_for();
        if unheard.is_some_and(|waited| waited >= limits.start) {
            last_words(&too_slow(
                self.name,
                "given its first answer",
                "start_timeout",
                limits.start,
            ));
            let _ = self.channel.send(&ToWarden::Kill, &[]);
            return true;
        }
        if self.sides.is_overdue(limits.call) {
            // From a thread of its own: the client may not read.
            let (sides, events, answers) = (self.sides.clone(), self.events.clone(), self.answers.clone());
            let _ = spawn("timeouts", move || {
                if let Some(probe) = sides.time_out(limits.call, &events, &answers) {
                    let _ = events.send(Event::Probed(probe));
                }
            });
        }
        let Some((number, _)) = probe.filter(|(_, since)| since.elapsed() >= GRACE) else {
            return false;
        };
        *probe = None;
        if !self.sides.is_unanswered(number) {
            return false;
        }
        let what = "answered a call, nor the question whether it is there,";
        last_words(&too_slow(self.name, what, "call_timeout", limits.call));
        let _ = self.channel.send(&ToWarden::Kill, &[]);
        true
    }

    /// The next rung, when its time has come.
    fn climb(&self, rung: Rung, asked_at: Instant, outcome: &Outcome) -> Rung {
        let since = asked_at.elapsed();
        let urgent = outcome.signal.is_some() || outcome.client_gone || outcome.quarantined;
        let (terminate, kill) = if urgent {
            (ladder::URGENT_TERMINATE, ladder::URGENT_KILL)
        } else {
            (ladder::TERMINATE, ladder::KILL)
        };
        let quiet = || {
            !self.sides.answer_owed()
                && since >= ladder::QUIET
                && self.sides.activity.quiet_for() >= ladder::QUIET
        };
        match rung {
            Rung::Draining if urgent || since >= ladder::DRAIN || quiet() => {
                self.sides.close_server();
                Rung::Closed
            }
            Rung::Closed if since >= terminate => {
                // A warden that is gone needs no word; its end is an event of its own.
                let _ = self.channel.send(&ToWarden::Terminate, &[]);
                Rung::Terminated
            }
            Rung::Terminated if since >= kill => {
                let _ = self.channel.send(&ToWarden::Kill, &[]);
                Rung::Killed
            }
            same => same,
        }
    }
}

/// The last words on stderr, and the exit status.
fn conclude(about: &About<'_>, outcome: &Outcome, sides: &Sides, tail: &stderr::Tail) -> ExitStatus {
    let server = about.name;
    let Some(exited) = &outcome.exited else {
        last_words(&format!(
            "error: lost the warden\n  why: it ended while `{server}` was running; the server was killed\n  fix: start the session again; the audit has a `gap` for what could not be known\n"
        ));
        return ExitStatus::Internal;
    };
    // An end that was asked for is no failure. A server that fails by itself is one, also after its input ended.
    if outcome.quarantined || outcome.killed {
        return ExitStatus::Failed;
    }
    let wanted = outcome.ended || outcome.client_gone || outcome.signal.is_some();
    if wanted {
        return ExitStatus::Ok;
    }
    if exited.reason == "exited" && exited.code == Some(0) {
        let unanswered = sides.unanswered();
        if unanswered == 0 {
            return ExitStatus::Ok;
        }
        last_words(&no_server(server, unanswered, sides.answered()));
        return ExitStatus::Failed;
    }
    let failure = Failure {
        server,
        session: about.session,
        exited,
        answered: sides.answered(),
        observed: about.observed,
        lived: outcome.lived,
        rules: about.rules,
        tail: tail.lines(LAST_LINES),
    };
    last_words(&failure.text());
    ExitStatus::Failed
}
