//! JSON Pointers: of a place in a value, and of the operator's, where `*` stands for every element or member.

use std::{borrow::Cow, fmt::Write};

use serde_json::Value;

/// One step down.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// A name as it stands in a pointer.
pub(super) fn escape(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        Cow::Owned(name.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(name)
    }
}

/// The pointer to where these steps lead.
pub(super) fn render(steps: &[Step<'_>]) -> String {
    steps.iter().fold(String::new(), |mut out, step| {
        let _ = match step {
            Step::Key(key) => write!(out, "/{}", escape(key)),
            Step::Index(index) => write!(out, "/{index}"),
        };
        out
    })
}

/// The tokens of a pointer, unescaped; nothing where it is none.
pub(super) fn tokens(pointer: &str) -> Option<Vec<String>> {
    let sound = |token: &str| {
        let after = token.split('~').skip(1);
        after.into_iter().all(|rest| rest.starts_with(['0', '1']))
    };
    let mut parts = pointer.split('/');
    (parts.next() == Some("")).then_some(())?;
    parts
        .map(|part| sound(part).then(|| part.replace("~1", "/").replace("~0", "~")))
        .collect()
}

/// Calls `visit` with everything that the tokens lead to.
pub(super) fn each<'v>(
    value: &'v Value,
    tokens: &'v [String],
    steps: &mut Vec<Step<'v>>,
    visit: &mut dyn FnMut(&'v Value, &[Step<'v>]),
) {
    let Some((token, rest)) = tokens.split_first() else {
        return visit(value, steps);
    };
    let mut down = |step: Step<'v>, child: &'v Value| {
        steps.push(step);
        each(child, rest, steps, visit);
        steps.pop();
    };
    match (value, token.as_str()) {
        (Value::Array(items), "*") => {
            for (index, item) in items.iter().enumerate() {
                down(Step::Index(index), item);
            }
        }
        (Value::Object(members), "*") => {
            for (key, member) in members {
                down(Step::Key(key), member);
            }
        }
        (Value::Array(items), token) => {
            if let Some((index, item)) = token
                .parse()
                .ok()
                .and_then(|index: usize| Some((index, items.get(index)?)))
            {
                down(Step::Index(index), item);
            }
        }
        (Value::Object(members), token) => {
            if let Some(member) = members.get(token) {
                down(Step::Key(token), member);
            }
        }
        _ => {}
    }
}
