//! The findings of a part of the demo, for the table and for programs.

use serde_json::Value;

/// The result of a part.
#[derive(Debug)]
pub(crate) struct Findings {
    /// Its name in the JSON document.
    pub(crate) name: &'static str,
    /// Its figures in the JSON document.
    pub(crate) figures: Value,
    /// Its rows in the table.
    pub(crate) rows: Vec<Row>,
    /// One sentence for each thing that should have arrived and did not.
    pub(crate) missing: Vec<String>,
}

/// A row of the table: what was sent, what arrived, and a figure to compare it with.
#[derive(Debug)]
pub(crate) struct Row(pub(crate) String, pub(crate) String, pub(crate) String);

impl Row {
    pub(crate) fn new(what: impl Into<String>, became: impl Into<String>, beside: impl Into<String>) -> Self {
        Self(what.into(), became.into(), beside.into())
    }
}

/// Formats all rows in columns.
pub(crate) fn table(findings: &[Findings]) -> String {
    let head = Row::new("sent", "arrived (measured there)", "to be read beside");
    let rows: Vec<&Row> = std::iter::once(&head).chain(findings.iter().flat_map(|part| &part.rows)).collect();
    let width =
        |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (first, second) = (width(|row| &row.0), width(|row| &row.1));
    let mut lines: Vec<String> = rows
        .iter()
        .map(|Row(what, became, beside)| {
            format!("{what:<first$}   {became:<second$}   {beside}").trim_end().to_owned()
        })
        .collect();
    let rule = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    lines.insert(1, "─".repeat(rule));
    lines.join("\n")
}

/// Returns the value that this share of the values does not exceed; 0 if there are none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.max(1) - 1).copied().unwrap_or(0.0)
}

/// Formats a time: `35 ms`, `1.25 s`.
pub(crate) fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// Formats a rate: `8.71 Mbit/s`.
pub(crate) fn rate(bits_per_s: f64) -> String {
    format!("{:.2} Mbit/s", bits_per_s / 1e6)
}

/// Formats a size: `8.0 MB`.
pub(crate) fn size(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            (quantile(&values, 0.5), quantile(&values, 0.99), quantile(&values, 1.0)),
            (50.0, 99.0, 100.0)
        );
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn columns_are_aligned() {
        let part = Findings {
            name: "part",
            figures: Value::Null,
            rows: vec![Row::new("a", "b", "c"), Row::new("longer", "µ", "d")],
            missing: Vec::new(),
        };
        let table = table(&[part]);
        let at = |line: usize, text| table.lines().nth(line).and_then(|line| line.find(text));
        assert_eq!(at(2, "c"), at(3, "d").map(|at| at - 1));
    }
}
