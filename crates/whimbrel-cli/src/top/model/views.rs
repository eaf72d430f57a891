//! The rows of each view.

use serde::Deserialize;
use whimbrel_broker::report::BrokerReport;
use whimbrel_service::{SessionState, StatusReport};

use super::sheet::{Cell, Sheet};
use super::source::{Seen, Source};
use crate::broker::standing;
use crate::proxy::{Flow, More};
use crate::shown::{bits, count, delay, plural, size};

fn seconds(value: f64) -> String {
    delay(value * 1e6)
}

/// A time that may be long.
fn age(value: f64) -> String {
    match value {
        ..120.0 => format!("{value:.0} s"),
        ..7_200.0 => format!("{:.0} min", value / 60.0),
        ..172_800.0 => format!("{:.0} h", value / 3_600.0),
        _ => format!("{:.0} d", value / 86_400.0),
    }
}

/// A rate of messages.
fn messages(rate: f64) -> Cell {
    Cell::number(rate, format!("{}/s", count(rate).trim_end_matches("msg").trim_end()))
}

/// One row for each service.
pub(super) fn overview(sources: &[&Source]) -> Sheet {
    let mut sheet = Sheet::new(&["socket", "service", "up", "sessions", "in", "out", "state"]);
    for source in sources {
        let Some(Seen { report, broker, .. }) = &source.now else {
            let why = source.trouble.as_deref().unwrap_or("asked");
            sheet.row(
                source.trouble.is_some(),
                row(source, [(); 5].map(|()| Cell::text("")), Cell::text(why)),
            );
            continue;
        };
        let (received, sent) = match broker {
            Some(broker) => broker_rates(broker),
            None => {
                let carries = |rate: Option<f64>| Cell::known(rate, |rate| bits(rate * 8.0));
                (carries(source.rate(|one| one.received_bytes)), carries(source.rate(|one| one.sent_bytes)))
            }
        };
        let (is_alarm, state) = match &source.trouble {
            Some(why) => (true, why.clone()),
            None => state(report, broker.as_ref()),
        };
        let cells = [
            Cell::text(&report.service),
            Cell::number(report.uptime_s, age(report.uptime_s)),
            Cell::count(report.sessions.len() as u64),
            received,
            sent,
        ];
        sheet.row(is_alarm, row(source, cells, Cell::text(state)));
    }
    sheet
}

fn row(source: &Source, cells: [Cell; 5], state: Cell) -> Vec<Cell> {
    std::iter::once(Cell::text(&source.name)).chain(cells).chain([state]).collect()
}

fn broker_rates(broker: &BrokerReport) -> (Cell, Cell) {
    let sum = |of: fn(&whimbrel_broker::report::ChannelReport) -> f64| -> Cell {
        messages(broker.channels.iter().map(of).sum())
    };
    (sum(|channel| channel.arrived_per_s), sum(|channel| channel.delivered_per_s))
}

/// Returns whether a service should be looked at, and its state in a few words.
fn state(report: &StatusReport, broker: Option<&BrokerReport>) -> (bool, String) {
    if let Some(broker) = broker {
        let (slow, others) = (broker.subscribers.slow, broker.brokers.len() as u64);
        let mut state = match slow {
            0 => plural(broker.subscriptions, "subscription"),
            _ => format!("{slow} slow of {}", broker.subscriptions),
        };
        if others > 0 {
            state += &format!(", {}/{others} linked", broker.linked);
        }
        return (slow > 0 || broker.linked < others, state);
    }
    if report.service == "proxy" {
        let More { peers, flows, .. } = More::deserialize(&report.more).unwrap_or_default();
        let connected = peers.iter().filter(|peer| peer.state == "connected").count();
        let state = format!("{}, {connected}/{} peers", plural(flows.running, "flow"), peers.len());
        return (connected < peers.len(), state);
    }
    let unreachable =
        report.sessions.iter().filter(|session| session.state == SessionState::Unreachable).count();
    let state = if unreachable == 0 { String::new() } else { format!("{unreachable} unreachable") };
    (unreachable > 0, state)
}

/// The channels of brokers by partition, and the flows of proxies.
pub(super) fn channels(sources: &[&Source]) -> Sheet {
    let mut sheet = Sheet::new(&["socket", "channel or flow", "state", "in", "out", "more"]);
    for source in sources {
        let Some(seen) = &source.now else { continue };
        match &seen.broker {
            Some(broker) => broker_channels(&mut sheet, &source.name, broker),
            None if seen.report.service == "proxy" => {
                let More { flows, .. } = More::deserialize(&seen.report.more).unwrap_or_default();
                flows.list.iter().for_each(|flow| proxy_flow(&mut sheet, &source.name, flow));
            }
            None => {}
        }
    }
    sheet
}

