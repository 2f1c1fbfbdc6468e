//! A message that is too long to be kept, looked at while it passes by: whose it is. Many libraries write the id last.

use super::message::Token;

/// Bytes of a key or an id that are kept; what is longer is none of ours.
const KEPT: usize = 260;

/// Reads the outermost keys of a text that comes in pieces. Of a text that is not sound it makes anything.
#[derive(Debug, Default)]
pub(super) struct Skim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// What stands at the outermost level is a key until its colon.
    is_value: bool,
    /// The key or value at the outermost level, as far as it has come.
    part: Vec<u8>,
    key: Vec<u8>,
    cut: Cut,
    ids: usize,
    /// The text does not begin as an object, or goes on behind its end.
    is_other: bool,
    begun: bool,
}

/// It goes into messages of ours.
fn is_sound(id: &[u8]) -> bool {
    Token::read(id).is_some() && super::json::scan(id).flaw.is_none()
}

/// What a text says of itself, sound or not.
pub(super) fn of(text: &[u8]) -> Cut {
    let mut skim = Skim::default();
    skim.take(text);
    skim.end()
}

/// What is known of a message that was not read whole.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Cut {
    /// As it was written, where there is one alone.
    pub(in crate::gateway) id: Option<Vec<u8>>,
    /// It has a result or an error, and no method.
    pub(in crate::gateway) answer: bool,
    pub(in crate::gateway) method: bool,
    /// Its outermost object came to an end.
    pub(in crate::gateway) whole: bool,
}

impl Skim {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// What was seen until here.
    pub(super) fn end(self) -> Cut {
        if self.is_other {
            return Cut::default();
        }
        let id = self.cut.id.filter(|id| self.ids == 1 && is_sound(id));
        Cut {
            id,
            answer: self.cut.answer && !self.cut.method,
            method: self.cut.method,
            whole: self.depth == 0 && !self.in_string,
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.depth == 0 && !matches!(byte, b' ' | b'\t' | b'\r') {
            self.is_other |= byte != b'{' || std::mem::replace(&mut self.begun, true);
        }
        if self.in_string {
            self.keep(byte);
            if std::mem::take(&mut self.escaped) {
                return;
            }
            self.escaped = byte == b'\\';
            self.in_string = byte != b'"';
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.member();
                }
            }
            b':' if self.depth == 1 => {
                self.is_value = true;
                self.key = std::mem::take(&mut self.part);
            }
            b',' if self.depth == 1 => self.member(),
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.part.len() < KEPT {
            self.part.push(byte);
        }
    }

    fn member(&mut self) {
        let value = std::mem::take(&mut self.part);
        if !std::mem::take(&mut self.is_value) {
            return;
        }
        match super::json::text_of(&self.key).as_deref() {
            Some("id") => {
                self.ids += 1;
                self.cut.id = Some(value);
            }
            Some("method") => self.cut.method = true,
            Some("result" | "error") => self.cut.answer = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn skim(text: &str, piece: usize) -> Cut {
        let mut skim = Skim::default();
        text.as_bytes().chunks(piece).for_each(|piece| skim.take(piece));
        skim.end()
    }

    fn cut(id: &str, method: bool, answer: bool) -> Cut {
        let id = (!id.is_empty()).then(|| id.as_bytes().to_vec());
        Cut {
            id,
            answer,
            method,
            whole: true,
        }
    }

    fn broken(cut: Cut) -> Cut {
        Cut { whole: false, ..cut }
    }

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        for piece in [1, 3, 1000] {
            let found = |text: &str| skim(text, piece);
            assert_eq!(
                found(r#"{"id":7,"result":{"id":1,"a":"}\"id\":2,"}}"#),
                cut("7", false, true)
            );
            assert_eq!(
                found(r#" {"result":[{"id":1},"]"], "\u0069d" : "a,}b\"" }"#),
                cut(r#""a,}b\"""#, false, true)
            );
            assert_eq!(
                found(r#"{"method":"x","params":{"result":1},"id":-5}"#),
                cut("-5", true, false)
            );
            assert_eq!(found(r#"{"id":1,"id":2,"error":{}}"#), cut("", false, true));
            assert_eq!(found(r#"{"id":{"a":1},"result":0}"#), cut("", false, true));
            assert_eq!(found(r#"{"id":1.5,"method":"x"}"#), cut("", true, false));
            assert_eq!(found(r#"{"id":01,"method":"x"}"#), cut("", true, false));
            assert_eq!(found("{\"id\":\"a\tb\",\"method\":0}"), cut("", true, false));
            assert_eq!(found(r#"{"params":{"id":1},"x":"id"}"#), cut("", false, false));
            assert_eq!(found(r#"[{"id":1,"result":{}}]"#), Cut::default());
            assert_eq!(found(r#"xx{"id":1,"result":{}}"#), Cut::default());
            assert_eq!(found(r#"{"id":1,"result":{}}{"id":2}"#), Cut::default());
            // Cut off.
            assert_eq!(
                found(r#"{"id":"k","method":"x","params":{"a":"bbb"#),
                broken(cut("\"k\"", true, false))
            );
            assert_eq!(found(r#"{"a":0,"id":12"#), broken(cut("", false, false)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_the_same(
            bytes in prop::collection::vec(prop::sample::select(&b"{}[]:,\"\\id17 "[..]), 0..80), piece in 1..9usize) {
            let text = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(skim(&text, piece), skim(&text, 1000));
        }
    }
}
