//! The two sides of a session: what one of them sends is read here, and what is made of it written to the other.
//!
//! One writer at a time to either side, whole lines only, in the order they came. A side that does not read holds up
//! whoever writes to it and nobody else.

use std::{
    fs::File,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use super::{
    activity::Activity,
    bytes::{is_hung_up, read_some, write_all, write_while},
    calls::{Calls, Unmarked},
    exchange::{Ended, Exchange, Step},
    noise,
    protocol::{
        lines::{Line, Lines},
        message::Read,
    },
    relay::Event,
};
use crate::link::message::Exited;

/// What is read at once where lines mean nothing.
const BUFFER: usize = 64 << 10;
/// Bytes of our own answers that wait for a server that asks and does not read.
const QUEUED: usize = 256 << 10;
/// So long a server may take nothing before it counts that its client is gone.
const STUCK: Duration = Duration::from_secs(1);
/// How long the word of a server's end may take, once its output has.
const END: Duration = Duration::from_millis(300);

/// The server's stdin until the ladder closes it; a writer at work holds it a moment longer.
type ServerInput = Mutex<Option<Arc<File>>>;

/// How the server ended: not yet, or as far as that is known.
type End = Option<Option<Exited>>;

#[derive(Debug)]
pub(super) struct Sides {
    client: File,
    /// Its descriptor does not block.
    to_server: ServerInput,
    server_turn: Mutex<()>,
    /// Nobody reads what the server is sent, though it is open.
    given_up: AtomicBool,
    /// Bytes of our own answers to it.
    queued: AtomicUsize,
    to_client: Mutex<File>,
    /// `None`: lines mean nothing.
    exchange: Option<Mutex<Exchange>>,
    calls: Option<Calls>,
    /// Everything the server wrote was read, and told.
    read: AtomicBool,
    pub(super) activity: Activity,
    /// The server said something that its client got.
    answered: AtomicBool,
    unanswered: AtomicUsize,
    end: Mutex<End>,
    ended: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can be left half done happens under any of them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sides {
    pub(super) fn new(
        client: File,
        to_client: File,
        to_server: File,
        exchange: Option<Exchange>,
        calls: Option<Calls>,
    ) -> Self {
        Self {
            client,
            to_server: Mutex::new(Some(Arc::new(to_server))),
            server_turn: Mutex::default(),
            given_up: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
            to_client: Mutex::new(to_client),
            exchange: exchange.map(Mutex::new),
            calls,
            read: AtomicBool::new(false),
            activity: Activity::begun_now(),
            answered: AtomicBool::new(false),
            unanswered: AtomicUsize::new(0),
            end: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    pub(super) fn answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether somebody waits for an answer.
    pub(super) fn answer_owed(&self) -> bool {
        match &self.exchange {
            Some(exchange) => lock(exchange).in_flight() > 0,
            None => self.activity.server_is_due(),
        }
    }

    pub(super) fn close_server(&self) {
        *lock(&self.to_server) = None;
    }

    /// How the server ended; nothing more is to be expected of it.
    pub(super) fn server_ended(&self, exited: Option<Exited>) {
        lock(&self.end).get_or_insert(exited);
        self.ended.notify_all();
    }

    /// Waits for that word.
    fn end(&self, limit: Duration) -> End {
        let waiting = self
            .ended
            .wait_timeout_while(lock(&self.end), limit, |end| end.is_none());
        waiting.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Everybody who waits for the server is told why it does not answer any more.
    pub(super) fn fail(&self, ended: Ended, events: &Sender<Event>) {
        self.given_up.store(true, Ordering::Relaxed);
        if let Some(exchange) = &self.exchange {
            let mut locked = lock(exchange);
            self.unanswered.fetch_add(locked.in_flight(), Ordering::Relaxed);
            let out = locked.end(ended);
            drop(locked);
            self.write_client(&out.to_client, events);
            self.tell(out.steps);
        }
        self.finish_calls();
    }

    fn note_answered(&self) {
        if !self.answered.swap(true, Ordering::Relaxed)
            && let Some(calls) = &self.calls
        {
            calls.answered();
        }
    }

    /// Of calls nothing more will be heard: what waited to be told of them is.
    pub(super) fn finish_calls(&self) {
        if let Some(calls) = &self.calls {
            calls.finish();
        }
    }

    /// `false`: a call is not to be passed on, since it could not be put on record. How that came is told elsewhere.
    fn tell(&self, steps: Vec<Step>) -> bool {
        steps.is_empty() || self.calls.as_ref().is_none_or(|calls| calls.tell(steps))
    }

    /// What the server wrote is read to its end.
    pub(super) fn is_read(&self) -> bool {
        self.read.load(Ordering::Acquire)
    }

    /// Whether a call has taken longer than this. Those that nobody waits for are forgotten in time.
    pub(super) fn is_overdue(&self, limit: Duration) -> bool {
        self.calls.as_ref().is_some_and(|calls| {
            calls.forget_left();
            !calls.overdue(limit).is_empty()
        })
    }

    /// Calls that have taken longer than `limit` are answered for the server, and it is told and asked whether it is
    /// there: the number of that question.
    pub(super) fn time_out(
        &self,
        limit: Duration,
        events: &Sender<Event>,
        answers: &Sender<Vec<u8>>,
    ) -> Option<u64> {
        let (calls, exchange) = (self.calls.as_ref()?, self.exchange.as_ref()?);
        let overdue = calls.overdue(limit);
        if overdue.is_empty() {
            return None;
        }
        for number in overdue {
            let out = lock(exchange).time_out(number);
            self.queue(out.to_server, answers);
            // Before the client has it, which may not read: it is overdue no more.
            self.tell(out.steps);
            self.write_client(&out.to_client, events);
        }
        let (probe, ping) = lock(exchange).probe();
        self.queue(ping, answers);
        Some(probe)
    }

    pub(super) fn is_unanswered(&self, probe: u64) -> bool {
        (self.exchange.as_ref()).is_some_and(|exchange| lock(exchange).is_unanswered(probe))
    }

    /// Requests that were told that no answer comes.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// `false`: it does not read any more. What nobody wants it to have any more counts as written. A client that leaves
    /// while this waits is told of: who would read its end waits, too.
    fn write_server(&self, bytes: &[u8], events: &Sender<Event>) -> bool {
        let _turn = lock(&self.server_turn);
        // Closed by the ladder: it is told elsewhere that the server is being ended.
        let Some(writer) = lock(&self.to_server).clone() else {
            return true;
        };
        let written = || self.activity.to_server.load(Ordering::Relaxed);
        let (mut taken, mut since) = (written(), Instant::now());
        let go_on = || {
            if written() != taken {
                (taken, since) = (written(), Instant::now());
            }
            if since.elapsed() >= STUCK && is_hung_up(&self.client) {
                let _ = events.send(Event::ClientClosed);
            }
            !self.given_up.load(Ordering::Relaxed) && lock(&self.to_server).is_some()
        };
        write_while(&writer, bytes, &self.activity.to_server, go_on).is_ok()
    }

    fn write_client(&self, bytes: &[u8], events: &Sender<Event>) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let written = write_all(&lock(&self.to_client), bytes, &self.activity.to_client).is_ok();
        if !written {
            let _ = events.send(Event::ClientGone);
        }
        written
    }

    /// Reads the client to its end.
    pub(super) fn read_client(&self, events: &Sender<Event>) {
        match &self.exchange {
            Some(exchange) => self.client_lines(exchange, events),
            None => self.client_bytes(events),
        }
        let _ = events.send(Event::ClientClosed);
    }

    fn client_bytes(&self, events: &Sender<Event>) {
        let mut buffer = vec![0; BUFFER];
        let mut open = true;
        while let Ok(count @ 1..) = read_some(&self.client, &mut buffer) {
            self.activity.client_spoke();
            // A server that closed its stdin may still have something to say, and its end is told elsewhere: the
            // client's bytes go nowhere, and that the client goes is still noticed.
            open = open && self.write_server(buffer.get(..count).unwrap_or_default(), events);
        }
    }

    fn client_lines(&self, exchange: &Mutex<Exchange>, events: &Sender<Event>) {
        let mut lines = Lines::default();
        loop {
            let count = lines.fill(|room| read_some(&self.client, room)).unwrap_or(0);
            self.activity.client_spoke();
            while let Some(line) = lines.next() {
                self.client_line(&line, exchange, events);
            }
            if count == 0 {
                if let Some(rest) = lines.rest() {
                    self.client_line(&rest, exchange, events);
                }
                return;
            }
        }
    }

    fn client_line(&self, line: &Line<'_>, exchange: &Mutex<Exchange>, events: &Sender<Event>) {
        // What is long to read is read before anybody waits for it.
        let read = match line {
            Line::Whole(text) => Ok(Read::of(text)),
            Line::TooLong(cut) => Err(cut),
        };
        let mut locked = lock(exchange);
        let before = locked.last();
        let out = match read {
            Ok(read) => locked.client_sent(&read),
            Err(cut) => locked.client_sent_too_much(cut),
        };
        drop(locked);
        // Before a byte of it is passed on, and before the client knows what was refused.
        let passes = self.tell(out.steps);
        self.write_client(&out.to_client, events);
        if !passes {
            return;
        }
        // One that ended closed its input too, and how it ended says more.
        if !out.to_server.is_empty() && !self.write_server(&out.to_server, events) && self.end(END).is_none()
        {
            let out = lock(exchange).deaf(before);
            self.write_client(&out.to_client, events);
            self.tell(out.steps);
        }
    }

    /// Reads the server to its end.
    pub(super) fn read_server(
        &self,
        server: &File,
        events: &Sender<Event>,
        answers: &Sender<Vec<u8>>,
        noise: &noise::Log,
    ) {
        match &self.exchange {
            Some(exchange) => self.server_lines(server, exchange, events, answers, noise),
            None => self.server_bytes(server, events),
        }
        self.read.store(true, Ordering::Release);
        let _ = events.send(Event::ServerClosed);
        let exited = self.end(END).flatten();
        self.fail(Ended::Server(exited), events);
    }

    fn server_bytes(&self, server: &File, events: &Sender<Event>) {
        let mut buffer = vec![0; BUFFER];
        while let Ok(count @ 1..) = read_some(server, &mut buffer) {
            self.activity.server_spoke();
            self.answered.store(true, Ordering::Relaxed);
            if !self.write_client(buffer.get(..count).unwrap_or_default(), events) {
                return;
            }
        }
    }

    fn server_lines(
        &self,
        server: &File,
        exchange: &Mutex<Exchange>,
        events: &Sender<Event>,
        answers: &Sender<Vec<u8>>,
        noise: &noise::Log,
    ) {
        let mut lines = Lines::default();
        let mut to_client = Vec::new();
        let mut steps = Vec::new();
        loop {
            let count = lines.fill(|room| read_some(server, room)).unwrap_or(0);
            self.activity.server_spoke();
            let mut take = |line: &Line<'_>| {
                let (mut out, text) = match line {
                    Line::Whole(text) => {
                        let read = Read::of(text);
                        (lock(exchange).server_sent(&read), *text)
                    }
                    Line::TooLong(cut) => (lock(exchange).server_sent_too_much(cut), noise::TOO_LONG),
                };
                if out.quarantined {
                    noise.line(text);
                }
                if !out.to_server.is_empty() {
                    self.queue(out.to_server, answers);
                }
                to_client.extend_from_slice(&out.to_client);
                steps.append(&mut out.steps);
            };
            while let Some(line) = lines.next() {
                take(&line);
            }
            if count == 0
                && let Some(rest) = lines.rest()
            {
                take(&rest);
            }
            let unmarked = self
                .calls
                .as_ref()
                .map(|calls| (calls, calls.unmark(std::mem::take(&mut steps))));
            if !to_client.is_empty() {
                self.note_answered();
                let taken = self.write_client(&to_client, events);
                if !taken {
                    tell_unmarked(unmarked);
                    return;
                }
                to_client.clear();
                to_client.shrink_to(BUFFER);
            }
            // The client has its answer; the record may follow.
            tell_unmarked(unmarked);
            if count == 0 {
                return;
            }
        }
    }

    /// One that asks and does not read is left without an answer before it fills our memory.
    fn queue(&self, answer: Vec<u8>, answers: &Sender<Vec<u8>>) {
        let length = answer.len();
        if self.queued.fetch_add(length, Ordering::Relaxed) + length > QUEUED {
            self.queued.fetch_sub(length, Ordering::Relaxed);
            tracing::debug!("an answer to the server is dropped: it does not read");
        } else {
            // Without its thread the session is over.
            let _ = answers.send(answer);
        }
    }

    /// Writes our own answers to the server's requests: whoever reads it must not wait for it to read.
    pub(super) fn answer_server(&self, answers: &Receiver<Vec<u8>>, events: &Sender<Event>) {
        while let Ok(answer) = answers.recv() {
            self.write_server(&answer, events);
            self.queued.fetch_sub(answer.len(), Ordering::Relaxed);
        }
    }
}

fn tell_unmarked(unmarked: Option<(&Calls, Vec<Unmarked>)>) {
    if let Some((calls, unmarked)) = unmarked {
        calls.tell_unmarked(unmarked);
    }
}

/// The queue of our own answers to the server.
pub(super) fn answers() -> (Sender<Vec<u8>>, Receiver<Vec<u8>>) {
    channel()
}

/// Waits for as long as a thread works, at most so long.
pub(super) fn wait_for(thread: &std::thread::JoinHandle<()>, limit: Duration) {
    wait_until(limit, || thread.is_finished());
}

/// The same for anything.
pub(super) fn wait_until(limit: Duration, is_so: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !is_so() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}
