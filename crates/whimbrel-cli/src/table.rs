//! Tables of text.

use whimbrel::PeerText;

/// The widest cell, in letters. Of a longer text, the beginning is shown.
const WIDEST: usize = 44;

/// A table whose columns are as wide as their widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads of columns.
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    /// Adds a row. What could steer a terminal is escaped, since others may have chosen it.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| shortened(&cell)).collect());
    }

    /// Returns the lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}"));
            cells.collect::<String>().trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// Returns a text of others as one short piece that cannot steer a terminal.
pub(crate) fn shortened(text: &str) -> String {
    let shown = PeerText::show(text).to_string();
    if shown.chars().count() <= WIDEST {
        return shown;
    }
    let begin: String = shown.chars().take(WIDEST - 1).collect();
    format!("{begin}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["a", "long"]);
        table.row(["wider".to_owned(), "x".to_owned()]);
        table.row(["\u{1b}[2J".to_owned(), "ä".repeat(100)]);
        let lines = table.lines();
        assert_eq!(lines[0], "  a          long");
        assert_eq!(lines[1], "  wider      x");
        assert!(lines[2].starts_with("  \\u{1b}[2J  ä") && lines[2].ends_with("ä…"), "{lines:?}");
    }
}
