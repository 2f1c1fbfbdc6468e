//! A text with some of its parts replaced, all other bytes as they were.

use std::ops::Range;

use super::json;

/// Appends `text` and the end of its line to `out`; `parts` do not overlap.
pub(in crate::gateway) fn line(out: &mut Vec<u8>, text: &[u8], parts: &mut [(Range<usize>, &[u8])]) {
    parts.sort_by_key(|(range, _)| range.start);
    let mut at = 0;
    for (range, replacement) in parts.iter() {
        out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
        out.extend_from_slice(replacement);
        at = range.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out.push(b'\n');
}

/// An array with those of its elements that `keep` wants; `None`: with all of them.
pub(in crate::gateway) fn cut(array: &[u8], mut keep: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
    let elements = json::elements(array);
    let kept: Vec<&[u8]> = elements
        .iter()
        .filter_map(|range| array.get(range.clone()))
        .filter(|element| keep(element))
        .collect();
    (kept.len() < elements.len()).then(|| [b"[".as_slice(), &kept.join(&b','), b"]"].concat())
}

/// The elements of an array.
pub(in crate::gateway) fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    json::elements(array)
        .into_iter()
        .filter_map(|range| array.get(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parts_change() {
        let mut out = b"before\n".to_vec();
        line(
            &mut out,
            b"{ \"a\": 1,\"b\":22 }",
            &mut [(13..15, b"x"), (7..8, b"long")],
        );
        assert_eq!(out, b"before\n{ \"a\": long,\"b\":x }\n");
    }

    #[test]
    fn an_array_is_cut_only_when_something_goes() {
        let array = br#"[ {"a":1} , "]" , [2] ]"#;
        assert_eq!(cut(array, |_| true), None);
        assert_eq!(
            cut(array, |element| element != b"\"]\"").unwrap(),
            br#"[{"a":1},[2]]"#
        );
        assert_eq!(cut(array, |_| false).unwrap(), b"[]");
    }
}
