//! Places in a tool definition, as JSON Pointers (RFC 6901).

use std::{fmt, str::FromStr};

/// A place whose value may change without moving a pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

/// Why a text cannot name a volatile member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPointer {
    #[error("cannot leave `{0}` out of a pin: it is no JSON Pointer; write it like `/_meta/version`")]
    Syntax(String),
    #[error(
        "cannot leave `{0}` out of a pin: a pin that does not cover it pins nothing; name a member inside"
    )]
    TooMuch(String),
}

impl FromStr for Pointer {
    type Err = NotAPointer;

    fn from_str(text: &str) -> Result<Self, NotAPointer> {
        let syntax = || NotAPointer::Syntax(text.to_owned());
        if text.is_empty() || text == "/name" {
            return Err(NotAPointer::TooMuch(text.to_owned()));
        }
        let tokens = text.strip_prefix('/').ok_or_else(syntax)?.split('/');
        tokens
            .map(unescape)
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(syntax)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(&self.0))
    }
}

impl Pointer {
    pub(super) fn tokens(&self) -> &[String] {
        &self.0
    }
}

fn unescape(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        out.push(match part.chars().next()? {
            '0' => '~',
            '1' => '/',
            _ => return None,
        });
        out.push_str(part.get(1..)?);
    }
    Some(out)
}

/// The tokens as one text.
pub(super) fn join<T: AsRef<str>>(tokens: &[T]) -> String {
    let mut out = String::new();
    for token in tokens {
        out.push('/');
        out.push_str(&token.as_ref().replace('~', "~0").replace('/', "~1"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let read: Pointer = "/_meta/a~1b~0c~01/0/".parse().unwrap();
        assert_eq!(read.tokens(), ["_meta", "a/b~c~1", "0", ""]);
        assert_eq!(read.to_string(), "/_meta/a~1b~0c~01/0/");
    }

    #[test]
    fn what_names_no_member_or_too_much_is_refused() {
        for text in ["_meta", "/a~", "/a~2", "a/b"] {
            assert_eq!(text.parse::<Pointer>(), Err(NotAPointer::Syntax(text.to_owned())));
        }
        for text in ["", "/name"] {
            assert_eq!(
                text.parse::<Pointer>(),
                Err(NotAPointer::TooMuch(text.to_owned()))
            );
        }
    }
}
