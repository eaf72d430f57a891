//! What the draws show: quantiles, who won, the goals, and the hardest draws.

use std::fmt::Write;

use whimbrel_link::{Class, Drawn};

use super::draws::{Draws, OURS};
use super::{BULK, DROPPED_LATER, LATE, MESSAGES, QUEUED, SHARE, TOOK, TRANSFER, drawn};
use crate::report::goal::{Goal, table};
use crate::sample::Record;
use crate::stats::{percentile, sorted};

/// The quantiles that are shown.
const QUANTILES: [(&str, f64); 7] = [
    ("least", 0.0),
    ("5 %", 0.05),
    ("25 %", 0.25),
    ("median", 0.5),
    ("75 %", 0.75),
    ("95 %", 0.95),
    ("most", 1.0),
];
/// The draws that are shown by themselves.
const WORST: usize = 10;

/// Returns all findings, as Markdown.
pub(super) fn all(record: &Record) -> Vec<String> {
    let tables = [
        (BULK, "of what the link leaves, %", Draws::new(record, BULK, SHARE, true)),
        (TRANSFER, "time, ms", Draws::new(record, TRANSFER, TOOK, false)),
        (MESSAGES, "p99, ms", Draws::new(record, MESSAGES, LATE, false)),
    ];
    let (_, _, bulk) = &tables[0];
    vec![quantiles(&tables), scores(&tables), classes(bulk), table(&goals(record)), worst(bulk)]
}

fn quantiles(tables: &[(&str, &str, Draws)]) -> String {
    let names: Vec<_> = QUANTILES.iter().map(|(name, _)| *name).collect();
    let mut text = format!("Quantiles of the draws:\n\n| | peer | draws | {} |\n", names.join(" | "));
    text.push_str(&rule(names.len() + 3));
    for (table, unit, draws) in tables {
        for peer in draws.peers() {
            let figures = sorted(draws.of(peer).map(|(_, figure)| figure));
            let cells = QUANTILES.iter().map(|(_, share)| cell(percentile(&figures, *share)));
            let cells: Vec<_> = cells.collect();
            writeln!(text, "| {table}, {unit} | {peer} | {} | {} |", figures.len(), cells.join(" | ")).ok();
        }
    }
    text
}

fn scores(tables: &[(&str, &str, Draws)]) -> String {
    let mut text =
        "Draws that ours won, tied (within 2 %) and lost:\n\n| | beside | won | tied | lost |\n".to_owned();
    text.push_str(&rule(5));
    for (table, _, draws) in tables {
        for peer in draws.peers().into_iter().filter(|peer| *peer != OURS) {
            let score = draws.score(peer, |_| true);
            writeln!(text, "| {table} | {peer} | {} | {} | {} |", score.won, score.tied, score.lost).ok();
        }
    }
    text
}

/// Bulk by class: the median of each peer, and what ours won, tied and lost.
fn classes(bulk: &Draws) -> String {
    let peers = bulk.peers();
    let mut text = format!(
        "Bulk by what makes a draw hard: the median share of each peer, and the draws that ours won, tied and lost beside \
         it.\n\n| class | draws | {} |\n",
        peers.join(" | ")
    );
    text.push_str(&rule(peers.len() + 2));
    let mut row = |name: &str, with: &dyn Fn(&Drawn) -> bool| {
        let with = |seed: u64| with(&drawn(seed));
        let count = bulk.of(OURS).filter(|(seed, _)| with(*seed)).count();
        let cells = peers.iter().map(|peer| {
            let figures = sorted(bulk.of(peer).filter(|(seed, _)| with(*seed)).map(|(_, figure)| figure));
            let median = cell(percentile(&figures, 0.5));
            let score = bulk.score(peer, with);
            if *peer == OURS {
                median
            } else {
                format!("{median} ({}/{}/{})", score.won, score.tied, score.lost)
            }
        });
        let cells: Vec<_> = cells.collect();
        writeln!(text, "| {name} | {count} | {} |", cells.join(" | ")).ok();
    };
    row("plain", &|drawn| drawn.classes().is_empty());
    for (class, _) in Class::ALL {
        row(&class.to_string(), &|drawn| drawn.classes().contains(&class));
        row(&format!("{class} alone"), &|drawn| drawn.classes() == [class]);
    }
    text
}

