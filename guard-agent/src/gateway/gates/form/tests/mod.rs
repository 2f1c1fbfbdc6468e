//! Tests of the gate of form.

mod arguments;
mod attacks;
mod honest;
mod hostile;
mod kinds;
mod overlay;
mod properties;

use super::*;

fn form(schema: &str) -> Form {
    Form::of(schema.as_bytes(), &Overlay::default()).unwrap()
}

/// Where and by which rule each flaw is.
fn flaws(form: &Form, arguments: &str) -> Vec<(String, &'static str)> {
    match form.check(Some(arguments.as_bytes())) {
        Ok(()) => Vec::new(),
        Err(flaws) => flaws.into_iter().map(|flaw| (flaw.at, flaw.rule)).collect(),
    }
}

fn passes(form: &Form, arguments: &str) {
    assert_eq!(form.check(Some(arguments.as_bytes())), Ok(()), "{arguments}");
}

/// One flaw, and no other.
fn refused(form: &Form, arguments: &str, at: &str, rule: &str) -> String {
    let flaws = form.check(Some(arguments.as_bytes())).expect_err(arguments);
    let places: Vec<(&str, &str)> = flaws.iter().map(|flaw| (flaw.at.as_str(), flaw.rule)).collect();
    assert_eq!(places, [(at, rule)], "{arguments}: {flaws:?}");
    flaws[0].why.clone()
}

fn no_form(schema: &str) -> NoForm {
    Form::of(schema.as_bytes(), &Overlay::default()).expect_err(schema)
}

/// A tool with this one parameter.
fn with(pointer: &str, param: Param) -> Overlay {
    Overlay {
        params: vec![(pointer.to_owned(), param)],
        ..Overlay::default()
    }
}

fn of_kind(kind: ParamKind) -> Param {
    Param {
        kind: Some(kind),
        ..Param::default()
    }
}
