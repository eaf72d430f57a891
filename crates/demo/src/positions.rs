//! Position updates through a blackout: replaced by newer ones, with lifetimes, and, for comparison, through a queue
//! that keeps them all.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use whimbrel::{Mocket, Sender, Tag};
use whimbrel_cli::perf::monotonic_ns;

use crate::bad_link::{BadLink, Lane};
use crate::cargo::{kind, stamped};
use crate::findings::{Findings, Row, time};
use crate::report::{Arrival, Report};
use crate::scale::Scale;
use crate::screen::Unit;
use crate::stage::Stage;

/// A radio link with a round trip of 100 ms.
const LINK: &str = "rate=256kbit, delay=50ms, queue=1s, loss=1%";
const EVERY: Duration = Duration::from_millis(50);
const SIZE: usize = 120;
const LIFETIME: Duration = Duration::from_millis(500);
const POSITION: Tag = Tag(1);
/// A position older than this is stale: the lifetime, plus the time of a retransmission.
const STALE_S: f64 = 0.75;

/// How positions are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Replace,
    Lifetime,
    Queue,
}

const WAYS: [Manner; 3] = [Manner::Replace, Manner::Lifetime, Manner::Queue];

/// Runs this part of the demo: all manners at once, each over its own link with the same losses.
pub(crate) async fn play(stage: &Stage) -> anyhow::Result<Findings> {
    let blackout = format!("{} s", stage.scale.blackout.as_secs());
    stage
        .screen
        .say(&format!("Positions, 20 a second over 256 kbit/s, 100 ms, through a blackout of {blackout}"));
    let [replace, lifetime, queue] = WAYS.map(|way| fly(stage, way));
    let (replace, lifetime, queue) = tokio::try_join!(replace, lifetime, queue)?;
    let flights = [replace, lifetime, queue];
    for flight in &flights {
        stage.screen.end(flight.way.lane(), &flight.describe());
    }
    Ok(judge(&flights, &blackout))
}

impl Manner {
    fn lane(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Lifetime => "lifetime",
            Self::Queue => "queue",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Replace => "newer ones replace",
            Self::Lifetime => "lifetime of 500 ms",
            Self::Queue => "a queue without limit",
        }
    }

    fn sender(self, mocket: &Mocket) -> Sender {
        let sender = mocket.sender().ppid(kind::POSITION).tag(POSITION);
        match self {
            Self::Lifetime => sender.lifetime(LIFETIME).build(),
            Self::Replace | Self::Queue => sender.build(),
        }
    }
}

/// The positions sent in one manner, and their report.
struct Flight {
    way: Manner,
    sent: u64,
    /// When the link came back.
    back_ns: u64,
    report: Report,
}

async fn fly(stage: &Stage, way: Manner) -> anyhow::Result<Flight> {
    let Scale { before, blackout, after, .. } = stage.scale;
    let lasting = before + blackout + after;
    let expected = lasting.as_millis() / EVERY.as_millis();
    stage.screen.begin(way.lane(), way.title(), expected as u64, Unit::Messages);
    let lane = BadLink::open(&stage.far, LINK, stage.seed).await?.connect(way.lane()).await?;
    let link = &lane.link;
    let weather = async {
        sleep(before).await;
        link.cut()?;
        sleep(blackout).await;
        link.mend()?;
        Ok(monotonic_ns())
    };
    let (back_ns, sent) = tokio::try_join!(weather, send(&lane, way, lasting))?;
    let report = lane.finish(&stage.far).await?;
    Ok(Flight { way, sent, back_ns, report })
}

async fn send(lane: &Lane, way: Manner, lasting: Duration) -> anyhow::Result<u64> {
    let sender = way.sender(&lane.mocket);
    let (start, mut ticks, mut sent) = (Instant::now(), interval(EVERY), 0);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while start.elapsed() < lasting {
        ticks.tick().await;
        let position = stamped(sent, SIZE);
        match way {
            Manner::Replace => sender.replace(position),
            Manner::Lifetime | Manner::Queue => sender.send(position).await,
        }
        .context("cannot send a position")?;
        sent += 1;
    }
    Ok(sent)
}

impl Flight {
    fn after_blackout(&self) -> impl Iterator<Item = &Arrival> {
        self.report.arrivals.iter().filter(|arrival| arrival.arrived_ns > self.back_ns)
    }

    /// The greatest age of a position that arrived after the link came back.
    fn oldest_s(&self) -> f64 {
        self.after_blackout().map(Arrival::age_s).fold(0.0, f64::max)
    }

    /// The time from the link's return until the last stale position had arrived.
    fn fresh_after_s(&self) -> Option<f64> {
        let last_stale = self.after_blackout().filter(|arrival| arrival.age_s() > STALE_S).last();
        let stale_until = last_stale.map_or(self.back_ns, |arrival| arrival.arrived_ns);
        let fresh = self.after_blackout().find(|arrival| arrival.arrived_ns > stale_until)?;
        Some((fresh.arrived_ns - self.back_ns) as f64 / 1e9)
    }

    fn stale(&self) -> usize {
        self.after_blackout().filter(|arrival| arrival.age_s() > STALE_S).count()
    }

    fn describe(&self) -> String {
        let fresh = match self.fresh_after_s() {
            Some(seconds) => format!("fresh after {}", time(seconds)),
            None => "never fresh".into(),
        };
        format!("{fresh}, oldest {}, {} stale", time(self.oldest_s()), self.stale())
    }

    fn figures(&self) -> Value {
        json!({
            "sent": self.sent,
            "arrived": self.report.arrivals.len(),
            "fresh_after_ms": self.fresh_after_s().map(|seconds| seconds * 1e3),
            "oldest_ms": self.oldest_s() * 1e3,
            "stale": self.stale(),
        })
    }

    /// Returns one sentence for each thing that is missing or wrong. In any manner, the newest position must arrive,
    /// all in order and none twice. Through the queue, all must arrive.
    fn missing(&self) -> Vec<String> {
        let arrivals = &self.report.arrivals;
        let name = self.way.title();
        let mut missing = Vec::new();
        if arrivals.last().map(|arrival| arrival.number + 1) != Some(self.sent) {
            missing.push(format!("positions, {name}: the newest has not arrived last"));
        }
        if !arrivals.is_sorted_by_key(|arrival| arrival.number) || self.report.duplicated > 0 {
            missing.push(format!("positions, {name}: out of order or twice"));
        }
        if self.way == Manner::Queue && arrivals.len() as u64 != self.sent {
            missing.push(format!("positions, {name}: {} of {} arrived", arrivals.len(), self.sent));
        }
        missing
    }
}

fn judge(flights: &[Flight], blackout: &str) -> Findings {
    let mut rows = vec![Row::new(format!("positions, {blackout} of blackout"), "", "")];
    rows.extend(flights.iter().map(|flight| {
        let beside = format!("{} of {} arrived", flight.report.arrivals.len(), flight.sent);
        Row::new(format!("  {}", flight.way.title()), flight.describe(), beside)
    }));
    let figures = flights.iter().map(|flight| (flight.way.lane().to_owned(), flight.figures())).collect();
    Findings {
        name: "positions",
        figures: Value::Object(figures),
        rows,
        missing: flights.iter().flat_map(Flight::missing).collect(),
    }
}
