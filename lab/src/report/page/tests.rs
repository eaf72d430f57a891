//! Tests of pages, with made-up records.

use super::*;
use crate::experiment::all;
use crate::sample::{Metrics, Sample};

fn experiment(name: &str) -> &'static dyn Experiment {
    *all().iter().find(|one| one.name() == name).unwrap()
}

fn sample(name: &str, condition: &str, peer: &str, trial: u64, values: &[(&str, f64)]) -> Sample {
    let mut metrics = Metrics::default();
    values.iter().for_each(|(metric, value)| metrics.set(metric, *value));
    let (experiment, condition, peer) = (name.to_owned(), condition.to_owned(), peer.to_owned());
    Sample { experiment, condition, peer, trial, seed: trial, result: Ok(metrics) }
}

fn note(name: &str, missing: Option<&str>) -> PeerNote {
    PeerNote { name: name.into(), settings: "as it comes".into(), missing: missing.map(Into::into) }
}

fn record(samples: Vec<Sample>) -> Record {
    let peers = vec![note("whimbrel", None), note("tcp-bbr", None), note("sctp", Some("not installed"))];
    Record {
        header: Header { trials: 5, seed: 1, date: "today".into(), peers, ..Header::default() },
        samples,
    }
}

/// Returns the summary, followed by all other pages.
fn page_of(kept: &[Kept]) -> String {
    let mut pages = String::new();
    let mut keep = |name: &str, content: String| -> anyhow::Result<()> {
        if name.ends_with(".md") {
            pages.push_str(&content);
        }
        Ok(())
    };
    let summary = page(kept, &mut keep).unwrap();
    summary + &pages
}

/// Returns the page of one experiment, without samples about the links.
fn page_with(name: &str, samples: Vec<Sample>) -> String {
    page_of(&[(experiment(name), Some(record(samples))), (experiment(SELF), None)])
}

const TABLE: &str = "mockets-table1";
const ROW: &str = "2 MB over 802.11b";

fn transfers(peer: &str, times: &[f64], late: f64) -> Vec<Sample> {
    let one = |(index, time): (usize, &f64)| {
        let values = [("transfer_ms", *time), ("late_p99_ms", 0.2), ("late_beyond", late)];
        sample(TABLE, ROW, peer, index as u64 + 1, &values)
    };
    times.iter().enumerate().map(one).collect()
}

#[test]
fn a_failed_trial_is_told_with_its_reason() {
    let mut samples = transfers("whimbrel", &[1.0, 2.0, 3.0, 4.0, 5.0], 0.0);
    samples[1].result = Err("the link broke".into());
    let page = page_with(TABLE, samples);
    assert!(page.contains("1 of 5: the link broke"), "{page}");
    assert!(page.contains("(1 to 5, 4 trials)"), "{page}");
}

#[test]
fn rows_that_are_absent_are_named_with_their_reason() {
    let page = page_with(TABLE, transfers("whimbrel", &[1.0; 5], 0.0));
    assert!(page.contains(&format!("no trial of sctp with {ROW}: not installed")), "{page}");
    assert!(page.contains("tcp-bbr") && page.contains("left out of this run"), "{page}");
    assert!(!page.contains("no trial of whimbrel"), "{page}");
    assert!(!page.contains("mptcp"), "a peer that takes no part is not missed: {page}");
}

#[test]
fn what_is_absent_from_a_table_names_it_once() {
    let conditions = ["One: 1 %", "One: 2 %", "Two: 1 %", "bare"].map(str::to_owned);
    assert_eq!(brief(&conditions), "One: 1 %; 2 %; Two: 1 %; bare");
}

#[test]
fn a_difference_is_told_only_where_the_spread_does_not_cover_it() {
    let ours = transfers("whimbrel", &[1.0, 2.0, 3.0, 4.0, 5.0], 0.0);
    let with = |times: &[f64]| page_with(TABLE, [ours.clone(), transfers("tcp-bbr", times, 0.0)].concat());
    assert!(
        with(&[6.0, 7.0, 8.0, 9.0, 10.0]).contains("whimbrel is better than the best of the others, tcp-bbr")
    );
    assert!(with(&[5.0, 7.0, 8.0, 9.0, 10.0]).contains("the spread covers it"));
    assert!(with(&[6.0, 7.0, 8.0, 9.0]).contains("too few trials"));
}

#[test]
fn a_single_trial_says_so() {
    assert!(page_with(TABLE, transfers("whimbrel", &[1.0], 0.0)).contains("1 (1 trial)"));
}

#[test]
fn late_links_mark_figures_and_verdicts() {
    let late = [transfers("whimbrel", &[1.0; 5], 1.1), transfers("tcp-bbr", &[2.0; 5], 1.0)].concat();
    let page = page_with(TABLE, late);
    assert!(page.contains("**1**†") && !page.contains("2†"), "{page}");
    assert!(page.contains("To be doubted: 5 of these 10 trials ran on late links."), "{page}");
    assert!(page.contains("5 of 10 trials ran on links that were late"), "{page}");
}

#[test]
fn samples_of_before_are_judged_by_what_they_have() {
    let mut samples = transfers("whimbrel", &[1.0; 5], 0.0);
    for (sample, late) in samples.iter_mut().zip([Some(30.0), Some(0.5), None, None, None]) {
        let values = &mut sample.result.as_mut().unwrap().values;
        values.retain(|name, _| name == "transfer_ms");
        values.extend(late.map(|late| ("late_p99_ms".to_owned(), late)));
    }
    let page = page_with(TABLE, samples);
    assert!(page.contains("1 of 2 trials ran on links that were late"), "{page}");
    assert!(page.contains("How late the links of 3 trials were has not been recorded."), "{page}");
}

