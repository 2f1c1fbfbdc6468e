//! One message out of its text: what kind it is, and where its parts are. The text itself is what passes on.

use std::{borrow::Cow, ops::Range};

use super::{
    json::{self, Flaw, Member},
    names, skim,
};

pub(in crate::gateway) use json::mended;

/// An id or token longer than this is none.
const ID_BYTES: usize = 256;

pub(in crate::gateway) const PARSE_ERROR: i32 = -32700;
pub(in crate::gateway) const INVALID_REQUEST: i32 = -32600;
pub(in crate::gateway) const LOOK_ALIKE: &str =
    "a key differs from one of the protocol's only in case or in what cannot be seen";

/// An id or progress token by its value: `1`, `"1"` and `"\u0031"` are two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::gateway) enum Token {
    Integer(Box<str>),
    Text(Box<str>),
}

impl Token {
    /// Integers by their digits: no reader of ours makes a double of them.
    pub(in crate::gateway) fn read(raw: &[u8]) -> Option<Self> {
        if raw.len() > ID_BYTES {
            return None;
        }
        if let Some(text) = json::text_of(raw) {
            return Some(Self::Text(text.into()));
        }
        let digits = raw.strip_prefix(b"-").unwrap_or(raw);
        let integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        integer
            .then(|| std::str::from_utf8(raw).ok())
            .flatten()
            .map(|text| Self::Integer(text.into()))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Kind<'a> {
    Request {
        method: Cow<'a, str>,
    },
    Notification {
        method: Cow<'a, str>,
    },
    /// An answer; whether it is an error.
    Response {
        error: bool,
    },
}

/// A message that is sound as far as its form goes.
#[derive(Debug)]
pub(in crate::gateway) struct Message<'a> {
    pub(in crate::gateway) text: &'a [u8],
    pub(in crate::gateway) kind: Kind<'a>,
    /// Where its id is, and what it says. `None` only for a notification, or an error without one.
    pub(in crate::gateway) id: Option<(Range<usize>, Token)>,
    pub(in crate::gateway) params: Option<Range<usize>>,
    pub(in crate::gateway) result: Option<Range<usize>>,
    pub(in crate::gateway) error: Option<Range<usize>>,
}

/// A text that is no message.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Malformed {
    pub(in crate::gateway) code: i32,
    pub(in crate::gateway) rule: &'static str,
    pub(in crate::gateway) why: Cow<'static, str>,
    /// The id an answer to it has, where that is certain.
    pub(in crate::gateway) id: Option<Vec<u8>>,
    /// It has a result or an error: nobody answers it.
    pub(in crate::gateway) response: bool,
    pub(in crate::gateway) method: bool,
    /// It is an array of something.
    pub(in crate::gateway) batch: bool,
    /// Nothing is wrong with it but half a surrogate pair.
    pub(in crate::gateway) surrogate: bool,
}

/// A line, read before anybody waits for what it leads to.
#[derive(Debug)]
pub(in crate::gateway) struct Read<'a> {
    pub(in crate::gateway) text: &'a [u8],
    pub(in crate::gateway) message: Result<Message<'a>, Malformed>,
}

impl<'a> Read<'a> {
    pub(in crate::gateway) fn of(text: &'a [u8]) -> Self {
        let mut message = Message::read(text);
        // Of an answer nobody reads the keys.
        let asks = |message: &Message<'_>| !matches!(message.kind, Kind::Response { .. });
        if let Ok(read) = &message
            && asks(read)
            && read.looks_alike()
        {
            message = Err(Malformed {
                code: INVALID_REQUEST,
                rule: "look-alike-key",
                why: LOOK_ALIKE.into(),
                id: read.id.is_some().then(|| read.raw_id().to_vec()),
                response: false,
                method: true,
                batch: false,
                surrogate: false,
            });
        }
        Self { text, message }
    }
}

