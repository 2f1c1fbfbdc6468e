//! A row a program, a column a kernel.

use super::{Judged, baseline::Verdict};

pub(super) fn text(judged: &[Judged]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for line in judged.iter().flat_map(|one| &one.lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = format!("{:<width$}", "program");
    for one in judged {
        text += &format!("  {:>16}", one.title);
    }
    for name in names {
        text += &format!("\n{name:<width$}");
        for one in judged {
            text += &format!("  {:>16}", cell(one, name));
        }
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn cell(judged: &Judged, name: &str) -> String {
    let Some(line) = judged.lines.iter().find(|line| line.name == name) else {
        return String::new();
    };
    let count = line
        .count
        .map_or_else(|| "-".to_owned(), |count| count.to_string());
    match &line.verdict {
        Verdict::Same(0) | Verdict::Absent | Verdict::Missing(_) => count,
        Verdict::Same(percent) | Verdict::Differs { percent, .. } => format!("{count} {percent:+}%"),
        Verdict::New => format!("{count} new"),
        Verdict::Skipped(_) => format!("{count} skipped"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::baseline::Line, *};

    fn judged(title: &str, lines: &[(&str, Option<u32>, Verdict)]) -> Judged {
        let lines = lines.iter().map(|(name, count, verdict)| Line {
            name: (*name).to_owned(),
            count: *count,
            verdict: verdict.clone(),
        });
        Judged {
            title: title.to_owned(),
            lines: lines.collect(),
        }
    }

    #[test]
    fn programs_are_rows_and_kernels_columns() {
        let differs = Verdict::Differs {
            was: 100,
            percent: 50,
        };
        let found = text(&[
            judged("6.1", &[("open", Some(7), Verdict::Same(0))]),
            judged(
                "6.12",
                &[("open", Some(150), differs), ("late", Some(9), Verdict::New)],
            ),
        ]);
        let rows: Vec<Vec<&str>> = found
            .lines()
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows,
            [
                vec!["program", "6.1", "6.12"],
                vec!["open", "7", "150", "+50%"],
                vec!["late", "9", "new"]
            ]
        );
    }
}
