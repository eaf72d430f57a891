//! Goals that were set before anything was measured, and compare trials of the same seed.

use std::fmt::Write;

/// A goal, what was reached, and whether that is enough.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    words: String,
    reached: Option<f64>,
    unit: &'static str,
    met: bool,
}

impl Goal {
    /// A goal of at least so much. `reached` is `None` if it was not measured.
    pub(crate) fn least(
        words: impl Into<String>,
        reached: Option<f64>,
        unit: &'static str,
        least: f64,
    ) -> Self {
        let met = reached.is_some_and(|reached| reached >= least);
        Self { words: words.into(), reached, unit, met }
    }

    /// Returns whether it was met. `None`: it was not measured.
    pub(crate) fn met(&self) -> Option<bool> {
        self.reached.map(|_| self.met)
    }
}

/// Returns the goals as a table, in Markdown.
pub(crate) fn table(goals: &[Goal]) -> String {
    let mut text = "Goals, set beforehand:\n\n| goal | reached | met |\n|---|---|---|\n".to_owned();
    for goal in goals {
        let verdict = match goal.met() {
            None => "not measured",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        let reached =
            goal.reached.map_or_else(|| "-".to_owned(), |reached| format!("{reached:.3}{}", goal.unit));
        writeln!(text, "| {} | {reached} | {verdict} |", goal.words).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_was_not_measured_is_neither_met_nor_missed() {
        let goals = [
            Goal::least("one", None, "", 1.0),
            Goal::least("two", Some(1.0), " %", 1.0),
            Goal::least("three", Some(0.9), "", 1.0),
        ];
        assert_eq!(goals.each_ref().map(Goal::met), [None, Some(true), Some(false)]);
        let text = table(&goals);
        for row in ["| one | - | not measured |", "| two | 1.000 % | yes |", "| three | 0.900 | **no** |"] {
            assert!(text.contains(row), "{text}");
        }
    }
}
