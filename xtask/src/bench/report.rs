//! Samples become rows: median, quartiles, ratio to the peer they were measured beside.

use serde::Serialize;

/// Figures of one thing, in the order they were taken.
#[derive(Debug, Default, Clone)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(super) fn of(values: Vec<f64>) -> Self {
        Self(values)
    }

    /// What is left, round by round, without another's.
    pub(super) fn less(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(own, other)| own - other)
                .collect(),
        )
    }

    pub(super) fn over(&self, divisor: f64) -> Self {
        Self(self.0.iter().map(|value| value / divisor).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The median of the rounds' ratios to another's.
    pub(super) fn ratio(&self, others: &Self) -> f64 {
        let ratios = self.0.iter().zip(&others.0).map(|(own, other)| own / other);
        Self(ratios.collect()).quantile(0.5)
    }

    /// The value below which the given share of the samples lies, between the two nearest.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return f64::NAN;
        };
        let place = share * last as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        let part = place - place.floor();
        sorted[low].mul_add(1.0 - part, sorted[high] * part)
    }
}

/// One line of a table.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) median: Option<f64>,
    pub(super) q1: Option<f64>,
    pub(super) q3: Option<f64>,
    pub(super) n: usize,
    /// What it was measured beside.
    pub(super) peer: Option<String>,
    /// Median of the ratios of the rounds.
    pub(super) ratio: Option<f64>,
    /// Why there is no figure, or what to know about it.
    pub(super) note: Option<String>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) rows: Vec<Row>,
    /// The kernel of the virtual machine it was measured in.
    pub(super) guest: Option<String>,
    /// What the page has in place of a line for each row.
    pub(super) page: Option<String>,
}

impl Table {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            rows: Vec::new(),
            guest: None,
            page: None,
        }
    }

    pub(super) fn add(&mut self, name: impl Into<String>, unit: &'static str, samples: &Samples) -> &mut Row {
        let some = |value: f64| value.is_finite().then_some(value);
        self.rows.push(Row {
            name: name.into(),
            unit,
            median: some(samples.quantile(0.5)),
            q1: some(samples.quantile(0.25)),
            q3: some(samples.quantile(0.75)),
            n: samples.0.len(),
            peer: None,
            ratio: None,
            note: None,
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// A single figure.
    pub(super) fn one(&mut self, name: impl Into<String>, unit: &'static str, value: f64) -> &mut Row {
        self.add(name, unit, &Samples(vec![value]))
    }

    /// A row that this build or machine cannot give.
    pub(super) fn none(&mut self, name: impl Into<String>, unit: &'static str, why: &str) {
        self.add(name, unit, &Samples::default()).note = Some(why.to_owned());
    }

    pub(super) fn json(&self) -> String {
        self.rows
            .iter()
            .filter_map(|row| serde_json::to_string(row).ok())
            .map(|line| line + "\n")
            .collect()
    }

    /// The table as the page has it.
    pub(super) fn text(&self) -> String {
        if let Some(page) = &self.page {
            return page.clone();
        }
        let mut text =
            "| What | Unit | Median | Quartiles | n | Against | Ratio |\n|---|---|--:|--:|--:|---|--:|\n"
                .to_owned();
        for row in &self.rows {
            let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), shown);
            let quartiles = match (row.q1, row.q3) {
                (Some(low), Some(high)) if row.n > 1 => format!("{} – {}", shown(low), shown(high)),
                _ => String::new(),
            };
            let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            let note = row
                .note
                .as_deref()
                .map_or_else(String::new, |note| format!(" ({note})"));
            text += &format!(
                "| {}{note} | {} | {} | {quartiles} | {} | {} | {ratio} |\n",
                row.name,
                row.unit,
                number(row.median),
                row.n,
                row.peer.as_deref().unwrap_or_default(),
            );
        }
        text
    }
}

impl Row {
    /// The ratio is that of neighbours in time: the median over the rounds, not of the medians.
    pub(super) fn against(&mut self, peer: &str, own: &Samples, others: &Samples) -> &mut Self {
        self.peer = Some(peer.to_owned());
        let ratio = own.ratio(others);
        self.ratio = ratio.is_finite().then_some(ratio);
        self
    }

    pub(super) fn note(&mut self, note: &str) {
        self.note = Some(note.to_owned());
    }
}

/// Three digits that mean something.
pub(super) fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_and_ratios() {
        let of = |list: &[f64]| Samples(list.to_vec());
        let mut table = Table::new("t");
        let (own, other) = (of(&[4.0, 1.0, 3.0, 2.0, 5.0]), of(&[2.0, 1.0, 1.0, 1.0, 5.0]));
        table.add("a", "ms", &own).against("b", &own, &other);
        let row = &table.rows[0];
        assert_eq!(
            (row.median, row.q1, row.q3, row.n),
            (Some(3.0), Some(2.0), Some(4.0), 5)
        );
        assert_eq!(row.ratio, Some(2.0));
        assert_eq!(of(&[1.0, 2.0]).quantile(0.5), 1.5);
    }

    #[test]
    fn a_row_without_a_figure_says_why() {
        let mut table = Table::new("t");
        table.none("a", "ns", "not in this build");
        assert!(
            table.text().contains("| a (not in this build) | ns | – |"),
            "{}",
            table.text()
        );
        let line: serde_json::Value = serde_json::from_str(table.json().trim()).unwrap();
        assert!(line["median"].is_null() && line["note"] == "not in this build");
    }
}
