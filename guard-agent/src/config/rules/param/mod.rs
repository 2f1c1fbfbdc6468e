//! What a parameter may be, beyond what the tool's own schema says: raw → resolved. Whether a value is that is for
//! the form gate to say.

mod number;
pub mod raw;
mod whole;

use serde::Deserialize;
use toml::Spanned;

pub use self::{number::Number, whole::Whole};
use super::{fault::Fault, pointer::Pointer};
use crate::config::rights::Rights;

/// A kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Path,
    ShellWord,
    Host,
    Url,
    EmailDomain,
    Identifier,
}

/// One of `one_of`.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Text(String),
    Number(Number),
    Bool(bool),
}

/// One parameter. Nothing given: it may be there, and the tool's schema alone decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Param {
    pub kind: Option<Kind>,
    /// The rights of the root a path must lie in.
    pub roots: Option<Rights>,
    pub pattern: Option<Whole>,
    pub one_of: Option<Vec<Scalar>>,
    /// In characters.
    pub min_len: Option<u32>,
    pub max_len: Option<u32>,
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub max_items: Option<u32>,
    /// Lower case. `*.example.org` is every name beneath it.
    pub domains: Option<Vec<String>>,
}

impl Param {
    /// Only a text can be that.
    pub fn is_text(&self) -> bool {
        self.text_key().is_some()
    }

    fn text_key(&self) -> Option<&'static str> {
        first(&[
            ("kind", self.kind.is_some()),
            ("roots", self.roots.is_some()),
            ("pattern", self.pattern.is_some()),
            ("min_len", self.min_len.is_some()),
            ("max_len", self.max_len.is_some()),
            ("domains", self.domains.is_some()),
        ])
    }

    fn number_key(&self) -> Option<&'static str> {
        first(&[("min", self.min.is_some()), ("max", self.max.is_some())])
    }

    fn list_key(&self) -> Option<&'static str> {
        first(&[("max_items", self.max_items.is_some())])
    }

    /// Only a single value can be that: nothing lies in it.
    pub(super) fn leaf_key(&self) -> Option<&'static str> {
        self.text_key()
            .or(self.number_key())
            .or(first(&[("one_of", self.one_of.is_some())]))
    }
}

