//! What the operator says of a tool's parameters, beyond what the tool says itself. It only tightens.

use regex::{Regex, RegexBuilder};
use serde_json::{Number, Value};

use super::{
    NoForm,
    flaw::{Flaw, Flaws, list},
    kinds::{ParamKind, Root},
    pointer::{self, Step},
    schema::REGEX,
    survey::unknown,
};

/// The operator's part of a tool's form.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// By JSON Pointer, `*` for every element or member: `/paths/*`. Where there are any, only the parameters that they
    /// name exist; where one goes into an object, only the members named exist there.
    pub params: Vec<(String, Param)>,
    /// Without `params`, those exist that the schema declares. `false`: whatever the schema lets pass.
    pub declared_only: bool,
    /// What the sandbox gives the server, for parameters that are paths.
    pub roots: Vec<Root>,
    /// The absolute directory in which the server takes relative paths to be; without it there are none.
    pub base: Option<String>,
}

impl Default for Overlay {
    fn default() -> Self {
        Overlay {
            params: Vec::new(),
            declared_only: true,
            roots: Vec::new(),
            base: None,
        }
    }
}

/// One parameter, if it is there: whether it must be is the schema's to say.
#[derive(Debug, Clone, Default)]
pub struct Param {
    /// What it names. Of a list, each element.
    pub kind: Option<ParamKind>,
    /// A regular expression (syntax of the `regex` crate) that the whole string matches.
    pub pattern: Option<String>,
    /// Nothing else is valid; empty: anything is.
    pub one_of: Vec<Value>,
    /// Of a string, in characters.
    pub min_len: Option<u64>,
    pub max_len: Option<u64>,
    /// Of a number, both included.
    pub min: Option<Number>,
    pub max: Option<Number>,
    /// Of a list.
    pub max_items: Option<u64>,
}

/// The same, compiled.
#[derive(Debug)]
pub(super) struct Params {
    params: Vec<(Vec<String>, Compiled)>,
    roots: Vec<Root>,
    base: Option<String>,
}

#[derive(Debug)]
struct Compiled {
    param: Param,
    pattern: Option<Regex>,
}

impl Params {
    pub(super) fn of(overlay: &Overlay) -> Result<Params, NoForm> {
        let absolute = |path: &str| path.starts_with('/') && super::kinds::path::components(path).is_ok();
        if let Some(wrong) = overlay
            .base
            .iter()
            .chain(overlay.roots.iter().map(|root| &root.path))
            .find(|path| !absolute(path))
        {
            return Err(NoForm::Root(wrong.clone()));
        }
        let params = overlay.params.iter().map(|(pointer, param)| {
            let tokens = pointer::tokens(pointer).filter(|tokens| !tokens.is_empty());
            let tokens = tokens.ok_or_else(|| NoForm::Pointer(pointer.clone()))?;
            Ok((tokens, Compiled::of(pointer, param)?))
        });
        Ok(Params {
            params: params.collect::<Result<_, _>>()?,
            roots: overlay.roots.clone(),
            base: overlay.base.clone(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    pub(super) fn check(&self, arguments: &Value, flaws: &mut Flaws) {
        if !self.params.is_empty() {
            let all: Vec<&[String]> = self.params.iter().map(|(tokens, _)| tokens.as_slice()).collect();
            exist(arguments, &all, &mut Vec::new(), flaws);
        }
        for (tokens, compiled) in &self.params {
            pointer::each(arguments, tokens, &mut Vec::new(), &mut |value, steps| {
                if !flaws.full() {
                    compiled.check(value, steps, self, flaws);
                }
            });
        }
    }
}

/// Only what the pointers name is there, as far as they go.
fn exist<'v>(value: &'v Value, pointers: &[&[String]], steps: &mut Vec<Step<'v>>, flaws: &mut Flaws) {
    // One that ends here leaves what is below to the schema.
    if flaws.full() || pointers.is_empty() || pointers.iter().any(|tokens| tokens.is_empty()) {
        return;
    }
    let below = |name: &str| -> Vec<&[String]> {
        let split = pointers.iter().filter_map(|tokens| tokens.split_first());
        split
            .filter(|(first, _)| *first == "*" || *first == name)
            .map(|(_, rest)| rest)
            .collect()
    };
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let below = below(name);
                if below.is_empty() {
                    let mut valid: Vec<&str> = pointers
                        .iter()
                        .filter_map(|tokens| tokens.first())
                        .map(String::as_str)
                        .collect();
                    valid.dedup();
                    flaws.add(unknown(steps, name, &valid));
                    continue;
                }
                steps.push(Step::Key(name));
                exist(member, &below, steps, flaws);
                steps.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let below = below(&index.to_string());
                if below.is_empty() {
                    steps.push(Step::Index(index));
                    flaws.add(Flaw::new(
                        &pointer::render(steps),
                        "unknown-parameter",
                        "there is no such element; leave it out",
                    ));
                    steps.pop();
                    continue;
                }
                steps.push(Step::Index(index));
                exist(item, &below, steps, flaws);
                steps.pop();
            }
        }
        // What the pointer goes into is not there: a plain value in its place is not what the operator named.
        Value::Null => {}
        _ => flaws.add(Flaw::new(
            &pointer::render(steps),
            "type",
            "must be an object or a list, not a plain value",
        )),
    }
}

