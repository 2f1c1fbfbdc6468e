//! What the client sends.

use std::ops::Range;

use super::{
    Asked, Begun, Declared, Exchange, Left, MOST_IN_BATCH, MOST_REQUESTS, Method, Opened, Out, Request,
    RequestKind, Step, Terms, roots, scope,
};
use crate::gateway::protocol::{
    answer::{self, INTERNAL_ERROR, TOO_MANY, form},
    lines::LIMIT,
    message::{INVALID_REQUEST, Kind, Malformed, Message, Read, Token},
    names,
    revision::Revision,
    skim::Cut,
    splice,
};

impl Exchange {
    /// A line of the client.
    pub(in crate::gateway) fn client_sent(&mut self, read: &Read<'_>) -> Out {
        let mut out = Out::default();
        match &read.message {
            Ok(message) => self.pass(message, false, &mut out),
            Err(malformed) if malformed.batch && self.has_batches() => self.batch(read.text, &mut out),
            Err(malformed) => self.refuse(malformed, read.text, &mut out),
        }
        self.settled(out)
    }

    /// Nobody reads what a server that is over is sent.
    fn settled(&self, mut out: Out) -> Out {
        if self.ended.is_some() {
            out.to_server.clear();
        }
        out
    }

    /// A line of the client that was too long.
    pub(in crate::gateway) fn client_sent_too_much(&mut self, cut: &Cut) -> Out {
        let mut out = Out::default();
        let id = cut.id.as_deref();
        if cut.answer {
            // The server waits for it.
            if id
                .and_then(Token::read)
                .and_then(|id| self.asked.remove(&id))
                .is_some()
            {
                let why = format!("the client's answer is longer than {LIMIT} bytes");
                answer::error(
                    &mut out.to_server,
                    id,
                    INTERNAL_ERROR,
                    &why,
                    &form("answer-too-large"),
                );
            }
        } else {
            let why = format!("the message is longer than {LIMIT} bytes");
            answer::error(&mut out.to_client, id, INVALID_REQUEST, &why, &form("too-large"));
        }
        let (rule, why) = if cut.answer {
            ("answer-too-large", "the client's answer")
        } else {
            ("too-large", "the message")
        };
        out.refused("form", rule, &format!("{why} is longer than {LIMIT} bytes"), &[]);
        self.settled(out)
    }

    fn has_batches(&self) -> bool {
        matches!(self.opened, Opened::Legacy(revision) if revision.has_batches())
    }

    /// Each of them as if it stood on a line of its own; so are the answers.
    fn batch(&mut self, text: &[u8], out: &mut Out) {
        let count = splice::elements(text).count();
        if count == 0 || count > MOST_IN_BATCH {
            let why = format!("a batch has between one and {MOST_IN_BATCH} messages");
            out.refused("form", "batch", &why, text);
            return answer::error(&mut out.to_client, None, INVALID_REQUEST, &why, &form("batch"));
        }
        for element in splice::elements(text) {
            match &Read::of(element).message {
                Ok(message) => self.pass(message, true, out),
                Err(malformed) => self.refuse(malformed, element, out),
            }
        }
    }

    fn refuse(&mut self, malformed: &Malformed, sent: &[u8], out: &mut Out) {
        out.refused_malformed(malformed, sent);
        let id = malformed.id.as_deref();
        if malformed.response {
            // An answer to an answer confuses the one who gave it; the server, though, waits.
            let token = id.and_then(Token::read);
            if token.and_then(|token| self.asked.remove(&token)).is_some() {
                let why = "the client's answer is malformed";
                answer::error(&mut out.to_server, id, INTERNAL_ERROR, why, &form("bad-answer"));
            }
            return;
        }
        answer::error(
            &mut out.to_client,
            id,
            malformed.code,
            &malformed.why,
            &form(malformed.rule),
        );
    }

    fn pass(&mut self, message: &Message<'_>, in_batch: bool, out: &mut Out) {
        match (&message.kind, &message.id) {
            (Kind::Request { method }, Some((at, id))) => {
                if let Err((code, rule, why)) = self.request(message, method, (at, id), in_batch, out) {
                    answer::error(&mut out.to_client, Some(message.raw_id()), code, why, &form(rule));
                    out.refused_method("form", rule, why, message);
                }
            }
            (Kind::Notification { method }, _) if names::is_request(method) => {
                let why = "a request without an id";
                answer::error(&mut out.to_client, None, INVALID_REQUEST, why, &form("no-id"));
                out.refused_method("form", "no-id", why, message);
            }
            (Kind::Notification { method }, _) => self.notification(message, method, out),
            (Kind::Response { .. }, Some((_, id))) => self.response(message, id, out),
            // Nobody asked for it.
            _ => {}
        }
    }

