//! What of a leg's output tells why it failed, for those who see the end of a long log alone.

use std::collections::VecDeque;

const NAMING: usize = 24;
const LAST: usize = 8;
/// Bytes of a line that are kept.
const WIDTH: usize = 300;

/// The lines that name a failure, and the last ones.
#[derive(Debug, Default)]
pub(super) struct Telling {
    naming: Vec<String>,
    last: VecDeque<String>,
    /// The message of a panic is on the line after its place.
    message: bool,
}

impl Telling {
    pub(super) fn line(&mut self, line: &str) {
        let names = ["panicked at ", "FAILED", "Kernel panic", "] case `"]
            .iter()
            .any(|word| line.contains(word))
            || line.starts_with("error");
        if (names || self.message) && self.naming.len() < NAMING {
            self.naming.push(cut(line));
        } else {
            if self.last.len() == LAST {
                self.last.pop_front();
            }
            self.last.push_back(cut(line));
        }
        self.message = line.contains("panicked at ");
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.naming.iter().chain(&self.last).map(String::as_str)
    }
}

fn cut(line: &str) -> String {
    line[..line.floor_char_boundary(WIDTH)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lines: &[&str]) -> Vec<String> {
        let mut telling = Telling::default();
        lines.iter().for_each(|line| telling.line(line));
        telling.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_place_and_the_words_of_a_failure_stay() {
        let mut lines = vec!["test a ... FAILED", "thread 'b' panicked at c.rs:1:2:", "left: 1"];
        lines.extend(["noise"; 100]);
        lines.push("error: read the lists");
        lines.push("the end");
        let kept = kept(&lines);
        assert_eq!(
            kept[..4],
            [
                "test a ... FAILED",
                "thread 'b' panicked at c.rs:1:2:",
                "left: 1",
                "error: read the lists"
            ]
        );
        assert_eq!(kept.len(), 4 + LAST);
        assert_eq!(kept.last().unwrap(), "the end");
    }

    #[test]
    fn it_stays_small() {
        let long = "FAILED \u{e9}".repeat(1000);
        let kept = kept(&[long.as_str(); 1000]);
        assert_eq!(kept.len(), NAMING + LAST);
        assert!(kept.iter().all(|line| line.len() <= WIDTH));
    }
}
