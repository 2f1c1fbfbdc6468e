//! Paths, by their text alone. Where links lead is found out in the sandbox, and what may be opened the kernel says.

use super::{Rights, Root};

/// As the kernel has them.
const PATH: usize = 4095;
const COMPONENT: usize = 255;

/// What normalisation by compatibility makes dots and slashes of.
const LOOK_ALIKE: [char; 12] = [
    '\u{2024}', '\u{2025}', '\u{2026}', '\u{2100}', '\u{2101}', '\u{2105}', '\u{2106}', '\u{fe52}',
    '\u{fe68}', '\u{ff0e}', '\u{ff0f}', '\u{ff3c}',
];

/// What stands behind a `%` for a dot, a slash, a backslash, a percent sign and NUL.
const ENCODED: [&str; 5] = ["2e", "2f", "5c", "25", "00"];

pub(super) fn check(text: &str, rights: Rights, roots: &[Root], base: Option<&str>) -> Result<(), String> {
    plain(text)?;
    let own = components(text)?;
    let path: Vec<&str> = if text.starts_with('/') {
        own
    } else {
        let base = base.ok_or("must be an absolute path")?;
        components(base)?.into_iter().chain(own).collect()
    };
    let fits = |root: &&Root| root.write || rights == Rights::Read;
    let holds = |root: &Root| components(&root.path).is_ok_and(|root| path.starts_with(&root));
    if roots.iter().filter(fits).any(holds) {
        return Ok(());
    }
    let read_only = roots.iter().any(holds);
    let done = if rights == Rights::Write {
        "written"
    } else {
        "read"
    };
    let two: Vec<&str> = roots
        .iter()
        .filter(fits)
        .map(|root| root.path.as_str())
        .take(2)
        .collect();
    Err(match (two.is_empty(), read_only) {
        (true, _) => format!("cannot be used: nothing may be {done} by this tool"),
        (false, true) => format!("may only be read; what is {done} must be in {}", two.join(" or ")),
        (false, false) => format!(
            "must be in a directory that may be {done}, such as {}",
            two.join(" or ")
        ),
    })
}

/// No form of a path that one program expands and another one does not.
fn plain(text: &str) -> Result<(), String> {
    let refused = |why: &str| Err(why.to_owned());
    if text.is_empty() || text.len() > PATH {
        return Err(format!("must be a path of 1 to {PATH} bytes"));
    }
    if text.contains(|sign: char| sign.is_control()) {
        return refused("must not have NUL, line ends or other control characters");
    }
    if text.contains('\\') {
        return refused("must have / between its parts, not \\");
    }
    if text.contains(LOOK_ALIKE) {
        return refused("must not have characters that look like dots or slashes");
    }
    let scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let named = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        named && (rest.starts_with('/') || scheme.eq_ignore_ascii_case("file"))
    });
    if scheme {
        return refused("must be a plain path, not a URI");
    }
    let encoded = text.split('%').skip(1).any(|rest| {
        let code = rest.get(..2).unwrap_or_default();
        ENCODED.iter().any(|encoded| code.eq_ignore_ascii_case(encoded))
    });
    if encoded {
        return refused("must be a plain path, without % codes for dots and slashes");
    }
    let blank = |sign: char| sign.is_whitespace();
    if text.starts_with(['~', '$'])
        || text.contains("${")
        || text.contains("/~")
        || text.starts_with(blank)
        || text.ends_with(blank)
    {
        return refused("must be written out, without ~, variables and blanks around it");
    }
    Ok(())
}

/// Its names, without the slash at the end.
pub(in super::super) fn components(path: &str) -> Result<Vec<&str>, String> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for component in inner.split('/') {
        match component {
            "" => return Err("must not have // in it".to_owned()),
            ".." => return Err("must not have .. in it; write the path that is meant".to_owned()),
            "." => {}
            _ if component.len() > COMPONENT => {
                return Err(format!("must not have a part of more than {COMPONENT} bytes"));
            }
            _ => out.push(component),
        }
    }
    Ok(out)
}
