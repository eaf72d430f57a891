//! The flows that run now, as the status shows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;

/// Whether a flow is a TCP connection or the datagrams of a UDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A TCP connection.
    Tcp,
    /// The datagrams of a UDP program.
    Udp,
}

/// A flow that runs now.
#[derive(Debug)]
pub struct FlowRecord {
    /// Its protocol.
    pub kind: Kind,
    /// Whether the peer opened it.
    pub by_peer: bool,
    /// The peer's name, or its key.
    pub peer: Arc<str>,
    /// Where it goes. Empty for a UDP program, which may send anywhere.
    pub target: String,
    /// The program's address at the near end.
    pub program: Option<SocketAddr>,
    began: Instant,
    to_program: AtomicU64,
    from_program: AtomicU64,
}

impl FlowRecord {
    /// A flow that begins now.
    pub(crate) fn new(
        kind: Kind,
        by_peer: bool,
        peer: Arc<str>,
        target: String,
        program: Option<SocketAddr>,
    ) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            kind,
            by_peer,
            peer,
            target,
            program,
            began: Instant::now(),
            to_program: zero(),
            from_program: zero(),
        }
    }

    /// Adds bytes that came from a program, or were handed to one.
    pub(crate) fn count(&self, from_program: u64, to_program: u64) {
        self.from_program.fetch_add(from_program, Ordering::Relaxed);
        self.to_program.fetch_add(to_program, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, from_program: u64, to_program: u64) {
        self.from_program.store(from_program, Ordering::Relaxed);
        self.to_program.store(to_program, Ordering::Relaxed);
    }

    /// Returns the bytes from and to the program.
    pub fn bytes(&self) -> (u64, u64) {
        (self.from_program.load(Ordering::Relaxed), self.to_program.load(Ordering::Relaxed))
    }

    fn shown(&self) -> serde_json::Value {
        let (from_program, to_program) = self.bytes();
        serde_json::json!({
            "protocol": self.kind, "by_peer": self.by_peer, "peer": *self.peer, "target": self.target,
            "program": self.program, "age_s": self.began.elapsed().as_secs(),
            "from_program_bytes": from_program, "to_program_bytes": to_program,
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
        if running.len() >= most {
            drop(running);
            self.refuse();
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let record = Arc::new(record);
        running.insert(number, Arc::clone(&record));
        drop(running);
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        Some(Running { table: self.clone(), number, record })
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
        self.table.0.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}
