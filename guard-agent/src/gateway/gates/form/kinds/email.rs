//! E-mail addresses: every recipient of a field, in its plain form.
//!
//! Quoted names, comments, groups and routes are refused: mail programs disagree about where the address is in them.

use super::{super::flaw::list, host};

const LOCAL: usize = 64;

pub(super) fn check(text: &str, allowed: &[String]) -> Result<(), String> {
    let valid = || list(allowed.iter().map(String::as_str), 100);
    // A line end here is a header of its own: `Bcc:`.
    if text.contains(|sign: char| sign.is_control() || sign == '\u{2028}' || sign == '\u{2029}') {
        return Err("must be one line, without control characters".to_owned());
    }
    for recipient in text.split([',', ';']) {
        let address = address(recipient.trim_matches(' '))
            .ok_or("must be plain addresses such as name@example.org, separated by commas")?;
        let (local, domain) = address;
        if !plain(local) || host::name(domain).is_err() {
            return Err("must be plain addresses such as name@example.org, separated by commas".to_owned());
        }
        if !host::listed(domain, allowed, false) {
            return Err(format!("has an address outside of the domains {}", valid()));
        }
    }
    Ok(())
}

/// Local part and domain, of an address with or without a name before it.
fn address(recipient: &str) -> Option<(&str, &str)> {
    let bare = match recipient.split_once('<') {
        None => recipient,
        Some((name, rest)) => {
            // A name that holds an address is what a reader sees in its place.
            let plain = |sign: char| sign.is_alphanumeric() || " .'-_".contains(sign);
            (name.ends_with(' ') && name.chars().all(plain)).then_some(())?;
            rest.strip_suffix('>')?
        }
    };
    bare.split_once('@').filter(|(_, domain)| !domain.contains('@'))
}

/// Without `%` and `!`, which are routes to another host for some servers, without what a shell reads, and no option of
/// a program that sends mail.
fn plain(local: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || b"'+-=_.".contains(&byte);
    (1..=LOCAL).contains(&local.len())
        && local.bytes().all(sign)
        && !local.starts_with(['.', '-'])
        && !local.ends_with('.')
        && !local.contains("..")
}
