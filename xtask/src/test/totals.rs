//! Counts of passed and failed tests, from what the runners themselves print.

/// What the runners' summary lines say, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Cases of the virtual machine runner, which count where no test program ran in them.
    cases: (u64, u64),
    summaries: u64,
}

impl Totals {
    /// Takes a line into account if it is a summary.
    pub(crate) fn line(&mut self, line: &str) {
        // A guest's console puts its name before it.
        if let Some((_, counts)) = line.split_once("test result: ") {
            self.summaries += 1;
            for part in counts.split([';', '.']) {
                let mut words = part.split_whitespace();
                let (Some(number), Some(word)) = (words.next(), words.next()) else {
                    continue;
                };
                let Ok(number) = number.parse::<u64>() else {
                    continue;
                };
                match word {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some((_, rest)) = line
            .split_once("] ")
            .filter(|(start, _)| start.starts_with("[vm "))
        {
            match rest.split_whitespace().next() {
                Some("ok") => self.cases.0 += 1,
                Some("FAILED") => self.cases.1 += 1,
                _ => {}
            }
        }
    }

    /// The counts once the program has ended.
    pub(crate) fn settle(mut self) -> Self {
        if self.summaries == 0 {
            (self.passed, self.failed) = self.cases;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lines: &[&str]) -> (u64, u64, u64) {
        let mut totals = Totals::default();
        lines.iter().for_each(|line| totals.line(line));
        let totals = totals.settle();
        (totals.passed, totals.failed, totals.ignored)
    }

    #[test]
    fn every_summary_counts() {
        let lines = [
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s",
            "test something ... ok",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
        ];
        assert_eq!(counts(&lines), (15, 2, 1));
    }

    #[test]
    fn cases_count_where_no_test_program_ran() {
        let rows = [
            "[vm 6.12.1] booting `exit code`, initramfs 1 MB, memory 512 MB",
            "[vm 6.12.1] ok     guest            boot 4.1 s, total 6.0 s",
            "[vm 6.12.1] FAILED panic            boot 4.1 s, total 6.0 s",
        ];
        assert_eq!(counts(&rows), (1, 1, 0));
        let both = [
            rows[1],
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured",
        ];
        assert_eq!(counts(&both), (4, 0, 0));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(counts(&["running 0 tests", ""]), (0, 0, 0));
    }
}
