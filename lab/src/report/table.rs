//! Samples as tables, with a row per condition and peer.

use std::collections::BTreeMap;
use std::fmt;

use super::agreement::Agreement;
use crate::carrier;
use crate::experiment::{Better, Case, Column, Experiment};
use crate::sample::{Record, Sample};
use crate::stats::{Comparison, ENOUGH, Spread, compare};

/// Mark of figures that include trials on late links.
pub(super) const LATE: &str = "†";

/// Names of ours: the transport, and the proxy.
const OURS: [&str; 2] = ["whimbrel", carrier::OURS];

/// A table. [`Display`](fmt::Display) formats it as aligned Markdown.
pub(crate) struct Table {
    /// Text above the table.
    pub(crate) heading: String,
    rows: Vec<Vec<String>>,
    /// Sentences below it.
    notes: Vec<String>,
}

/// The trials of one case.
pub(crate) struct Group<'a> {
    pub(crate) condition: &'a str,
    pub(crate) peer: &'a str,
    samples: Vec<&'a Sample>,
}

impl Group<'_> {
    /// Returns a figure's spread over the trials that have it.
    pub(crate) fn spread(&self, metric: &str) -> Option<Spread> {
        let found = self.samples.iter().filter_map(|sample| sample.result.as_ref().ok());
        // Old samples may hold -0.
        Spread::of(found.filter_map(|metrics| Some(metrics.values.get(metric)? + 0.0)))
    }

    /// Returns the curves of one name, trial by trial.
    pub(crate) fn curves(&self, name: &str) -> Vec<&[(f64, f64)]> {
        let mut samples = self.samples.clone();
        samples.sort_by_key(|sample| sample.trial);
        let found = samples.into_iter().filter_map(|sample| sample.result.as_ref().ok());
        found.filter_map(|metrics| metrics.curves.get(name).map(Vec::as_slice)).collect()
    }

    /// Returns the names of all curves.
    pub(crate) fn curve_names(&self) -> Vec<&str> {
        let found = self.samples.iter().filter_map(|sample| sample.result.as_ref().ok());
        let mut names: Vec<_> = found.flat_map(|metrics| metrics.curves.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Counts the trials that ran on late links.
    pub(super) fn late(&self) -> usize {
        let found = self.samples.iter().filter_map(|sample| sample.result.as_ref().ok());
        found.filter(|metrics| metrics.was_late() == Some(true)).count()
    }

    fn late_words(&self) -> Option<String> {
        (self.late() > 0).then(|| format!("{} of {}", self.late(), self.samples.len()))
    }

    /// Returns how many trials failed, by reason.
    pub(crate) fn failures(&self) -> Option<String> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.samples.iter().filter_map(|sample| sample.result.as_ref().err()) {
            *reasons.entry(reason).or_default() += 1;
        }
        let word = |(reason, count): (&&str, &usize)| format!("{count} of {}: {reason}", self.samples.len());
        let words: Vec<_> = reasons.iter().map(word).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Groups the samples of an experiment by case. Conditions are in the experiment's order, peers in the header's.
pub(crate) fn groups<'a>(experiment: &dyn Experiment, record: &'a Record) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for sample in &record.samples {
        let known =
            groups.iter_mut().find(|group| group.condition == sample.condition && group.peer == sample.peer);
        match known {
            Some(group) => group.samples.push(sample),
            None => {
                groups.push(Group { condition: &sample.condition, peer: &sample.peer, samples: vec![sample] })
            }
        }
    }
    let options = crate::experiment::Options { quick: record.header.quick, seconds: None };
    let mut conditions: Vec<String> = Vec::new();
    for case in experiment.cases(&options) {
        if !conditions.contains(&case.condition) {
            conditions.push(case.condition);
        }
    }
    let at = |condition: &str| conditions.iter().position(|one| one == condition).unwrap_or(usize::MAX);
    let peers = &record.header.peers;
    let of = |peer: &str| peers.iter().position(|one| one.name == peer).unwrap_or(usize::MAX);
    groups.sort_by_key(|group| (at(group.condition), of(group.peer)));
    groups
}

