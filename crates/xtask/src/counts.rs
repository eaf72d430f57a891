//! Counts the results that the test runner reports.

use std::fmt;
use std::ops::AddAssign;

/// The number of tests by result. [`Display`](fmt::Display) writes the line that CI reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// Reads the counts from a suite's last line, `test result: ok. 3 passed; 0 failed; 1 ignored; …`. Returns `None`
    /// for any other line.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (_, figures) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut counts = Self::default();
        for figure in figures.split(';') {
            let mut words = figure.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
            match what {
                "passed" => counts.passed = number.parse().ok()?,
                "failed" => counts.failed = number.parse().ok()?,
                "ignored" => counts.skipped = number.parse().ok()?,
                _ => {}
            }
        }
        Some(counts)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_suites_last_line() {
        let line = "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.12s";
        assert_eq!(Counts::from_line(line), Some(Counts { passed: 12, failed: 2, skipped: 1 }));
        assert_eq!(Counts::from_line("test result_is_shown ... ok"), None);
        assert_eq!(Counts::from_line("running 3 tests"), None);
    }

    #[test]
    fn adds_up_and_says_so_in_one_line() {
        let mut counts = Counts { passed: 1, failed: 2, skipped: 3 };
        counts += Counts { passed: 10, failed: 20, skipped: 30 };
        assert_eq!(counts.to_string(), "11 passed, 22 failed, 33 skipped");
    }
}