    fn request(
        &mut self,
        message: &Message<'_>,
        method: &str,
        (at, id): (&Range<usize>, &Token),
        in_batch: bool,
        out: &mut Out,
    ) -> Result<(), (i32, &'static str, &'static str)> {
        if self.ids.contains_key(id) {
            return Err((
                INVALID_REQUEST,
                "id-in-use",
                "a request with this id is in flight",
            ));
        }
        if self.requests.len() >= MOST_REQUESTS {
            self.forget_unheard();
        }
        if self.requests.len() >= MOST_REQUESTS {
            return Err((
                TOO_MANY,
                "too-many",
                "too many requests are in flight; wait for an answer",
            ));
        }
        if method.starts_with("notifications/") {
            return Err((INVALID_REQUEST, "shape", "a notification has no id"));
        }
        let kind = kind(message, method);
        let initialize = kind == RequestKind::Initialize;
        if initialize && in_batch {
            return Err((INVALID_REQUEST, "batch", "`initialize` stands alone"));
        }
        if initialize && !matches!(self.opened, Opened::Nothing | Opened::Modern) {
            return Err((INVALID_REQUEST, "initialized-twice", "the session is initialized"));
        }
        if let Some(ended) = self.ended.clone() {
            self.too_late(message, &ended, out);
            return Ok(());
        }
        let judged = self.scope.as_ref().map(|scope| scope.judge(method, message));
        let terms = match judged {
            None => Terms::default(),
            Some(Ok(terms)) => terms,
            Some(Err(denial)) => {
                self.note_modern(message);
                self.deny(message, method, &denial, out);
                out.denied(&denial, method, message);
                return Ok(());
            }
        };
        let mut version = None;
        if initialize {
            self.opened = Opened::Initializing;
            self.client = declared(message);
            version = self.older(message);
        } else {
            self.note_modern(message);
        }
        self.last += 1;
        let number = self.last.to_string();
        let mut parts = vec![(at.clone(), number.as_bytes())];
        let older = format!("\"{}\"", Revision::LAST_LEGACY.name());
        parts.extend(version.map(|range| (range, older.as_bytes())));
        splice::line(&mut out.to_server, message.text, &mut parts);
        let progress = message
            .param(&["_meta", "progressToken"])
            .and_then(|range| Token::read(message.raw(range)));
        self.ids.insert(id.clone(), self.last);
        progress
            .clone()
            .map(|token| self.progress.insert(token, self.last));
        let call = Method::of(method);
        if let Some(method) = call {
            out.steps
                .push(Step::Begun(Begun::of(self.last, method, message, terms)));
        }
        let request = Request {
            number: self.last,
            call: call.is_some(),
            list: scope::list(method).filter(|_| self.scope.is_some()),
            raw: message.raw_id().into(),
            id: id.clone(),
            progress,
            kind,
        };
        self.requests.insert(self.last, request);
        Ok(())
    }

    fn note_modern(&mut self, message: &Message<'_>) {
        if self.opened == Opened::Nothing && is_modern(message) {
            self.opened = Opened::Modern;
        }
    }

    /// Where the version is that `initialize` asks for, when it is none we know: what is said in it we could not check. Asked
    /// for is then the last one that we do know.
    fn older(&self, message: &Message<'_>) -> Option<Range<usize>> {
        let known = message
            .text_param(&["protocolVersion"])
            .and_then(|version| Revision::parse(&version))
            .is_some_and(|revision| revision <= Revision::LAST_LEGACY);
        message.param(&["protocolVersion"]).filter(|_| !known)
    }

    fn notification(&mut self, message: &Message<'_>, method: &str, out: &mut Out) {
        if self.ended.is_some() {
            return;
        }
        let mut number = String::new();
        let mut parts = Vec::new();
        if method == "notifications/cancelled" {
            let at = message.param(&["requestId"]);
            let id = at.clone().and_then(|at| Token::read(message.raw(at)));
            let Some((at, known)) = at.zip(id.and_then(|id| self.ids.get(&id).copied())) else {
                return;
            };
            let kind = self.requests.get(&known).map(|request| request.kind);
            if kind.is_none_or(|kind| kind == RequestKind::Initialize) {
                return;
            }
            // Whatever is still answered finds nobody.
            if let Some(request) = self.take(known) {
                self.leave(&request, Left::Cancelled, out);
            }
            number = known.to_string();
            parts.push(at);
        }
        let mut parts: Vec<_> = parts.into_iter().map(|at| (at, number.as_bytes())).collect();
        splice::line(&mut out.to_server, message.text, &mut parts);
    }

    fn response(&mut self, message: &Message<'_>, id: &Token, out: &mut Out) {
        let Some(asked) = self.asked.remove(id) else {
            return;
        };
        let roots = message.result.clone().filter(|_| asked == Asked::Roots);
        let (at, cut) = match roots.map(|result| roots::cut(message.text, result, &self.roots)) {
            None | Some(Ok(None)) => (None, Vec::new()),
            Some(Ok(Some((at, cut)))) => (Some(at), cut),
            Some(Err(why)) => {
                let id = Some(message.raw_id());
                out.refused("form", "bad-answer", why, message.text);
                return answer::error(&mut out.to_server, id, INTERNAL_ERROR, why, &form("bad-answer"));
            }
        };
        let mut parts: Vec<(Range<usize>, &[u8])> = at.map(|at| (at, cut.as_slice())).into_iter().collect();
        splice::line(&mut out.to_server, message.text, &mut parts);
    }
}

fn kind(message: &Message<'_>, method: &str) -> RequestKind {
    match method {
        "initialize" => RequestKind::Initialize,
        "server/discover" => RequestKind::Discover,
        "subscriptions/listen" => RequestKind::Listen,
        _ if message.param(&["task"]).is_some() => RequestKind::Task,
        _ => RequestKind::Other,
    }
}

fn declared(message: &Message<'_>) -> Declared {
    let has = |name: &str| {
        message
            .param(&["capabilities", name])
            .is_some_and(|range| message.raw(range).starts_with(b"{"))
    };
    Declared {
        roots: has("roots"),
        sampling: has("sampling"),
        elicitation: has("elicitation"),
        tasks: has("tasks"),
    }
}

fn is_modern(message: &Message<'_>) -> bool {
    message
        .param(&["_meta", "io.modelcontextprotocol/protocolVersion"])
        .is_some()
}
