//! Regular expressions of a policy: each is for the whole value, and runs in linear time.

use regex_automata::{Anchored, Input, meta::Regex, util::syntax};
use regex_syntax::hir::{Hir, Look};

/// What one compiled expression may take.
const SIZE_MOST: usize = 1 << 20;

/// An expression that the whole of a value must match.
///
/// Classes such as `\d` and `\w` are ASCII, and lengths count bytes, so that what is meant does not hang on tables of
/// some Unicode version.
#[derive(Debug, Clone)]
pub struct Whole {
    text: String,
    regex: Regex,
}

impl Whole {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let as_bytes = syntax::Config::new().unicode(false).utf8(false);
        let hir = syntax::parse_with(text, &as_bytes).map_err(|error| last_line(&error.to_string()))?;
        // Joined after parsing: nothing in the text can undo the ends, as `a|b` or a comment would.
        let ends = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let config = Regex::config().utf8_empty(false).nfa_size_limit(Some(SIZE_MOST));
        Regex::builder()
            .configure(config)
            .build_from_hir(&ends)
            .map(|regex| Self {
                text: text.to_owned(),
                regex,
            })
            .map_err(|_| "it needs more than 1 MiB when compiled".to_owned())
    }

    pub fn matches(&self, value: &str) -> bool {
        self.regex.is_match(Input::new(value).anchored(Anchored::Yes))
    }

    /// As the policy says it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Whole {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The parser draws the place first and says what it is last.
fn last_line(error: &str) -> String {
    let line = error.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_value_must_match() {
        let pattern = |text: &str| Whole::parse(text).unwrap();
        assert!(pattern("[a-z]+").matches("abc"));
        for value in ["abc1", "1abc", "abc\n", "", "ABC"] {
            assert!(!pattern("[a-z]+").matches(value), "{value:?}");
        }
        // The ends hold for each branch, and nothing in the text can end them.
        assert!(!pattern("a|b").matches("ax"));
        assert!(!pattern("a|b").matches("xb"));
        assert!(!pattern("(?x) a # end").matches("ab"));
        assert!(!pattern("(?m)^a$").matches("a\nb"));
        assert!(pattern("é.*").matches("été"));
    }

    #[test]
    fn classes_are_ascii() {
        let digits = Whole::parse(r"\d+").unwrap();
        assert!(digits.matches("123"));
        assert!(!digits.matches("١٢٣"));
    }

    #[test]
    fn what_is_no_pattern() {
        assert_eq!(Whole::parse("a)|(b").unwrap_err(), "unopened group");
        assert_eq!(Whole::parse("(").unwrap_err(), "unclosed group");
        assert_eq!(
            Whole::parse("(?:a{1000}){1000}").unwrap_err(),
            "it needs more than 1 MiB when compiled"
        );
        assert!(Whole::parse(r"(a)\1").is_err());
    }
}