impl<'a> Message<'a> {
    pub(in crate::gateway) fn read(text: &'a [u8]) -> Result<Self, Malformed> {
        let found = json::scan(text);
        let parts = Parts::of(text, &found.members);
        let malformed = |code, rule, why: Cow<'static, str>| Malformed {
            code,
            rule,
            why,
            id: parts.certain_id(text),
            response: parts.method.is_none() && (parts.result.is_some() || parts.error.is_some()),
            method: parts.method.is_some(),
            batch: false,
            surrogate: false,
        };
        let invalid = |rule, why: &'static str| malformed(INVALID_REQUEST, rule, why.into());
        if let Some(flaw) = found.flaw {
            // The id may stand behind the flaw: many libraries write it last.
            let mut cut = skim::of(text);
            if !cut.whole {
                // Half of a message: the whole one may follow.
                cut.id = None;
            }
            return Err(Malformed {
                id: cut.id,
                response: cut.answer,
                method: cut.method,
                surrogate: matches!(flaw, Flaw::Surrogate(_)),
                ..malformed(PARSE_ERROR, "json", flaw.to_string().into())
            });
        }
        let first = text.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        match first {
            Some(b'{') => {}
            Some(b'[') => {
                let why = "this revision has no arrays of messages; send them one by one";
                return Err(Malformed {
                    batch: true,
                    ..invalid("batch", why)
                });
            }
            _ => return Err(invalid("shape", "a message is an object")),
        }
        if let Some(at) = found.duplicate {
            let why = format!("a key stands twice in one object, the second time at byte {at}");
            return Err(malformed(INVALID_REQUEST, "duplicate-key", why.into()));
        }
        if parts.look_alike {
            return Err(invalid("look-alike-key", LOOK_ALIKE));
        }
        let version = parts.jsonrpc.clone().and_then(|value| text.get(value));
        if version.and_then(json::text_of).as_deref() != Some("2.0") {
            return Err(invalid("jsonrpc", "`jsonrpc` is not \"2.0\""));
        }
        parts.message(text).map_err(|(rule, why)| invalid(rule, why))
    }
}

/// Where the members of a message are.
#[derive(Debug, Default, Clone)]
struct Parts {
    jsonrpc: Option<Range<usize>>,
    id: Option<Range<usize>>,
    ids: usize,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    look_alike: bool,
}

impl Parts {
    fn of(text: &[u8], members: &[Member]) -> Self {
        let mut parts = Self::default();
        for member in members {
            let Some(key) = text.get(member.key.clone()).and_then(json::unescape) else {
                continue;
            };
            let value = Some(member.value.clone());
            match key.as_ref() {
                "jsonrpc" => parts.jsonrpc = value,
                "id" => {
                    parts.id = value;
                    parts.ids += 1;
                }
                "method" => parts.method = value,
                "params" => parts.params = value,
                "result" => parts.result = value,
                "error" => parts.error = value,
                other => parts.look_alike |= names::looks_like_one(other, names::MESSAGE),
            }
        }
        parts
    }

    /// The id, where it is one and there is one alone.
    fn certain_id(&self, text: &[u8]) -> Option<Vec<u8>> {
        let raw = text.get(self.id.clone()?)?;
        (self.ids == 1 && Token::read(raw).is_some()).then(|| raw.to_vec())
    }

