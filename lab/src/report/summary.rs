//! The table of the summary. Each experiment has a row with its main figure and the targets set for it.

use super::agreement;
use super::goal::Goal;
use super::table::{Group, LATE, around, best, groups};
use crate::experiment::{Better, Column, Experiment};
use crate::sample::Record;

/// Peer that the summary is about.
const OURS: &str = "whimbrel";
/// Name of the laboratory's own links.
const LINK: &str = "link";

/// The bytes of the same frames sent once.
const FRAMES_ONCE: Times = Times::Row("no loss", "whimbrel-unrepaired");

/// The main figure of an experiment.
struct Headline {
    /// Name of the experiment.
    experiment: &'static str,
    /// Condition of the row, with the name of its table.
    condition: &'static str,
    /// Peer of the row.
    peer: &'static str,
    /// Column of the figure.
    metric: &'static str,
    /// Targets set beforehand. The first is shown, and all are counted.
    targets: &'static [Target],
}

/// A figure that an experiment should reach, set beforehand.
#[derive(Clone, Copy)]
struct Target {
    condition: &'static str,
    peer: &'static str,
    metric: &'static str,
    at: At,
    value: f64,
    times: Times,
}

/// The side of its value on which a target is met.
#[derive(Clone, Copy)]
enum At {
    /// The median is at least the value.
    Least,
    /// The median is at most the value.
    Most,
    /// The figure is 0 in every trial.
    Never,
}

/// The unit that a target's value is a multiple of.
#[derive(Clone, Copy)]
enum Times {
    /// The column's unit.
    Unit,
    /// The physical limit.
    Limit,
    /// The median of another row in the same column, by its condition and peer.
    Row(&'static str, &'static str),
}

const fn least(condition: &'static str, metric: &'static str, value: f64) -> Target {
    Target { condition, peer: OURS, metric, at: At::Least, value, times: Times::Unit }
}

const fn most(condition: &'static str, metric: &'static str, value: f64) -> Target {
    Target { condition, peer: OURS, metric, at: At::Most, value, times: Times::Unit }
}

const fn never(condition: &'static str, metric: &'static str) -> Target {
    Target { condition, peer: OURS, metric, at: At::Never, value: 0.0, times: Times::Unit }
}

impl Target {
    /// Returns the same target for another peer.
    const fn of(self, peer: &'static str) -> Self {
        Self { peer, ..self }
    }

    /// Returns the same target in another unit.
    const fn times(self, times: Times) -> Self {
        Self { times, ..self }
    }

    /// Returns the direction that the target calls better.
    fn better(&self) -> Option<Better> {
        match self.at {
            At::Least => Some(Better::Higher),
            At::Most => Some(Better::Lower),
            At::Never => None,
        }
    }

    /// Returns whether the target is met. `None` if it was not measured.
    fn met(&self, experiment: &dyn Experiment, groups: &[Group<'_>]) -> Option<bool> {
        let spread = find(groups, self.condition, self.peer)?.spread(self.metric)?;
        let unit = match self.times {
            Times::Unit => 1.0,
            Times::Limit => experiment.limit(self.condition, self.metric)?,
            Times::Row(condition, peer) => find(groups, condition, peer)?.spread(self.metric)?.median,
        };
        let bound = self.value * unit;
        Some(match self.at {
            At::Least => spread.median >= bound,
            At::Most => spread.median <= bound,
            At::Never => spread.high <= 0.0,
        })
    }

    /// Returns the target in words, with its column if that is not the headline's.
    fn words(&self, headline: &Headline, columns: &[Column]) -> String {
        let column = columns.iter().find(|column| column.metric == self.metric);
        let other = column.filter(|_| self.metric != headline.metric);
        let title = other.map_or(String::new(), |column| format!("{}: ", column.title));
        let side = match self.at {
            At::Least => "at least",
            At::Most => "at most",
            At::Never => return format!("{title}none in any trial"),
        };
        let unit = match self.times {
            Times::Unit => String::new(),
            Times::Limit => " x the limit".to_owned(),
            Times::Row(_, peer) => format!(" x {peer}"),
        };
        format!("{title}{side} {}{unit}", self.value)
    }
}

fn find<'a, 'b>(groups: &'a [Group<'b>], condition: &str, peer: &str) -> Option<&'a Group<'b>> {
    groups.iter().find(|group| group.condition == condition && group.peer == peer)
}

