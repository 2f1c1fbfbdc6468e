//! The table of calls in `docs/events.md`, made from the one both halves use.

use std::fmt::Write as _;

use guard_common::syscalls::{CALLS, Call, Class};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/events.md");
const BEGIN: &str = "UPDATE_DOCS=1 -->\n";
const END: &str = "<!-- end of calls -->";

fn errno(number: u16) -> String {
    nix::Error::from_raw(number.into())
        .to_string()
        .split(':')
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn name(call: &Call) -> String {
    let mut text = format!("`{}`", call.name);
    if call.second.is_some() {
        text.push('²');
    }
    if call.address.is_some() {
        text.push('ᵃ');
    }
    if call.allowed {
        text.push('✓');
    }
    text
}

fn table() -> String {
    let mut text = String::from("\n| class | reported when it ends with | calls |\n|---|---|---|\n");
    for class in Class::ALL {
        let errnos: Vec<String> = class.errnos().iter().map(|number| errno(*number)).collect();
        let calls: Vec<String> = CALLS
            .iter()
            .filter(|call| call.class == class)
            .map(name)
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            class.name(),
            errnos.join(", "),
            calls.join(" ")
        );
    }
    text.push_str("\n² two paths · ᵃ with the address · ✓ reported when it succeeds, too\n\n");
    text
}

#[test]
fn events_page_is_current() {
    let committed = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = committed.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let page = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
        return;
    }
    assert!(
        committed == page,
        "docs/events.md is not what the table says: run this test with UPDATE_DOCS=1"
    );
}