/// The goals that were set before anything was measured.
pub(super) fn goals(record: &Record) -> Vec<Goal> {
    let bulk = Draws::new(record, BULK, SHARE, true);
    let transfer = Draws::new(record, TRANSFER, TOOK, false);
    let messages = Draws::new(record, MESSAGES, LATE, false);
    let mut goals = Vec::new();
    let mut row = |goal: &str, reached: Option<f64>, unit, least| {
        goals.push(Goal::least(goal, reached, unit, least));
    };
    let shares = sorted(bulk.of(OURS).map(|(_, share)| share));
    for (goal, at, least) in [
        ("bulk: at least 95 % of what the link leaves in the median draw", 0.5, 95.0),
        ("bulk: at least 80 % in the worst twentieth", 0.05, 80.0),
    ] {
        row(goal, percentile(&shares, at), " %", least);
    }
    let mut part = |goal: &str, among: Vec<bool>, least: f64| {
        let met = among.iter().filter(|met| **met).count() as f64 * 100.0;
        let reached = (!among.is_empty()).then(|| met / among.len() as f64);
        row(goal, reached, " % of draws", least);
    };
    part(
        "bulk: in 95 % of the draws at least 98 % of the best peer that drops under 5 %",
        bulk.beside_best().map(|(_, ours, best)| ours > 0.0 && ours >= 0.98 * best).collect(),
        95.0,
    );
    let is_steady = |drawn: &Drawn| {
        let unsteady = [Class::Policer, Class::Steps];
        !drawn.classes().iter().any(|class| unsteady.contains(class))
    };
    let dropped = Draws::new(record, BULK, DROPPED_LATER, false);
    let dropped = dropped.of(OURS).filter(|(seed, _)| is_steady(&drawn(*seed)));
    part(
        "bulk: without policers and falling rates, under 2 % dropped after 2 s in 95 %",
        dropped.map(|(_, dropped)| dropped < 2.0).collect(),
        95.0,
    );
    let queued = Draws::new(record, BULK, QUEUED, false);
    let queued = queued.of(OURS).filter(|(seed, _)| drawn(*seed).may_choose());
    part(
        "bulk: queueing delay p95 under the larger of a round trip and 100 ms, where the queue is that long, in all",
        queued.map(|(seed, ms)| ms <= drawn(seed).tolerated().as_secs_f64() * 1e3).collect(),
        100.0,
    );
    let in_time = |(seed, ours, best): (u64, f64, f64)| {
        ours.is_finite() && ours <= (best * 1.03).max(best + drawn(seed).rtt.as_secs_f64() * 1e3)
    };
    part(
        "transfer: in 90 % no later, by 3 % or a round trip, than the best peer that drops under 5 %",
        transfer.beside_best().map(in_time).collect(),
        90.0,
    );
    part(
        "messages: p99 no later than that of the best peer that drops under 5 % in 98 %",
        messages.beside_best().map(|(_, ours, best)| ours.is_finite() && ours <= best * 1.02).collect(),
        98.0,
    );
    let ratios = sorted(messages.beside_best().map(|(_, ours, best)| best / ours));
    row(
        "messages: p99 in the median draw at least twice as early as that of the best peer that drops under 5 %",
        percentile(&ratios, 0.5),
        " times",
        2.0,
    );
    goals
}

fn worst(bulk: &Draws) -> String {
    let mut all: Vec<_> = bulk.of(OURS).collect();
    all.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut text = "The hardest draws for ours in bulk, by seed:\n\n| seed | of what the link leaves, % | best of the others, % \
                    | link |\n"
        .to_owned();
    text.push_str(&rule(4));
    for (seed, share) in all.into_iter().take(WORST) {
        let best = bulk.beside_best().find(|(other, ..)| *other == seed).map(|(.., best)| best);
        writeln!(text, "| {seed} | {} | {} | {} |", cell(Some(share)), cell(best), drawn(seed)).ok();
    }
    text
}

fn rule(columns: usize) -> String {
    format!("|{}\n", "---|".repeat(columns))
}

fn cell(figure: Option<f64>) -> String {
    match figure {
        Some(figure) if figure >= 1e3 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.1}"),
        None => "-".to_owned(),
    }
}
