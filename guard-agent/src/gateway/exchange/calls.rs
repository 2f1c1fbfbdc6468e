//! Which requests are calls, and what of them is to be told.

use std::{borrow::Cow, ops::Range};

use super::{Ended, Exchange, Out, Request, RequestKind, Terms, scope::Denial};
use crate::gateway::protocol::{
    answer::{self, INTERNAL_ERROR, TIMEOUT},
    message::{Malformed, Message, text_at},
};

/// Of arguments and results that are longer only the length is told: what a record can hold has an end.
pub(in crate::gateway) const KEPT: usize = 64 << 10;
/// Names that are longer are cut.
const NAME: usize = 1024;
/// Calls that nobody waits for and that the server may still be at.
pub(super) const MOST_LEFT: usize = 1024;

/// Something that is to be told of a call, in the order it happened. Requests are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) enum Step {
    /// It is about to be passed on: told before it is.
    Begun(Begun),
    /// Nobody waits for its answer any more; the server may still be at it.
    Left(u64, Left),
    Over(u64, Outcome),
    /// It was refused, and is none.
    Refused(Refused),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Begun {
    pub(in crate::gateway) number: u64,
    pub(in crate::gateway) method: Method,
    /// The tool's or prompt's name, or the resource's URI.
    pub(in crate::gateway) name: Option<String>,
    pub(in crate::gateway) arguments: Option<Text>,
    pub(in crate::gateway) terms: Terms,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Method {
    ToolsCall,
    ResourcesRead,
    PromptsGet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Left {
    Cancelled,
    TimedOut,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) enum Outcome {
    Answered {
        /// A result, or else the server's error.
        result: bool,
        /// The result says that the tool failed.
        failed: bool,
        text: Text,
    },
    /// By an error of ours.
    Failed(Cow<'static, str>),
    /// At last, long after nobody waited any more.
    Late,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Refused {
    pub(in crate::gateway) gate: &'static str,
    pub(in crate::gateway) rule: Cow<'static, str>,
    pub(in crate::gateway) why: String,
    pub(in crate::gateway) method: Option<String>,
    /// What it would have been.
    pub(in crate::gateway) call: Option<Box<Begun>>,
    pub(in crate::gateway) bytes: usize,
}

/// A JSON value, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Text {
    /// `None`: it is too long to be told.
    pub(in crate::gateway) text: Option<Vec<u8>>,
    pub(in crate::gateway) bytes: usize,
}

impl Text {
    fn of(raw: &[u8]) -> Self {
        Self {
            text: (raw.len() <= KEPT).then(|| raw.to_vec()),
            bytes: raw.len(),
        }
    }
}

impl Method {
    pub(super) fn of(method: &str) -> Option<Self> {
        match method {
            "tools/call" => Some(Self::ToolsCall),
            "resources/read" => Some(Self::ResourcesRead),
            "prompts/get" => Some(Self::PromptsGet),
            _ => None,
        }
    }

    pub(in crate::gateway) fn name(self) -> &'static str {
        match self {
            Self::ToolsCall => "tools/call",
            Self::ResourcesRead => "resources/read",
            Self::PromptsGet => "prompts/get",
        }
    }
}

impl Begun {
    pub(super) fn of(number: u64, method: Method, message: &Message<'_>, terms: Terms) -> Self {
        let name = match method {
            Method::ToolsCall | Method::PromptsGet => "name",
            Method::ResourcesRead => "uri",
        };
        let arguments = message.param(&["arguments"]);
        Self {
            number,
            method,
            name: message.text_param(&[name]).map(|name| cut(&name)),
            arguments: arguments.map(|range| Text::of(message.raw(range))),
            terms,
        }
    }
}

impl Outcome {
    pub(super) fn of(message: &Message<'_>) -> Self {
        let whole = |range: Range<usize>| Text::of(message.raw(range));
        match message.result.clone() {
            Some(range) => Self::Answered {
                result: true,
                failed: message
                    .of_result(&["isError"])
                    .is_some_and(|range| message.raw(range) == b"true"),
                text: whole(range),
            },
            None => Self::Answered {
                result: false,
                failed: true,
                text: message.error.clone().map_or_else(|| Text::of(b""), whole),
            },
        }
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

impl Out {
    pub(super) fn refused(&mut self, gate: &'static str, rule: &str, why: &str, sent: &[u8]) {
        let refused = Refused {
            gate,
            rule: rule.to_owned().into(),
            why: cut(why),
            method: None,
            call: None,
            bytes: sent.len(),
        };
        self.steps.push(Step::Refused(refused));
    }

    /// The same of what could be read.
    pub(super) fn refused_method(
        &mut self,
        gate: &'static str,
        rule: &str,
        why: &str,
        message: &Message<'_>,
    ) {
        self.refused(gate, rule, why, message.text);
        if let Some(Step::Refused(refused)) = self.steps.last_mut() {
            refused.method = text_at(message.text, &["method"]).map(|method| cut(&method));
        }
    }

    /// The same of what a gate denied.
    pub(super) fn denied(&mut self, denial: &Denial, method: &str, message: &Message<'_>) {
        self.refused_method(denial.gate, &denial.rule, &denial.why, message);
        if let Some(Step::Refused(refused)) = self.steps.last_mut() {
            let call = Method::of(method).map(|method| Begun::of(0, method, message, Terms::default()));
            refused.call = call.map(Box::new);
        }
    }

    pub(super) fn refused_malformed(&mut self, malformed: &Malformed, sent: &[u8]) {
        self.refused("form", malformed.rule, &malformed.why, sent);
    }
}

impl Exchange {
    /// The client wants no more of this request.
    pub(super) fn leave(&mut self, request: &Request, left: Left, out: &mut Out) {
        if !request.call {
            return;
        }
        out.steps.push(Step::Left(request.number, left));
        self.left.push_back(request.number);
        if self.left.len() > MOST_LEFT
            && let Some(number) = self.left.pop_front()
        {
            out.steps.push(Step::Over(number, Outcome::Late));
        }
    }

    /// An answer that nobody waits for: whether it is the end of a call.
    pub(super) fn late(&mut self, number: u64, out: &mut Out) {
        if let Some(at) = self.left.iter().position(|left| *left == number) {
            self.left.remove(at);
            out.steps.push(Step::Over(number, Outcome::Late));
        }
    }

    /// This request has taken too long: its client is told so, its server to leave it.
    pub(in crate::gateway) fn time_out(&mut self, number: u64) -> Out {
        let mut out = Out::default();
        let Some(request) = self.take(number) else {
            return out;
        };
        let data = serde_json::json!({"gate": "execution", "rule": "timeout"});
        let why = format!("server \"{}\" has not answered in time", self.name);
        answer::error(&mut out.to_client, Some(&request.raw), TIMEOUT, &why, &data);
        let cancel = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": number, "reason": "it took longer than its limit"}});
        out.to_server = format!("{cancel}\n").into_bytes();
        self.leave(&request, Left::TimedOut, &mut out);
        out
    }

    /// Asks the server whether it is there. Its answer is nobody's; the number of the question.
    pub(in crate::gateway) fn probe(&mut self) -> (u64, Vec<u8>) {
        self.last += 1;
        self.probes.insert(self.last);
        let ping = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}}\n",
            self.last
        );
        (self.last, ping.into_bytes())
    }

    pub(in crate::gateway) fn is_unanswered(&self, probe: u64) -> bool {
        self.probes.contains(&probe)
    }

    /// An error of ours is its end.
    pub(super) fn over(&self, request: &Request, rule: &str, out: &mut Out) {
        if request.call {
            let outcome = Outcome::Failed(rule.to_owned().into());
            out.steps.push(Step::Over(request.number, outcome));
        }
    }

    /// A request that came when nothing is answered any more.
    pub(super) fn too_late(&self, message: &Message<'_>, ended: &Ended, out: &mut Out) {
        self.tell(out, message.raw_id(), ended);
        out.refused_method("execution", ended.rule(), &ended.words(&self.name), message);
    }
}

impl Request {
    pub(super) fn fail(&self, out: &mut Out, why: &str, rule: &str) {
        answer::error(
            &mut out.to_client,
            Some(&self.raw),
            INTERNAL_ERROR,
            why,
            &answer::form(rule),
        );
        if self.call {
            out.steps
                .push(Step::Over(self.number, Outcome::Failed(rule.to_owned().into())));
        }
    }

    /// Whether its answer ends it.
    pub(super) fn is_owed(&self) -> bool {
        !matches!(self.kind, RequestKind::Listen | RequestKind::Unheard)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::gateway::protocol::message::Read;

    fn exchange() -> Exchange {
        Exchange::new("files", vec![PathBuf::from("/srv")], None)
    }

    fn call(id: &str) -> String {
        let params = r#"{"name":"read_file","arguments":{"path":"/a","n":1.10},"_meta":{"progressToken":5}}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    }

    fn steps(out: Out) -> Vec<Step> {
        out.steps
    }

    fn client(exchange: &mut Exchange, text: &str) -> Vec<Step> {
        steps(exchange.client_sent(&Read::of(text.as_bytes())))
    }

    fn server(exchange: &mut Exchange, text: &str) -> Vec<Step> {
        steps(exchange.server_sent(&Read::of(text.as_bytes())))
    }

    fn text(text: &str) -> Text {
        Text {
            text: Some(text.as_bytes().to_vec()),
            bytes: text.len(),
        }
    }

    #[test]
    fn a_call_begins_with_what_was_asked_and_ends_with_what_was_answered() {
        let mut exchange = exchange();
        assert_eq!(
            client(&mut exchange, &call("\"a\"")),
            [Step::Begun(Begun {
                number: 1,
                method: Method::ToolsCall,
                name: Some("read_file".into()),
                arguments: Some(text(r#"{"path":"/a","n":1.10}"#)),
                terms: Terms::default(),
            })]
        );
        let result = r#"{"content":[],"isError":true}"#;
        assert_eq!(
            server(
                &mut exchange,
                &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)
            ),
            [Step::Over(
                1,
                Outcome::Answered {
                    result: true,
                    failed: true,
                    text: text(result)
                }
            )]
        );
        for (method, params, name) in [
            ("resources/read", r#"{"uri":"file:///a"}"#, "file:///a"),
            ("prompts/get", r#"{"name":"p"}"#, "p"),
        ] {
            let asked = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#);
            let told = client(&mut exchange, &asked);
            let [Step::Begun(begun)] = told.as_slice() else {
                panic!("{told:?}")
            };
            assert_eq!((begun.method.name(), begun.name.as_deref()), (method, Some(name)));
            assert_eq!(begun.arguments, None);
            let error = r#"{"code":-1,"message":"no"}"#;
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, begun.number);
            let outcome = Outcome::Answered {
                result: false,
                failed: true,
                text: text(error),
            };
            assert_eq!(
                server(&mut exchange, &answer),
                [Step::Over(begun.number, outcome)]
            );
        }
    }

    #[test]
    fn other_requests_are_no_calls() {
        let mut exchange = exchange();
        for method in [
            "tools/list",
            "ping",
            "resources/list",
            "prompts/list",
            "completion/complete",
        ] {
            let asked = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
            assert_eq!(client(&mut exchange, &asked), []);
            let number = exchange.last();
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#);
            assert_eq!(server(&mut exchange, &answer), []);
        }
    }

    #[test]
    fn of_what_is_too_long_the_length_is_told() {
        let mut exchange = exchange();
        let long = "x".repeat(KEPT);
        let asked = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{long}","arguments":{{"a":"{long}"}}}}}}"#
        );
        let told = client(&mut exchange, &asked);
        let [Step::Begun(begun)] = told.as_slice() else {
            panic!("{told:?}")
        };
        let arguments = begun.arguments.as_ref().unwrap();
        assert_eq!((&arguments.text, arguments.bytes), (&None, KEPT + 8));
        assert_eq!(begun.name.as_ref().unwrap().len(), NAME);
    }

    #[test]
    fn a_cancelled_call_is_over_when_it_is_answered_late() {
        let mut exchange = exchange();
        client(&mut exchange, &call("7"));
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(client(&mut exchange, cancel), [Step::Left(1, Left::Cancelled)]);
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(server(&mut exchange, answer), [Step::Over(1, Outcome::Late)]);
        assert_eq!(server(&mut exchange, answer), []);
        // Without end only so many are remembered.
        for number in 0..=MOST_LEFT as u64 {
            client(&mut exchange, &call("7"));
            let left = Step::Left(number + 2, Left::Cancelled);
            let told = client(&mut exchange, cancel);
            if number == MOST_LEFT as u64 {
                assert_eq!(told, [left, Step::Over(2, Outcome::Late)]);
            } else {
                assert_eq!(told, [left]);
            }
        }
    }

    #[test]
    fn a_call_that_takes_too_long_is_answered_for_the_server_which_is_told() {
        let mut exchange = exchange();
        client(&mut exchange, &call("\"k\""));
        let out = exchange.time_out(1);
        let answer: serde_json::Value = serde_json::from_slice(&out.to_client).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&"k".into(), &TIMEOUT.into())
        );
        assert_eq!(answer["error"]["data"]["rule"], "timeout");
        let told: serde_json::Value = serde_json::from_slice(&out.to_server).unwrap();
        assert_eq!(told["method"], "notifications/cancelled");
        assert_eq!(told["params"]["requestId"], 1);
        assert_eq!(out.steps, [Step::Left(1, Left::TimedOut)]);
        assert_eq!(exchange.time_out(1), Out::default());
        // The question whether it is there is answered by anything, and passed to nobody.
        let (probe, ping) = exchange.probe();
        let ping: serde_json::Value = serde_json::from_slice(&ping).unwrap();
        assert_eq!((&ping["id"], &ping["method"]), (&probe.into(), &"ping".into()));
        assert!(exchange.is_unanswered(probe));
        let error = format!(r#"{{"jsonrpc":"2.0","id":{probe},"error":{{"code":-32601,"message":"no"}}}}"#);
        assert_eq!(exchange.server_sent(&Read::of(error.as_bytes())), Out::default());
        assert!(!exchange.is_unanswered(probe));
    }

    #[test]
    fn calls_of_a_server_that_is_over_are_over_and_later_ones_are_refused() {
        let mut exchange = exchange();
        client(&mut exchange, &call("1"));
        let over = exchange.end(Ended::Quarantined);
        assert_eq!(over.steps, [Step::Over(1, Outcome::Failed("quarantined".into()))]);
        let told = client(&mut exchange, &call("2"));
        let [Step::Refused(refused)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert_eq!((refused.gate, &*refused.rule), ("execution", "quarantined"));
        assert_eq!(refused.method.as_deref(), Some("tools/call"));
    }

    #[test]
    fn each_refusal_is_told_once_with_its_rule() {
        let mut exchange = exchange();
        for (sent, rule) in [
            ("{", "json"),
            ("[]", "batch"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, "jsonrpc"),
            (r#"{"jsonrpc":"2.0","method":"tools/call"}"#, "no-id"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"notifications/x"}"#, "shape"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, "shape"),
        ] {
            let told = client(&mut exchange, sent);
            let [Step::Refused(refused)] = told.as_slice() else {
                panic!("{sent}: {told:?}")
            };
            assert_eq!(
                (refused.gate, &*refused.rule, refused.bytes),
                ("form", rule, sent.len())
            );
        }
    }
}
