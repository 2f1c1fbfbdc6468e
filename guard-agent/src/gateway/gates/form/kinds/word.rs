//! Words: what a shell leaves as it is, and identifiers.

/// A path can be one.
const WORD: usize = 4096;

const IDENTIFIER: usize = 128;

pub(super) fn shell(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > WORD {
        return Err(format!("must be one word of 1 to {WORD} bytes"));
    }
    // `=cmd` is a path to one shell, `~` a directory to all of them, `-` and `+` begin options, `@` a file of them.
    if text.starts_with(['-', '+', '=', '@']) {
        return Err("must not begin with -, +, = or @, or it would be read as an option".to_owned());
    }
    let plain = |sign: char| sign.is_alphanumeric() || "_@+=:,./-".contains(sign);
    if text.chars().all(plain) {
        Ok(())
    } else {
        Err("must be one word of letters, digits and _ @ + = : , . / -".to_owned())
    }
}

pub(super) fn identifier(text: &str) -> Result<(), String> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let sound = plain
        && text.len() <= IDENTIFIER
        && text.starts_with(|sign: char| sign.is_ascii_alphanumeric())
        && !text.contains("..");
    if sound {
        Ok(())
    } else {
        Err(format!(
            "must be 1 to {IDENTIFIER} letters, digits, _, - and single dots, beginning with a letter or digit"
        ))
    }
}
