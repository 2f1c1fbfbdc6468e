//! Patterns for names of tools and prompts and for addresses of resources.
//!
//! `*` is any run of characters without a `/`, also an empty one. Only for resources, `**` as the last part is
//! everything beneath. Every other character stands for itself.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
};

use crate::config::printable;

/// What the protocol allows a tool's name to have.
const NAME_MOST: usize = 128;
/// Far above any address a pattern is written for.
const URI_MOST: usize = 4096;
/// Two patterns are compared in time that grows with the square of their lengths.
const URI_PATTERN_MOST: usize = 512;

/// One pattern that can match something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    tokens: Vec<Token>,
    /// Bytes before the first `*`.
    prefix: usize,
    /// Where what stands behind the last `*` begins.
    suffix: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    One(u8),
    /// `*`
    Part,
    /// `**`
    Rest,
}

impl Token {
    fn is_wild(self) -> bool {
        !matches!(self, Self::One(_))
    }

    /// A byte that both take.
    fn both(self, other: Self) -> Option<u8> {
        match (self, other) {
            (Self::One(one), Self::One(two)) => (one == two).then_some(one),
            (Self::One(byte), Self::Part) | (Self::Part, Self::One(byte)) => (byte != b'/').then_some(byte),
            (Self::One(byte), Self::Rest) | (Self::Rest, Self::One(byte)) => Some(byte),
            (Self::Part | Self::Rest, Self::Part | Self::Rest) => Some(b'a'),
        }
    }
}

/// Why nothing can match: a cause, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Dead {
    pub why: String,
    pub fix: String,
}

impl Dead {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            fix: fix.into(),
        }
    }
}

impl Pattern {
    /// For names of tools and prompts.
    pub fn name(text: &str) -> Result<Self, Dead> {
        if let Some(other) = text.chars().find(|one| *one != '*' && !in_name(*one)) {
            return Err(Dead::new(
                format!("{}, so it never matches", cannot_have(other)),
                "use ASCII letters, digits, `_`, `-`, `.` and `/`; `*` stands for any of them but `/`",
            ));
        }
        if text.contains("**") {
            return Err(Dead::new(
                "`**` is `*` twice, and neither passes a `/`",
                "write `*` once for each part between `/`",
            ));
        }
        let literal = text.bytes().filter(|byte| *byte != b'*').count();
        // With all of it literal, `*` would have nothing left to stand for.
        if literal > NAME_MOST - usize::from(text.contains('*')) {
            return Err(Dead::new(
                format!("no name has more than {NAME_MOST} characters, so it never matches"),
                "shorten it",
            ));
        }
        Self::parsed(text)
    }

    /// For addresses of resources.
    pub fn uri(text: &str) -> Result<Self, Dead> {
        if let Some(other) = text.chars().find(|one| !one.is_ascii_graphic()) {
            return Err(Dead::new(
                format!("an address has no {}, so it never matches", named(other)),
                "write it with `%` and two digits, as addresses do",
            ));
        }
        if text.len() > URI_PATTERN_MOST {
            return Err(Dead::new(
                format!("it is longer than {URI_PATTERN_MOST} characters"),
                "shorten it with `*`",
            ));
        }
        let body = match text.strip_suffix("**") {
            Some(body) if body.is_empty() || body.ends_with('/') => body,
            _ => text,
        };
        if body.contains("**") {
            return Err(Dead::new(
                "`**` stands only for a whole last part",
                "end it with `/**`, or write `*` once for each part between `/`",
            ));
        }
        if !plain_uri(body) {
            return Err(Dead::new(
                "an address with `.` or `..` as a part, or with `%2e`, `%2f` or `%5c`, is allowed to nobody",
                "write the address without them",
            ));
        }
        Self::parsed(text)
    }

    fn parsed(text: &str) -> Result<Self, Dead> {
        if text.is_empty() {
            return Err(Dead::new("it is empty, and no name is", "write a name, or `*`"));
        }
        let mut tokens: Vec<Token> = Vec::with_capacity(text.len());
        for byte in text.bytes() {
            match (byte, tokens.last_mut()) {
                (b'*', Some(last @ Token::Part)) => *last = Token::Rest,
                (b'*', _) => tokens.push(Token::Part),
                (byte, _) => tokens.push(Token::One(byte)),
            }
        }
        Ok(Self {
            text: text.to_owned(),
            prefix: text.find('*').unwrap_or(text.len()),
            suffix: text.rfind('*').map_or(0, |star| star + 1),
            tokens,
        })
    }

    /// It is one name.
    pub fn is_exact(&self) -> bool {
        self.prefix == self.text.len()
    }

    /// What stands before the first `*`.
    pub fn prefix(&self) -> &str {
        self.text.get(..self.prefix).unwrap_or(&self.text)
    }

    /// What stands behind the last `*`.
    fn suffix(&self) -> &str {
        self.text.get(self.suffix..).unwrap_or_default()
    }

