//! The flows that run now, as the status shows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use whimbrel_service::Metrics;

use super::carrier::Carrier;
use super::direct::Direct;
use super::limits::Limits;
use super::metrics::FlowMetrics;
use super::near::Refused;
use super::over::Over;
use super::parking::{Other, Parked, Parking, ParkingLot};
use super::socket::Socket;
use super::totals::{Group, Sums, Totals};
use crate::compress::{LinkBytes, Method};
use crate::flow::{Flow, HoldBudget};
use crate::policy::{Decision, Origin, Protocol};
use crate::protocol::Target;

/// How often it is looked at whether flows still run.
const LOOK: Duration = Duration::from_millis(20);
/// The most rules whose logged flows are told apart.
const MOST_LOGGED: usize = 256;

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowState {
    /// It waits for its peer, or for the far end's answer.
    Opening,
    /// It hands bytes on.
    Running,
    /// A rule holds it.
    Held,
    /// A rule holds it, and it is not open yet.
    Waiting,
}

impl FlowState {
    const ALL: [Self; 4] = [Self::Opening, Self::Running, Self::Held, Self::Waiting];
    /// Those of flows that are open.
    const HAND_ON: [Self; 2] = [Self::Running, Self::Held];

    fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Running => "running",
            Self::Held | Self::Waiting => "held",
        }
    }
}

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
    /// How it came in at this end, as far as that is known.
    pub origin: Origin,
    /// The rule that it follows.
    pub rule: Option<String>,
    began: Instant,
    state: AtomicU8,
    from_peer: AtomicU64,
    to_peer: AtomicU64,
    /// How a TCP flow is compressed, and its bytes on the link.
    compression: OnceLock<(Method, Arc<LinkBytes>)>,
    /// The bytes of datagrams that compression has saved: to the peer, and from it.
    saved: [AtomicU64; 2],
}

impl FlowRecord {
    /// A flow with this peer that begins now.
    pub(crate) fn new(protocol: Protocol, peer: Arc<str>) -> Self {
        let zero = || AtomicU64::new(0);
        let (target, began) = (String::new(), Instant::now());
        let (to_peer, from_peer) = (zero(), zero());
        // Datagrams go at once, and wait for no answer.
        let state = if protocol == Protocol::Tcp { FlowState::Opening } else { FlowState::Running };
        let state = AtomicU8::new(state as u8);
        let (compression, saved) = (OnceLock::new(), [zero(), zero()]);
        Self {
            protocol,
            by_peer: false,
            peer,
            target,
            program: None,
            origin: Origin::default(),
            rule: None,
            began,
            state,
            to_peer,
            from_peer,
            compression,
            saved,
        }
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

    pub(crate) fn from(mut self, origin: &Origin) -> Self {
        self.origin = origin.clone();
        self
    }

    pub(crate) fn by_rule(mut self, decision: &Decision) -> Self {
        self.rule = decision.rule.as_ref().map(|(_, name)| name.clone());
        self
    }

    /// A flow that goes on in this process.
    pub(super) fn resumed(
        protocol: Protocol,
        peer: Arc<str>,
        by_peer: bool,
        target: String,
        program: Option<SocketAddr>,
        rule: Option<String>,
    ) -> Self {
        Self { by_peer, target, program, rule, ..Self::new(protocol, peer) }
    }

    /// It has run for so long already, in another process, with so many bytes.
    pub(crate) fn since(mut self, age: Duration, (to_peer, from_peer): (u64, u64)) -> Self {
        self.began = Instant::now().checked_sub(age).unwrap_or(self.began);
        self.set(to_peer, from_peer);
        self
    }

    /// Returns how long it has run.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn set_state(&self, state: FlowState) {
        self.state.store(state as u8, Ordering::Release);
    }

    fn state(&self) -> FlowState {
        let state = self.state.load(Ordering::Acquire);
        FlowState::ALL.into_iter().find(|known| *known as u8 == state).unwrap_or(FlowState::Running)
    }

    /// Adds bytes that went to the peer, and that came from it.
    pub(crate) fn count(&self, to_peer: u64, from_peer: u64) {
        self.to_peer.fetch_add(to_peer, Ordering::Relaxed);
        self.from_peer.fetch_add(from_peer, Ordering::Relaxed);
    }

    /// Adds bytes of datagrams that compression has saved.
    pub(crate) fn save(&self, to_peer: usize, from_peer: usize) {
        self.saved[0].fetch_add(to_peer as u64, Ordering::Relaxed);
        self.saved[1].fetch_add(from_peer as u64, Ordering::Relaxed);
    }

    /// The flow is compressed, and has these bytes on the link.
    pub(super) fn compressed(&self, method: Method, link: Arc<LinkBytes>) {
        // A flow agrees on it once.
        drop(self.compression.set((method, link)));
    }

    pub(crate) fn set(&self, to_peer: u64, from_peer: u64) {
        self.to_peer.store(to_peer, Ordering::Relaxed);
        self.from_peer.store(from_peer, Ordering::Relaxed);
    }

