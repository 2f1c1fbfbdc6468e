//! One schema: read, bounded, compiled, and a value held against it.
//!
//! Nothing outside the schema is ever fetched. Regular expressions run in linear time; one that needs to look around
//! or back (`zod` writes such for e-mail addresses) runs with a small bound on its steps, on short strings alone.

use jsonschema::{Draft, PatternOptions, Validator};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{NoForm, flaw, graph, graph::Graph, read};
use crate::gateway::protocol::json;

/// Bytes of a schema.
const BYTES: usize = 256 << 10;

/// Bytes of a compiled expression.
pub(super) const REGEX: usize = 1 << 20;

/// Steps back of an expression that looks around.
const STEPS: usize = 10_000;

/// A schema that values can be held against.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) validator: Validator,
    pub(super) graph: Graph,
    /// One of its expressions may step back.
    pub(super) looks_around: bool,
    /// What it says of its own type, if anything, leaves room for an object.
    pub(super) takes_objects: bool,
}

impl Schema {
    pub(super) fn of(bytes: &[u8]) -> Result<Schema, NoForm> {
        if bytes.len() > BYTES {
            return Err(NoForm::TooBig(BYTES));
        }
        let found = json::scan(bytes);
        if let Some(flaw) = found.flaw {
            return Err(NoForm::NotJson(flaw.to_string()));
        }
        if found.duplicate.is_some() {
            return Err(NoForm::NotJson("a key stands twice in one object".to_owned()));
        }
        // A bound that we read as another number than the server does is no bound.
        if let Some(flaw) = read::wild_number(bytes) {
            return Err(NoForm::NotJson(format!("at {:?}, {}", flaw.at, flaw.why)));
        }
        let schema: Value =
            serde_json::from_slice(bytes).map_err(|error| NoForm::NotJson(error.to_string()))?;
        let draft = draft(&schema)?;
        let lone_ref = matches!(draft, Draft::Draft6 | Draft::Draft7);
        let graph = graph::build(&schema, lone_ref)?;
        let takes_objects = match schema.get("type") {
            Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
            Some(one) => one == "object",
            None => true,
        };
        let (validator, looks_around) = compile(&schema, draft)?;
        Ok(Schema {
            validator,
            graph,
            looks_around,
            takes_objects,
        })
    }
}

fn draft(schema: &Value) -> Result<Draft, NoForm> {
    let object = schema.as_object().ok_or(NoForm::NotASchema)?;
    let Some(named) = object.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let named = named.as_str().ok_or(NoForm::NotASchema)?;
    let bare = named.strip_suffix('#').unwrap_or(named);
    let bare = bare
        .strip_prefix("https://")
        .or_else(|| bare.strip_prefix("http://"))
        .unwrap_or(bare);
    match bare {
        "json-schema.org/draft/2020-12/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        "json-schema.org/draft-06/schema" => Ok(Draft::Draft6),
        _ => Err(NoForm::Dialect(flaw::excerpt(named))),
    }
}

fn compile(schema: &Value, draft: Draft) -> Result<(Validator, bool), NoForm> {
    // What `format` means to a server nobody can know; the operator's kinds say it.
    let options = || {
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(false)
            .offline()
    };
    let linear = PatternOptions::regex().size_limit(REGEX).dfa_size_limit(REGEX);
    let failed = match options().with_pattern_options(linear).build(schema) {
        Ok(validator) => return Ok((validator, false)),
        Err(error) => error,
    };
    let bounded = PatternOptions::fancy_regex()
        .size_limit(REGEX)
        .dfa_size_limit(REGEX)
        .backtrack_limit(STEPS);
    match options().with_pattern_options(bounded).build(schema) {
        Ok(validator) => Ok((validator, true)),
        Err(_) => Err(NoForm::Invalid(flaw::printable(&failed.to_string(), 200))),
    }
}

/// An expression as JSON Schema means it.
pub(super) fn regex(pattern: &str) -> Result<Regex, NoForm> {
    let refused = || NoForm::Pattern(flaw::excerpt(pattern));
    let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| refused())?;
    let mut builder = RegexBuilder::new(&translated);
    builder
        .size_limit(REGEX)
        .dfa_size_limit(REGEX)
        .build()
        .map_err(|_| refused())
}
