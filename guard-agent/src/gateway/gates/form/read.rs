//! Bytes → one JSON value that every reader reads as we do.
//!
//! What readers of JSON disagree about is refused: keys that stand twice, half surrogate pairs, deep nesting (all by the
//! protocol's own pass), and numbers. A number passes when it is an integer of 64 bits, or when its digits are those
//! of the double that is nearest to it: `1e400`, `1e-400`, `0.10000000000000000001` and `9007199254740993.0` are other
//! numbers to other readers.

use std::ops::Range;

use serde_json::Value;

use super::flaw::Flaw;
use crate::gateway::protocol::json;

/// More are not read. Twice what a result or a written file has in practice, and bounded work.
pub(super) const BYTES: usize = 4 << 20;

/// The value, or why it is not looked into.
pub(super) fn value(bytes: &[u8]) -> Result<Value, Flaw> {
    let whole = |rule, why: &str| Flaw::new("", rule, why);
    if bytes.len() > BYTES {
        return Err(whole(
            "size",
            &format!("must be at most {BYTES} bytes of JSON, not {}", bytes.len()),
        ));
    }
    let found = json::scan(bytes);
    if let Some(flaw) = found.flaw {
        return Err(whole("json", &format!("must be sound JSON: {flaw}")));
    }
    if let Some(at) = found.duplicate {
        return Err(whole(
            "json",
            &format!("must not have a key twice in one object, as at byte {at}"),
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| match wild_number(bytes) {
        Some(flaw) => flaw,
        None => whole("json", &format!("cannot be read as JSON: {error}")),
    })
}

/// The first number that not every reader takes for the same.
pub(super) fn wild_number(bytes: &[u8]) -> Option<Flaw> {
    let number = numbers(bytes).find(|range| !bytes.get(range.clone()).is_some_and(survives))?;
    let text = String::from_utf8_lossy(bytes.get(number.clone()).unwrap_or_default());
    let why = format!(
        "the number {} is read differently by different programs; write at most 15 significant digits and an \
         exponent of at most 300, or a 64-bit integer",
        super::flaw::excerpt(&text)
    );
    Some(Flaw::new(
        &place(bytes, 0..bytes.len(), number.start),
        "number",
        &why,
    ))
}

/// The numbers of a sound text, in order.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match bytes.get(at)? {
                b'"' => at = string_end(bytes, at + 1),
                b'-' | b'0'..=b'9' => {
                    let rest = bytes.get(at..)?;
                    let inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                    let length = rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
                    at += length;
                    return Some(at - length..at);
                }
                _ => at += 1,
            }
        }
    })
}

/// Behind the string whose inside begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Whether a number is the same one to every reader.
fn survives(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(double) = text.parse::<f64>() else {
        return false;
    };
    double.is_finite() && parts(text).is_some_and(|own| Some(own) == parts(&format!("{double:e}")))
}

/// Sign, digits without zeros around them, and the power of ten of the first of them. Of a zero: no digits.
fn parts(text: &str) -> Option<(bool, String, i64)> {
    let (minus, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let kept = all.trim_start_matches('0');
    if kept.is_empty() {
        return Some((minus, String::new(), 0));
    }
    let leading = i64::try_from(all.len() - kept.len()).ok()?;
    let power = i64::try_from(whole.len()).ok()? - leading;
    let exponent = exponent
        .strip_prefix('+')
        .unwrap_or(exponent)
        .parse::<i64>()
        .ok()?;
    Some((
        minus,
        kept.trim_end_matches('0').to_owned(),
        power.checked_add(exponent)?,
    ))
}

/// The JSON Pointer of what stands at a byte of a sound text.
fn place(bytes: &[u8], value: Range<usize>, at: usize) -> String {
    let text = bytes.get(value.clone()).unwrap_or_default();
    let inner = text
        .iter()
        .position(|byte| !matches!(byte, b' ' | b'\t'))
        .unwrap_or(0);
    if text.get(inner) == Some(&b'[') {
        let shift = value.start;
        let parts = json::elements(text);
        let Some((index, part)) = parts
            .iter()
            .enumerate()
            .find(|(_, part)| (shift + part.start..shift + part.end).contains(&at))
        else {
            return String::new();
        };
        return format!(
            "/{index}{}",
            place(bytes, shift + part.start..shift + part.end, at)
        );
    }
    let members = json::members(bytes, value.start + inner..value.end);
    let Some(member) = members.into_iter().find(|member| member.value.contains(&at)) else {
        return String::new();
    };
    let key = bytes.get(member.key).and_then(json::unescape).unwrap_or_default();
    format!(
        "/{}{}",
        super::pointer::escape(&key),
        place(bytes, member.value, at)
    )
}
