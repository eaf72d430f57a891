//! The table of the flows that run now.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::limits::Limits;
use super::over::Over;
use super::parking::{Parked, Parking, ParkingLot};
use super::record::{FlowRecord, FlowState};
use super::refused::Refused;
use super::totals::{Group, Sums, Totals};
use crate::flow::HoldBudget;
use crate::policy::Protocol;

/// How often it is looked at whether flows still run.
const LOOK: Duration = Duration::from_millis(20);
/// The most rules whose logged flows are told apart.
const MOST_LOGGED: usize = 256;

/// The flows that run now. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<FlowTable>);

#[derive(Debug)]
struct FlowTable {
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
pub(crate) struct RunningFlow {
    table: Flows,
    number: u64,
    pub(crate) record: Arc<FlowRecord>,
}

impl Default for FlowTable {
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
        Self(Arc::new(FlowTable { hold: HoldBudget::new(bytes), ..FlowTable::default() }))
    }

    /// Adds a flow, unless there are `most` already.
    pub(crate) fn add(&self, record: FlowRecord, most: usize) -> Option<RunningFlow> {
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
        Some(RunningFlow { table: self.clone(), number, record })
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
        let is_open = |record: &FlowRecord| matches!(record.state(), FlowState::Running | FlowState::Held);
        let hands_on = |record: &FlowRecord| record.protocol == Protocol::Tcp && is_open(record);
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

impl RunningFlow {
    /// The memory for what flows hold.
    pub(super) fn hold_budget(&self) -> &HoldBudget {
        &self.table.0.hold
    }

    /// Waits for the moment at which flows are taken apart.
    pub(super) fn parking(&self) -> Parking {
        self.table.0.parking.parking()
    }
}

impl Drop for RunningFlow {
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
