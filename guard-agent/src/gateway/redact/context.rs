//! Values in text that are secret because of what stands before them: an assignment, an option, a header, the
//! user's part of an address.

use std::ops::Range;

use super::{RuleId, found::Found, mask, names, scan};

/// How much of an unquoted value decides whether it looks like a secret: a bound on what one `=` can cost.
const LOOK: usize = 128;

pub(super) fn search(text: &str, found: &mut Found<'_>) {
    assigned(text, found);
    options(text, found);
    schemes(text, found);
    addresses(text, found);
}

/// `NAME=value`, `name: "value"`, `"name": "value"`, `name => 'value'`.
fn assigned(text: &str, found: &mut Found<'_>) {
    let mut place = 0;
    loop {
        let rest = text.as_bytes().get(place..).unwrap_or(&[]);
        let Some(separator) = memchr::memchr2(b'=', b':', rest).map(|at| place + at) else {
            return;
        };
        place = separator + 1;
        let Some((name, quoted)) = name_before(text, separator) else {
            continue;
        };
        if !names::secret(name) {
            continue;
        }
        if let Some(value) = value_after(text, separator, name, quoted) {
            place = place.max(value.end);
            found.add(RuleId::NamedSecret, value);
        }
    }
}

/// The name a separator follows, and whether it is quoted.
fn name_before(text: &str, separator: usize) -> Option<(&str, bool)> {
    let mut end = separator;
    // `Type::function` of many languages.
    if scan::at(text, separator) == b':' && scan::at(text, separator + 1) == b':' {
        return None;
    }
    if scan::at(text, separator) == b'=' && scan::before(text, end) == b':' {
        end -= 1;
    }
    end = scan::run_back(text, end, 2, |byte| byte == b' ' || byte == b'\t');
    let quoted = quote(scan::before(text, end));
    if quoted {
        end -= 1;
    }
    let start = scan::run_back(text, end, names::LONGEST, names::part);
    (start < end).then(|| (scan::slice(text, start..end), quoted))
}

/// The value a separator is followed by, if it looks like one.
fn value_after(text: &str, separator: usize, name: &str, name_quoted: bool) -> Option<Range<usize>> {
    let assigns = scan::at(text, separator) == b'=';
    let mut start = separator + 1;
    if assigns && scan::at(text, start) == b'>' {
        start += 1;
    }
    let gap = scan::run(text, start, |byte| byte == b' ' || byte == b'\t');
    let spaced = gap > start;
    start = gap;
    if quote(scan::at(text, start)) {
        let value = quoted(text, start)?;
        let inner = scan::slice(text, value.clone());
        // Words are what somebody says of a password, except where a document says what it is.
        let plain = name_quoted || (inner.len() >= 4 && !inner.contains(char::is_whitespace));
        return (plain && !placeholder(inner)).then_some(value);
    }
    if names::whole_line(name) {
        let line = |byte| byte != b'\n' && byte != b'\r' && !quote(byte);
        return looks(text, start, line, 8).filter(|value| scan::slice(text, value.clone()).contains('='));
    }
    if names::has_scheme(name) {
        let scheme = scan::run(text, start, |byte| byte.is_ascii_alphabetic());
        if scheme > start && scan::at(text, scheme) == b' ' {
            start = scheme + 1;
        }
    }
    // After a colon stand words more often than secrets.
    let least = if assigns && !spaced { 6 } else { 8 };
    looks(text, start, bare, least)
}

/// A run that starts like a secret.
fn looks(text: &str, start: usize, class: impl Fn(u8) -> bool, least: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes().get(start..)?;
    let looked_at = bytes.iter().take(LOOK).take_while(|byte| class(**byte)).count();
    let end = (start..=start + looked_at)
        .rev()
        .find(|end| text.is_char_boundary(*end))?;
    if !telling(scan::slice(text, start..end), least) {
        return None;
    }
    let whole = start..scan::run(text, start, class);
    (!code(scan::slice(text, start..end), scan::at(text, whole.end))).then_some(whole)
}

