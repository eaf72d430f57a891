//! The order in which a receive loop serves connections: deficit round robin over time. Connections that had nothing
//! waiting go first.
//!
//! Received datagrams wait in *lanes*. A connection has at most two: one for the address last proven to be its
//! peer's, and one for all other addresses. Someone who sends garbage with a connection's ID from elsewhere thus
//! waits in another lane than its peer, and many addresses share one lane.
//!
//! A lane is served for a slice of time and then waits until all others have had theirs. Any time beyond the slice is
//! deducted from its next ones. A lane that had nothing waiting and owes no time is *fresh*, and is served before
//! those with a backlog.
//!
//! All lanes share one memory limit. When it is reached, the longest lane drops its newest datagrams.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_proto::Handle;

/// The time that a lane has before others have theirs. If longer: fewer changes between connections, but longer waits
/// for quiet peers.
pub(crate) const SLICE: Duration = Duration::from_micros(64);
/// The memory limit for datagrams waiting in all lanes together, bytes.
pub(crate) const MOST_HELD: usize = 4 << 20;
/// Bytes charged for each datagram in addition to its length.
const OVERHEAD: usize = 256;
/// The maximum time for which fresh lanes are served while others wait.
const FRESH_FIRST: Duration = Duration::from_micros(512);
/// The most slices that a lane can owe: 65 ms. No datagram takes that long, so forgiving the rest helps no attacker.
/// But the system may have suspended the whole thread in the middle of a turn.
const MOST_OWED: u32 = 1024;
/// Empty lanes kept for later connections, and places kept in each.
const SPARE_LANES: usize = 64;
const SPARE_PLACES: usize = 256;
/// The number of datagrams that the longest lane drops at a time.
const DROPPED_AT_ONCE: usize = 64;

/// The lanes and their order. See the module documentation.
pub(crate) struct Turns<T> {
    lanes: Vec<Lane<T>>,
    spare: Vec<usize>,
    connections: BTreeMap<Handle, ConnectionLanes>,
    fresh: VecDeque<usize>,
    backlog: VecDeque<usize>,
    /// Time spent on fresh lanes since a lane with a backlog was last served.
    fresh_time: Duration,
    waiting: usize,
    held: usize,
    /// The number of lanes in which something waits.
    busy: usize,
    dropped: u64,
}

/// One lane's turn, which ends with [`Turns::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) handle: Handle,
    /// How long the turn may take.
    pub(crate) time: Duration,
    lane: usize,
    fresh: bool,
}

struct Lane<T> {
    handle: Handle,
    queue: VecDeque<(SocketAddr, usize, T)>,
    held: usize,
    /// Time left of its slices, and time owed.
    credit: Duration,
    owed: Duration,
}

/// The lanes of a connection.
struct ConnectionLanes {
    home: SocketAddr,
    /// Whether the last datagrams from `home` were genuine.
    proven: bool,
    at_home: Option<usize>,
    elsewhere: Option<usize>,
}

impl ConnectionLanes {
    fn new(home: SocketAddr) -> Self {
        Self { home, proven: false, at_home: None, elsewhere: None }
    }

    fn place(&mut self, from: SocketAddr) -> &mut Option<usize> {
        if self.home == from { &mut self.at_home } else { &mut self.elsewhere }
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            lanes: Vec::new(),
            spare: Vec::new(),
            connections: BTreeMap::new(),
            fresh: VecDeque::new(),
            backlog: VecDeque::new(),
            fresh_time: Duration::ZERO,
            waiting: 0,
            held: 0,
            busy: 0,
            dropped: 0,
        }
    }
}

impl<T> Turns<T> {
    /// Returns whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the lane for datagrams of a connection from an address. Valid until the next turn ends.
    pub(crate) fn lane_for(&mut self, handle: Handle, from: SocketAddr) -> usize {
        let connection = self.connections.entry(handle).or_insert_with(|| ConnectionLanes::new(from));
        let known = *connection.place(from);
        known.unwrap_or_else(|| {
            let lane = self.begin(handle);
            if let Some(connection) = self.connections.get_mut(&handle) {
                *connection.place(from) = Some(lane);
            }
            lane
        })
    }

