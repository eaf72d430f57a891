//! The content of a view: a table whose cells are known by their order.

use std::cmp::Ordering;

use whimbrel::PeerText;

use crate::table::shortened;

/// A cell: what it shows, and its place among others of its column.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::top) struct Cell {
    pub(in crate::top) text: String,
    /// None: it goes by its text.
    number: Option<f64>,
}

impl Cell {
    /// A text that others may have chosen.
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self { text: shortened(text.as_ref()), number: None }
    }

    /// A sentence, which may contain what others said. It may be long: the last column takes the room that is left.
    pub(super) fn sentence(text: impl AsRef<str>) -> Self {
        Self { text: PeerText::show(text.as_ref()).to_string(), number: None }
    }

    /// A quantity as it is shown.
    pub(super) fn number(number: f64, text: impl Into<String>) -> Self {
        Self { text: text.into(), number: Some(number) }
    }

    /// A count.
    pub(super) fn count(number: u64) -> Self {
        Self::number(number as f64, number.to_string())
    }

    /// A quantity that may not be known.
    pub(super) fn known(number: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        number
            .map_or_else(|| Self::number(f64::NEG_INFINITY, "-"), |number| Self::number(number, show(number)))
    }

    /// Whether it stands at the right of its column.
    pub(in crate::top) fn is_number(&self) -> bool {
        self.number.is_some()
    }

    /// Large numbers come first, and texts by the alphabet.
    fn order(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(own), Some(others)) => others.total_cmp(&own),
            _ => self.text.cmp(&other.text),
        }
    }
}

/// A row. One in alarm should be looked at first.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::top) struct Row {
    pub(in crate::top) cells: Vec<Cell>,
    pub(in crate::top) is_alarm: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::top) struct Sheet {
    pub(in crate::top) heads: Vec<&'static str>,
    pub(in crate::top) rows: Vec<Row>,
    /// A sentence about what is not among the rows.
    pub(in crate::top) more: String,
}

impl Sheet {
    pub(super) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), ..Self::default() }
    }

    pub(super) fn row(&mut self, is_alarm: bool, cells: Vec<Cell>) {
        self.rows.push(Row { cells, is_alarm });
    }

    /// Sorts by a column. Equal rows keep their order.
    pub(super) fn sort(&mut self, column: usize, is_reverse: bool) {
        self.rows.sort_by(|a, b| {
            let (Some(a), Some(b)) = (a.cells.get(column), b.cells.get(column)) else {
                return Ordering::Equal;
            };
            if is_reverse { b.order(a) } else { a.order(b) }
        });
    }
}
