//! The flows that run now, as the status shows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use whimbrel_service::Metrics;

use super::metrics::FlowMetrics;
use super::totals::{Group, Sums, Totals};
use crate::policy::Protocol;
use crate::protocol::Target;

/// How often it is looked at whether flows still run.
const LOOK: Duration = Duration::from_millis(20);

/// A flow that runs now.
#[derive(Debug)]
pub struct FlowRecord {
    /// Its protocol.
    pub protocol: Protocol,
    /// Whether the peer opened it.
    pub by_peer: bool,
    /// The peer's name, or its key.
    pub peer: Arc<str>,
    /// Where it goes. Empty for a UDP program, which may send anywhere.
    pub target: String,
    /// The program's address at the near end.
    pub program: Option<SocketAddr>,
    /// The rule that it follows.
    pub rule: Option<String>,
    began: Instant,
    from_peer: AtomicU64,
    to_peer: AtomicU64,
}

impl FlowRecord {
    /// A flow with this peer that begins now.
    pub(crate) fn new(protocol: Protocol, peer: Arc<str>) -> Self {
        let zero = || AtomicU64::new(0);
        let (target, began) = (String::new(), Instant::now());
        let (to_peer, from_peer) = (zero(), zero());
        Self { protocol, by_peer: false, peer, target, program: None, rule: None, began, to_peer, from_peer }
    }

    /// The peer has opened it.
    pub(crate) fn by_peer(mut self) -> Self {
        self.by_peer = true;
        self
    }

    pub(crate) fn to(mut self, target: &Target) -> Self {
        self.target = target.to_string();
        self
    }

    pub(crate) fn of(mut self, program: Option<SocketAddr>) -> Self {
        self.program = program;
        self
    }

    pub(crate) fn by_rule(mut self, rule: Option<String>) -> Self {
        self.rule = rule;
        self
    }

    /// Adds bytes that went to the peer, and that came from it.
    pub(crate) fn count(&self, to_peer: u64, from_peer: u64) {
        self.to_peer.fetch_add(to_peer, Ordering::Relaxed);
        self.from_peer.fetch_add(from_peer, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, to_peer: u64, from_peer: u64) {
        self.to_peer.store(to_peer, Ordering::Relaxed);
        self.from_peer.store(from_peer, Ordering::Relaxed);
    }

    /// Returns the bytes that went to the peer, and that came from it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.to_peer.load(Ordering::Relaxed), self.from_peer.load(Ordering::Relaxed))
    }

    fn group(&self) -> Group {
        let rule = self.rule.as_deref().unwrap_or_default().into();
        Group { peer: Arc::clone(&self.peer), protocol: self.protocol, by_peer: self.by_peer, rule }
    }

    fn shown(&self) -> serde_json::Value {
        let (to_peer, from_peer) = self.bytes();
        serde_json::json!({
            "protocol": self.protocol, "by_peer": self.by_peer, "peer": *self.peer, "target": self.target,
            "program": self.program, "rule": self.rule, "age_s": self.began.elapsed().as_secs(),
            "to_peer_bytes": to_peer, "from_peer_bytes": from_peer,
        })
    }
}

/// The flows that run now. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<FlowRecord>>>,
    /// Sums over all flows; of those that run, only that they were opened.
    totals: Mutex<Totals>,
    /// Whether no flow is added any more.
    is_draining: AtomicBool,
    opened: AtomicU64,
    refused: AtomicU64,
}

/// A flow in the table. Dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Running {
    table: Flows,
    number: u64,
    pub(crate) record: Arc<FlowRecord>,
}

impl Flows {
    /// Adds a flow, unless there are `most` already.
    pub(crate) fn add(&self, record: FlowRecord, most: usize) -> Option<Running> {
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() >= most || self.0.is_draining.load(Ordering::Relaxed) {
            drop(running);
            self.refuse();
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let record = Arc::new(record);
        running.insert(number, Arc::clone(&record));
        drop(running);
        self.lock_totals().of(&record.group()).opened += 1;
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        Some(Running { table: self.clone(), number, record })
    }

    /// Returns sums over all flows, with those that run.
    pub(crate) fn totals(&self) -> BTreeMap<Group, Sums> {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = self.lock_totals().all();
        for record in running.values() {
            let (to_peer, from_peer) = record.bytes();
            let sums = totals.entry(record.group()).or_default();
            sums.running += 1;
            sums.to_peer += to_peer;
            sums.from_peer += from_peer;
        }
        totals
    }

    /// Registers the metrics of flows, with the prefix `whimbrel_proxy_`.
    pub fn register(&self, metrics: &Metrics) {
        let collector = Box::new(FlowMetrics(self.clone()));
        metrics.with_registry(|registry| {
            registry.sub_registry_with_prefix("whimbrel_proxy").register_collector(collector);
        });
    }

    fn lock_totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.0.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds no more flows, and waits until no TCP flow runs. UDP programs have no end to wait for.
    pub(crate) async fn drained(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        let runs = || {
            let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.values().any(|record| record.protocol == Protocol::Tcp)
        };
        while runs() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Counts a flow that could not be opened.
    pub(crate) fn refuse(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of flows that run, were opened, and were refused.
    pub fn counts(&self) -> (usize, u64, u64) {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner).len();
        (running, self.0.opened.load(Ordering::Relaxed), self.0.refused.load(Ordering::Relaxed))
    }

    /// Returns what the status shows: counts, and the first thousand flows.
    pub fn shown(&self) -> serde_json::Value {
        let (running, opened, refused) = self.counts();
        let table = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        let first: Vec<_> = table.values().take(1_000).cloned().collect();
        drop(table);
        let flows: Vec<_> = first.iter().map(|record| record.shown()).collect();
        serde_json::json!({ "running": running, "opened": opened, "refused": refused, "list": flows })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (to_peer, from_peer) = self.record.bytes();
        // Both at once, so that a flow is counted once, and its bytes never go back.
        let mut running = self.table.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.number);
        let mut totals = self.table.lock_totals();
        let sums = totals.of(&self.record.group());
        sums.to_peer += to_peer;
        sums.from_peer += from_peer;
    }
}
