//! Hosts and URLs. A number that some program takes for an address is none here, and no name has letters of other
//! scripts, which look like ours.

use std::net::{Ipv4Addr, Ipv6Addr};

use fluent_uri::Uri;

use super::super::flaw::list;

const URL: usize = 8192;

pub(super) fn check(text: &str, allowed: &[String]) -> Result<(), String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let six = inner.parse::<Ipv6Addr>().is_ok();
    let address = six || text.parse::<Ipv4Addr>().is_ok();
    if !address {
        name(text)?;
    }
    // Of addresses and of names that only the local network knows a list has to say that they are meant.
    let local = address || !text.contains('.');
    if listed(inner, allowed, address) || !local && allowed.is_empty() {
        return Ok(());
    }
    Err(match (local, allowed.is_empty()) {
        (_, false) => format!("must be one of {}", list(allowed.iter().map(String::as_str), 120)),
        (true, true) => "must be the full name of a host, not an address or a local name".to_owned(),
        (false, true) => "must be the full name of a host".to_owned(),
    })
}

/// In the list by itself, or below a name with `*.` before it.
pub(super) fn listed(host: &str, allowed: &[String], address: bool) -> bool {
    let host = host.to_ascii_lowercase();
    allowed
        .iter()
        .map(|allowed| allowed.to_ascii_lowercase())
        .any(|allowed| match allowed.strip_prefix("*.") {
            Some(parent) => {
                !address
                    && host
                        .strip_suffix(parent)
                        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            None => host == allowed,
        })
}

/// A name of letters, digits and hyphens.
pub(super) fn name(text: &str) -> Result<(), String> {
    let refused = |why: &str| Err(why.to_owned());
    let label = |label: &str| {
        let plain = label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && plain && !label.starts_with('-') && !label.ends_with('-')
    };
    if text.len() > 253 || !text.split('.').all(label) {
        return refused(
            "must be the name of a host in ASCII letters, digits and hyphens, such as example.org",
        );
    }
    let coded = |label: &str| {
        label
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("xn--"))
    };
    if text.split('.').any(coded) {
        return refused("must be a host whose name has ASCII letters alone");
    }
    // 2130706433, 0x7f.1, 0177.0.0.1 and 127.1 are 127.0.0.1 to many programs.
    if text
        .rsplit('.')
        .next()
        .is_some_and(|last| last.starts_with(|sign: char| sign.is_ascii_digit()))
    {
        return refused("must be the name of a host, or an address of four plain decimal numbers");
    }
    Ok(())
}

pub(super) fn url(text: &str, schemes: &[String], hosts: &[String]) -> Result<(), String> {
    let refused = |why: &str| Err(why.to_owned());
    if text.len() > URL {
        return Err(format!("must be at most {URL} bytes"));
    }
    let Ok(uri) = Uri::parse(text) else {
        return refused(
            "must be a complete URL such as https://example.org/page, with % codes for all but ASCII",
        );
    };
    let scheme = uri.scheme().as_str();
    let valid: Vec<&str> = if schemes.is_empty() {
        vec!["https", "http"]
    } else {
        schemes.iter().map(String::as_str).collect()
    };
    if !valid.iter().any(|valid| valid.eq_ignore_ascii_case(scheme)) {
        return Err(format!(
            "must begin with {}",
            list(valid.iter().map(|valid| &**valid), 80)
        ));
    }
    let Some(authority) = uri.authority() else {
        return refused("must name a host after //");
    };
    if authority.userinfo().is_some() {
        return refused("must not have a user name or password before its host");
    }
    if !authority.port_to_u16().is_ok_and(|port| port != Some(0)) {
        return refused("must have a port between 1 and 65535, or none");
    }
    check(authority.host(), hosts).map_err(|why| format!("has a host that {why}"))
}