    fn message<'a>(&self, text: &'a [u8]) -> Result<Message<'a>, (&'static str, &'static str)> {
        let id = match self.id.clone() {
            None => None,
            Some(range) => {
                let token = text.get(range.clone()).and_then(Token::read);
                // An error about a message whose id could not be read has none.
                let none =
                    token.is_none() && self.error.is_some() && text.get(range.clone()) == Some(b"null");
                if token.is_none() && !none {
                    return Err(("id", "an id is an integer or a string of up to 256 bytes"));
                }
                token.map(|token| (range, token))
            }
        };
        let kind = match (self.method.clone(), &self.result, &self.error) {
            (Some(method), None, None) => {
                let Some(method) = text.get(method).and_then(json::text_of) else {
                    return Err(("shape", "`method` is not a string"));
                };
                if id.is_some() {
                    Kind::Request { method }
                } else {
                    Kind::Notification { method }
                }
            }
            (None, Some(_), None) => Kind::Response { error: false },
            (None, None, Some(_)) => Kind::Response { error: true },
            (None, None, None) => return Err(("shape", "it has neither `method` nor `result` nor `error`")),
            (None, Some(_), Some(_)) => return Err(("shape", "it has both `result` and `error`")),
            (Some(_), _, _) => return Err(("shape", "it has `method` and `result` or `error`")),
        };
        if matches!(kind, Kind::Response { error: false }) && id.is_none() {
            return Err(("id", "a result without an id"));
        }
        let params = self.params.clone();
        let first = params
            .clone()
            .and_then(|range| text.get(range))
            .and_then(<[u8]>::first);
        if !matches!(first, None | Some(b'{' | b'[')) {
            return Err(("shape", "`params` is neither an object nor an array"));
        }
        Ok(Message {
            text,
            kind,
            id,
            params,
            result: self.result.clone(),
            error: self.error.clone(),
        })
    }
}

impl<'a> Message<'a> {
    /// Whether some reader could take a key of its parameters for one that decides, though it is none.
    pub(in crate::gateway) fn looks_alike(&self) -> bool {
        let any = |object: Option<Range<usize>>, names| {
            object.is_some_and(|object| look_alike(self.text, object, names))
        };
        any(self.params.clone(), names::PARAMS) || any(self.param(&["_meta"]), names::META)
    }

    /// The value of `params` at this path of keys.
    pub(in crate::gateway) fn param(&self, path: &[&str]) -> Option<Range<usize>> {
        find(self.text, self.params.clone()?, path)
    }

    /// The same of `result`.
    pub(in crate::gateway) fn of_result(&self, path: &[&str]) -> Option<Range<usize>> {
        find(self.text, self.result.clone()?, path)
    }

    pub(in crate::gateway) fn raw(&self, range: Range<usize>) -> &'a [u8] {
        self.text.get(range).unwrap_or_default()
    }

    pub(in crate::gateway) fn raw_id(&self) -> &'a [u8] {
        self.id
            .as_ref()
            .map_or(b"null", |(range, _)| self.raw(range.clone()))
    }

    pub(in crate::gateway) fn text_param(&self, path: &[&str]) -> Option<Cow<'a, str>> {
        self.param(path).and_then(|range| json::text_of(self.raw(range)))
    }
}

/// The value at this path of keys below an object.
pub(in crate::gateway) fn find(text: &[u8], object: Range<usize>, path: &[&str]) -> Option<Range<usize>> {
    path.iter().try_fold(object, |object, name| {
        json::members(text, object)
            .into_iter()
            .find(|member| text.get(member.key.clone()).and_then(json::unescape).as_deref() == Some(*name))
            .map(|member| member.value)
    })
}

/// Whether an object has a key that some reader could take for one of these, though it is none.
pub(in crate::gateway) fn look_alike(text: &[u8], object: Range<usize>, names: &[&str]) -> bool {
    let key = |member: &Member| text.get(member.key.clone()).and_then(json::unescape);
    json::members(text, object)
        .iter()
        .any(|member| key(member).is_some_and(|key| names::looks_like_one(&key, names)))
}