    pub fn matches(&self, name: &str) -> bool {
        // The two ends tell most names apart, and cost next to nothing.
        name.starts_with(self.prefix())
            && name.ends_with(self.suffix())
            && takes(
                &self.tokens,
                name.as_bytes(),
                |one, byte| one == byte,
                |byte| byte != b'/',
            )
    }

    /// Whether every name that `other` matches is matched here too: what it writes out stands here, and what its `*`
    /// stand for falls to a `*` here.
    pub fn covers(&self, other: &Self) -> bool {
        // What stands at an end here has to stand there too, which tells most pairs apart.
        other.suffix().ends_with(self.suffix())
            && takes(
                &self.tokens,
                &other.tokens,
                |one, token| token == Token::One(one),
                |token| !matches!(token, Token::One(b'/') | Token::Rest),
            )
    }

    /// A name that both match, one of the shortest. Exact: there is none only if there is none.
    pub fn shared(&self, other: &Self) -> Option<String> {
        if !self.ends_agree(other) {
            return None;
        }
        // A place in each pattern, and whether the name has begun: an empty one is none.
        let mut seen = HashSet::new();
        let mut queue = VecDeque::from([((0, 0, false), String::new())]);
        while let Some((at, name)) = queue.pop_front() {
            if !seen.insert(at) {
                continue;
            }
            let (ours, theirs, begun) = at;
            let (one, two) = (self.tokens.get(ours).copied(), other.tokens.get(theirs).copied());
            if one.is_none() && two.is_none() && begun {
                return Some(name);
            }
            // A `*` may end without reading more: what costs nothing comes first.
            if one.is_some_and(Token::is_wild) {
                queue.push_front(((ours + 1, theirs, begun), name.clone()));
            }
            if two.is_some_and(Token::is_wild) {
                queue.push_front(((ours, theirs + 1, begun), name.clone()));
            }
            if let (Some(one), Some(two)) = (one, two)
                && let Some(byte) = one.both(two)
            {
                let next = (
                    ours + usize::from(!one.is_wild()),
                    theirs + usize::from(!two.is_wild()),
                    true,
                );
                queue.push_back((next, format!("{name}{}", char::from(byte))));
            }
        }
        None
    }

    /// Two literal ends of which neither is an end of the other are of no name: most pairs are told apart by that.
    fn ends_agree(&self, other: &Self) -> bool {
        let (one, two) = (self.prefix(), other.prefix());
        let (last, end) = (self.suffix(), other.suffix());
        (one.starts_with(two) || two.starts_with(one)) && (last.ends_with(end) || end.ends_with(last))
    }
}

/// Whether the tokens stand for all of the input, in time that the lengths bound and without memory of its own.
/// `same`: a literal byte is that symbol; `part`: `*` may stand for it.
fn takes<S: Copy>(
    tokens: &[Token],
    input: &[S],
    same: impl Fn(u8, S) -> bool,
    part: impl Fn(S) -> bool,
) -> bool {
    let (mut token, mut at) = (0, 0);
    // The last `*`: the token behind it, and where what it stands for ends.
    let mut last = None;
    loop {
        match tokens.get(token) {
            Some(Token::Rest) => return true,
            Some(Token::Part) => {
                token += 1;
                last = Some((token, at));
                continue;
            }
            Some(Token::One(byte)) if input.get(at).is_some_and(|symbol| same(*byte, *symbol)) => {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            None if at == input.len() => return true,
            _ => {}
        }
        // Each `/` of the input is one of the tokens, so an earlier `*` could not help.
        match last {
            Some((behind, end)) if input.get(end).is_some_and(|symbol| part(*symbol)) => {
                (token, at) = (behind, end + 1);
                last = Some((behind, end + 1));
            }
            _ => return false,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether rules speak of such a name at all. One that is none is allowed to nobody.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_MOST).contains(&name.len()) && name.chars().all(in_name)
}

/// The same of a resource's address. Two servers may read `..` and its other spellings differently.
pub fn is_uri(uri: &str) -> bool {
    (1..=URI_MOST).contains(&uri.len()) && uri.bytes().all(|byte| byte.is_ascii_graphic()) && plain_uri(uri)
}

fn plain_uri(uri: &str) -> bool {
    let lower = uri.to_ascii_lowercase();
    let encoded = ["%2e", "%2f", "%5c"].iter().any(|other| lower.contains(other));
    let dots = uri
        .split(['/', '\\', '?', '#', ':'])
        .any(|part| part == "." || part == "..");
    !encoded && !dots
}

fn in_name(one: char) -> bool {
    one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.' | '/')
}

/// "a name has no `?`": for what only looks like a letter, which one it is.
pub(super) fn cannot_have(other: char) -> String {
    format!("a name has no {}", named(other))
}

fn named(other: char) -> String {
    let shown = printable(&other.to_string());
    if other.is_ascii() {
        format!("`{shown}`")
    } else {
        format!("`{shown}` (U+{:04X}, not ASCII)", u32::from(other))
    }
}
