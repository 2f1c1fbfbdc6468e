//! `docs/pins.md` has every rule and every gap, and none that there is not.

use super::*;

const PAGE: &str = include_str!("../../../../../docs/pins.md");
const GAPS: &str = include_str!("gaps.rs");

/// The rows of a section: the first or the last cell of each, without its backticks.
fn rows(section: &str, last: bool) -> Vec<&'static str> {
    let section = PAGE
        .split("\n## ")
        .find(|part| part.starts_with(section))
        .unwrap();
    section
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let cells = line.trim_matches('|');
            let cell = if last {
                cells.rsplit('|').next()
            } else {
                cells.split('|').next()
            };
            cell.unwrap().trim().trim_matches('`')
        })
        .collect()
}

#[test]
fn every_rule_has_its_row() {
    let rules: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(rows("What is suspicious", false), rules);
}

#[test]
fn every_gap_has_its_test() {
    let tests: Vec<&str> = GAPS
        .lines()
        .filter_map(|line| line.strip_prefix("fn gap_")?.strip_suffix("() {"))
        .collect();
    let rows = rows("Gaps", true);
    let named: Vec<&str> = rows.iter().map(|row| row.strip_prefix("gap_").unwrap()).collect();
    assert_eq!(named, tests);
}

/// The numbers that the page says.
#[test]
fn the_limits_are_those_of_the_page() {
    let limits = Limits::default();
    assert_eq!(
        (limits.tools, limits.bytes, limits.definition, limits.depth),
        (1024, 8 << 20, 256 << 10, 64)
    );
    assert!(
        PAGE.contains("more than 1024 tools or 8 MiB over all pages, or a definition is more than 256 KiB")
    );
}
