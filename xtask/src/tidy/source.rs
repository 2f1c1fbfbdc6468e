//! Rust source as the rules see it: without comments and literals, and without the tests at its end.

/// The source with comments and the contents of literals blanked out, line by line as it was.
pub(super) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (length, kept) = token(rest, out.chars().next_back());
        let (token, after) = rest.split_at(length);
        if kept {
            out.push_str(token);
        } else {
            out.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = after;
    }
    out
}

/// Length of what `text` starts with, and whether it is code. `before` is the character before it.
fn token(text: &str, before: Option<char>) -> (usize, bool) {
    let first = text.chars().next().map_or(1, char::len_utf8);
    if text.starts_with("//") {
        return (text.find('\n').unwrap_or(text.len()), false);
    }
    if text.starts_with("/*") {
        return (block_comment(text), false);
    }
    if text.starts_with('"') {
        return (quoted(text, 0), false);
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_word && let Some(length) = raw_string(text) {
        return (length, false);
    }
    if text.starts_with('\'')
        && let Some(length) = character(text)
    {
        return (length, false);
    }
    (first, true)
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let here = text.get(at..).unwrap_or_default();
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// End of a string whose opening quote is at `open`.
fn quoted(text: &str, open: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(open + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of a raw string, with or without `b` or `c` before it.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = usize::from(text.starts_with(['b', 'c']));
    let inner = text.get(prefix..)?.strip_prefix('r')?;
    let hashes = inner.bytes().take_while(|byte| *byte == b'#').count();
    inner.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = prefix + 1 + hashes + 1;
    let length = text.get(start..)?.find(&end)?;
    Some(start + length + end.len())
}

/// Length of a character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inner = text.get(1..)?;
    if inner.starts_with('\\') {
        return Some(inner.get(2..)?.find('\'')? + 4);
    }
    let c = inner.chars().next()?;
    inner
        .get(c.len_utf8()..)?
        .starts_with('\'')
        .then(|| c.len_utf8() + 2)
}

/// The source before its `#[cfg(test)]` module, which stands last.
pub(super) fn without_tests(text: &str) -> &str {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let opens = |next: &&str| next.starts_with("mod ") && next.trim_end().ends_with('{');
        if line.trim_end() == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
            return text.get(..at).unwrap_or(text);
        }
        at += line.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank() {
        for (source, left) in [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ \n z */ b", "a              \n      b"),
            (r#"f("un\"safe") g"#, "f(          ) g"),
            ("f(r#\"a\"b\"#) g", "f(        ) g"),
            ("var\"x\"", "var   "),
            ("c == '\"' || d", "c ==     || d"),
            (r"c == '\'' || d", "c ==      || d"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("'\u{e4}' b", "    b"),
        ] {
            assert_eq!(code(source), left, "{source}");
        }
    }

    #[test]
    fn an_open_end_is_no_trouble() {
        for source in ["\"abc", "/* abc", "r#\"abc", "'", "'\\"] {
            code(source);
        }
    }

    #[test]
    fn tests_at_the_end_do_not_count() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(without_tests(text), "fn a() {}\n");
        assert_eq!(
            without_tests("#[cfg(test)]\nmod tests;\n"),
            "#[cfg(test)]\nmod tests;\n"
        );
    }
}
