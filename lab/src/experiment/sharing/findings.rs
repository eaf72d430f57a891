//! Findings over all draws: quantiles, the goals, and the draws that are shared worst.

use std::fmt::Write;

use super::company::Company;
use super::{ALONE, BESIDE_BBR, BESIDE_CUBIC, CASES, FOUR, JAIN, OURS, drawn, sharers};
use crate::report::goal::{Goal, table};
use crate::sample::Record;
use crate::stats::{percentile, sorted};

/// The least part of what a flow could expect that it has to get.
const THIRD: f64 = 1.0 / 3.0;
/// The draws that are shown by themselves.
const WORST: usize = 10;

/// Returns all findings, as Markdown.
pub(super) fn all(record: &Record) -> Vec<String> {
    vec![parts(record), table(&goals(record)), worst(record)]
}

/// Quantiles of each flow's share of what it could expect.
fn parts(record: &Record) -> String {
    let mut text = "What each flow got of what it could expect, the smaller of what is fair and of what it reaches alone, in percent:\n\n\
                    | | flow | draws | least | 5 % | median | 95 % | under a third |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (peer, condition) in CASES.into_iter().filter(|(_, condition)| *condition != ALONE) {
        let company = Company::of(record, condition, peer);
        let mut row = |flow: &str, parts: Vec<f64>| {
            let parts = sorted(parts);
            let at = |share| cell(percentile(&parts, share).map(|part| 100.0 * part), 0);
            let under = parts.iter().filter(|part| **part < THIRD).count();
            let cells = [at(0.0), at(0.05), at(0.5), at(0.95)].join(" | ");
            writeln!(text, "| {peer} {condition} | {flow} | {} | {cells} | {under} |", parts.len()).ok();
        };
        row(
            if condition == FOUR { "the least" } else { peer },
            company.iter().map(|draw| draw.own).collect(),
        );
        let others: Vec<_> = company.iter().filter_map(|draw| draw.other).collect();
        if !others.is_empty() {
            row(sharers(condition, peer)[1], others);
        }
    }
    text
}

/// The goals that were set before anything was measured.
pub(super) fn goals(record: &Record) -> Vec<Goal> {
    let of = |condition: &'static str| {
        let samples = record.samples.iter();
        samples.filter(move |sample| sample.condition == condition && sample.peer == OURS)
    };
    let mut goals: Vec<_> = [BESIDE_CUBIC, BESIDE_BBR, FOUR]
        .into_iter()
        .map(|condition| {
            let draws = Company::of(record, condition, OURS);
            let words = format!(
                "{condition}: at least a third of what each flow could expect, on every draw ({} of {}; on the others, a flow failed alone)",
                draws.len(),
                of(condition).count()
            );
            Goal::least(words, draws.iter().map(Company::least).reduce(f64::min), "", THIRD)
        })
        .collect();
    let indices = sorted(of(FOUR).map(|sample| {
        let metrics = sample.result.as_ref().ok();
        metrics.and_then(|metrics| metrics.values.get(JAIN).copied()).unwrap_or(0.0)
    }));
    goals.extend([
        Goal::least(
            "four of ours: Jain's index at least 0.9 at the worst",
            percentile(&indices, 0.0),
            "",
            0.9,
        ),
        Goal::least(
            "four of ours: Jain's index at least 0.97 in the median",
            percentile(&indices, 0.5),
            "",
            0.97,
        ),
    ]);
    goals
}

/// The draws on which somebody got the least.
fn worst(record: &Record) -> String {
    let mut text =
        "The draws on which a flow beside ours, or one of ours, got the least of what it could expect:\n\n\
                    | seed | | ours, % | the other, % | link |\n|---|---|---|---|---|\n"
            .to_owned();
    let with =
        |condition| Company::of(record, condition, OURS).into_iter().map(move |company| (condition, company));
    let mut draws: Vec<_> = [BESIDE_CUBIC, BESIDE_BBR, FOUR].into_iter().flat_map(with).collect();
    draws.sort_by(|(_, one), (_, other)| one.least().total_cmp(&other.least()));
    for (condition, draw) in draws.into_iter().take(WORST) {
        let percent = |part: Option<f64>| cell(part.map(|part| 100.0 * part), 0);
        let (own, other, link) = (percent(Some(draw.own)), percent(draw.other), drawn(draw.seed));
        writeln!(text, "| {} | {condition} | {own} | {other} | {link} |", draw.seed).ok();
    }
    text
}

fn cell(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
}
