//! The time that each step and each suite of tests took. `cargo xtask test` prints them last.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Suites that are shorter are not listed.
const LONG: f64 = 20.0;

#[derive(Default)]
pub(crate) struct Times {
    steps: Vec<(&'static str, Duration)>,
    suites: Vec<(String, f64)>,
    /// The suite that runs now.
    suite: String,
}

impl Times {
    pub(crate) fn step(&mut self, name: &'static str, took: Duration) {
        self.steps.push((name, took));
    }

    /// Reads a line of `cargo test`: the name of a suite, or its end.
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim_start();
        if let Some(suite) = line.strip_prefix("Running ").or_else(|| line.strip_prefix("Doc-tests ")) {
            suite.clone_into(&mut self.suite);
        } else if let Some(took) = duration(line) {
            self.suites.push((std::mem::take(&mut self.suite), took));
        }
    }
}

/// Reads the time from the line of a suite's result.
fn duration(line: &str) -> Option<f64> {
    line.starts_with("test result: ").then_some(())?;
    line.rsplit_once("finished in ")?.1.strip_suffix('s')?.parse().ok()
}

impl Display for Times {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut suites: Vec<_> = self.suites.iter().filter(|(_, took)| *took >= LONG).collect();
        suites.sort_by(|a, b| b.1.total_cmp(&a.1));
        let total: f64 = self.suites.iter().map(|(_, took)| took).sum();
        writeln!(f, "Suites of {LONG:.0} s and more, of {total:.0} s in all:")?;
        for (name, took) in suites {
            writeln!(f, "{took:8.1} s  {name}")?;
        }
        let total: Duration = self.steps.iter().map(|(_, took)| took).sum();
        writeln!(f, "Time of each step, {:.0} s in all:", total.as_secs_f64())?;
        for (name, took) in &self.steps {
            writeln!(f, "{:8.1} s  {name}", took.as_secs_f64())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_listed_with_their_times() {
        let mut times = Times::default();
        times.step("tests", Duration::from_secs(40));
        for line in [
            "     Running tests/a.rs (target/debug/deps/a-1)",
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 22.50s",
            "     Running tests/b.rs (target/debug/deps/b-1)",
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
        ] {
            times.line(line);
        }
        let text = times.to_string();
        assert!(text.contains("of 24 s in all"), "{text}");
        assert!(text.contains("    22.5 s  tests/a.rs (target/debug/deps/a-1)\nTime of each step"), "{text}");
        assert!(text.ends_with("    40.0 s  tests\n"), "{text}");
    }
}
