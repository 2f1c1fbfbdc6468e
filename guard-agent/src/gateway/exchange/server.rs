//! What the server sends.

use std::{borrow::Cow, ops::Range};

use super::{
    Asked, Exchange, MOST_ASKED, MOST_TASKS, Opened, Out, Outcome, Request, RequestKind, Scope, Step,
};
use crate::gateway::protocol::{
    answer::{self, INTERNAL_ERROR, METHOD_NOT_FOUND, form},
    lines::LIMIT,
    message::{self, Kind, Malformed, Message, Read, Token, mended},
    names,
    revision::Revision,
    skim::Cut,
    splice,
};

/// Where something stands, and what is to stand there.
type Part = (Range<usize>, Vec<u8>);

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

impl Exchange {
    /// A line of the server.
    pub(in crate::gateway) fn server_sent(&mut self, read: &Read<'_>) -> Out {
        let mut out = Out::default();
        match &read.message {
            Ok(message) => match (&message.kind, &message.id) {
                (Kind::Request { method }, Some((_, id))) => self.ask(message, method, id, &mut out),
                (Kind::Notification { method }, _) => self.tell_client(message, method, &mut out),
                (Kind::Response { .. }, Some((at, id))) => self.answer(message, at, id, &mut out),
                // An error that names no request: nobody waits for it.
                _ => {}
            },
            // Text that was cut in the middle of a character, which its reader is to see.
            Err(malformed) if malformed.surrogate => {
                let mended = mended(read.text);
                let read = Read::of(&mended);
                if !matches!(&read.message, Err(malformed) if malformed.surrogate) {
                    return self.server_sent(&read);
                }
                self.no_message(malformed, &mut out);
            }
            Err(malformed) => self.no_message(malformed, &mut out),
        }
        out
    }

    /// A line of the server that was too long.
    pub(in crate::gateway) fn server_sent_too_much(&mut self, cut: &Cut) -> Out {
        let mut out = Out {
            quarantined: true,
            ..Out::default()
        };
        let why = format!("the server's message is longer than {LIMIT} bytes");
        if let Some(id) = &cut.id {
            if cut.answer {
                if let Some(request) = Token::read(id).and_then(|id| self.take_answered(&id, &mut out)) {
                    request.fail(&mut out, &why, "answer-too-large");
                }
            } else if cut.method {
                answer::error(
                    &mut out.to_server,
                    Some(id),
                    message::INVALID_REQUEST,
                    &why,
                    &form("too-large"),
                );
            }
        }
        out
    }

    fn no_message(&mut self, malformed: &Malformed, out: &mut Out) {
        out.quarantined = true;
        // Whatever else it says, with the id of a request and without a method it was to be the answer.
        let id = malformed.id.as_deref().filter(|_| !malformed.method);
        let Some(request) = id
            .and_then(Token::read)
            .and_then(|id| self.take_answered(&id, out))
        else {
            return;
        };
        let why = format!("the server's answer is malformed: {}", malformed.why);
        request.fail(out, &why, "bad-answer");
    }

    /// The request that an answer with this id is for. It is over.
    fn take_answered(&mut self, id: &Token, out: &mut Out) -> Option<Request> {
        let number = Self::number(id)?;
        let Some(request) = self.take(number) else {
            self.probes.remove(&number);
            self.late(number, out);
            return None;
        };
        self.forget_opening(&request);
        Some(request)
    }

    /// Until its answer is read: one that fails leaves the session as it was before.
    fn forget_opening(&mut self, request: &Request) {
        if request.kind == RequestKind::Initialize {
            self.opened = Opened::Nothing;
        }
    }

    fn answer(&mut self, message: &Message<'_>, at: &Range<usize>, id: &Token, out: &mut Out) {
        let Some(request) = self.take_answered(id, out) else {
            return;
        };
        if request.kind == RequestKind::Initialize && message.result.is_some() {
            let version = message
                .of_result(&["protocolVersion"])
                .and_then(|range| message::text_at(message.raw(range), &[]))
                .and_then(|version| Revision::parse(&version))
                .filter(|revision| *revision <= Revision::LAST_LEGACY);
            let Some(revision) = version else {
                let why = "the server answers in a protocol version that is not known";
                return request.fail(out, why, "version");
            };
            self.opened = Opened::Legacy(revision);
        }
        match request.kind {
            RequestKind::Initialize | RequestKind::Discover if message.result.is_some() => {
                self.own_methods = ["experimental", "extensions"].iter().any(|name| {
                    let offered = message.of_result(&["capabilities", name]);
                    offered.is_some_and(|range| message.raw(range).starts_with(b"{"))
                });
            }
            RequestKind::Task => self.tasks.extend(request.progress.clone()),
            _ => {}
        }
        if self.tasks.len() > MOST_TASKS {
            self.tasks.pop_front();
        }
        let subscription = message.of_result(&["_meta", SUBSCRIPTION]);
        let filtered = match self.filtered(&request, message) {
            Ok(filtered) => filtered,
            Err(why) => return request.fail(out, &why, "bad-answer"),
        };
        let mut parts: Vec<(Range<usize>, &[u8])> = vec![(at.clone(), &request.raw)];
        if let Some((range, result)) = &filtered {
            parts.push((range.clone(), result));
        }
        // Only its own.
        if let Some(range) = subscription
            && filtered.is_none()
            && Token::read(message.raw(range.clone())).and_then(|token| Self::number(&token))
                == Self::number(id)
        {
            parts.push((range, &request.raw));
        }
        splice::line(&mut out.to_client, message.text, &mut parts);
        if request.call {
            out.steps.push(Step::Over(request.number, Outcome::of(message)));
        }
    }

