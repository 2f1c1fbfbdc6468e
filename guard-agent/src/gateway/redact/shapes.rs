//! What a secret that is known by how it begins looks like from there on.

use super::scan;

/// Which bytes a part of a secret is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Class {
    Alnum,
    /// Letters, digits, `-` and `_`: base64 as it stands in addresses.
    Url,
    /// Upper-case letters and digits.
    Upper,
    Hex,
    /// Letters, digits, `+` and `/`.
    Base64,
    /// Letters, digits, `-`, `_` and `/`.
    Path,
    /// What a percent-encoded value may be made of.
    Percent,
}

impl Class {
    const COUNT: usize = 7;

    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'),
            Self::Path => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/'),
            Self::Percent => byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'-' | b'_'),
        }
    }
}

/// One part of a secret after its opening.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Lit(&'static str),
    /// A whole run of such bytes, of a length between these.
    Run(Class, usize, usize),
}

/// Where runs end, remembered, so that many openings in one run cost one walk over it.
#[derive(Default)]
pub(super) struct Ends([(usize, usize); Class::COUNT]);

impl Ends {
    fn end(&mut self, text: &str, start: usize, class: Class) -> usize {
        let Some((from, to)) = self.0.get_mut(class as usize) else {
            return start;
        };
        if !(*from..*to).contains(&start) {
            (*from, *to) = (start, scan::run(text, start, |byte| class.has(byte)));
        }
        *to
    }

    /// Where parts that start here end. A word must end there, too.
    pub(super) fn follow(&mut self, text: &str, start: usize, parts: &[Part]) -> Option<usize> {
        let mut place = start;
        for part in parts {
            place = match *part {
                Part::Lit(literal) => {
                    let end = place + literal.len();
                    (text.get(place..end) == Some(literal)).then_some(end)?
                }
                Part::Run(class, least, most) => {
                    let end = self.end(text, place, class);
                    (least..=most).contains(&(end - place)).then_some(end)?
                }
            };
        }
        (!scan::word(scan::at(text, place))).then_some(place)
    }
}