fn cross_checked(found: &[(&str, f64)]) -> Vec<Sample> {
    let one = |(peer, found): &(&str, f64)| {
        let values = [("set", 100.0), ("found", *found), ("allowed", 3.0)];
        sample(CROSS_CHECK, "TCP, IP bytes, Mbit/s: 100", peer, 1, &values)
    };
    found.iter().map(one).collect()
}

#[test]
fn two_emulators_agree_within_what_is_allowed_and_no_further() {
    let with = |samples| page_with(CROSS_CHECK, samples);
    let alike = with(cross_checked(&[("link", 100.0), ("rattan", 97.0)]));
    let sentence = "- 100: link and rattan agree: found 3.000 apart (3.0 %), allowed 3.000 (3.0 %).";
    assert!(alike.contains(sentence), "{alike}");
    assert!(alike.contains("In 1 of 1 settings, another emulator's links agree with them"), "{alike}");
    let apart = with(cross_checked(&[("link", 100.0), ("rattan", 103.1)]));
    assert!(apart.contains("link and rattan do **not** agree: found 3.100 apart"), "{apart}");
    let front = "In 0 of 1 settings, another emulator's links agree with them ([cross-check](results/cross-check.md), today); not in: \
                 TCP, IP bytes, Mbit/s: 100.";
    assert!(apart.contains(front), "{apart}");
}

#[test]
fn without_the_other_emulator_there_is_a_gap_and_no_verdict() {
    let mut alone = record(cross_checked(&[("link", 100.0)]));
    alone.header.peers.extend([note("link", None), note("rattan", Some("rattan is not installed"))]);
    let page = page_of(&[(experiment(SELF), None), (experiment(CROSS_CHECK), Some(alone))]);
    assert!(page.contains("no trial of rattan with TCP, IP bytes, Mbit/s: 10; 100;"), "{page}");
    assert!(page.contains("rattan is not installed") && !page.contains("agree"), "{page}");
    assert!(page.contains("No other emulator was there"), "{page}");
    let page = page_of(&[(experiment(SELF), None), (experiment(CROSS_CHECK), None)]);
    assert!(page.contains("They have not been compared with another emulator"), "{page}");
}

#[test]
fn the_accuracy_of_the_links_is_quoted_or_said_to_be_unmeasured() {
    let some = || record(transfers("whimbrel", &[1.0; 5], 0.0));
    let page = page_of(&[(experiment(TABLE), Some(some())), (experiment(SELF), None)]);
    assert_eq!(page.matches("The accuracy of the links is unmeasured").count(), 2, "{page}");
    let found = |condition: &str| sample(SELF, condition, "link", 1, &[("within", 1.0), ("found", 4.0)]);
    let mut links = record(vec![found("rate, Mbit/s: 4"), found("delay one way, ms: 25")]);
    links.samples[1].result = Err("OUT: found 40.000, set 25, allowed ± 1.250".into());
    let page = page_of(&[(experiment(TABLE), Some(some())), (experiment(SELF), Some(links))]);
    for place in ["results/self.md", "self.md"] {
        let quoted = format!(
            "1 of 2 settings of the links were kept to ([self]({place}), today); OUT: delay one way, ms: 25."
        );
        assert_eq!(page.matches(&quoted).count(), 1, "in the summary and on the page: {page}");
    }
    assert!(page.contains("**OUT**") && page.contains("| ok "), "{page}");
}

#[test]
fn the_summary_says_whether_the_median_meets_its_target() {
    let with = |times: [f64; 5]| {
        let one = |(index, time): (usize, f64)| {
            sample("message-latency", "5 % loss", "whimbrel", index as u64 + 1, &[("p99_ms", time)])
        };
        page_with("message-latency", times.into_iter().enumerate().map(one).collect())
    };
    let row = "| [message-latency](results/message-latency.md) | p99, ms (5 % loss) |";
    let met = with([33.0, 34.0, 35.0, 36.0, 37.0]);
    assert!(met.contains(&format!("{row} 35.0 (33.0 to 37.0) | - | at most 35 | yes; 1 of 1 |")), "{met}");
    let missed = with([33.0, 34.0, 36.0, 36.0, 37.0]);
    assert!(missed.contains("| at most 35 | **no**; 0 of 1 |"), "{missed}");
    assert!(missed.contains("| [self](results/self.md) | | | | | | not yet: a gap |"), "{missed}");
}

/// The most words of a sentence.
const LONGEST: usize = 30;

#[test]
fn what_people_read_has_short_sentences() {
    for experiment in all() {
        let about = experiment.about();
        for text in [about.measured, about.why, experiment.falls_short().unwrap_or_default()] {
            for sentence in text.split(". ") {
                assert!(sentence.split_whitespace().count() <= LONGEST, "{}: {sentence}", experiment.name());
            }
        }
    }
}

/// A page that is not made again after a change of a text would tell something else than the laboratory.
#[test]
fn the_pages_in_docs_have_the_texts_of_the_experiments() {
    for experiment in all() {
        let page = format!("{}/../docs/results/{}.md", env!("CARGO_MANIFEST_DIR"), experiment.name());
        let page = std::fs::read_to_string(page).unwrap();
        let about = experiment.about();
        let texts = [about.title, about.measured, about.why, experiment.falls_short().unwrap_or_default()];
        // The page of an experiment without a record has nothing but a title.
        let written = if page.contains("Not measured yet") { &texts[..1] } else { &texts[..] };
        for text in written {
            assert!(page.contains(text), "{}: run `cargo xtask lab report`: {text}", experiment.name());
        }
    }
}