    /// A list without what its client may not call, and where it stands; none: as it is. One that cannot be read is not
    /// passed on.
    fn filtered(&self, request: &Request, message: &Message<'_>) -> Result<Option<Part>, String> {
        let (Some(scope), Some(list), Some(range)) = (&self.scope, request.list, message.result.clone())
        else {
            return Ok(None);
        };
        let result = message.raw(range.clone());
        match list.apply(result, |name| scope.shows(list, name)) {
            Ok(Cow::Borrowed(_)) => Ok(None),
            Ok(Cow::Owned(result)) => Ok(Some((range, result))),
            Err(error) => Err(format!("the server's list cannot be shown: {error}")),
        }
    }

    /// A request of the server.
    fn ask(&mut self, message: &Message<'_>, method: &str, id: &Token, out: &mut Out) {
        let legacy = matches!(self.opened, Opened::Legacy(_));
        let declared = match method {
            "ping" => true,
            "roots/list" => self.client.roots,
            "sampling/createMessage" => self.client.sampling,
            "elicitation/create" => self.client.elicitation,
            "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => self.client.tasks,
            _ => false,
        };
        let refusal = if !legacy || !declared {
            let why = match self.opened {
                Opened::Modern => "servers ask nothing in this revision",
                Opened::Nothing | Opened::Initializing => "the greeting is not over",
                Opened::Legacy(_) => "the client did not offer that",
            };
            Some((METHOD_NOT_FOUND, "not-negotiated", why))
        } else if self.asked.contains_key(id) {
            Some((
                message::INVALID_REQUEST,
                "id-in-use",
                "a request with this id is in flight",
            ))
        } else if self.asked.len() >= MOST_ASKED {
            Some((
                INTERNAL_ERROR,
                "too-many",
                "too many requests are in flight; wait for an answer",
            ))
        } else {
            None
        };
        if let Some((code, rule, why)) = refusal {
            return answer::error(&mut out.to_server, Some(message.raw_id()), code, why, &form(rule));
        }
        let asked = if method == "roots/list" {
            Asked::Roots
        } else {
            Asked::Other
        };
        self.asked.insert(id.clone(), asked);
        splice::line(&mut out.to_client, message.text, &mut []);
    }

    /// A notification of the server.
    fn tell_client(&mut self, message: &Message<'_>, method: &str, out: &mut Out) {
        if !names::is_server_notification(method) && (!self.own_methods || names::is_request(method)) {
            return;
        }
        let ended;
        let token = |path: &[&str]| {
            let range = message.param(path)?;
            Some((Token::read(message.raw(range.clone()))?, range))
        };
        let mut parts = Vec::new();
        match method {
            "notifications/resources/updated" => {
                let shown = |scope: &Scope| {
                    let uri = message.text_param(&["uri"]);
                    uri.is_some_and(|uri| scope.admits_resource(&uri))
                };
                if !self.scope.as_ref().is_none_or(shown) {
                    return;
                }
            }
            "notifications/progress" => {
                let known = |token: &Token| self.progress.contains_key(token) || self.tasks.contains(token);
                // Late, or of nobody.
                if !token(&["progressToken"]).is_some_and(|(token, _)| known(&token)) {
                    return;
                }
            }
            // The end of a subscription, named by the request that began it.
            "notifications/cancelled" if self.opened == Opened::Modern => {
                let Some((id, range)) = token(&["requestId"]) else {
                    return;
                };
                let number = Self::number(&id).unwrap_or_default();
                let Some(request) = self.requests.get_mut(&number) else {
                    return;
                };
                request.kind = RequestKind::Unheard;
                ended = request.raw.clone();
                parts.push((range, &*ended));
            }
            "notifications/cancelled" => {
                let id = token(&["requestId"]);
                if id.and_then(|(id, _)| self.asked.remove(&id)).is_none() {
                    return;
                }
            }
            _ => {}
        }
        if let Some((id, range)) = token(&["_meta", SUBSCRIPTION]) {
            let Some(request) = Self::number(&id).and_then(|number| self.requests.get(&number)) else {
                return;
            };
            parts.push((range, &*request.raw));
        }
        splice::line(&mut out.to_client, message.text, &mut parts);
    }
}