/// Head of the table.
pub(super) const HEAD: &str = "| experiment | figure | ours | best of the others | target | met | measured |\n\
                               |---|---|---|---|---|---|---|";

/// Returns the row of an experiment, in the columns of [`HEAD`].
pub(super) fn row(experiment: &dyn Experiment, record: Option<&Record>) -> String {
    let name = experiment.name();
    let link = format!("[{name}](results/{name}.md)");
    let Some(record) = record else {
        return format!("| {link} | | | | | | not yet: a gap |");
    };
    let headline = HEADLINES.iter().find(|headline| headline.experiment == name);
    let cells = headline.and_then(|headline| cells(headline, experiment, record)).unwrap_or_default();
    format!("| {link} | {} | {}, {} trials |", cells.join(" | "), record.header.date, record.header.trials)
}

/// Returns the figure's name, ours, that of the best of the others, the target, and whether it was met.
fn cells(headline: &Headline, experiment: &dyn Experiment, record: &Record) -> Option<[String; 5]> {
    let (groups, columns) = (groups(experiment, record), experiment.columns());
    let column = columns.iter().find(|column| column.metric == headline.metric)?;
    let rows: Vec<&Group<'_>> = groups.iter().filter(|group| group.condition == headline.condition).collect();
    let better = column.better.or_else(|| headline.targets.first()?.better());
    let other = match better {
        Some(better) => best(column.metric, better, &rows),
        None => rows.iter().copied().find(|group| group.peer != headline.peer),
    };
    let named = |group: &Group<'_>| Some(format!("{} {}", group.peer, figure(group, column)?));
    let ours = find(&groups, headline.condition, headline.peer);
    let ours = ours.and_then(|group| if group.peer == OURS { figure(group, column) } else { named(group) });
    let blank = || "-".to_owned();
    let (target, met) = verdict(headline, experiment, record, &groups);
    Some([
        format!("{} ({})", column.title, headline.condition),
        ours.unwrap_or_else(blank),
        other.and_then(named).unwrap_or_else(blank),
        target,
        met,
    ])
}

/// Formats the median and the spread.
fn figure(group: &Group<'_>, column: &Column) -> Option<String> {
    let spread = group.spread(column.metric)?;
    let (digits, mark) = (column.digits, if group.late() > 0 { LATE } else { "" });
    Some(format!("{:.digits$}{mark}{}", spread.median, around(&spread, digits)))
}