    /// Adds a datagram to its lane. Drops it if memory is short and the lane has more than its share.
    #[inline]
    pub(crate) fn push(&mut self, lane: usize, from: SocketAddr, size: usize, item: T) {
        let weight = size + OVERHEAD;
        if self.held + weight > MOST_HELD && !self.make_room(lane, weight) {
            self.dropped += 1;
            return;
        }
        self.held += weight;
        self.waiting += 1;
        self.busy += usize::from(self.lanes[lane].queue.is_empty());
        self.lanes[lane].held += weight;
        self.lanes[lane].queue.push_back((from, weight, item));
    }

    /// Returns the number of lanes in which something waits.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    /// Returns how many datagrams were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Returns the next turn.
    pub(crate) fn next(&mut self) -> Option<Turn> {
        if let Some(turn) = self.next_fresh() {
            return Some(turn);
        }
        self.fresh_time = Duration::ZERO;
        let mut in_vain = 0;
        while let Some(lane) = self.backlog.pop_front() {
            let can = self.lanes[lane].take_slice();
            if !self.lanes[lane].queue.is_empty() && can {
                return Some(self.turn(lane, false));
            }
            if can {
                self.release(lane);
                continue;
            }
            // An empty lane must pay what it owes, too. Otherwise a peer that sends little at a time would never owe
            // anything.
            self.backlog.push_back(lane);
            in_vain += 1;
            if in_vain >= self.backlog.len() {
                if !self.fresh.is_empty() {
                    break;
                }
                self.pass_rounds();
                in_vain = 0;
            }
        }
        self.next_fresh()
    }

    /// All waiting lanes owe more than a slice and no other lane needs the time. Skips as many rounds as it takes
    /// until one of them has a turn.
    fn pass_rounds(&mut self) {
        let rounds = self.backlog.iter().map(|lane| self.lanes[*lane].rounds_owed()).min().unwrap_or(0);
        for lane in &self.backlog {
            self.lanes[*lane].pay(rounds);
        }
    }

    /// Returns the next turn of a fresh lane, unless fresh lanes have kept the others waiting for too long.
    pub(crate) fn next_fresh(&mut self) -> Option<Turn> {
        if self.fresh_time >= FRESH_FIRST && !self.backlog.is_empty() {
            return None;
        }
        let lane = self.fresh.pop_front()?;
        Some(self.turn(lane, true))
    }

    /// Takes the next datagram from the lane whose turn it is.
    #[inline]
    pub(crate) fn take(&mut self, turn: Turn) -> Option<T> {
        let (_, weight, item) = self.lanes[turn.lane].queue.pop_front()?;
        self.on_left(turn.lane, weight);
        Some(item)
    }

    /// Returns the source address of the next datagram of the turn.
    pub(crate) fn next_from(&self, turn: Turn) -> Option<SocketAddr> {
        self.lanes[turn.lane].queue.front().map(|(from, ..)| *from)
    }

    /// Returns whether the next datagram of the turn is from this address.
    #[inline]
    pub(crate) fn is_next_from(&self, turn: Turn, source: &SocketAddr) -> bool {
        self.lanes[turn.lane].queue.front().is_some_and(|(from, ..)| from == source)
    }

    /// Records whether any of the datagrams from an address in this turn was genuine.
    pub(crate) fn judge(&mut self, turn: Turn, from: SocketAddr, genuine: bool) {
        let Some(connection) = self.connections.get_mut(&turn.handle) else { return };
        if connection.home == from {
            connection.proven = genuine;
        } else if genuine && !connection.proven {
            (connection.home, connection.proven) = (from, true);
            self.sort_again(turn.handle);
        }
    }

    /// Ends a turn that took this long.
    pub(crate) fn end(&mut self, turn: Turn, spent: Duration) {
        if turn.fresh {
            self.fresh_time += spent;
        }
        self.lanes[turn.lane].charge(spent);
        // An empty lane also waits until the others were served, and only then is fresh again.
        self.backlog.push_back(turn.lane);
        if self.waiting == 0 {
            self.release_all();
        }
    }