/// A value that is written in a program, and says where the secret comes from or what type it has.
fn code(value: &str, next: u8) -> bool {
    next == b'('
        || value.starts_with(['_', '#'])
        || value.contains("://")
        || value.contains("::")
        || (value.contains('.') && names::secret(value))
}

/// `--password value`
fn options(text: &str, found: &mut Found<'_>) {
    let mut place = 0;
    while let Some(dashes) = scan::find(text, place, "--") {
        let start = dashes + 2;
        let end = scan::run(text, start, names::part);
        place = end;
        let name = scan::slice(text, start..end);
        let value = end + 1;
        if scan::at(text, end) != b' ' || name.len() > names::LONGEST || !names::secret(name) {
            continue;
        }
        if quote(scan::at(text, value)) {
            if let Some(inner) =
                quoted(text, value).filter(|inner| !placeholder(scan::slice(text, inner.clone())))
            {
                found.add(RuleId::NamedSecret, inner);
            }
            continue;
        }
        if let Some(value) = looks(text, value, bare, 6) {
            found.add(RuleId::NamedSecret, value);
        }
    }
}

/// `Bearer …` and `Basic …`
fn schemes(text: &str, found: &mut Found<'_>) {
    for run in scan::runs(text, scan::letter) {
        let scheme = scan::slice(text, run.clone());
        let start = run.end + 1;
        if scan::at(text, run.end) != b' ' {
            continue;
        }
        let bearer = scheme.eq_ignore_ascii_case("bearer");
        if !bearer && !scheme.eq_ignore_ascii_case("basic") {
            continue;
        }
        let end = scan::run(text, start, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=')
        });
        let value = scan::slice(text, start..end).trim_end_matches('.');
        let secret = if bearer {
            value.len() >= 16 && value.bytes().any(|byte| byte.is_ascii_digit())
        } else {
            super::views::base64(value).is_some_and(|plain| plain.contains(':'))
        };
        if secret {
            found.add(RuleId::Authorization, start..start + value.len());
        }
    }
}

/// The password in `scheme://user:password@host`.
fn addresses(text: &str, found: &mut Found<'_>) {
    let mut place = 0;
    while let Some(slashes) = scan::find(text, place, "://") {
        let start = slashes + 3;
        let end = scan::run(text, start, authority);
        place = end;
        let part = scan::slice(text, start..end);
        let Some((user, _)) = part.rsplit_once('@') else {
            continue;
        };
        if let Some((name, password)) = user.split_once(':')
            && !placeholder(password)
        {
            let from = start + name.len() + 1;
            found.add(RuleId::UrlPassword, from..from + password.len());
        }
    }
}

/// A byte of what stands between `//` and the path of an address.
pub(super) fn authority(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !quote(byte) && !matches!(byte, b'/' | b'?' | b'#' | b'<' | b'>' | b'\\')
}

fn quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// What stands between a quote and the next of its kind on the line.
fn quoted(text: &str, open: usize) -> Option<Range<usize>> {
    let mark = scan::at(text, open);
    let mut escaped = false;
    let end = scan::run(text, open + 1, |byte| {
        let goes_on = byte != b'\n' && (escaped || byte != mark);
        escaped = byte == b'\\' && !escaped;
        goes_on
    });
    (scan::at(text, end) == mark).then_some(open + 1..end)
}

/// What a value without quotes is made of.
fn bare(byte: u8) -> bool {
    byte > b' '
        && byte != 0x7f
        && !quote(byte)
        && !matches!(
            byte,
            b',' | b';' | b'&' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'|'
        )
}

/// A value that looks like a secret by itself: letters and digits, and no reference to somewhere else.
fn telling(value: &str, least: usize) -> bool {
    let has = |class: fn(&u8) -> bool| value.as_bytes().iter().any(class);
    value.len() >= least && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !placeholder(value)
}

/// Nothing, a mask, a variable, or what documentation writes in the place of a secret.
fn placeholder(value: &str) -> bool {
    value.is_empty()
        || mask::is(value)
        || value.starts_with(['$', '<', '{', '%', '='])
        || value
            .bytes()
            .all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.' | b'-'))
        || ["null", "none", "true", "false", "undefined"].contains(&value)
}