/// Returns the first target in words, and whether it was met. For experiments about the links, it counts the settings
/// that were kept to.
fn verdict(
    headline: &Headline,
    experiment: &dyn Experiment,
    record: &Record,
    groups: &[Group<'_>],
) -> (String, String) {
    let columns = experiment.columns();
    if let Some(first) = headline.targets.first() {
        let goals = experiment.goals(record);
        let targets = headline.targets.iter().map(|target| target.met(experiment, groups));
        let met: Vec<bool> = targets.chain(goals.iter().map(Goal::met)).flatten().collect();
        let word = match first.met(experiment, groups) {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let kept = met.iter().filter(|met| **met).count();
        return (first.words(headline, &columns), format!("{word}; {kept} of {}", met.len()));
    }
    let alike = agreement::all(experiment, record);
    if !alike.is_empty() {
        let kept = alike.iter().filter(|(_, one)| one.holds()).count();
        let target = "the other emulator's figure, within what is allowed";
        return (target.to_owned(), format!("{kept} of {}", alike.len()));
    }
    if columns.iter().any(|column| column.verdict) {
        let kept = groups.iter().filter(|group| group.failures().is_none()).count();
        return (
            "the figure that was set, within what is allowed".to_owned(),
            format!("{kept} of {}", groups.len()),
        );
    }
    ("-".to_owned(), "-".to_owned())
}

const BLACKOUT_BULK: [&str; 3] = ["Bulk: 1 s", "Bulk: 5 s", "Bulk: 10 s"];
const NEWEST: [&str; 3] = [
    "10 updates a second, the newest wanted: 1 s",
    "10 updates a second, the newest wanted: 5 s",
    "10 updates a second, the newest wanted: 10 s",
];
const ORDERED: [&str; 3] = [
    "10 updates a second, all wanted in order: 1 s",
    "10 updates a second, all wanted in order: 5 s",
    "10 updates a second, all wanted in order: 10 s",
];
const SMALL: [&str; 3] = [
    "Messages of 50 bytes: in order, a call each",
    "Messages of 50 bytes: in order, 64 a call",
    "Messages of 50 bytes: datagrams",
];
const BULK: &str = "Bulk: as many bytes as will go";
const ROUND_TRIP: &str = "Round trip: 64 bytes there and back";
const ONE_PATH: [&str; 2] =
    ["One path, a lifetime of 60 ms: 0 % loss", "One path, a lifetime of 60 ms: 5 % loss"];
const LONGER: [&str; 2] =
    ["A longer path beside, all wanted: 0 % loss", "A longer path beside, all wanted: 5 % loss"];
const ALIKE: [&str; 2] = ["Two paths alike, all wanted: 0 % loss", "Two paths alike, all wanted: 10 % loss"];
const TACTICAL: [&str; 3] = ["tactical-5", "tactical-10", "tactical-15"];
const IPERF: &str = "Bulk: iperf3, one connection";
const TPROXY: &str = "TPROXY: iperf3, one connection, between two hosts";
const FORWARDED: &str = "whimbrel-proxy forward";
const INTERCEPTED: &str = "whimbrel-proxy tproxy";
const XML: &str = "tactical-1mbit";
const COT: [&str; 2] = ["Stream: records over one connection", "Datagrams: a record each"];
const DICTIONARY: &str = "whimbrel zstd:3 dictionary";
const RELOADS: &str = "1,000 reloads";
const UPGRADES: &str = "100 upgrades";
const PROXY: &str = crate::carrier::OURS;
const ROAMING: &str = "At saturation";
const PAPER_RATE: &str = "At the paper's rate, 285.29 a second";
const NONDURABLE: &str = "whimbrel-nondurable";
const MOVING: [&str; 2] =
    ["Hand-over between three brokers: 12 s away", "Hand-over between three brokers: 24 s away"];
const REPLAYED: [&str; 2] = ["In process: all", "In process: a tenth, by a selector"];
const REPLAYED_FAR: [&str; 2] = ["Over loopback: all", "Over loopback: a tenth, by a selector"];
const BY_KEY: &str = "Connects: by key with tickets, 3,000 a second";
const BY_TLS: &str = "Connects: by TLS, resumed, with a password, 1,000 a second";
const RETURN: &str = "Return: 100,000 semi-durable subscribers";
const DURABLE: &str = "Publishing: 1,000 in flight";
const KILLED: &str = "Return after kill -9: 2,000,000 messages stored";
const OVERWRITTEN: &str = "Figure 12 (b), 24 s away: 258.63 a second, 20,000 slots";
const RIVAL: &str = crate::carrier::HYSTERIA;
const CUBIC: &str = "tcp-cubic";
const ONCE: &str = "whimbrel-once";
const DEADLINE: &str = "whimbrel-deadline";
const URGENT: &str = "whimbrel-urgent";
const REDUNDANT: &str = "whimbrel-redundant";

/// The headlines, one per experiment. Targets are the goals that its source names. Those of `loss-matrix`,
/// `short-transfers` and `loopback` are in docs/performance.md.
const HEADLINES: &[Headline] = &[
    Headline {
        experiment: "mockets-table1",
        condition: "2 MB over 802.11b",
        peer: OURS,
        metric: "transfer_ms",
        targets: &[],
    },
    Headline {
        experiment: "mockets-table2",
        condition: "10 updates a second",
        peer: OURS,
        metric: "age_mean_ms",
        targets: &[],
    },
    Headline {
        experiment: "loss-matrix",
        condition: "2 MB: 20 Mbit/s, 100 ms, 5 %",
        peer: OURS,
        metric: "seconds",
        targets: &[
            most("2 MB: 20 Mbit/s, 100 ms, 5 %", "seconds", 1.45),
            most("2 MB: 20 Mbit/s, 100 ms, 1 %", "seconds", 1.30),
            most("2 MB: 20 Mbit/s, 100 ms, 0 %", "seconds", 1.26),
            most("2 MB: 4 Mbit/s, 50 ms, 0 %", "seconds", 1.04).times(Times::Limit),
            most("2 MB: 4 Mbit/s, 50 ms, 5 %", "seconds", 1.04).times(Times::Limit),
            most("2 MB: 4 Mbit/s, 50 ms, 10 %", "seconds", 1.06).times(Times::Limit),
            most("2 MB: 4 Mbit/s, 50 ms, 15 %", "seconds", 1.08).times(Times::Limit),
        ],
    },
    Headline {
        experiment: "short-transfers",
        condition: "5 % loss: 10 KB",
        peer: OURS,
        metric: "median_ms",
        targets: &[most("5 % loss: 10 KB", "median_ms", 121.0), most("5 % loss: 10 KB", "p95_ms", 221.0)],
    },
    Headline {
        experiment: "message-latency",
        condition: "5 % loss",
        peer: OURS,
        metric: "p99_ms",
        // The goal is 2.2 times 160 bytes, which a message of 100 takes in a packet of its own.
        targets: &[
            most("5 % loss", "p99_ms", 35.0),
            most("5 % loss", "bytes_ratio", 3.52),
            most("20 % loss", "p99_ms", 55.0),
            most("20 % loss", "bytes_ratio", 3.52),
        ],
    },
    Headline {
        experiment: "frames",
        condition: "5 % loss",
        peer: OURS,
        metric: "in_time",
        targets: &[
            least("5 % loss", "in_time", 99.5),
            most("5 % loss", "bytes_ratio", 1.35).times(FRAMES_ONCE),
            least("2 % loss", "in_time", 99.5),
            most("2 % loss", "bytes_ratio", 1.25).times(FRAMES_ONCE),
            least("10 % loss", "in_time", 99.5),
            most("10 % loss", "bytes_ratio", 1.7).times(FRAMES_ONCE),
            least("bursts", "in_time", 99.5),
            most("bursts", "bytes_ratio", 1.35).times(FRAMES_ONCE),
        ],
    },
    Headline {
        experiment: "blackout",
        condition: BLACKOUT_BULK[1],
        peer: OURS,
        metric: "silence_ms",
        // The goal is a round trip of 50 ms, and 250 ms.
        targets: &[
            most(BLACKOUT_BULK[1], "silence_ms", 300.0),
            most(BLACKOUT_BULK[0], "silence_ms", 300.0),
            most(BLACKOUT_BULK[2], "silence_ms", 300.0),
            most(NEWEST[0], "first_ms", 300.0),
            most(NEWEST[1], "first_ms", 300.0),
            most(NEWEST[2], "first_ms", 300.0),
            most(ORDERED[0], "first_ms", 300.0),
            most(ORDERED[1], "first_ms", 300.0),
            most(ORDERED[2], "first_ms", 300.0),
        ],
    },
    Headline {
        experiment: "fairness",
        condition: "beside tcp-cubic",
        peer: OURS,
        metric: "least_share",
        targets: &[least("beside tcp-cubic", "least_share", 30.0), least("four of its kind", "jain", 0.95)],
    },
    Headline {
        experiment: "conditions",
        condition: "Bulk: tactical-10",
        peer: OURS,
        metric: "goodput",
        targets: &[],
    },
    Headline {
        experiment: "random-links",
        condition: "Bulk: all draws",
        peer: OURS,
        metric: "share",
        targets: &[
            least("Bulk: all draws", "share", 95.0),
            most("Messages: all draws", "p99_ms", 0.5).times(Times::Row("Messages: all draws", "tcp-bbr")),
        ],
    },
    Headline {
        experiment: "sharing",
        condition: "four of its kind",
        peer: OURS,
        metric: "jain",
        targets: &[least("four of its kind", "jain", 0.97)],
    },
    Headline {
        experiment: "paths-aggregate",
        condition: "10 Mbit/s 30 ms + 5 Mbit/s 60 ms, 5 %",
        peer: OURS,
        metric: "goodput",
        targets: &[
            least("10 Mbit/s 30 ms + 5 Mbit/s 60 ms, 5 %", "goodput", 0.97).times(Times::Limit),
            least("10 Mbit/s 30 ms + 5 Mbit/s 60 ms, 0 %", "goodput", 0.975).times(Times::Limit),
            least("20 Mbit/s 20 ms + 4 Mbit/s 200 ms, 0 %", "goodput", 0.975).times(Times::Limit),
            least("20 Mbit/s 20 ms + 4 Mbit/s 200 ms, 5 %", "goodput", 0.97).times(Times::Limit),
        ],
    },
    Headline {
        experiment: "paths-dark",
        condition: "the first link: 5 s",
        peer: OURS,
        metric: "gap_ms",
        // With both links dark, the goal is a round trip of 20 ms, and 250 ms.
        targets: &[
            most("the first link: 5 s", "gap_ms", 150.0),
            most("the first link: 5 s", "again_ms", 1000.0),
            most("both links: 5 s", "first_ms", 270.0),
            most("both links: 30 s", "first_ms", 270.0),
            most("both links: 60 s", "first_ms", 270.0),
        ],
    },
    Headline {
        experiment: "paths-messages",
        condition: ONE_PATH[1],
        peer: DEADLINE,
        metric: "in_time",
        // Bytes are multiples of those that a message takes once, without loss.
        targets: &[
            least(ONE_PATH[1], "in_time", 99.9).of(DEADLINE),
            most(ONE_PATH[1], "bytes_ratio", 2.5).of(DEADLINE).times(Times::Row(ONE_PATH[0], ONCE)),
            most(LONGER[1], "p99_ms", 45.0).of(URGENT),
            most(LONGER[1], "bytes_ratio", 2.2).of(URGENT).times(Times::Row(LONGER[0], ONCE)),
            most(LONGER[1], "p99_ms", 70.0).of(ONCE),
            most(LONGER[1], "bytes_ratio", 1.1).of(ONCE).times(Times::Row(LONGER[0], ONCE)),
            most(ALIKE[1], "p98_ms", 1.2).of(REDUNDANT).times(Times::Row(ALIKE[0], REDUNDANT)),
            most(ALIKE[1], "p999_ms", 80.0).of(REDUNDANT),
        ],
    },
    Headline {
        experiment: "handover",
        condition: "make before break",
        peer: OURS,
        metric: "gap_ms",
        // The goal is the round trip of the slower link.
        targets: &[
            most("make before break", "gap_ms", 40.0),
            never("make before break", "lost"),
            never("make before break", "twice"),
            never("break before make", "lost"),
            never("break before make", "twice"),
            never("the old link fades", "lost"),
            never("the old link fades", "twice"),
            never("the address changes", "lost"),
            never("the address changes", "twice"),
        ],
    },
    Headline {
        experiment: "suspend",
        condition: "5 % loss",
        peer: OURS,
        metric: "first_ms",
        targets: &[
            never("5 % loss", "lost"),
            never("5 % loss", "twice"),
            never("0 % loss", "lost"),
            never("0 % loss", "twice"),
        ],
    },
    Headline {
        experiment: "mmsp-table41",
        condition: "all six states in a row",
        peer: OURS,
        metric: "lost",
        targets: &[],
    },
    Headline {
        experiment: "mmsp-table42",
        condition: "2008: 1 wired + 1 wireless",
        peer: OURS,
        metric: "goodput",
        targets: &[],
    },
    Headline {
        experiment: "mmsp-figures",
        condition: "Figure 4.1, wired primary: 40 %",
        peer: OURS,
        metric: "goodput",
        targets: &[],
    },
    Headline {
        experiment: "acm-table1",
        condition: TACTICAL[0],
        peer: PROXY,
        metric: "video_kbs",
        // The goal for datagrams is the share that arrives without a proxy, to within 1 %.
        targets: &[
            least(TACTICAL[0], "video_kbs", 0.9).of(PROXY).times(Times::Limit),
            least(TACTICAL[1], "video_kbs", 0.9).of(PROXY).times(Times::Limit),
            least(TACTICAL[2], "video_kbs", 0.9).of(PROXY).times(Times::Limit),
            least(TACTICAL[0], "video_done", 100.0).of(PROXY),
            least(TACTICAL[1], "video_done", 100.0).of(PROXY),
            least(TACTICAL[2], "video_done", 100.0).of(PROXY),
            least(TACTICAL[0], "udp_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[0], CUBIC)),
            least(TACTICAL[1], "udp_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[1], CUBIC)),
            least(TACTICAL[2], "udp_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[2], CUBIC)),
        ],
    },
    Headline {
        experiment: "acm-table2",
        condition: TACTICAL[0],
        peer: PROXY,
        metric: "udp_share",
        targets: &[
            least(TACTICAL[0], "udp_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[0], CUBIC)),
            least(TACTICAL[1], "udp_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[1], CUBIC)),
            least(TACTICAL[2], "udp_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[2], CUBIC)),
            least(TACTICAL[0], "cot_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[0], CUBIC)),
            least(TACTICAL[1], "cot_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[1], CUBIC)),
            least(TACTICAL[2], "cot_share", 0.99).of(PROXY).times(Times::Row(TACTICAL[2], CUBIC)),
        ],
    },
    Headline {
        experiment: "acm-table3",
        condition: XML,
        peer: DICTIONARY,
        metric: "kbs_116520",
        targets: &[],
    },
    Headline {
        experiment: "acm-table4",
        condition: XML,
        peer: "whimbrel zlib:1",
        metric: "kbs_116520",
        targets: &[],
    },
    Headline {
        experiment: "acm-cot",
        condition: COT[0],
        peer: DICTIONARY,
        metric: "link_share",
        targets: &[
            most(COT[0], "link_share", 20.0).of(DICTIONARY),
            most(COT[1], "link_share", 20.0).of(DICTIONARY),
        ],
    },
    Headline {
        experiment: "proxy-rivals",
        condition: "5 % loss",
        peer: PROXY,
        metric: "mbits",
        targets: &[],
    },
    Headline {
        experiment: "proxy-outage",
        condition: "5 % loss",
        peer: PROXY,
        metric: "last_ms",
        // The goal is a round trip of 50 ms, and 250 ms, for every connection.
        targets: &[
            most("5 % loss", "last_ms", 300.0).of(PROXY),
            most("0 % loss", "last_ms", 300.0).of(PROXY),
            never("5 % loss", "lost").of(PROXY),
            never("0 % loss", "lost").of(PROXY),
        ],
    },
    Headline {
        experiment: "proxy-reload",
        condition: UPGRADES,
        peer: PROXY,
        metric: "reset",
        targets: &[
            never(UPGRADES, "reset").of(PROXY),
            never(UPGRADES, "lost_bytes").of(PROXY),
            never(RELOADS, "reset").of(PROXY),
            never(RELOADS, "lost_bytes").of(PROXY),
        ],
    },
    Headline {
        experiment: "loopback",
        condition: BULK,
        peer: OURS,
        metric: "gbits",
        targets: &[
            least(BULK, "gbits", 2.0).times(Times::Row(BULK, "quinn")),
            least(SMALL[0], "messages", 1.3).times(Times::Row(SMALL[0], "noq")),
            least(SMALL[1], "messages", 1.0).times(Times::Row(SMALL[1], "quinn")),
            least(SMALL[2], "messages", 1.0).times(Times::Row(SMALL[2], "quinn")),
            most(ROUND_TRIP, "rtt_us", 1.3).times(Times::Row(ROUND_TRIP, "udp")),
        ],
    },
    Headline {
        experiment: "proxy-cost",
        condition: IPERF,
        peer: PROXY,
        metric: "gbits",
        // The goal is 60 us of round trip for each of two proxies, beyond that without proxies.
        targets: &[
            least(IPERF, "gbits", 4.0).of(PROXY),
            least(IPERF, "gbits", 3.0).of(PROXY).times(Times::Row(IPERF, RIVAL)),
            most(ROUND_TRIP, "added_us", 60.0).of(PROXY),
            most("Held: 5,000 connections", "memory_mb", 150.0).of(PROXY),
            never("Held: 5,000 connections", "failed").of(PROXY),
            never("Opened: 2,000 connections a second", "failed").of(PROXY),
            least(TPROXY, "gbits", 0.8).of(INTERCEPTED).times(Times::Row(TPROXY, FORWARDED)),
        ],
    },
    Headline {
        experiment: "scale",
        condition: "Handshakes: 64 under way",
        peer: OURS,
        metric: "handshakes",
        targets: &[
            least("Handshakes: 64 under way", "handshakes", 4000.0),
            most("Idle: 10,000 connections", "bytes_each", 10_000.0),
            most("Idle: 10,000 connections", "core", 1.0),
            least("Flood: 100,000 SYNs a second", "share", 70.0),
        ],
    },
    Headline {
        experiment: "fan-out",
        condition: "To 100 subscribers",
        peer: OURS,
        metric: "deliveries",
        targets: &[
            least("To 100 subscribers", "deliveries", 1.0).times(Times::Row("To 100 subscribers", "nats")),
            least("To 1,000 subscribers", "deliveries", 2.0)
                .times(Times::Row("To 1,000 subscribers", "nats")),
            least("To 100 subscribers", "deliveries", 8.0)
                .of("whimbrel-mqtt")
                .times(Times::Row("To 100 subscribers", "mosquitto")),
            least("To 99 subscribers, and one that never reads", "deliveries", 0.95)
                .times(Times::Row("To 100 subscribers", OURS)),
            most("To 1,000 subscribers", "bytes_each", 12_000.0),
            most("To 1,000 subscribers", "bytes_each", 4_000.0).of("whimbrel-mqtt"),
        ],
    },
    Headline {
        experiment: "semi-durable",
        condition: ROAMING,
        peer: OURS,
        metric: "published",
        targets: &[
            least(ROAMING, "published", 0.97).times(Times::Row(ROAMING, NONDURABLE)),
            least(PAPER_RATE, "published", 0.97).times(Times::Row(PAPER_RATE, NONDURABLE)),
            never(MOVING[0], "lost"),
            never(MOVING[0], "twice"),
            never(MOVING[1], "lost"),
            never(MOVING[1], "twice"),
        ],
    },
    Headline {
        experiment: "replay",
        condition: REPLAYED_FAR[0],
        peer: OURS,
        metric: "delivered",
        targets: &[
            least(REPLAYED_FAR[0], "delivered", 1.0),
            least(REPLAYED_FAR[1], "passed", 0.5),
            least(REPLAYED[0], "delivered", 5.0),
            least(REPLAYED[1], "passed", 2.5),
        ],
    },
    Headline {
        experiment: "churn",
        condition: RETURN,
        peer: OURS,
        metric: "seconds",
        // Connects are offered at the goal's rate: a hundredth less is the end of a trial.
        targets: &[
            most(RETURN, "seconds", 60.0),
            most(RETURN, "p99_ratio", 2.0),
            never(RETURN, "lost"),
            least(BY_KEY, "connects", 2_970.0),
            most(BY_KEY, "p99_ratio", 2.0),
            least(BY_TLS, "connects", 990.0),
            most(BY_TLS, "p99_ratio", 2.0),
        ],
    },
    Headline {
        experiment: "durable",
        condition: DURABLE,
        peer: OURS,
        metric: "broker_share",
        targets: &[
            least(DURABLE, "broker_share", 80.0),
            least(DURABLE, "log_share", 80.0),
            most(KILLED, "recovery_ms", 1_000.0),
        ],
    },
    Headline {
        experiment: "acm-mobility",
        condition: "Figure 8, frequency of handoffs: away for 7.42 % of the time",
        peer: "semi-durable",
        metric: "received",
        targets: &[],
    },
    Headline {
        experiment: "acm-overwriting",
        condition: OVERWRITTEN,
        peer: "lrp",
        metric: "messages",
        targets: &[most(OVERWRITTEN, "messages", 1.1).of("lrp").times(Times::Limit)],
    },
    Headline {
        experiment: "self",
        condition: "rate, Mbit/s: 100",
        peer: LINK,
        metric: "found",
        targets: &[],
    },
    Headline {
        experiment: "cross-check",
        condition: "TCP, IP bytes, Mbit/s: 100",
        peer: LINK,
        metric: "found",
        targets: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Options, all};

    #[test]
    fn every_headline_and_target_is_a_row_and_a_column_of_its_experiment() {
        assert_eq!(HEADLINES.len(), all().len());
        let options = Options { quick: false, seconds: None };
        for experiment in all() {
            let headline = HEADLINES.iter().find(|headline| headline.experiment == experiment.name());
            let headline = headline.unwrap_or_else(|| panic!("{} has no headline", experiment.name()));
            let (cases, columns) = (experiment.cases(&options), experiment.columns());
            let own = (headline.condition, headline.peer, headline.metric);
            let targets = headline.targets.iter();
            let targets = targets.map(|target| (target.condition, target.peer, target.metric));
            for (condition, peer, metric) in targets.chain([own]) {
                let row = cases.iter().any(|case| case.condition == condition && case.peer == peer);
                let column = columns.iter().any(|column| column.metric == metric);
                assert!(row && column, "{}: {condition}, {peer}, {metric}", experiment.name());
            }
        }
    }
}
