//! Patterns against the plainest reading of what they say.

use proptest::prelude::*;

use super::super::pattern::{Pattern, is_name, is_uri};

/// What `*` and a last `**` mean, by trying everything.
fn naive(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', b'*'] => true,
        [b'*', rest @ ..] => {
            let part = name.iter().take_while(|byte| **byte != b'/').count();
            (0..=part).any(|taken| naive(rest, &name[taken..]))
        }
        [one, rest @ ..] => name.first() == Some(one) && naive(rest, &name[1..]),
    }
}

fn names(most: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..most {
        let to = all.len();
        for at in from..to {
            for one in ["a", "b", "/"] {
                all.push(format!("{}{one}", all[at]));
            }
        }
        from = to;
    }
    all
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        "[ab/*]{1,4}".prop_filter_map("no pattern", |text| Pattern::name(&text).ok()),
        "[ab/*]{0,3}(/\\*\\*)?".prop_filter_map("no pattern", |text| Pattern::uri(&text).ok()),
    ]
}

proptest! {
    #[test]
    fn matches(pattern in pattern(), name in "[ab/]{0,9}") {
        prop_assert_eq!(pattern.matches(&name), naive(pattern.to_string().as_bytes(), name.as_bytes()));
    }

    /// Two patterns of that length share a name of that length, or none.
    #[test]
    fn shared_and_covered(one in pattern(), two in pattern()) {
        let all = names(7);
        let (first, second) = (one.to_string(), two.to_string());
        let both = |name: &&String| naive(first.as_bytes(), name.as_bytes()) && naive(second.as_bytes(), name.as_bytes());
        let shared = all.iter().filter(|name| !name.is_empty()).find(both);
        let told = one.shared(&two);
        prop_assert_eq!(told.is_some(), shared.is_some(), "{} {}", first, second);
        if let Some(name) = told {
            prop_assert!(one.matches(&name) && two.matches(&name));
        }
        // Names with a letter that neither has are covered too, or not.
        let foreign = all.iter().flat_map(|name| [name.clone(), name.replace('a', "c"), name.replace('b', "c")]);
        let covers = foreign.into_iter().all(|name| !naive(second.as_bytes(), name.as_bytes()) || naive(first.as_bytes(), name.as_bytes()));
        prop_assert_eq!(one.covers(&two), covers, "{} {}", first, second);
    }
}

#[test]
fn names_of_tools() {
    for name in ["a", "read_file", "a/b-c.d", &"a".repeat(128)] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", "a b", "a*", "r\u{435}ad", "a\n", &"a".repeat(129)] {
        assert!(!is_name(name), "{name}");
    }
}

#[test]
fn addresses_that_two_readers_could_read_differently() {
    for uri in ["file:///a/b.txt", "memo://x?y=z#f", "file:///a/...", "urn:a:b"] {
        assert!(is_uri(uri), "{uri}");
    }
    for uri in [
        "",
        "file:///a/../b",
        "file:///a/..",
        "file:///./a",
        "file:///a\\..\\b",
        "file:///a/%2e%2E/b",
        "file:///a%2fb",
        "file:///a%5Cb",
        "file:..",
        "x:/a?/../b",
        "file:///a b",
        "file:///\u{e4}",
    ] {
        assert!(!is_uri(uri), "{uri}");
    }
    assert!(!is_uri(&"a".repeat(4097)));
}

/// What a rule costs does not explode with what a client sends or an operator writes.
#[test]
fn hostile_lengths() {
    let begun = std::time::Instant::now();
    let stars = Pattern::name(&format!("{}c", "a*".repeat(63))).unwrap();
    assert!(!stars.matches(&"a".repeat(4096)));
    assert!(begun.elapsed().as_millis() < 500, "{:?}", begun.elapsed());
    let (one, two) = ("*a".repeat(63), "*b".repeat(63));
    let (one, two) = (Pattern::name(&one).unwrap(), Pattern::name(&two).unwrap());
    assert_eq!(one.shared(&two), None);
    assert!(!one.covers(&two));
    let begun = std::time::Instant::now();
    let (one, two) = ("*a*b".repeat(31), format!("{}*", "*b*a".repeat(31)));
    let (one, two) = (Pattern::name(&one).unwrap(), Pattern::name(&two).unwrap());
    assert!(
        one.shared(&two)
            .is_some_and(|name| one.matches(&name) && two.matches(&name))
    );
    assert!(!one.covers(&two));
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
