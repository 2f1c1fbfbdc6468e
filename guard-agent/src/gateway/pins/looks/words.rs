//! Orders to a model, told by their words.
//!
//! A text is read as a model would: without case, with letters of other scripts that look Latin as Latin ones, without
//! what cannot be seen. Phrases do not reach over the end of a sentence.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

use super::{
    Names, Rule, hidden,
    phrases::{self, Phrase, TAGS},
};

/// What a text asks for, each with where its sentence begins.
pub(super) fn search(text: &str, own: &str, names: &Names, found: &mut Vec<(Rule, usize)>) {
    tags(text, found);
    for (at, sentence) in sentences(text) {
        let folded = fold(sentence);
        let words: Vec<&str> = words(&folded);
        for (index, word) in words.iter().enumerate() {
            for phrase in phrases::beginning_with(word) {
                if follows(phrase, words.get(index + 1..).unwrap_or_default()) {
                    found.push((phrase.rule, at));
                }
            }
        }
        secret_file(&folded, &words, at, found);
        other_tools(&folded, own, names, at, found);
    }
}

/// Marks of a prompt, in any text.
pub(super) fn tags(text: &str, found: &mut Vec<(Rule, usize)>) {
    if !text.contains(['<', '[', '\u{ff1c}']) && text.is_ascii() {
        return;
    }
    let folded = fold(text);
    let tight: String = folded.chars().filter(|one| !one.is_whitespace()).collect();
    if TAGS.iter().any(|tag| tight.contains(tag)) {
        let at = text.find(['<', '[']).unwrap_or(0);
        found.push((Rule::ModelTag, at));
    }
}

fn secret_file(folded: &str, words: &[&str], at: usize, found: &mut Vec<(Rule, usize)>) {
    let names_one = phrases::SECRET_FILES.iter().any(|file| folded.contains(file));
    if names_one && words.iter().any(|word| phrases::TAKES.contains(word)) {
        found.push((Rule::SecretFile, at));
    }
}

/// Another server's tool needs no mention at all. One's own may be mentioned, but not what is passed to it changed: when,
/// its name, and then what to change.
fn other_tools(folded: &str, own: &str, names: &Names, at: usize, found: &mut Vec<(Rule, usize)>) {
    let own = own.to_lowercase();
    let (mut when, mut named) = (false, false);
    for run in runs(folded) {
        if names.is_foreign(run) {
            found.push((Rule::ForeignTool, at));
        }
        if named && phrases::CHANGES.contains(&run) {
            found.push((Rule::OtherTool, at));
        }
        named |= when && run != own && names.is_own(run);
        when |= phrases::WHEN.contains(&run);
    }
}

/// The rest of a phrase, each step after at most so many other words.
fn follows(phrase: &Phrase, words: &[&str]) -> bool {
    fn from(steps: &[(usize, &[&str])], words: &[&str]) -> bool {
        let Some(((gap, any), rest)) = steps.split_first() else {
            return true;
        };
        let within = words.iter().take(gap + 1).enumerate();
        within
            .filter(|(_, word)| any.contains(word))
            .any(|(index, _)| from(rest, words.get(index + 1..).unwrap_or_default()))
    }
    from(phrase.rest, words)
}

/// A full stop with a blank behind it, or an empty line. A single line break is often only where a line was full.
fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let blank = bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace);
        let ends = match byte {
            b'.' | b'!' | b'?' | b';' => blank,
            b'\n' => bytes.get(at + 1) == Some(&b'\n'),
            _ => false,
        };
        if ends && let Some(sentence) = text.get(start..=at) {
            out.push((start, sentence));
            start = at + 1;
        }
    }
    if let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        out.push((start, rest));
    }
    out
}

/// As its reader takes it.
fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
    }
    let seen: String = text.chars().filter(|one| !hidden(*one)).nfkc().collect();
    let mut out = String::with_capacity(seen.len());
    for part in seen.split_inclusive(|one: char| one.is_ascii()) {
        // ASCII stays: to the skeleton `m` is `rn`.
        let end = part.trim_end_matches(|one: char| one.is_ascii()).len();
        let (others, ascii) = part.split_at(end);
        out.extend(skeleton(others));
        out.push_str(ascii);
    }
    Cow::Owned(out.replace('\u{2019}', "'").to_lowercase())
}

/// Words without what stands between them; `don't` and `dont` are one.
fn words(folded: &str) -> Vec<&str> {
    folded
        .split(|one: char| !(one.is_alphanumeric() || one == '\''))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect()
}

/// What can be the name of a tool.
fn runs(folded: &str) -> impl Iterator<Item = &str> {
    folded
        .split(|one: char| !(one.is_alphanumeric() || matches!(one, '_' | '-' | '.' | '/')))
        .map(|run| run.trim_matches(['.', '-', '/']))
        .filter(|run| !run.is_empty())
}
