//! The summary `docs/results.md`, and a page per experiment.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::table::{LATE, groups, tables};
use super::{agreement, late, summary};
use crate::experiment::{Case, Experiment, Options};
use crate::machine::{Header, PeerNote};
use crate::sample::Record;
use crate::stats::RULE;

/// Name of the experiment about the links themselves. The summary quotes it.
const SELF: &str = "self";
/// Name of the experiment that compares them with another emulator.
const CROSS_CHECK: &str = "cross-check";

/// An experiment and its record.
type Kept = (&'static dyn Experiment, Option<Record>);

/// Returns the summary. `keep` stores the other pages and the pictures by name, in the folder that the summary links
/// to.
pub(super) fn page(
    kept: &[Kept],
    keep: &mut dyn FnMut(&str, String) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let accuracy = accuracy(kept, "");
    let about_links = |experiment: &dyn Experiment| [SELF, CROSS_CHECK].contains(&experiment.name());
    for (experiment, record) in kept {
        let over_links = experiment.needs_testbed() && !about_links(*experiment);
        let accuracy = if over_links { accuracy.as_str() } else { "" };
        let mut page = String::new();
        section(&mut page, *experiment, record.as_ref(), accuracy, keep)?;
        keep(&format!("{}.md", experiment.name()), format!("{}\n", page.trim_end()))?;
    }
    keep("peers.md", peers(kept)?)?;
    front(kept)
}

fn front(kept: &[Kept]) -> anyhow::Result<String> {
    let mut page = String::new();
    writeln!(page, "# Results of the laboratory\n")?;
    writeln!(
        page,
        "Made by `cargo xtask lab report` from the samples in `lab/results`; do not edit it, nor the pages in [results](results).\n"
    )?;
    writeln!(
        page,
        "Every experiment runs over links between network namespaces of one Linux machine, every peer over the same links with \
         the same dice; [lab/README.md](../lab/README.md) says how, and [peers](results/peers.md) what each peer was. Figures are \
         those of the receiver.\n"
    )?;
    writeln!(
        page,
        "The table has one figure of each experiment; the others are on its page. The best of the others is the peer with the best \
         median, bare UDP left out. A target is what was set before the measurement, and the median is held to it. The column after \
         it says whether the target shown is met, and how many of the experiment's targets are.\n"
    )?;
    writeln!(page, "{}", summary::HEAD)?;
    for (experiment, record) in kept {
        writeln!(page, "{}", summary::row(*experiment, record.as_ref()))?;
    }
    writeln!(page, "\n## How to read the pages\n")?;
    writeln!(
        page,
        "A cell is the median of the trials, its spread (least to most), and, where physics sets a limit, the median over that \
         limit. **Strong** marks what no peer beats and what beats at least one. {RULE}\n"
    )?;
    writeln!(
        page,
        "{LATE} marks figures of which some trials ran on links that were late: more than one packet in a hundred left over 1 ms \
         and 1 % of the delay after its time. {} {}",
        accuracy(kept, "results/"),
        cross_check(kept)
    )?;
    Ok(page)
}

/// Says how exact the links are. `folder` is the path to the pages, seen from the page that says so.
fn accuracy(kept: &[Kept], folder: &str) -> String {
    let record = kept.iter().find(|(experiment, _)| experiment.name() == SELF);
    let Some((experiment, Some(record))) = record else {
        return format!(
            "The accuracy of the links is unmeasured: `cargo xtask lab run {SELF}` has not been run."
        );
    };
    let groups = groups(*experiment, record);
    let out: Vec<_> =
        groups.iter().filter(|group| group.failures().is_some()).map(|group| group.condition).collect();
    let settings = format!(
        "{} of {} settings of the links were kept to ([{SELF}]({folder}{SELF}.md), {})",
        groups.len() - out.len(),
        groups.len(),
        record.header.date
    );
    if out.is_empty() { format!("{settings}.") } else { format!("{settings}; OUT: {}.", out.join("; ")) }
}

/// Says whether another emulator's links agree.
fn cross_check(kept: &[Kept]) -> String {
    let record = kept.iter().find(|(experiment, _)| experiment.name() == CROSS_CHECK);
    let Some((experiment, Some(record))) = record else {
        return format!(
            "They have not been compared with another emulator: run `cargo xtask lab run {CROSS_CHECK}`."
        );
    };
    let all = agreement::all(*experiment, record);
    if all.is_empty() {
        return format!(
            "No other emulator was there to compare them with ([{CROSS_CHECK}](results/{CROSS_CHECK}.md))."
        );
    }
    let apart: Vec<_> = all.iter().filter(|(_, one)| !one.holds()).map(|(condition, _)| *condition).collect();
    let agree = format!(
        "In {} of {} settings, another emulator's links agree with them ([{CROSS_CHECK}](results/{CROSS_CHECK}.md), {})",
        all.len() - apart.len(),
        all.len(),
        record.header.date
    );
    if apart.is_empty() { format!("{agree}.") } else { format!("{agree}; not in: {}.", apart.join("; ")) }
}

fn section(
    page: &mut String,
    experiment: &dyn Experiment,
    record: Option<&Record>,
    accuracy: &str,
    keep: &mut dyn FnMut(&str, String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let about = experiment.about();
    writeln!(page, "# {}\n\n**{}.** From: {}.\n", experiment.name(), about.title, about.source)?;
    writeln!(
        page,
        "Made by `cargo xtask lab report`. [The summary](../results.md#how-to-read-the-pages) says how to read it, and \
         [peers](peers.md) what each peer was.\n"
    )?;
    let Some(record) = record else {
        return Ok(writeln!(page, "Not measured yet: `cargo xtask lab run {}`.\n", experiment.name())?);
    };
    writeln!(page, "*Measured:* {}\n", about.measured)?;
    for table in tables(experiment, record) {
        writeln!(page, "{table}")?;
    }
    for finding in experiment.findings(record) {
        writeln!(page, "{finding}\n")?;
    }
    pictures(page, experiment, record, keep)?;
    writeln!(page, "*Why:* {}\n", about.why)?;
    if let Some(short) = experiment.falls_short() {
        writeln!(page, "*Falls short:* {short}\n")?;
    }
    links(page, experiment)?;
    gaps(page, experiment, record)?;
    run(page, experiment, record)?;
    if accuracy.is_empty() { Ok(()) } else { Ok(writeln!(page, "{accuracy}\n")?) }
}

fn pictures(
    page: &mut String,
    experiment: &dyn Experiment,
    record: &Record,
    keep: &mut dyn FnMut(&str, String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let groups = groups(experiment, record);
    let limit = |condition: &str, metric: &str| experiment.limit(condition, metric);
    for plot in experiment.plots() {
        if let Some(svg) = plot.draw(&groups, &limit) {
            let name = format!("{}-{}.svg", experiment.name(), file_name(plot.title()));
            writeln!(page, "![{}]({name})\n", plot.title())?;
            keep(&name, svg)?;
        }
    }
    Ok(())
}

fn file_name(title: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = title.chars().map(plain).collect();
    name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn links(page: &mut String, experiment: &dyn Experiment) -> anyhow::Result<()> {
    let links = experiment.links();
    if links.is_empty() {
        return Ok(());
    }
    writeln!(page, "Links, each way, in the words of `whimbrel link`:\n")?;
    for (name, words) in links {
        writeln!(page, "- {name}: `{words}`")?;
    }
    Ok(writeln!(page)?)
}

/// Writes which rows of the experiment the record lacks.
fn gaps(page: &mut String, experiment: &dyn Experiment, record: &Record) -> anyhow::Result<()> {
    let options = Options { quick: record.header.quick, seconds: None };
    let measured = |case: &Case| {
        record.samples.iter().any(|sample| sample.condition == case.condition && sample.peer == case.peer)
    };
    let mut absent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in experiment.cases(&options).into_iter().filter(|case| !measured(case)) {
        absent.entry(case.peer).or_default().push(case.condition);
    }
    // Peers that lack the same rows for the same reason share a sentence.
    let mut alike: BTreeMap<(Vec<String>, &str), Vec<String>> = BTreeMap::new();
    for (peer, conditions) in absent {
        let note = record.header.peers.iter().find(|note| note.name == peer);
        let reason = note.and_then(|note| note.missing.as_deref()).unwrap_or("left out of this run");
        alike.entry((conditions, reason)).or_default().push(peer);
    }
    for ((conditions, reason), peers) in alike {
        writeln!(page, "*Gap:* no trial of {} with {}: {reason}\n", peers.join(", "), brief(&conditions))?;
    }
    Ok(())
}

/// Lists conditions, with the name of each table only once.
fn brief(conditions: &[String]) -> String {
    let places: Vec<_> = conditions.iter().map(|condition| Case::place(condition)).collect();
    let tables = places.chunk_by(|one, other| one.0 == other.0).map(|rows| {
        let names = rows.iter().map(|(_, row)| *row).collect::<Vec<_>>().join("; ");
        if rows[0].0.is_empty() { names } else { format!("{}: {names}", rows[0].0) }
    });
    tables.collect::<Vec<_>>().join("; ")
}

fn run(page: &mut String, experiment: &dyn Experiment, record: &Record) -> anyhow::Result<()> {
    let Header { cpu, cores, kernel, date, commit, command, seed, trials, parallel, quick, .. } =
        &record.header;
    let short = if *quick { ", a shortened run" } else { "" };
    let seeds = seed + trials - 1;
    writeln!(
        page,
        "`{command}`: {date}, revision {commit}, seeds {seed} to {seeds}, {parallel} trials of 4 Mbit/s at a time{short}. {cpu}, \
         {cores} cores, Linux {kernel}."
    )?;
    let late = late::sentences(experiment, record);
    if !late.is_empty() {
        writeln!(page, "{late}")?;
    }
    Ok(writeln!(page)?)
}

/// Lists the settings of every peer once. If they differ between experiments, it says which had which.
fn peers(kept: &[Kept]) -> anyhow::Result<String> {
    let mut page = String::new();
    writeln!(page, "# Peers\n")?;
    writeln!(
        page,
        "Made by `cargo xtask lab report`: what each peer of [the experiments](../results.md) was.\n"
    )?;
    let mut written: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for (experiment, record) in kept.iter().filter_map(|(one, record)| Some((one, record.as_ref()?))) {
        let took_part = |name: &str| record.samples.iter().any(|sample| sample.peer == name);
        for PeerNote { name, settings, .. } in record.header.peers.iter().filter(|note| took_part(&note.name))
        {
            match written.iter_mut().find(|(known, set, _)| known == name && set == settings) {
                Some((.., where_so)) => where_so.push(experiment.name()),
                None => written.push((name, settings, vec![experiment.name()])),
            }
        }
    }
    for (name, settings, where_so) in &written {
        let everywhere = written.iter().filter(|(other, ..)| other == name).count() == 1;
        let place = if everywhere { String::new() } else { format!(" in {}", where_so.join(", ")) };
        writeln!(page, "- **{name}**{place}: {settings}")?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests;
