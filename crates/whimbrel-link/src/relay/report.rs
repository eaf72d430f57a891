//! The relay's figures, for people and for programs.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{Histogram, LinkConfig, LinkStats};

/// The figures of a relay at a point in time. [`Display`](fmt::Display) prints a table.
#[derive(Clone, Debug)]
pub struct RelayReport {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// The server's address.
    pub to: SocketAddr,
    /// The seed of the random draws.
    pub seed: u64,
    /// The time since the first packet; zero if there was none.
    pub elapsed: Duration,
    /// The number of client addresses so far.
    pub clients: u64,
    /// The number of times the upstream ports were changed.
    pub rebinds: u64,
    /// Packets that passed the link but that the system refused to send.
    pub unsent: u64,
    /// The delay with which packets were sent: the relay's own error.
    pub lateness: Histogram,
    /// The direction from clients to the server.
    pub up: Lane,
    /// The direction from the server to clients.
    pub down: Lane,
}

/// The figures of one direction.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The link's settings.
    pub config: LinkConfig,
    /// The link's counters.
    pub stats: LinkStats,
}

#[derive(Serialize)]
struct Quantiles {
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
}

impl From<&Histogram> for Quantiles {
    fn from(histogram: &Histogram) -> Self {
        let at = |quantile| micros(histogram.quantile(quantile));
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: micros(histogram.max()) }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl RelayReport {
    /// Returns the figures as one JSON object. Bytes are IP bytes; times are in microseconds, except `seconds`.
    pub fn to_json(&self) -> Value {
        json!({
            "listen": self.listen.to_string(),
            "to": self.to.to_string(),
            "seed": self.seed,
            "seconds": self.elapsed.as_secs_f64(),
            "clients": self.clients,
            "rebinds": self.rebinds,
            "unsent": self.unsent,
            "lateness_us": Quantiles::from(&self.lateness),
            "up": self.up.to_json(),
            "down": self.down.to_json(),
        })
    }
}

impl Lane {
    fn to_json(&self) -> Value {
        let stats = &self.stats;
        json!({
            "link": self.config.to_string(),
            "offered": stats.offered,
            "offered_bytes": stats.offered_bytes,
            "delivered": stats.delivered,
            "delivered_bytes": stats.delivered_bytes,
            "policed": stats.policed,
            "queue_drops": stats.queue_drops,
            "loss_drops": stats.loss_drops,
            "outage_drops": stats.outage_drops,
            "mtu_drops": stats.mtu_drops,
            "duplicated": stats.duplicated,
            "reordered": stats.reordered,
            "corrupted": stats.corrupted,
            "ce_marked": stats.ce_marked,
            "queue_delay_us": Quantiles::from(&stats.queue_delay),
        })
    }

    fn describe(&self) -> String {
        let text = self.config.to_string();
        if text.is_empty() { "a perfect wire".into() } else { text }
    }
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, down) = (&self.up.stats, &self.down.stats);
        writeln!(f, "up    {}", self.up.describe())?;
        writeln!(f, "down  {}", self.down.describe())?;
        writeln!(f, "{:<22}{:>14}{:>14}", "", "up", "down")?;
        for (name, value) in ROWS {
            writeln!(f, "{name:<22}{:>14}{:>14}", value(up), value(down))?;
        }
        for (name, quantile) in [("queueing p50", 0.5), ("queueing p95", 0.95), ("queueing max", 1.0)] {
            let at = |stats: &LinkStats| millis(stats.queue_delay.quantile(quantile));
            writeln!(f, "{name:<22}{:>14}{:>14}", at(up), at(down))?;
        }
        write!(
            f,
            "{:.1} s; clients: {}, rebinds: {}, unsent: {}; packets left late by {} (median), {} (p99), {} (max)",
            self.elapsed.as_secs_f64(),
            self.clients,
            self.rebinds,
            self.unsent,
            millis(self.lateness.quantile(0.5)),
            millis(self.lateness.quantile(0.99)),
            millis(self.lateness.max()),
        )
    }
}

type Row = (&'static str, fn(&LinkStats) -> u64);

const ROWS: [Row; 13] = [
    ("packets offered", |stats| stats.offered),
    ("packets delivered", |stats| stats.delivered),
    ("IP bytes delivered", |stats| stats.delivered_bytes),
    ("dropped by the policer", |stats| stats.policed),
    ("dropped at the queue", |stats| stats.queue_drops),
    ("lost at random", |stats| stats.loss_drops),
    ("lost in outages", |stats| stats.outage_drops),
    ("larger than the MTU", |stats| stats.mtu_drops),
    ("duplicated", |stats| stats.duplicated),
    ("reordered", |stats| stats.reordered),
    ("corrupted", |stats| stats.corrupted),
    ("marked CE", |stats| stats.ce_marked),
    ("through the queue", |stats| stats.queue_delay.count()),
];

fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
