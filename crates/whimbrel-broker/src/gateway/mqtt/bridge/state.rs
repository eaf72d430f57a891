//! A bridge, as its connections share it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::super::codec::Version;
use super::echoes::Echoes;
use super::hops::Hop;
use super::plan::BridgePlan;
use super::report::{BridgeReport, Figures};
use crate::hub::{Hub, SubscriberRecord};

/// The most different things that people are told of a bridge.
const MOST_TOLD: usize = 16;

/// Tells people what they should know.
pub(super) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// A bridge.
pub(super) struct Bridge {
    pub(super) plan: BridgePlan,
    pub(super) hub: Arc<Hub>,
    /// Our cluster, as messages remember it.
    pub(super) here: Hop,
    other: Mutex<Hop>,
    echoes: Mutex<Echoes>,
    pub(super) figures: Figures,
    /// The records of what reads for the rules of what goes out.
    readers: Vec<Arc<SubscriberRecord>>,
    tell: Tell,
    told: Mutex<BTreeSet<String>>,
    stopping: watch::Receiver<bool>,
}

impl Bridge {
    /// A bridge by this plan, without a connection.
    pub(super) fn new(
        plan: BridgePlan,
        hub: &Arc<Hub>,
        readers: Vec<Arc<SubscriberRecord>>,
        tell: Tell,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            here: Hop::of(&hub.name().cluster.to_string()),
            other: Mutex::new(plan.hop()),
            hub: Arc::clone(hub),
            echoes: Mutex::default(),
            figures: Figures::default(),
            readers,
            told: Mutex::default(),
            tell,
            stopping,
            plan,
        }
    }

    /// Whether it is to stop.
    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub(super) fn report(&self) -> BridgeReport {
        let report = self.figures.report(&self.plan.name, self.plan.url(), self.hub.clock().time());
        BridgeReport { waiting: self.waiting(), ..report }
    }

    /// The number of messages that were published here and are yet to be looked at.
    fn waiting(&self) -> u64 {
        let ends = self.hub.ends();
        let end = |channel| ends.get(&channel).copied().unwrap_or(0);
        self.readers.iter().map(|reader| reader.lag(end)).sum()
    }

    pub(super) fn on_connected(&self, version: Version) {
        let name = if version == Version::V5 { "5" } else { "3.1.1" };
        self.figures.on_connected(name, self.hub.clock().time());
        self.tell(&format!("connected with {} by MQTT {name}", self.plan.url()));
    }

    /// Waits until it is to stop.
    pub(super) async fn stopping(&self) {
        let mut stopping = self.stopping.clone();
        // Without a sender, the process ends.
        stopping.wait_for(|is| *is).await.ok();
    }

    /// The other side, as messages remember it.
    pub(super) fn other(&self) -> Hop {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The other side says of which cluster it is, or is no broker that does so.
    pub(super) fn on_introduced(&self, cluster: Option<&str>) {
        let other = cluster.map_or_else(|| self.plan.hop(), Hop::of);
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = other;
    }

    pub(super) fn echoes(&self) -> MutexGuard<'_, Echoes> {
        self.echoes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, what: &str) {
        (self.tell)(&format!("bridge {}: {what}", self.plan.name));
    }

    /// Tells people something, unless they were told the same before.
    pub(super) fn tell_once(&self, what: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(what.to_owned()) {
            drop(told);
            self.tell(what);
        }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("plan", &self.plan).finish_non_exhaustive()
    }
}
