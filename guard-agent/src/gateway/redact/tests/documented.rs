//! `docs/redaction.md` has every rule and every gap, and none that there is not.

use super::*;

const PAGE: &str = include_str!("../../../../../docs/redaction.md");

/// What stands in a column of the tables of a section, between backticks.
fn column(section: &str, number: usize) -> Vec<&'static str> {
    let section = PAGE
        .split("\n## ")
        .find(|text| text.starts_with(section))
        .unwrap();
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(number));
    cells
        .filter_map(|cell| cell.trim_end_matches(" |").strip_prefix('`')?.strip_suffix('`'))
        .collect()
}

#[test]
fn every_rule_has_its_row() {
    let names: Vec<&str> = RuleId::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(column("Rules", 0), names);
}

#[test]
fn every_gap_has_its_row() {
    let tests = include_str!("gaps.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("fn gap_"));
    let tests: Vec<String> = tests
        .filter_map(|line| Some(format!("gap_{}", line.split_once('(')?.0)))
        .collect();
    assert_eq!(column("Gaps", 1), tests);
}