impl Compiled {
    fn of(pointer: &str, param: &Param) -> Result<Compiled, NoForm> {
        let wrong = |what: &'static str| NoForm::Param(pointer.to_owned(), what);
        // Found anywhere in a value a pattern would hold nothing back.
        let pattern = param.pattern.as_ref().map(|pattern| {
            let mut builder = RegexBuilder::new(&format!("\\A(?:{pattern})\\z"));
            builder
                .size_limit(REGEX)
                .dfa_size_limit(REGEX)
                .build()
                .map_err(|_| wrong("its pattern is no regular expression, or too big"))
        });
        let over =
            |one: Option<u64>, other: Option<u64>| one.zip(other).is_some_and(|(one, other)| one > other);
        if over(param.min_len, param.max_len) {
            return Err(wrong("min_len is above max_len"));
        }
        if let (Some(min), Some(max)) = (&param.min, &param.max)
            && more(min, max)
        {
            return Err(wrong("min is above max"));
        }
        Ok(Compiled {
            param: param.clone(),
            pattern: pattern.transpose()?,
        })
    }

    fn check(&self, value: &Value, steps: &[Step<'_>], all: &Params, flaws: &mut Flaws) {
        // Where the schema allows it, it is a parameter left out.
        if value.is_null() {
            return;
        }
        let at = pointer::render(steps);
        let mut flaw = |rule, why: &str| flaws.add(Flaw::new(&at, rule, why));
        if let Err((rule, why)) = self.shape(value) {
            flaw(rule, &why);
            return;
        }
        let Some(kind) = &self.param.kind else {
            return;
        };
        match value {
            Value::String(text) => {
                if let Err(why) = kind.check(text, &all.roots, all.base.as_deref()) {
                    flaw(kind.rule(), &why);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let at = format!("{at}/{index}");
                    match item
                        .as_str()
                        .map(|text| kind.check(text, &all.roots, all.base.as_deref()))
                    {
                        Some(Ok(())) => {}
                        Some(Err(why)) => flaws.add(Flaw::new(&at, kind.rule(), &why)),
                        None => flaws.add(Flaw::new(&at, "type", "must be a string")),
                    }
                }
            }
            _ => flaw("type", "must be a string"),
        }
    }

    /// Everything but the kind.
    fn shape(&self, value: &Value) -> Result<(), (&'static str, String)> {
        let param = &self.param;
        if !param.one_of.is_empty() && !param.one_of.iter().any(|one| same(one, value)) {
            let valid: Vec<String> = param.one_of.iter().map(Value::to_string).collect();
            let valid = list(valid.iter().map(String::as_str), 140);
            return Err(("enum", format!("must be one of {valid}")));
        }
        if param.min_len.is_some() || param.max_len.is_some() || self.pattern.is_some() {
            let text = value.as_str().ok_or(("type", "must be a string".to_owned()))?;
            let length = text.chars().count() as u64;
            if param.min_len.is_some_and(|least| length < least)
                || param.max_len.is_some_and(|most| length > most)
            {
                let range = range(param.min_len, param.max_len);
                return Err(("length", format!("must have {range} characters, not {length}")));
            }
            if self
                .pattern
                .as_ref()
                .is_some_and(|pattern| !pattern.is_match(text))
            {
                let why =
                    "does not have the form that the operator of this gateway asks for; ask for it if unsure";
                return Err(("pattern", why.to_owned()));
            }
        }
        if param.min.is_some() || param.max.is_some() {
            let Value::Number(number) = value else {
                return Err(("type", "must be a number".to_owned()));
            };
            if param.min.as_ref().is_some_and(|min| more(min, number))
                || param.max.as_ref().is_some_and(|max| more(number, max))
            {
                let range = range(param.min.as_ref(), param.max.as_ref());
                return Err(("range", format!("must be {range}")));
            }
            let wide = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            if wide.is_some_and(|number| number > 1 << 53) {
                let why = "must be between -9007199254740992 and 9007199254740992, since programs compare others differently";
                return Err(("number", why.to_owned()));
            }
        }
        if let Some(most) = param.max_items {
            let items = value.as_array().ok_or(("type", "must be a list".to_owned()))?;
            if items.len() as u64 > most {
                return Err((
                    "length",
                    format!("must have at most {most} elements, not {}", items.len()),
                ));
            }
        }
        Ok(())
    }
}

fn range(least: Option<impl ToString>, most: Option<impl ToString>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{} to {}", least.to_string(), most.to_string()),
        (Some(least), None) => format!("at least {}", least.to_string()),
        (None, most) => format!(
            "at most {}",
            most.map_or_else(String::new, |most| most.to_string())
        ),
    }
}

/// Whether one number is greater. Integers are compared as such.
fn more(one: &Number, other: &Number) -> bool {
    let whole = |number: &Number| {
        number
            .as_i64()
            .map(i128::from)
            .or(number.as_u64().map(i128::from))
    };
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one > other,
        // What cannot be compared is out of range, whichever way it is asked.
        _ => one
            .as_f64()
            .zip(other.as_f64())
            .is_none_or(|(one, other)| one > other),
    }
}

/// Equal by value, so that `1.0` is `1`.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => !more(one, other) && !more(other, one),
        (one, other) => one == other,
    }
}