/// Returns all tables of an experiment.
pub(crate) fn tables(experiment: &dyn Experiment, record: &Record) -> Vec<Table> {
    let groups = groups(experiment, record);
    let mut headings: Vec<&str> = Vec::new();
    for group in &groups {
        let (heading, _) = Case::place(group.condition);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let of = |heading: &str| {
        let mine = groups.iter().filter(|group| Case::place(group.condition).0 == heading);
        Table::new(experiment, heading, &mine.collect::<Vec<_>>())
    };
    headings.into_iter().map(of).collect()
}

impl Table {
    fn new(experiment: &dyn Experiment, heading: &str, groups: &[&Group<'_>]) -> Self {
        let failures = groups.iter().any(|group| group.failures().is_some());
        let filled = |column: &Column| {
            let found = |group: &&Group<'_>| group.spread(column.metric).is_some();
            groups.iter().any(found) || column.verdict && failures
        };
        let columns: Vec<Column> = experiment.columns().into_iter().filter(filled).collect();
        let blemishes: Vec<_> = BLEMISHES
            .into_iter()
            .filter(|(_, word)| groups.iter().any(|group| word(group).is_some()))
            .collect();
        let mut head = vec!["condition".to_owned(), "peer".to_owned()];
        head.extend(columns.iter().map(|column| column.title.to_owned()));
        head.extend(blemishes.iter().map(|(title, _)| (*title).to_owned()));
        let mut table = Self { heading: heading.to_owned(), rows: vec![head], notes: Vec::new() };
        for together in groups.chunk_by(|one, other| one.condition == other.condition) {
            table.condition(experiment, &columns, together, &blemishes);
        }
        table
    }

    /// Adds the rows of one condition, the physical limit first.
    fn condition(
        &mut self,
        experiment: &dyn Experiment,
        columns: &[Column],
        groups: &[&Group<'_>],
        blemishes: &[Blemish],
    ) {
        let condition = groups[0].condition;
        let (_, shown) = Case::place(condition);
        let limits: Vec<_> =
            columns.iter().map(|column| experiment.limit(condition, column.metric)).collect();
        let blank = |cells: &mut Vec<String>| cells.extend(blemishes.iter().map(|_| String::new()));
        if limits.iter().any(Option::is_some) {
            let mut cells = vec![shown.to_owned(), "*limit*".to_owned()];
            let limit = |(column, limit): (&Column, &Option<f64>)| {
                limit.map_or(String::new(), |limit| format!("*{limit:.*}*", column.digits))
            };
            cells.extend(columns.iter().zip(&limits).map(limit));
            blank(&mut cells);
            self.rows.push(cells);
        }
        for group in groups {
            let mut cells = vec![shown.to_owned(), group.peer.to_owned()];
            for (column, limit) in columns.iter().zip(&limits) {
                cells.push(cell(column, *limit, group, groups));
            }
            cells.extend(blemishes.iter().map(|(_, word)| word(group).unwrap_or_default()));
            self.rows.push(cells);
        }
        for (peer, figures) in quoted(experiment, condition) {
            let mut cells = vec![shown.to_owned(), format!("*{peer}*")];
            let figure = |column: &Column| {
                figures.get(column.metric).map_or(String::new(), |value| format!("*{value}*"))
            };
            cells.extend(columns.iter().map(figure));
            blank(&mut cells);
            self.rows.push(cells);
        }
        let primary = columns.iter().find(|column| column.better.is_some());
        self.notes.extend(primary.and_then(|column| note(shown, column, groups)));
        let agreements = columns.iter().filter_map(|column| Agreement::of(column, groups));
        self.notes.extend(agreements.map(|agreement| format!("{shown}: {agreement}.{}", doubt(groups))));
    }
}

/// A flaw that a row can have: the heading of its column, and its text for a row.
type Blemish = (&'static str, fn(&Group<'_>) -> Option<String>);

const BLEMISHES: [Blemish; 2] =
    [("on late links", |group| group.late_words()), ("failed", |group| group.failures())];

/// Formats the median, the spread and the share of the limit. A figure that wins is in bold. Few trials are counted,
/// and trials on late links add a mark.
fn cell(column: &Column, limit: Option<f64>, group: &Group<'_>, all: &[&Group<'_>]) -> String {
    if column.verdict {
        return verdict(column, group);
    }
    let Some(spread) = group.spread(column.metric) else {
        return "-".to_owned();
    };
    let (digits, median) = (column.digits, spread.median);
    let mut text = format!("{median:.digits$}");
    if wins(column, group, all) {
        text = format!("**{text}**");
    }
    if group.late() > 0 {
        text += LATE;
    }
    text += &around(&spread, digits);
    if let Some(limit) = limit.filter(|limit| *limit > 0.0) {
        text += &format!(", {:.2} x", median / limit);
    }
    text
}

/// Formats the range of the trials around their median. If there are few trials, it says how many.
pub(super) fn around(spread: &Spread, digits: usize) -> String {
    let Spread { low, high, trials, .. } = spread;
    match *trials {
        1 => " (1 trial)".to_owned(),
        2..ENOUGH => format!(" ({low:.digits$} to {high:.digits$}, {trials} trials)"),
        _ => format!(" ({low:.digits$} to {high:.digits$})"),
    }
}

/// Says whether all trials were within their limits, or `-` if there is nothing to judge.
fn verdict(column: &Column, group: &Group<'_>) -> String {
    match (group.failures(), group.spread(column.metric)) {
        (Some(_), _) => "**OUT**".to_owned(),
        (None, Some(_)) => "ok".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// Returns whether the figure beats at least one of the others, and no other beats it.
fn wins(column: &Column, group: &Group<'_>, all: &[&Group<'_>]) -> bool {
    let (Some(better), Some(mine)) = (column.better, group.spread(column.metric)) else { return false };
    let others = all.iter().filter(|other| other.peer != group.peer);
    let verdicts: Vec<_> =
        others.filter_map(|other| Some(compare(&mine, &other.spread(column.metric)?, better))).collect();
    verdicts.contains(&Comparison::Better)
        && verdicts.iter().all(|verdict| matches!(verdict, Comparison::Better | Comparison::Same))
}

/// Returns the best peer other than ours. UDP is the floor, not a competitor, since it neither repairs losses nor keeps
/// order.
pub(super) fn best<'a, 'b>(metric: &str, better: Better, groups: &[&'a Group<'b>]) -> Option<&'a Group<'b>> {
    let sign: f64 = if better == Better::Higher { -1.0 } else { 1.0 };
    let others = groups.iter().filter(|group| !group.peer.starts_with("whimbrel") && group.peer != "udp");
    let measured = others.filter_map(|group| Some((*group, group.spread(metric)?.median)));
    measured.min_by(|(_, one), (_, other)| (sign * one).total_cmp(&(sign * other))).map(|(group, _)| group)
}

/// Compares ours with the best of the others.
fn note(condition: &str, column: &Column, groups: &[&Group<'_>]) -> Option<String> {
    let better = column.better?;
    let us = *groups.iter().find(|group| OURS.contains(&group.peer))?;
    let ours = us.spread(column.metric)?;
    let them = best(column.metric, better, groups)?;
    let (peer, theirs) = (them.peer, them.spread(column.metric)?);
    let by = if theirs.median > 0.0 {
        format!("{} {:.2} x", column.title, ours.median / theirs.median)
    } else {
        column.title.to_owned()
    };
    let name = us.peer;
    let sentence = match compare(&ours, &theirs, better) {
        Comparison::Better => format!("{name} is better than the best of the others, {peer} ({by})"),
        Comparison::Worse => format!("{name} is worse than the best of the others, {peer} ({by})"),
        Comparison::Same => {
            format!("no difference from the best of the others, {peer}: the spread covers it ({by})")
        }
        Comparison::TooFew => format!("too few trials to tell {name} from {peer} ({by})"),
    };
    Some(format!("{condition}: {sentence}.{}", doubt(&[us, them])))
}

/// Says how far late links put a verdict about these in doubt.
fn doubt(groups: &[&Group<'_>]) -> String {
    let late: usize = groups.iter().map(|group| group.late()).sum();
    let trials: usize = groups.iter().map(|group| group.samples.len()).sum();
    if late == 0 {
        return String::new();
    }
    format!(" To be doubted: {late} of these {trials} trials ran on late links.")
}

fn quoted(
    experiment: &dyn Experiment,
    condition: &str,
) -> BTreeMap<&'static str, BTreeMap<&'static str, f64>> {
    let mut rows: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for quoted in experiment.quoted().into_iter().filter(|quoted| quoted.condition == condition) {
        rows.entry(quoted.peer).or_default().insert(quoted.metric, quoted.value);
    }
    rows
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.heading.is_empty() {
            writeln!(f, "**{}**\n", self.heading)?;
        }
        let escape = |cell: &String| cell.replace('|', "\\|").replace('\n', " ");
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(escape).collect()).collect();
        let count = rows.first().map_or(0, Vec::len);
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..count).map(width).collect();
        for (number, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
            if number == 0 {
                let rules: Vec<_> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
                writeln!(f, "|{}|", rules.join("|"))?;
            }
        }
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "- {}", escape(note)))
    }
}
