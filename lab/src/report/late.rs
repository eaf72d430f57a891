//! Sentences about links that were late.

use super::table::LATE;
use crate::experiment::Experiment;
use crate::sample::{LATE_P99, Record};

/// Returns how many trials ran on late links, and for how many that is unknown. The text is empty if there are no
/// links.
pub(crate) fn sentences(experiment: &dyn Experiment, record: &Record) -> String {
    if !experiment.needs_testbed() {
        return String::new();
    }
    let found: Vec<_> = record.samples.iter().filter_map(|sample| sample.result.as_ref().ok()).collect();
    let known: Vec<_> = found.iter().filter_map(|metrics| metrics.was_late()).collect();
    let mut words = Vec::new();
    if !known.is_empty() {
        let late = known.iter().filter(|late| **late).count();
        let worst = found.iter().filter_map(|metrics| metrics.values.get(LATE_P99).copied());
        words.push(format!(
            "{late} of {} trials ran on links that were late{}: more than one packet in a hundred left over 1 ms and 1 % of the delay \
             after its time. In the worst trial one in a hundred was {:.1} ms late or more.",
            known.len(),
            if late > 0 { format!(" ({LATE})") } else { String::new() },
            worst.fold(f64::NAN, f64::max)
        ));
    }
    let unknown = found.len() - known.len();
    if unknown > 0 {
        words.push(format!("How late the links of {unknown} trials were has not been recorded."));
    }
    words.join(" ")
}
