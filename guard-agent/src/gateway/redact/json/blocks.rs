//! What neighbouring blocks of a `content` list say together: a secret may be split over them.

use std::ops::Range;

use super::Part;
use crate::gateway::redact::{Match, Rules, found, mask::Tally};

/// Adds to the parts what is found only where they are read without a break between them.
pub(super) fn search(rules: &Rules, parts: &mut [Part<'_>], tally: &mut Tally) {
    for run in runs(parts) {
        let texts = run
            .iter()
            .map(|index| parts.get(*index).map_or("", |part| part.text.as_str()));
        let mut joined = String::new();
        let mut ranges = Vec::with_capacity(run.len());
        for text in texts {
            ranges.push(joined.len()..joined.len() + text.len());
            joined.push_str(text);
        }
        for of in rules.find(&joined) {
            let first = ranges.partition_point(|range| range.end <= of.range.start);
            let touched: Vec<_> = ranges
                .iter()
                .enumerate()
                .skip(first)
                .take_while(|(_, range)| range.start < of.range.end)
                .collect();
            let across = touched.iter().filter(|(_, range)| !range.is_empty()).count() > 1;
            if !across {
                continue;
            }
            tally.count(of.rule);
            for (place, range) in touched {
                if let Some(part) = run.get(place).and_then(|index| parts.get_mut(*index)) {
                    add(part, &of, range, rules);
                }
            }
        }
    }
}

/// The part of a match that lies in one text.
fn add(part: &mut Part<'_>, of: &Match, range: &Range<usize>, rules: &Rules) {
    let start = of.range.start.max(range.start) - range.start;
    let end = of.range.end.min(range.end) - range.start;
    if start < end {
        part.matches.push(Match {
            range: start..end,
            rule: of.rule,
        });
        part.matches = found::unite(std::mem::take(&mut part.matches), rules);
    }
}

/// Which parts are texts of elements that follow each other in one list: at least two at a time.
fn runs(parts: &[Part<'_>]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for (index, part) in parts.iter().enumerate() {
        let Some(block) = part.leaf.block else { continue };
        let follows = last.is_some_and(|(list, element)| list == block.list && element + 1 == block.element);
        match runs.last_mut() {
            Some(run) if follows => run.push(index),
            _ => runs.push(vec![index]),
        }
        last = Some((block.list, block.element));
    }
    runs.retain(|run| run.len() > 1);
    runs
}
