//! The page's form of it: a line for each way, and what is added beside the goal.

use std::{fmt::Write as _, fs};

use super::ways::{AGENT, FAST, WAYS};
use crate::bench::report::{Samples, shown};

/// What `docs/benchmarks.md` has as the goal: microseconds added to p50 at 4 KB, and so many times less than fastmcp.
const GOAL: f64 = 50.0;
const TIMES: f64 = 20.0;

pub(super) struct Line {
    pub(super) server: &'static str,
    pub(super) load: &'static str,
    pub(super) way: &'static str,
    pub(super) p50: Samples,
    /// What the rounds have more than the direct ones.
    pub(super) added: Option<Samples>,
    pub(super) ratio: f64,
    pub(super) p99: f64,
    pub(super) one_by_one: f64,
    pub(super) at_once: f64,
    pub(super) goal: bool,
}

/// What else the machine does, as it says itself.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" and ")
}

pub(super) fn text(lines: &[Line], before: &str) -> String {
    let mut text = format!(
        "Load of the machine over 1 and 5 minutes before: {before}; after: {} (the bench itself keeps one to two \
         processors busy).\n\n",
        load()
    );
    text += "| Server, result | Way | p50 µs | Quartiles of the rounds | Added µs | Ratio | p99 µs | Calls/s, 1 | Calls/s, 16 |\n\
        |---|---|--:|--:|--:|--:|--:|--:|--:|\n";
    for line in lines {
        let compared = line.added.as_ref();
        let added = compared.map_or_else(String::new, |added| shown(added.quantile(0.5)));
        let ratio = compared.map_or_else(String::new, |_| format!("{:.2}", line.ratio));
        let _ = writeln!(
            text,
            "| {}, {} | {} | {} | {} – {} | {added} | {ratio} | {} | {:.0} | {:.0} |",
            line.server,
            line.load,
            line.way,
            shown(line.p50.quantile(0.5)),
            shown(line.p50.quantile(0.25)),
            shown(line.p50.quantile(0.75)),
            shown(line.p99),
            line.one_by_one,
            line.at_once,
        );
    }
    text.push('\n');
    for ways in lines.chunks(WAYS.len()) {
        let added = |at: usize| Some(ways.get(at)?.added.as_ref()?.quantile(0.5));
        let (Some(first), Some(own), Some(fast)) = (ways.first(), added(AGENT), added(FAST)) else {
            continue;
        };
        if first.goal {
            let reached = |is: bool| if is { "reached" } else { "not reached" };
            let times = fast / own;
            let _ = writeln!(
                text,
                "- {} server, {}: guard-agent adds {} µs (goal: under {GOAL:.0}, {}); fastmcp adds {} µs, {times:.0} times \
                 as much (goal: {TIMES:.0}, {}).",
                first.server,
                first.load,
                shown(own),
                reached(own < GOAL),
                shown(fast),
                reached(times >= TIMES),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_is_judged_by_what_is_added() {
        let line = |way, added: Option<f64>| Line {
            server: "echo",
            load: "4 KB",
            way,
            p50: Samples::of(vec![20.0 + added.unwrap_or_default()]),
            added: added.map(|added| Samples::of(vec![added])),
            ratio: 1.0,
            p99: 100.0,
            one_by_one: 1.0,
            at_once: 2.0,
            goal: true,
        };
        let of = |own, fast| {
            text(
                &[
                    line(WAYS[0], None),
                    line(WAYS[1], Some(own)),
                    line(WAYS[2], Some(1.0)),
                    line(WAYS[3], Some(fast)),
                ],
                "0",
            )
        };
        assert!(of(40.0, 4000.0).contains(
            "guard-agent adds 40.0 µs (goal: under 50, reached); fastmcp adds 4000 µs, 100 times as much (goal: 20, reached)"
        ));
        let missed = of(60.0, 600.0);
        assert!(
            missed.contains("60.0 µs (goal: under 50, not reached)") && missed.contains("20, not reached")
        );
        assert!(
            missed.contains("| echo, 4 KB | guard-agent | 80.0 | 80.0 – 80.0 | 60.0 | 1.00 | 100 | 1 | 2 |")
        );
    }
}