    fn turn(&self, lane: usize, fresh: bool) -> Turn {
        Turn { handle: self.lanes[lane].handle, time: self.lanes[lane].credit, lane, fresh }
    }

    fn begin(&mut self, handle: Handle) -> usize {
        let lane = self.spare.pop().unwrap_or_else(|| {
            self.lanes.push(Lane::default());
            self.lanes.len() - 1
        });
        self.lanes[lane].begin(handle);
        self.fresh.push_back(lane);
        lane
    }

    fn on_left(&mut self, lane: usize, weight: usize) {
        self.lanes[lane].held -= weight;
        self.held -= weight;
        self.waiting -= 1;
        self.busy -= usize::from(self.lanes[lane].queue.is_empty());
    }

    /// Makes room for a datagram in a lane, at the expense of the longest lane. Returns false if this lane has more
    /// than its share already.
    fn make_room(&mut self, lane: usize, weight: usize) -> bool {
        if (self.lanes[lane].held + weight) * self.busy.max(1) > self.held {
            return false;
        }
        let Some(longest) = (0..self.lanes.len()).max_by_key(|lane| self.lanes[*lane].held) else {
            return false;
        };
        // Drops several at once, because finding the longest lane takes longer than dropping.
        for _ in 0..DROPPED_AT_ONCE {
            let Some((_, weight, _)) = self.lanes[longest].queue.pop_back() else { break };
            self.on_left(longest, weight);
            self.dropped += 1;
        }
        self.held + weight <= MOST_HELD
    }

    /// Moves waiting datagrams between the lanes of a peer whose proven address has changed.
    fn sort_again(&mut self, handle: Handle) {
        let Some(connection) = self.connections.get(&handle) else { return };
        let mut all = Vec::new();
        for lane in [connection.at_home, connection.elsewhere].into_iter().flatten() {
            while let Some(entry) = self.lanes[lane].queue.pop_front() {
                self.on_left(lane, entry.1);
                all.push(entry);
            }
        }
        for (from, weight, item) in all {
            let lane = self.lane_for(handle, from);
            self.push(lane, from, weight - OVERHEAD, item);
        }
    }

    fn release(&mut self, lane: usize) {
        let handle = self.lanes[lane].handle;
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.at_home.take_if(|own| *own == lane);
            connection.elsewhere.take_if(|own| *own == lane);
            if connection.at_home.is_none() && connection.elsewhere.is_none() {
                self.connections.remove(&handle);
            }
        }
        self.lanes[lane].queue.shrink_to(SPARE_PLACES);
        self.spare.push(lane);
    }

    /// Releases all lanes: nothing waits, so no connection has to wait for others.
    fn release_all(&mut self) {
        self.fresh_time = Duration::ZERO;
        while let Some(lane) = self.backlog.pop_front().or_else(|| self.fresh.pop_front()) {
            self.release(lane);
        }
        if self.lanes.len() > SPARE_LANES {
            self.lanes.truncate(SPARE_LANES);
            self.spare = (0..SPARE_LANES).collect();
        }
    }
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        let (queue, credit) = (VecDeque::new(), Duration::ZERO);
        Self { handle: Handle(0), queue, held: 0, credit, owed: credit }
    }
}

impl<T> Lane<T> {
    fn begin(&mut self, handle: Handle) {
        (self.handle, self.credit, self.owed) = (handle, SLICE, Duration::ZERO);
    }

    /// Adds a slice to the lane's credit, less what it owes. Returns false if nothing is left of it.
    fn take_slice(&mut self) -> bool {
        if self.credit.is_zero() {
            self.credit = SLICE.saturating_sub(self.owed);
            self.pay(1);
        }
        !self.credit.is_zero()
    }

    /// Returns how many whole slices the lane must skip.
    fn rounds_owed(&self) -> u32 {
        (self.owed.as_nanos() / SLICE.as_nanos()) as u32
    }

    fn pay(&mut self, slices: u32) {
        self.owed = self.owed.saturating_sub(SLICE * slices);
    }

    fn charge(&mut self, spent: Duration) {
        let beyond = spent.saturating_sub(self.credit);
        self.owed = (self.owed + beyond).min(SLICE * MOST_OWED);
        self.credit = self.credit.saturating_sub(spent);
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
