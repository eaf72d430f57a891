//! The display for people: bars on a terminal, lines elsewhere, and nothing if the output is for a program.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use whimbrel_cli::output::note;

/// How often a line reports progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows the progress of the far end.
pub(crate) struct Screen {
    manner: Manner,
    tasks: Mutex<BTreeMap<String, Task>>,
}

enum Manner {
    Bars(MultiProgress),
    Lines,
    Silence,
}

/// The unit in which a task's progress is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Messages,
}

struct Task {
    title: String,
    unit: Unit,
    total: u64,
    bar: Option<ProgressBar>,
    told: Instant,
}

impl Screen {
    /// Creates a screen. Bars require a terminal, and NO_COLOR must not be set.
    pub(crate) fn new(silent: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let manner = match (silent, stderr().is_terminal() && !plain) {
            (true, _) => Manner::Silence,
            (false, true) => Manner::Bars(MultiProgress::new()),
            (false, false) => Manner::Lines,
        };
        Self { manner, tasks: Mutex::default() }
    }

    /// Prints a heading.
    pub(crate) fn say(&self, text: &str) {
        match &self.manner {
            // A terminal that cannot be written to is no reason to stop.
            Manner::Bars(bars) => drop(bars.println(text)),
            Manner::Lines => note(text),
            Manner::Silence => {}
        }
    }

    /// Begins a lane, which will have received `total` if everything arrives.
    pub(crate) fn begin(&self, lane: &str, title: &str, total: u64, unit: Unit) {
        let bar = match &self.manner {
            Manner::Bars(bars) => Some(bars.add(new_bar(title, total, unit))),
            Manner::Lines | Manner::Silence => None,
        };
        let task = Task { title: title.to_owned(), unit, total, bar, told: Instant::now() };
        self.lock().insert(lane.to_owned(), task);
    }

    /// Shows how much the far end has received.
    pub(crate) fn progress(&self, lane: &str, bytes: u64, messages: u64) {
        let mut tasks = self.lock();
        let Some(task) = tasks.get_mut(lane) else { return };
        let done = if task.unit == Unit::Bytes { bytes } else { messages };
        if let Some(bar) = &task.bar {
            bar.set_position(done);
        } else if matches!(self.manner, Manner::Lines) && task.told.elapsed() >= LINE_EVERY {
            task.told = Instant::now();
            note(format_args!("  {}: {}", task.title, counted(done, task.total, task.unit)));
        }
    }

    /// Ends a lane.
    pub(crate) fn end(&self, lane: &str, result: &str) {
        let Some(task) = self.lock().remove(lane) else { return };
        match (&self.manner, task.bar) {
            (Manner::Bars(bars), Some(bar)) => {
                bar.finish_and_clear();
                drop(bars.println(format!("  {}: {result}", task.title)));
            }
            (Manner::Lines, _) => note(format_args!("  {}: {result}", task.title)),
            _ => {}
        }
    }

    /// Removes all bars.
    pub(crate) fn clear(&self) {
        self.lock().clear();
        if let Manner::Bars(bars) = &self.manner {
            // As above.
            drop(bars.clear());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_bar(title: &str, total: u64, unit: Unit) -> ProgressBar {
    let counted = match unit {
        Unit::Bytes => "{decimal_bytes:>10} of {decimal_total_bytes} {decimal_bytes_per_sec:>12}",
        Unit::Messages => "{pos:>10} of {len} messages",
    };
    let template = format!("  {{prefix:<34}} [{{bar:30.green}}] {counted}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style.progress_chars("━╸ ")).with_prefix(title.to_owned())
}

fn counted(done: u64, total: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{:.1} of {:.1} MB", done as f64 / 1e6, total as f64 / 1e6),
        Unit::Messages => format!("{done} of {total} messages"),
    }
}