fn first(keys: &[(&'static str, bool)]) -> Option<&'static str> {
    keys.iter().find(|(_, given)| *given).map(|(key, _)| *key)
}

/// `params."AT" = { … }`, with nothing in it that no value could be.
pub(super) fn resolve(at: &Pointer, raw: &Spanned<raw::Param>) -> Result<Param, Fault> {
    let asked = raw.as_ref();
    let wrong = |why: String, fix: &str| Err(Fault::at(raw, format!("parameter `{at}`: {why}"), fix));
    let param = Param {
        kind: asked.kind,
        roots: asked.roots,
        pattern: asked.pattern.as_ref().map(|text| pattern(at, text)).transpose()?,
        one_of: asked.one_of.as_ref().map(|values| values.as_ref().clone()),
        min_len: asked.min_len,
        max_len: asked.max_len,
        min: asked.min,
        max: asked.max,
        max_items: asked.max_items,
        domains: asked
            .domains
            .as_ref()
            .map(|names| domains(at, names))
            .transpose()?,
    };
    let classes = [param.text_key(), param.number_key(), param.list_key()];
    if let [one, two, ..] = *classes.into_iter().flatten().collect::<Vec<_>>() {
        return wrong(
            format!("`{one}` and `{two}` are never true of one value"),
            "keep one: texts have lengths, numbers `min` and `max`, lists `max_items` (their items are `…/*`)",
        );
    }
    if let (Some(list), Some(_)) = (param.list_key(), &param.one_of) {
        return wrong(
            format!("`{list}` and `one_of` are never true of one value"),
            "say what the items may be at `…/*`",
        );
    }
    if param.roots.is_some() && param.kind != Some(Kind::Path) {
        return wrong(
            "`roots` is for paths".to_owned(),
            "add `kind = \"path\"`, or remove `roots`",
        );
    }
    let of_names = matches!(param.kind, Some(Kind::EmailDomain | Kind::Host | Kind::Url));
    if param.domains.is_some() && !of_names {
        return wrong(
            "`domains` is for names of hosts".to_owned(),
            "add `kind = \"email-domain\"`, `\"host\"` or `\"url\"`, or remove `domains`",
        );
    }
    if param.kind == Some(Kind::EmailDomain) && param.domains.is_none() {
        return wrong(
            "kind `email-domain` without `domains` allows no address".to_owned(),
            "add `domains = [\"example.org\"]`",
        );
    }
    if let (Some(least), Some(most)) = (param.min_len, param.max_len)
        && least > most
    {
        return wrong(
            format!("no text has at least {least} and at most {most} characters"),
            "correct `min_len` or `max_len`",
        );
    }
    if let (Some(least), Some(most)) = (param.min, param.max)
        && least.order(most).is_gt()
    {
        return wrong(
            format!("no number is at least {least} and at most {most}"),
            "correct `min` or `max`",
        );
    }
    if let Some(values) = &asked.one_of {
        one_of(at, values, &param)?;
    }
    Ok(param)
}

fn pattern(at: &Pointer, text: &Spanned<String>) -> Result<Whole, Fault> {
    Whole::parse(text.as_ref()).map_err(|why| {
        Fault::at(
            text,
            format!("parameter `{at}`: `pattern` is no regular expression: {why}"),
            "correct it; the whole value must match, and there are no look-arounds and no back-references",
        )
    })
}

fn domains(at: &Pointer, names: &Spanned<Vec<String>>) -> Result<Vec<String>, Fault> {
    if names.as_ref().is_empty() {
        return Err(Fault::at(
            names,
            format!("parameter `{at}`: an empty `domains` allows nothing"),
            "name a domain, or remove `domains`",
        ));
    }
    for name in names.as_ref() {
        if !is_domain(name.strip_prefix("*.").unwrap_or(name)) {
            return Err(Fault::at(
                names,
                format!("parameter `{at}`: `{name}` is no domain in lower-case ASCII"),
                "write it as `example.org`, or `*.example.org` for every name beneath it; others as `xn--…`",
            ));
        }
    }
    Ok(names.as_ref().clone())
}

fn is_domain(name: &str) -> bool {
    let label = |label: &str| {
        let fits = (1..=63).contains(&label.len());
        let inside = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        fits && label.chars().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// A value that the other keys rule out is a mistake in one of them.
fn one_of(at: &Pointer, values: &Spanned<Vec<Scalar>>, param: &Param) -> Result<(), Fault> {
    let wrong = |why: String, fix: &str| Err(Fault::at(values, format!("parameter `{at}`: {why}"), fix));
    if values.as_ref().is_empty() {
        return wrong(
            "an empty `one_of` allows nothing".to_owned(),
            "name a value, or remove `one_of`",
        );
    }
    for (number, value) in values.as_ref().iter().enumerate() {
        let told = match value {
            Scalar::Text(text) => format!("`{text}`"),
            Scalar::Number(number) => number.to_string(),
            Scalar::Bool(value) => value.to_string(),
        };
        if values
            .as_ref()
            .iter()
            .take(number)
            .any(|earlier| earlier == value)
        {
            return wrong(format!("`one_of` has {told} twice"), "remove one of the two");
        }
        let fits = match value {
            Scalar::Text(text) => {
                let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
                param.number_key().is_none()
                    && param.pattern.as_ref().is_none_or(|pattern| pattern.matches(text))
                    && param.min_len.is_none_or(|least| length >= least)
                    && param.max_len.is_none_or(|most| length <= most)
            }
            Scalar::Number(number) => {
                !param.is_text()
                    && param.min.is_none_or(|least| number.order(least).is_ge())
                    && param.max.is_none_or(|most| number.order(most).is_le())
            }
            Scalar::Bool(_) => !param.is_text() && param.number_key().is_none(),
        };
        if !fits {
            return wrong(
                format!("{told} of `one_of` can never be, by another key of this parameter"),
                "remove the value, or correct that key",
            );
        }
    }
    Ok(())
}