/// A string at this path of keys in a sound value.
pub(in crate::gateway) fn text_at<'a>(value: &'a [u8], path: &[&str]) -> Option<Cow<'a, str>> {
    let found = find(value, 0..value.len(), path)?;
    json::text_of(value.get(found)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: impl AsRef<[u8]>) -> (i32, &'static str, Option<String>) {
        let malformed = Message::read(text.as_ref()).expect_err("it passes");
        let id = malformed.id.map(|id| String::from_utf8(id).unwrap());
        (malformed.code, malformed.rule, id)
    }

    fn invalid(rule: &'static str, id: &str) -> (i32, &'static str, Option<String>) {
        (
            INVALID_REQUEST,
            rule,
            Some(id.to_owned()).filter(|id| !id.is_empty()),
        )
    }

    #[test]
    fn what_is_no_message_is_told_with_its_rule_and_its_id() {
        assert_eq!(refused("{"), (PARSE_ERROR, "json", None));
        assert_eq!(refused("[]"), invalid("batch", ""));
        assert_eq!(refused("7"), invalid("shape", ""));
        assert_eq!(refused("{}"), invalid("jsonrpc", ""));
        assert_eq!(
            refused(r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#),
            invalid("jsonrpc", "1")
        );
        assert_eq!(
            refused(r#"{"jsonrpc":2.0,"id":1,"method":"x"}"#),
            invalid("jsonrpc", "1")
        );
        for id in ["null", "1.0", "1e3", "true", "[1]", "{}", "-"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            let expected = if id == "-" {
                (PARSE_ERROR, "json", None)
            } else {
                invalid("id", "")
            };
            assert_eq!(refused(text), expected, "{id}");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "a".repeat(255));
        assert_eq!(refused(long), invalid("id", ""));
        let head = r#"{"jsonrpc":"2.0","id":"a","#;
        assert_eq!(refused(format!("{head}\"x\":0}}")), invalid("shape", "\"a\""));
        assert_eq!(
            refused(format!("{head}\"method\":1}}")),
            invalid("shape", "\"a\"")
        );
        assert_eq!(
            refused(format!("{head}\"method\":\"x\",\"params\":1}}")),
            invalid("shape", "\"a\"")
        );
        assert_eq!(
            refused(format!("{head}\"method\":\"x\",\"result\":1}}")),
            invalid("shape", "\"a\"")
        );
        assert_eq!(
            refused(format!("{head}\"error\":{{}},\"result\":1}}")),
            invalid("shape", "\"a\"")
        );
    }

    #[test]
    fn two_readers_would_read_two_messages() {
        let head = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","#;
        let deep = format!("{head}\"params\":{{\"name\":\"a\",\"arguments\":{{\"p\":1,\"\\u0070\":2}}}}}}");
        assert_eq!(refused(deep), invalid("duplicate-key", "5"));
        assert_eq!(refused(format!("{head}\"id\":6}}")), invalid("duplicate-key", ""));
        assert_eq!(
            refused(format!("{head}\"Params\":{{}}}}")),
            invalid("look-alike-key", "5")
        );
        let alike = |params: &str| {
            let text = format!("{head}\"params\":{params},\"x\":0}}");
            Message::read(text.as_bytes()).unwrap().looks_alike()
        };
        assert!(alike(r#"{"Name":0}"#) && alike(r#"{"_meta":{"ProgressToken":0}}"#));
        assert!(!alike(r#"{"arguments":{"Name":0,"ID":1},"name":0,"vendor":0}"#) && !alike("[]"));
    }

    #[test]
    fn an_id_is_what_it_says_and_how_it_is_written() {
        let read = |id: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            let message = Message::read(text.as_bytes()).unwrap();
            (message.raw_id().to_vec(), message.id.unwrap().1)
        };
        let integer = |text: &str| Token::Integer(text.into());
        let string = |text: &str| Token::Text(text.into());
        for (id, token) in [
            ("1", integer("1")),
            ("\"1\"", string("1")),
            ("\"\\u0031\"", string("1")),
            ("-9007199254740993", integer("-9007199254740993")),
            (
                "123456789012345678901234567890",
                integer("123456789012345678901234567890"),
            ),
            ("\"\"", string("")),
        ] {
            assert_eq!(read(id), (id.as_bytes().to_vec(), token));
        }
    }

    #[test]
    fn escaped_names_mean_the_same() {
        let text = br#"{"jsonrpc":"2.0","\u006dethod":"tools\/call","id":1,"params":{"n\u0061me":"x"}}"#;
        let message = Message::read(text).unwrap();
        assert_eq!(
            message.kind,
            Kind::Request {
                method: "tools/call".into()
            }
        );
        assert_eq!(message.text_param(&["name"]).as_deref(), Some("x"));
    }
}
