//! Names of tools that can be taken for one another.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

use super::hidden;

/// The protocol's longest name.
const LONGEST: usize = 128;
/// Two letters swapped or one doubled are a slip in a long name, and another word in a short one.
const LEAST_NEAR: usize = 8;

/// The names a new one is compared with.
#[derive(Debug, Default)]
pub struct Names {
    own: Known,
    foreign: Known,
}

/// Names by what they can be taken for.
#[derive(Debug, Default)]
struct Known {
    lower: HashSet<String>,
    forms: HashMap<String, Vec<String>>,
    single: HashMap<String, Vec<String>>,
}

impl Names {
    /// `own`: the tools of this server, listed or pinned; `foreign`: those accepted of other servers.
    pub fn new<'a>(
        own: impl IntoIterator<Item = &'a str>,
        foreign: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut names = Self::default();
        for name in own {
            // Within a server `readFile` beside `read_file` is a trick; two servers have styles of their own.
            names
                .own
                .add(name, forms(name).iter().map(|form| joined(form)).collect());
            names.own.lower.insert(name.to_lowercase());
        }
        for name in foreign {
            names.foreign.add(name, forms(name));
            // A plain word is said without meaning a tool.
            let lower = name.to_lowercase();
            if is_compound(name) && !names.own.lower.contains(&lower) {
                names.foreign.lower.insert(lower);
            }
        }
        names
    }

    /// The name of a tool of this server; in lower case, as texts are compared.
    pub(super) fn is_own(&self, lower: &str) -> bool {
        self.own.lower.contains(lower)
    }

    pub(super) fn is_foreign(&self, lower: &str) -> bool {
        self.foreign.lower.contains(lower)
    }

    /// Another name that this one could be taken for.
    pub(super) fn like(&self, name: &str) -> Option<&str> {
        let forms = forms(name);
        let tight: Vec<String> = forms.iter().map(|form| joined(form)).collect();
        let own = self.own.like(name, &tight);
        own.or_else(|| self.foreign.like(name, &forms))
    }
}

impl Known {
    fn add(&mut self, name: &str, forms: Vec<String>) {
        for form in forms {
            let of = self.single.entry(singled(&form)).or_default();
            of.push(name.to_owned());
            self.forms.entry(form).or_default().push(name.to_owned());
        }
    }

    fn like(&self, name: &str, forms: &[String]) -> Option<&str> {
        let another = |names: &'_ Vec<String>| names.iter().position(|other| other != name);
        let in_map = |map: &'_ HashMap<String, Vec<String>>, form: &str| {
            map.get(form)
                .and_then(|names| Some((another(names)?, form.to_owned())))
        };
        for form in forms {
            let near = form.len() >= LEAST_NEAR;
            let same = in_map(&self.forms, form);
            let swapped = || {
                near.then(|| swaps(form).find_map(|form| in_map(&self.forms, &form)))
                    .flatten()
            };
            if let Some((index, form)) = same.or_else(swapped) {
                return self.forms.get(&form)?.get(index).map(String::as_str);
            }
            if near && let Some((index, form)) = in_map(&self.single, &singled(form)) {
                return self.single.get(&form)?.get(index).map(String::as_str);
            }
        }
        None
    }
}

/// Characters or a length that the protocol does not give to names.
pub(super) fn is_odd(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    name.len() > LONGEST || !name.bytes().all(plain)
}

/// It is made of more than one word.
fn is_compound(name: &str) -> bool {
    let inner = name.get(1..).unwrap_or_default();
    inner.contains(['_', '-', '.', '/'])
        || inner.chars().any(char::is_uppercase) && name != name.to_uppercase()
}

/// What is seen of a name: by Unicode's table of what looks alike, once with the case it has (`I` is like `l`) and once
/// without.
fn forms(name: &str) -> Vec<String> {
    // What is longer is held for that; the work grows with the square of it.
    if name.len() > LONGEST {
        return Vec::new();
    }
    let seen: String = name.chars().filter(|one| !hidden(*one)).nfkc().collect();
    let alike = |text: &str| skeleton(text).collect::<String>().to_lowercase();
    let mut forms = vec![alike(&seen), alike(&seen.to_lowercase())];
    forms.dedup();
    forms
}

/// Without what separates words.
fn joined(form: &str) -> String {
    form.chars().filter(|one| one.is_alphanumeric()).collect()
}

/// With no letter twice in a row.
fn singled(form: &str) -> String {
    let mut out = String::with_capacity(form.len());
    for one in form.chars() {
        if !out.ends_with(one) || !one.is_alphabetic() {
            out.push(one);
        }
    }
    out
}

/// With two letters beside each other swapped; numbers count up by other digits.
fn swaps(form: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = form.chars().collect();
    (1..letters.len()).filter_map(move |at| {
        let mut swapped = letters.clone();
        let pair = swapped.get_mut(at - 1..=at)?;
        if !matches!(pair, [one, other] if one != other && one.is_alphabetic() && other.is_alphabetic()) {
            return None;
        }
        pair.reverse();
        Some(swapped.into_iter().collect())
    })
}
