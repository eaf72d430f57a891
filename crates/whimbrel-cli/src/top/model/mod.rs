//! The content of `whimbrel top`: reports come in, rows come out. It knows no terminal and no socket.

mod sheet;
mod source;
mod views;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whimbrel_service::StatusReport;

pub(super) use sheet::{Cell, Sheet};
use source::Source;

/// A view of all services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum View {
    Overview,
    Channels,
    Subscribers,
    Paths,
    Brokers,
}

impl View {
    pub(super) const ALL: [Self; 5] =
        [Self::Overview, Self::Channels, Self::Subscribers, Self::Paths, Self::Brokers];

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Channels => "channels and flows",
            Self::Subscribers => "subscribers",
            Self::Paths => "paths",
            Self::Brokers => "brokers",
        }
    }
}

/// A person's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    View(View),
    NextView,
    Sort,
    Reverse,
    Scroll(isize),
    Begin,
}

/// The services that are watched, and what of them is shown.
#[derive(Debug)]
pub(super) struct Model {
    sources: BTreeMap<PathBuf, Source>,
    view: View,
    /// The column by which each view is sorted, and whether backwards. Without one, the worst come first.
    sorting: BTreeMap<View, (usize, bool)>,
    scrolled: usize,
}

impl Model {
    /// Nothing is known yet.
    pub(super) fn new() -> Self {
        Self { sources: BTreeMap::new(), view: View::Overview, sorting: BTreeMap::new(), scrolled: 0 }
    }

    /// A service is watched from now on.
    pub(super) fn watch(&mut self, control: &Path) {
        let name = control.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.sources.entry(control.to_owned()).or_insert_with(|| Source::new(name));
    }

    /// Takes a report of a service that is watched, or why there is none.
    pub(super) fn take(&mut self, control: &Path, at: Duration, looked: Result<StatusReport, String>) {
        if let Some(source) = self.sources.get_mut(control) {
            source.take(at, looked);
        }
    }

    /// A service is no longer watched.
    pub(super) fn forget(&mut self, control: &Path) {
        self.sources.remove(control);
    }

    /// Does what a person wants.
    pub(super) fn handle(&mut self, wish: Wish) {
        match wish {
            Wish::View(view) => (self.view, self.scrolled) = (view, 0),
            Wish::NextView => {
                let at = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
                (self.view, self.scrolled) = (View::ALL[(at + 1) % View::ALL.len()], 0);
            }
            // After the last column comes the order in which the worst are first.
            Wish::Sort => {
                let next = self.sorting.get(&self.view).map_or(0, |(column, _)| column + 1);
                if next < self.unsorted().heads.len() {
                    self.sorting.insert(self.view, (next, false));
                } else {
                    self.sorting.remove(&self.view);
                }
            }
            Wish::Reverse => {
                if let Some((_, is_reverse)) = self.sorting.get_mut(&self.view) {
                    *is_reverse = !*is_reverse;
                }
            }
            Wish::Scroll(rows) => {
                let last = self.unsorted().rows.len().saturating_sub(1);
                self.scrolled = self.scrolled.saturating_add_signed(rows).min(last);
            }
            Wish::Begin => self.scrolled = 0,
        }
    }

    /// The view that is shown.
    pub(super) fn view(&self) -> View {
        self.view
    }

    /// The column by which it is sorted, and whether backwards.
    pub(super) fn sorting(&self) -> Option<(usize, bool)> {
        self.sorting.get(&self.view).copied()
    }

    /// The rows above the first that is shown.
    pub(super) fn scrolled(&self) -> usize {
        self.scrolled
    }

    /// Whether any service is watched.
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns what the view shows.
    pub(super) fn sheet(&self) -> Sheet {
        let mut sheet = self.unsorted();
        if let Some((column, is_reverse)) = self.sorting() {
            sheet.sort(column, is_reverse);
        }
        sheet
    }

    fn unsorted(&self) -> Sheet {
        let sources: Vec<&Source> = self.sources.values().collect();
        match self.view {
            View::Overview => views::overview(&sources),
            View::Channels => views::channels(&sources),
            View::Subscribers => views::subscribers(&sources),
            View::Paths => views::paths(&sources),
            View::Brokers => views::brokers(&sources),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
