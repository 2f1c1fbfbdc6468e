//! The gate of form: whether a call's arguments are what its tool and the operator say they must be. Not in use yet: no
//! session asks it so far.
//!
//! A tool's own `inputSchema` is checked in full, the operator's [`Overlay`] on top of it, and a parameter that neither
//! of them names does not exist. A schema that cannot be used, for whatever reason, makes a tool that cannot be
//! called. Everything that comes in is untrusted, the schema included: its size, the size of arguments and the work
//! of a check have bounds. The rules and what they do not catch are in `docs/form.md`.
//!
//! bytes → [`read`] a value → [`survey`] its cost and its members → the validator ([`schema`]) → [`overlay`] → [`Flaw`]s.

mod flaw;
mod graph;
mod kinds;
mod output;
mod overlay;
mod pointer;
mod read;
mod schema;
mod survey;
mod words;

#[cfg(test)]
mod tests;

pub use flaw::Flaw;
pub use kinds::{ParamKind, Rights, Root};
pub use output::OutputForm;
pub use overlay::{Overlay, Param};

use flaw::Flaws;
use serde_json::Value;
use survey::{Side, Survey};

/// Why there is no check for a tool. Its calls are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoForm {
    #[error("the schema is over {0} bytes; ask for one that is smaller")]
    TooBig(usize),
    #[error("the schema is not sound JSON: {0}")]
    NotJson(String),
    #[error("the schema has something in the place of a schema that is none")]
    NotASchema,
    #[error("arguments are an object, and the schema asks for something else")]
    NotAnObject,
    #[error(
        "the schema is written in a dialect that is not known here, {0}; use draft 2020-12, 2019-09, 7 or 6"
    )]
    Dialect(String),
    #[error("the schema refers to {0}, which is not in it; nothing is fetched")]
    Reference(String),
    #[error("the schema uses {0}, where it cannot be told what it means without running it")]
    Keyword(&'static str),
    #[error("the schema refers to itself without an end")]
    Endless,
    #[error("the schema has over {0} subschemas")]
    TooManySubschemas(usize),
    #[error("the schema has over {0} subschemas that lead from one to the next at one value")]
    TooDeep(u32),
    #[error("the schema has the pattern {0}, which cannot be used: it is none, or too big, or looks around")]
    Pattern(String),
    #[error("the schema cannot be used: {0}")]
    Invalid(String),
    #[error("the policy names the parameter {0:?}, which is no JSON Pointer to one; write /name or /list/*")]
    Pointer(String),
    #[error("the policy's rule for {0} cannot be used: {1}")]
    Param(String, &'static str),
    #[error("the policy has the directory {0:?} for paths, which is not absolute and plain")]
    Root(String),
}

/// One tool's check, compiled once.
#[derive(Debug)]
pub struct Form {
    schema: schema::Schema,
    params: overlay::Params,
    declared_only: bool,
}

impl Form {
    /// From the raw JSON of the tool's `inputSchema` and what the operator says.
    ///
    /// # Errors
    /// Either of them cannot be used; then the tool's calls are to be refused.
    pub fn of(input_schema: &[u8], overlay: &Overlay) -> Result<Form, NoForm> {
        let schema = schema::Schema::of(input_schema)?;
        if !schema.takes_objects {
            return Err(NoForm::NotAnObject);
        }
        Ok(Form {
            schema,
            params: overlay::Params::of(overlay)?,
            declared_only: overlay.declared_only,
        })
    }

    /// Whether a call may have these arguments, the raw JSON of `params.arguments`. Without any it is the empty object.
    ///
    /// # Errors
    /// What is wrong with them, and what would be valid.
    pub fn check(&self, arguments: Option<&[u8]>) -> Result<(), Vec<Flaw>> {
        let mut flaws = Flaws::default();
        let bytes = arguments.unwrap_or(b"{}");
        // A number that two programs read as two is refused wherever it stands: who compares it is the server's affair.
        match read::value(bytes).and_then(|value| read::wild_number(bytes).map_or(Ok(value), Err)) {
            Ok(value) if value.is_object() => {
                let side = Side {
                    call: true,
                    declared_only: self.declared_only,
                    named: !self.params.is_empty(),
                };
                against(&self.schema, &value, side, &mut flaws);
                self.params.check(&value, &mut flaws);
            }
            Ok(_) => flaws.add(Flaw::new("", "type", "the arguments must be an object")),
            Err(flaw) => flaws.add(flaw),
        }
        flaws.verdict()
    }
}

/// A value against a schema, in bounded work.
fn against(schema: &schema::Schema, value: &Value, side: Side, flaws: &mut Flaws) {
    let mut survey = Survey::new(&schema.graph, schema.looks_around, side);
    if !survey.go(value, flaws)
        || !flaws.is_empty() && schema.looks_around
        || schema.validator.is_valid(value)
    {
        return;
    }
    if survey.work <= survey::FEW {
        for error in schema.validator.iter_errors(value) {
            flaws.add(words::flaw(&error));
        }
    } else if (survey.work <= survey::SOME || !schema.graph.choices)
        && let Err(error) = schema.validator.validate(value)
    {
        flaws.add(words::flaw(&error));
    }
    // Whatever the words, what is not valid does not pass.
    if flaws.is_empty() {
        flaws.add(Flaw::new("", "schema", "does not satisfy the tool's schema"));
    }
}
