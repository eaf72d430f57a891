//! The order in which a receive loop serves its peers: deficit round robin over time, with those first who had nothing waiting.
//!
//! What has arrived waits in *lanes*. A connection has at most two: one for the address it was last proven to be at, and one for all
//! others. So whoever sends garbage with a connection's id from elsewhere waits in another lane than its peer, and many addresses get no
//! more than one. A lane is served for a slice of time and then waits until all others have had theirs; what it took too long is
//! deducted from its next slices. A lane that had nothing waiting, and owes nothing, is *fresh* and is served before those with a backlog.
//!
//! All lanes share one bound of memory. When it is reached, the longest lane loses what came last.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_proto::Handle;

/// Time a lane has before others have theirs. Longer: fewer changes between connections, longer waits for quiet peers.
pub(crate) const SLICE: Duration = Duration::from_micros(64);
/// Memory that waits in all lanes together, bytes.
pub(crate) const MOST_HELD: usize = 4 << 20;
/// Charged for a datagram beside its bytes.
const OVERHEAD: usize = 256;
/// Fresh lanes are served for so long at most while others wait.
const FRESH_FIRST: Duration = Duration::from_micros(512);
/// A lane that took longer owes no more than so many slices, 65 ms. No datagram takes so long, so nobody gains by the rest being forgiven; but
/// the system may have let the whole thread wait in the middle of a turn.
const MOST_OWED: u32 = 1024;
/// Empty lanes kept for the next connection, and places kept in each.
const SPARE_LANES: usize = 64;
const SPARE_PLACES: usize = 256;
/// Datagrams that the longest lane loses at once.
const DROPPED_AT_ONCE: usize = 64;

/// See the module.
pub(crate) struct Turns<T> {
    lanes: Vec<Lane<T>>,
    spare: Vec<usize>,
    peers: BTreeMap<Handle, Peer>,
    fresh: VecDeque<usize>,
    backlog: VecDeque<usize>,
    /// Served from `fresh` since `backlog` was last served.
    fresh_time: Duration,
    waiting: usize,
    held: usize,
    /// Lanes in which something waits.
    busy: usize,
    dropped: u64,
}

/// One lane's turn, until [`Turns::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) handle: Handle,
    /// It may take so long.
    pub(crate) time: Duration,
    lane: usize,
    fresh: bool,
}

struct Lane<T> {
    handle: Handle,
    queue: VecDeque<(SocketAddr, usize, T)>,
    held: usize,
    /// Left of its slices, and owed.
    credit: Duration,
    owed: Duration,
}

/// The lanes of a connection.
struct Peer {
    home: SocketAddr,
    /// What came from `home` last was genuine.
    proven: bool,
    at_home: Option<usize>,
    elsewhere: Option<usize>,
}

impl Peer {
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
            peers: BTreeMap::new(),
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
    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The lane of what arrives for a connection from there; good until the next turn ends.
    pub(crate) fn lane_for(&mut self, handle: Handle, from: SocketAddr) -> usize {
        let peer = self.peers.entry(handle).or_insert_with(|| Peer::new(from));
        let known = *peer.place(from);
        known.unwrap_or_else(|| {
            let lane = self.begin(handle);
            if let Some(peer) = self.peers.get_mut(&handle) {
                *peer.place(from) = Some(lane);
            }
            lane
        })
    }

    /// Adds what arrived to its lane, or drops it if that has its share of the memory and more.
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

    /// In how many lanes something waits.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    /// How many were dropped since this was last asked.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Whose turn it is.
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
            // What it owes is owed by an empty one, too, or whoever sends little at a time would owe nothing.
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

    /// All who wait owe more than a slice, and there is nobody whose time it was: so many rounds are over as bring one of them a turn.
    fn pass_rounds(&mut self) {
        let rounds = self.backlog.iter().map(|lane| self.lanes[*lane].rounds_owed()).min().unwrap_or(0);
        for lane in &self.backlog {
            self.lanes[*lane].pay(rounds);
        }
    }

    /// Whose turn it is of those that had nothing waiting, while they have not kept the others waiting for long.
    pub(crate) fn next_fresh(&mut self) -> Option<Turn> {
        if self.fresh_time >= FRESH_FIRST && !self.backlog.is_empty() {
            return None;
        }
        let lane = self.fresh.pop_front()?;
        Some(self.turn(lane, true))
    }

    /// The next of what waits in the lane whose turn it is.
    pub(crate) fn take(&mut self, turn: Turn) -> Option<T> {
        let (_, weight, item) = self.lanes[turn.lane].queue.pop_front()?;
        self.on_left(turn.lane, weight);
        Some(item)
    }

    /// Where the next of it came from.
    pub(crate) fn next_from(&self, turn: Turn) -> Option<SocketAddr> {
        self.lanes[turn.lane].queue.front().map(|(from, ..)| *from)
    }

    /// What came from there in this turn was genuine, or none of it was.
    pub(crate) fn judge(&mut self, turn: Turn, from: SocketAddr, genuine: bool) {
        let Some(peer) = self.peers.get_mut(&turn.handle) else { return };
        if peer.home == from {
            peer.proven = genuine;
        } else if genuine && !peer.proven {
            (peer.home, peer.proven) = (from, true);
            self.sort_again(turn.handle);
        }
    }

    /// A turn that took so long is over.
    pub(crate) fn end(&mut self, turn: Turn, spent: Duration) {
        if turn.fresh {
            self.fresh_time += spent;
        }
        self.lanes[turn.lane].charge(spent);
        // An empty one, too, waits until the others were served before it is fresh again.
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

    /// Makes room for so much in a lane at the cost of the longest. False: this one has its share and more.
    fn make_room(&mut self, lane: usize, weight: usize) -> bool {
        if (self.lanes[lane].held + weight) * self.busy.max(1) > self.held {
            return false;
        }
        let Some(longest) = (0..self.lanes.len()).max_by_key(|lane| self.lanes[*lane].held) else {
            return false;
        };
        // Several at once: to look for the longest takes longer than to drop.
        for _ in 0..DROPPED_AT_ONCE {
            let Some((_, weight, _)) = self.lanes[longest].queue.pop_back() else { break };
            self.on_left(longest, weight);
            self.dropped += 1;
        }
        self.held + weight <= MOST_HELD
    }

    /// A peer was found elsewhere than it was looked for: what waits changes lanes.
    fn sort_again(&mut self, handle: Handle) {
        let Some(peer) = self.peers.get(&handle) else { return };
        let mut all = Vec::new();
        for lane in [peer.at_home, peer.elsewhere].into_iter().flatten() {
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
        if let Some(peer) = self.peers.get_mut(&handle) {
            peer.at_home.take_if(|own| *own == lane);
            peer.elsewhere.take_if(|own| *own == lane);
            if peer.at_home.is_none() && peer.elsewhere.is_none() {
                self.peers.remove(&handle);
            }
        }
        self.lanes[lane].queue.shrink_to(SPARE_PLACES);
        self.spare.push(lane);
    }

    /// Nobody waits, so nobody has to wait for others.
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

    /// Adds a slice to what is left, unless it pays for what was taken too long.
    fn take_slice(&mut self) -> bool {
        if self.credit.is_zero() {
            self.credit = SLICE.saturating_sub(self.owed);
            self.pay(1);
        }
        !self.credit.is_zero()
    }

    /// Slices it has to do without.
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