    /// Returns the bytes that went to the peer, and that came from it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.to_peer.load(Ordering::Relaxed), self.from_peer.load(Ordering::Relaxed))
    }

    /// Returns the bytes that went to the peer on the link, and that came from it, without headers of the transport.
    pub fn link(&self) -> (u64, u64) {
        let (bytes, saved) = (self.bytes(), |at: usize| self.saved[at].load(Ordering::Relaxed));
        match self.compression.get() {
            Some((_, link)) => link.both(),
            None => (bytes.0.saturating_sub(saved(0)), bytes.1.saturating_sub(saved(1))),
        }
    }

    fn group(&self) -> Group {
        let rule = self.rule.as_deref().unwrap_or_default().into();
        Group { peer: Arc::clone(&self.peer), protocol: self.protocol, by_peer: self.by_peer, rule }
    }

    fn shown(&self) -> serde_json::Value {
        let ((to_peer, from_peer), link) = (self.bytes(), self.link());
        serde_json::json!({
            "protocol": self.protocol, "by_peer": self.by_peer, "peer": *self.peer, "target": self.target,
            "program": self.program, "by": self.origin.by, "rule": self.rule, "state": self.state().name(), "age_s": self.began.elapsed().as_secs(),
            "to_peer_bytes": to_peer, "from_peer_bytes": from_peer,
            "compression": self.compression.get().map(|(method, _)| method),
            "to_peer_link_bytes": link.0, "from_peer_link_bytes": link.1,
        })
    }
}

/// The flows that run now. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Table>);

#[derive(Debug)]
struct Table {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<FlowRecord>>>,
    /// Sums over all flows; of those that run, only that they were opened.
    totals: Mutex<Totals>,
    /// The flows that rules have logged, by rule.
    logged: Mutex<BTreeMap<String, u64>>,
    /// Whether no flow is added any more.
    is_draining: AtomicBool,
    parking: ParkingLot,
    hold: HoldBudget,
    over: Over,
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

impl Default for Table {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(0),
            running: Mutex::default(),
            totals: Mutex::default(),
            logged: Mutex::default(),
            is_draining: AtomicBool::new(false),
            parking: ParkingLot::default(),
            hold: HoldBudget::new(Limits::default().hold_memory),
            over: Over::default(),
            opened: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl Flows {
    /// A table whose flows may hold so many bytes together while their peers cannot be reached.
    pub(crate) fn with_hold(bytes: usize) -> Self {
        Self(Arc::new(Table { hold: HoldBudget::new(bytes), ..Table::default() }))
    }

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
            sums.add((to_peer, from_peer), record.link());
        }
        totals
    }

    /// Counts a flow that a rule has logged. Beyond 256 rules, further ones count as `other`.
    pub(crate) fn log(&self, rule: &str) {
        let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = logged.contains_key(rule) || logged.len() < MOST_LOGGED;
        *logged.entry(if is_known { rule } else { "other" }.to_owned()).or_default() += 1;
    }

    /// Returns how many flows each rule has logged.
    pub(super) fn logged(&self) -> BTreeMap<String, u64> {
        self.0.logged.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Adds no more flows, and takes apart those that run. Returns their parts. Flows that are being opened must not be
    /// there any more; UDP programs stay.
    pub(crate) async fn park(&self) -> Vec<Parked> {
        self.0.is_draining.store(true, Ordering::Relaxed);
        let hands_on = |record: &FlowRecord| {
            record.protocol == Protocol::Tcp && FlowState::HAND_ON.contains(&record.state())
        };
        self.0.parking.park(|| self.count(hands_on)).await
    }

    /// Returns the signal that ends the tasks of connections.
    pub(crate) fn over(&self) -> Over {
        self.0.over.clone()
    }

    /// Returns whether a TCP flow waits for its peer or the answer.
    pub(crate) fn is_opening(&self) -> bool {
        self.count(|record| record.protocol == Protocol::Tcp && record.state() == FlowState::Opening) > 0
    }

    fn count(&self, counts: impl Fn(&FlowRecord) -> bool) -> usize {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.values().filter(|record| counts(record)).count()
    }

    /// Counts a flow of this end that could not be opened, unless the table has counted it already.
    pub(crate) fn count_refused(&self, why: Refused) {
        if why != Refused::Limit {
            self.refuse();
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

impl Running {
    /// The memory for what flows hold.
    pub(super) fn hold_budget(&self) -> &HoldBudget {
        &self.table.0.hold
    }

    /// Waits for the moment at which flows are taken apart.
    pub(super) fn parking(&self) -> Parking {
        self.table.0.parking.parking()
    }

    /// Leaves the parts of a flow for another process.
    pub(super) fn park(self, flow: Flow<Socket, Carrier>) {
        let (program, channel, hand) = flow.into_parts();
        let parking = self.parking();
        parking.leave(Parked { program, other: Other::Stream(channel), hand, running: self });
    }

    /// See [`Running::park`].
    pub(super) fn park_direct(self, flow: Flow<Socket, Direct>) {
        let (program, direct, hand) = flow.into_parts();
        let parking = self.parking();
        parking.leave(Parked { program, other: Other::Direct(direct), hand, running: self });
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
        sums.add((to_peer, from_peer), self.record.link());
    }
}