fn broker_channels(sheet: &mut Sheet, name: &str, broker: &BrokerReport) {
    for channel in &broker.channels {
        for (at, partition) in channel.partitions.iter().enumerate() {
            let fill = partition.messages as f64 * 100.0 / partition.room.max(1) as f64;
            let oldest =
                partition.oldest_s.map_or_else(String::new, |oldest| format!(", oldest {}", seconds(oldest)));
            sheet.row(
                channel.missing > 0,
                vec![
                    Cell::text(name),
                    Cell::text(format!("{} {at}", channel.name)),
                    Cell::number(fill, format!("{fill:.0} % full")),
                    messages(channel.arrived_per_s),
                    messages(channel.delivered_per_s),
                    Cell::text(format!("{} overwritten{oldest}", partition.overwritten)),
                ],
            );
        }
    }
}

fn proxy_flow(sheet: &mut Sheet, name: &str, flow: &Flow) {
    let target = if flow.target.is_empty() { "anywhere" } else { &flow.target };
    let program = flow.program.as_deref().unwrap_or("a program");
    sheet.row(
        false,
        vec![
            Cell::text(name),
            Cell::text(format!("{} {target}", flow.protocol)),
            Cell::text(&flow.state),
            Cell::number(flow.from_peer_bytes as f64, size(flow.from_peer_bytes)),
            Cell::number(flow.to_peer_bytes as f64, size(flow.to_peer_bytes)),
            Cell::text(format!("{program}, {}", flow.peer)),
        ],
    );
}

/// The subscribers of brokers, the slow ones first.
pub(super) fn subscribers(sources: &[&Source]) -> Sheet {
    let mut sheet = Sheet::new(&["socket", "client", "filter", "state", "lag", "out", "lost"]);
    let mut rest = 0;
    for source in sources {
        let Some(broker) = source.now.as_ref().and_then(|seen| seen.broker.as_ref()) else { continue };
        rest += broker.subscribers.rest.number;
        for one in &broker.subscribers.list {
            let state = match (one.slow_s, one.recovering) {
                (Some(slow), _) => format!("slow for {}", seconds(slow)),
                (None, true) => "recovering".to_owned(),
                (None, false) => one.kind.clone(),
            };
            sheet.row(
                one.slow,
                vec![
                    Cell::text(&source.name),
                    Cell::text(&one.client),
                    Cell::text(&one.filter),
                    Cell::text(state),
                    Cell::count(one.lag),
                    messages(one.delivered_per_s),
                    Cell::count(one.lost),
                ],
            );
        }
    }
    // Of several brokers, the worst of all come first.
    sheet.rows.sort_by_key(|row| !row.is_alarm);
    if rest > 0 {
        sheet.more = format!("and {rest} more that lag less");
    }
    sheet
}

/// The other brokers of each broker's cluster. Those that are not linked come first.
pub(super) fn brokers(sources: &[&Source]) -> Sheet {
    let mut sheet = Sheet::new(&["socket", "broker", "address", "rtt", "behind", "state"]);
    for source in sources {
        let Some(broker) = source.now.as_ref().and_then(|seen| seen.broker.as_ref()) else { continue };
        for other in &broker.brokers {
            let linked = || format!("linked for {}", other.linked_s.map_or_else(String::new, seconds));
            sheet.row(
                !other.linked,
                vec![
                    Cell::text(&source.name),
                    Cell::text(&other.name),
                    Cell::text(other.address.map_or_else(|| "-".to_owned(), |address| address.to_string())),
                    Cell::known(other.rtt_ms, |rtt| delay(rtt * 1e3)),
                    Cell::known(other.behind.map(|behind| behind as f64), |behind| behind.to_string()),
                    Cell::sentence(if other.linked { linked() } else { standing(other) }),
                ],
            );
        }
    }
    sheet.rows.sort_by_key(|row| !row.is_alarm);
    sheet
}

/// The paths of all sessions.
pub(super) fn paths(sources: &[&Source]) -> Sheet {
    let mut sheet = Sheet::new(&["socket", "peer", "path", "state", "rtt", "lost", "carries"]);
    for source in sources {
        let Some(seen) = &source.now else { continue };
        for session in &seen.report.sessions {
            let peer = session.peer.map_or_else(|| session.address.to_string(), |key| key.to_string());
            if session.paths.is_empty() {
                let none = || Cell::known(None, |_| String::new());
                let cells = vec![
                    Cell::text(&source.name),
                    Cell::text(&peer),
                    Cell::text("none"),
                    Cell::text("unreachable"),
                    none(),
                    none(),
                    none(),
                ];
                sheet.row(true, cells);
            }
            for path in &session.paths {
                let local = path.local.map_or_else(|| "?".to_owned(), |local| local.to_string());
                let is_primary = if path.primary { ", primary" } else { "" };
                let rate = (path.rate > 0).then_some(path.rate as f64 * 8.0);
                sheet.row(
                    session.state == SessionState::Unreachable,
                    vec![
                        Cell::text(&source.name),
                        Cell::text(&peer),
                        Cell::text(format!("{local} - {}", path.remote)),
                        Cell::text(format!("{}{is_primary}", path.state)),
                        Cell::number(path.rtt_ms, delay(path.rtt_ms * 1e3)),
                        Cell::number(path.loss, format!("{:.1} %", path.loss * 100.0)),
                        Cell::known(rate, bits),
                    ],
                );
            }
        }
    }
    sheet
}
