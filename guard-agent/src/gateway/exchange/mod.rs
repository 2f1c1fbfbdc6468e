//! What passes between a client and its server, and in which form. No bytes are read or written here.

mod calls;
mod client;
mod ended;
mod roots;
mod scope;
mod server;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
};

pub(super) use calls::{Begun, Left, Method, Outcome, Refused, Step, Text};
pub(super) use ended::Ended;
pub(super) use scope::{Scope, Terms};

use super::{
    pins::Filter,
    protocol::{message::Token, revision::Revision},
};

/// Requests of the client that may be in flight.
const MOST_REQUESTS: usize = 1024;
/// The same of the server's.
const MOST_ASKED: usize = 64;
/// Messages in a batch.
const MOST_IN_BATCH: usize = 1024;
/// Progress tokens of tasks, which go on after their request.
const MOST_TASKS: usize = 256;

/// What one line leads to: whole lines for either side.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Out {
    pub(super) to_server: Vec<u8>,
    pub(super) to_client: Vec<u8>,
    /// The line is for neither: the operator's log has it.
    pub(super) quarantined: bool,
    /// What is to be told of calls.
    pub(super) steps: Vec<Step>,
}

/// How the two sides have begun to talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    Nothing,
    /// `initialize` is in flight.
    Initializing,
    Legacy(Revision),
    /// Every request describes itself.
    Modern,
}

/// A request of the client that is in flight.
#[derive(Debug)]
struct Request {
    number: u64,
    /// As the client wrote it.
    raw: Box<[u8]>,
    id: Token,
    progress: Option<Token>,
    kind: RequestKind,
    call: bool,
    /// It asks for a list, of which its client sees what it may call.
    list: Option<Filter>,
}

/// What of a request matters once it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    Discover,
    /// It is answered when its client wants no more.
    Listen,
    /// The server has told its end, and may still answer it.
    Unheard,
    /// It asks for a task, whose progress goes on after the answer.
    Task,
    Other,
}

/// What a side said it can do.
#[derive(Debug, Default, Clone, Copy)]
struct Declared {
    roots: bool,
    sampling: bool,
    elicitation: bool,
    tasks: bool,
}

/// A request of the server that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Roots,
    Other,
}

/// The state of one client and one server.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The server's, for messages.
    name: String,
    /// Who may call what; none: everything.
    scope: Option<Scope>,
    /// What of the machine the server can see: the client's roots are cut to it.
    roots: Vec<PathBuf>,
    opened: Opened,
    client: Declared,
    /// The server said that it has methods of its own.
    own_methods: bool,
    /// The number of the last request.
    last: u64,
    requests: HashMap<u64, Request>,
    /// The number of a request by its id, and by its progress token.
    ids: HashMap<Token, u64>,
    progress: HashMap<Token, u64>,
    /// Tokens of tasks, the oldest first.
    tasks: VecDeque<Token>,
    asked: HashMap<Token, Asked>,
    /// Calls that nobody waits for and that have no answer yet, the oldest first.
    left: VecDeque<u64>,
    /// Requests of our own.
    probes: HashSet<u64>,
    ended: Option<Ended>,
}

impl Exchange {
    pub(super) fn new(name: &str, roots: Vec<PathBuf>, scope: Option<Scope>) -> Self {
        Self {
            name: name.to_owned(),
            scope,
            roots,
            opened: Opened::Nothing,
            client: Declared::default(),
            own_methods: false,
            last: 0,
            requests: HashMap::new(),
            ids: HashMap::new(),
            progress: HashMap::new(),
            tasks: VecDeque::new(),
            asked: HashMap::new(),
            left: VecDeque::new(),
            probes: HashSet::new(),
            ended: None,
        }
    }

    /// The number of the last request that was passed on.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Requests of the client that have no answer yet, and are to have one.
    pub(super) fn in_flight(&self) -> usize {
        self.requests.values().filter(|request| request.is_owed()).count()
    }

    /// The request with this number is over.
    fn take(&mut self, number: u64) -> Option<Request> {
        let request = self.requests.remove(&number)?;
        self.ids.remove(&request.id);
        if let Some(token) = &request.progress
            && self.progress.get(token) == Some(&number)
        {
            self.progress.remove(token);
        }
        Some(request)
    }

    /// What ended without an answer is not waited for when there is no room.
    fn forget_unheard(&mut self) {
        let unheard =
            |(number, request): (&u64, &Request)| (request.kind == RequestKind::Unheard).then_some(*number);
        let numbers: Vec<u64> = self.requests.iter().filter_map(unheard).collect();
        for number in numbers {
            self.take(number);
        }
    }

    /// The number an id of the server means: as we sent it, or in quotes.
    fn number(id: &Token) -> Option<u64> {
        let (Token::Integer(text) | Token::Text(text)) = id;
        text.parse()
            .ok()
            .filter(|number: &u64| number.to_string() == **text)
    }
}
