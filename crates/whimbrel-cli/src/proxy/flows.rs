//! The status of a proxy, as people read it.

use serde::Deserialize;
use serde_json::Value;

use crate::shown::{delay, plural, size};

/// The most flows shown in text output. JSON output has up to a thousand.
const SHOWN: usize = 50;

/// The part of a proxy's status that is its own.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct More {
    pub(crate) peers: Vec<Peer>,
    pub(crate) flows: Flows,
}

/// A peer of a proxy.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Peer {
    name: String,
    key: String,
    pub(crate) state: String,
    why: Option<String>,
    connector: Option<String>,
}

/// The flows of a proxy.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Flows {
    pub(crate) running: u64,
    opened: u64,
    refused: u64,
    pub(crate) list: Vec<Flow>,
}

/// One of them.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Flow {
    pub(crate) protocol: String,
    by_peer: bool,
    pub(crate) peer: String,
    pub(crate) target: String,
    pub(crate) program: Option<String>,
    rule: Option<String>,
    pub(crate) state: String,
    age_s: u64,
    pub(crate) to_peer_bytes: u64,
    pub(crate) from_peer_bytes: u64,
}

/// Returns the lines about peers and flows.
pub(crate) fn describe(more: &Value) -> Vec<String> {
    let More { peers, flows } = More::deserialize(more).unwrap_or_default();
    let mut lines = vec![plural(peers.len() as u64, "peer")];
    for Peer { name, key, state, why, connector } in &peers {
        let key = if name == key { String::new() } else { format!(" ({key})") };
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let over = if connector.as_deref() == Some("tcp") { " over tcp" } else { "" };
        lines.push(format!("  {name}{key}: {state}{over}{why}"));
    }
    let Flows { running, opened, refused, list } = flows;
    lines.push(format!("{}, {opened} so far, {refused} refused", plural(running, "flow")));
    lines.extend(list.iter().take(SHOWN).map(describe_flow));
    if running > SHOWN as u64 {
        lines.push(format!("  and {} more: --json shows up to 1000", running - SHOWN as u64));
    }
    lines
}

fn describe_flow(flow: &Flow) -> String {
    let Flow { protocol, by_peer, peer, target, program, rule, state, age_s, to_peer_bytes, from_peer_bytes } =
        flow;
    let program = program.as_deref().unwrap_or("a program");
    let target = if target.is_empty() { "anywhere" } else { target };
    let way = if *by_peer { format!("from {peer}") } else { format!("over {peer}") };
    let rule = rule.as_ref().map_or_else(String::new, |rule| format!(", rule {rule}"));
    format!(
        "  {protocol} {program} to {target} {way}{rule}: {state} for {}, to the peer {}, from it {}",
        delay(*age_s as f64 * 1e6),
        size(*to_peer_bytes),
        size(*from_peer_bytes),
    )
}
