//! What the validator found, in words for the model. Nothing of a value is repeated but its beginning.

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::{
    flaw::{Flaw, list, printable},
    pointer,
};

/// Bytes of a pattern, or of a list of values, of the tool's own schema.
const QUOTED: usize = 120;

/// How far into alternatives the reason is looked for.
const DEEP: usize = 8;

pub(super) fn flaw(error: &ValidationError<'_>) -> Flaw {
    let leaf = nearest(error, DEEP);
    let mut at = leaf.instance_path().as_str().to_owned();
    let below = match leaf.kind() {
        Kind::Required { property } => property.as_str(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected.first().map(String::as_str)
        }
        _ => None,
    };
    if let Some(below) = below {
        at = format!("{at}/{}", pointer::escape(below));
    }
    let why = why(leaf);
    if std::ptr::eq(leaf, error) || matches!(leaf.kind(), Kind::AnyOf { .. } | Kind::OneOfNotValid { .. }) {
        Flaw::new(&at, rule(leaf.kind()), &why)
    } else {
        let other = "; the tool's schema has other forms too, which fit less";
        Flaw::new(&at, rule(leaf.kind()), &format!("{why}{other}"))
    }
}

/// Where a value fits none of several forms: the first fault of the form that fits best, the one with the fewest.
fn nearest<'e>(error: &'e ValidationError<'_>, deep: usize) -> &'e ValidationError<'e> {
    let (Kind::AnyOf { context } | Kind::OneOfNotValid { context }) = error.kind() else {
        return error;
    };
    // A form for another type of value is not the one that was meant.
    let typed = |faults: &&Vec<ValidationError<'_>>| {
        let same = |fault: &ValidationError<'_>| fault.instance_path() == error.instance_path();
        faults
            .iter()
            .any(|fault| matches!(fault.kind(), Kind::Type { .. }) && same(fault))
    };
    let best = context
        .iter()
        .filter(|faults| !typed(faults))
        .min_by_key(|faults| faults.len());
    match best.and_then(|faults| faults.first()).filter(|_| deep > 0) {
        Some(fault) => nearest(fault, deep - 1),
        None => error,
    }
}

/// The row of the table in `docs/form.md`.
fn rule(kind: &Kind) -> &'static str {
    match kind {
        Kind::Required { .. } => "required",
        Kind::Type { .. } => "type",
        Kind::AdditionalProperties { .. }
        | Kind::UnevaluatedProperties { .. }
        | Kind::PropertyNames { .. } => "unknown-parameter",
        Kind::Enum { .. } | Kind::Constant { .. } => "enum",
        Kind::Pattern { .. } => "pattern",
        Kind::MinLength { .. } | Kind::MaxLength { .. } | Kind::MinItems { .. } | Kind::MaxItems { .. } => {
            "length"
        }
        Kind::Minimum { .. }
        | Kind::Maximum { .. }
        | Kind::ExclusiveMinimum { .. }
        | Kind::ExclusiveMaximum { .. } => "range",
        Kind::MultipleOf { .. } => "range",
        _ => "schema",
    }
}

fn why(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Required { .. } => "is missing; the tool needs this parameter".to_owned(),
        Kind::Type { kind } => format!("must be {}", types(kind)),
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            "there is no such parameter; leave it out".to_owned()
        }
        Kind::Enum { options } => {
            let options: Vec<String> = options
                .as_array()
                .into_iter()
                .flatten()
                .map(Value::to_string)
                .collect();
            format!(
                "must be one of {}",
                list(options.iter().map(String::as_str), QUOTED)
            )
        }
        Kind::Constant { expected_value } => {
            format!("must be {}", printable(&expected_value.to_string(), QUOTED))
        }
        Kind::Pattern { pattern } => format!("must match the tool's pattern {}", printable(pattern, QUOTED)),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinItems { limit } => format!("must have at least {limit} elements"),
        Kind::MaxItems { limit } => format!("must have at most {limit} elements"),
        Kind::MinProperties { limit } => format!("must have at least {limit} members"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} members"),
        Kind::Minimum { limit } => format!("must be at least {}", limit_of(limit)),
        Kind::Maximum { limit } => format!("must be at most {}", limit_of(limit)),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {}", limit_of(limit)),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {}", limit_of(limit)),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::UniqueItems => "must not have an element twice".to_owned(),
        Kind::FalseSchema => "must be left out".to_owned(),
        Kind::Contains => "lacks an element that the tool's schema asks for".to_owned(),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(error, context),
        Kind::OneOfMultipleValid { .. } => {
            "fits several of the forms of which the tool's schema allows one".to_owned()
        }
        other => format!(
            "does not satisfy {} of the tool's schema",
            printable(other.keyword(), 40)
        ),
    }
}

fn limit_of(limit: &Value) -> String {
    printable(&limit.to_string(), 40)
}

/// Where every form is for another type, that is what is wrong.
fn alternatives(error: &ValidationError<'_>, context: &[Vec<ValidationError<'static>>]) -> String {
    let all: Option<Vec<String>> = context
        .iter()
        .map(|faults| match faults.as_slice() {
            [fault] if fault.instance_path() == error.instance_path() => match fault.kind() {
                Kind::Type { kind } => Some(types(kind)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    match all.filter(|all| !all.is_empty()) {
        Some(mut all) => {
            all.sort_unstable();
            all.dedup();
            format!("must be {}", printable(&all.join(" or "), QUOTED))
        }
        None => "fits none of the forms that the tool's schema allows".to_owned(),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => a(*one).to_owned(),
        TypeKind::Multiple(many) => many.iter().map(a).collect::<Vec<_>>().join(" or "),
    }
}

fn a(one: JsonType) -> &'static str {
    match one {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}
