//! Serving received datagrams: each connection in its turn handles its datagrams and then sends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_proto::{Connection, Handle, Routed, Time};

use crate::clock::Clock;
use crate::endpoint_shared::EndpointShared;
use crate::lock::lock;
use crate::locked::Locked;
use crate::turns::{SLICE, Turn, Turns};

/// The number of datagrams judged together. If none of a run opens, the turn of that peer ends.
const RUN: usize = 16;
/// The number of datagrams handled between two clock reads while no other connection is known to wait. Otherwise the
/// clock is read after each: one datagram may take as long as a hundred others, and a read takes a fiftieth of the
/// cheapest.
const UNWATCHED: usize = 4;

/// How often in a row a connection that another thread has locked is passed over while there are others. A peer with paths to
/// several receive loops could otherwise make each of them wait for the others.
const PASSES: u32 = 8;
/// The turn of a connection that is alone. Changing connections less often saves a twentieth of the cost of bulk
/// transfer.
const ALONE: Duration = Duration::from_micros(256);

/// Received datagrams of a socket that wait to be handled by their connections.
#[derive(Default)]
pub(crate) struct Serving {
    turns: Turns<Routed>,
    /// The connection served last.
    last: Option<Handle>,
    /// How often in a row a connection was passed over because another thread had it locked.
    passed: BTreeMap<Handle, u32>,
}

/// The queue for datagrams of one connection from one address. Looked up once for a run of them.
#[derive(Clone, Copy)]
pub(crate) struct SenderLane {
    handle: Handle,
    from: SocketAddr,
    lane: usize,
}

impl SenderLane {
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Serving {
    /// Returns whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }

    /// Returns the lane for datagrams of a connection from an address. Valid until something is served.
    pub(crate) fn lane(&mut self, handle: Handle, from: SocketAddr) -> SenderLane {
        SenderLane { handle, from, lane: self.turns.lane_for(handle, from) }
    }

    /// Adds a datagram to a lane.
    pub(crate) fn push(&mut self, lane: SenderLane, size: usize, routed: Routed) {
        self.turns.push(lane.lane, lane.from, size, routed);
    }

    /// Serves the connections that had nothing waiting.
    pub(crate) fn serve_fresh(&mut self, shared: &EndpointShared) {
        while let Some(turn) = self.turns.next_fresh() {
            self.serve(shared, turn);
        }
    }

    /// Serves the connections that had nothing waiting. Then serves those with a backlog, each at most once, until a
    /// slice of time is used up.
    pub(crate) fn serve_next(&mut self, shared: &EndpointShared) {
        self.serve_fresh(shared);
        let (mut spent, mut left) = (Duration::ZERO, self.turns.busy());
        while spent < SLICE
            && left > 0
            && let Some(turn) = self.turns.next()
        {
            spent += self.serve(shared, turn);
            left -= 1;
        }
        let dropped = self.turns.take_dropped();
        if dropped > 0 {
            lock(&shared.proto).count_crowded(dropped);
        }
    }

    /// Serves one turn and returns how long it took.
    fn serve(&mut self, shared: &EndpointShared, turn: Turn) -> Duration {
        let begun = shared.clock.now();
        if self.last.replace(turn.handle).is_some_and(|last| last != turn.handle) {
            shared.company.note(begun);
        }
        let watch = if shared.company.is_there(begun) {
            Watch::new(shared.clock, begun, turn.time, 1)
        } else {
            Watch::new(shared.clock, begun, turn.time.max(ALONE), UNWATCHED)
        };
        if let Some(connection) = shared.find(turn.handle) {
            match connection.try_lock() {
                Some(state) => self.hand_over(shared, watch, turn, state),
                None if shared.company.is_there(begun) && self.is_passed_over(turn.handle) => {
                    self.turns.end(turn, Duration::ZERO);
                    return Duration::ZERO;
                }
                None => self.hand_over(shared, watch, turn, connection.lock()),
            }
            self.passed.remove(&turn.handle);
            connection.drive();
        } else {
            self.passed.remove(&turn.handle);
            while self.turns.take(turn).is_some() {}
        }
        let spent = shared.clock.now().since(begun);
        self.turns.end(turn, spent);
        spent
    }

    /// Returns whether a connection that is locked has its turn later, and counts that.
    fn is_passed_over(&mut self, handle: Handle) -> bool {
        let passed = self.passed.entry(handle).or_default();
        *passed += 1;
        *passed <= PASSES
    }

    /// Passes waiting datagrams to a connection until its time is up.
    fn hand_over(&mut self, shared: &EndpointShared, mut watch: Watch, turn: Turn, mut state: Locked<'_>) {
        while !watch.is_over()
            && let Some(from) = self.turns.next_from(turn)
        {
            let genuine = self.hand_over_run(shared, &mut watch, turn, from, &mut state.connection);
            self.turns.judge(turn, from, genuine);
            if !genuine {
                break;
            }
        }
    }

    /// Passes a run of datagrams from one address to a connection. Returns false if none of them was genuine.
    fn hand_over_run(
        &mut self,
        shared: &EndpointShared,
        watch: &mut Watch,
        turn: Turn,
        from: SocketAddr,
        to: &mut Connection,
    ) -> bool {
        let (mut taken, before) = (0, to.dropped_packets());
        while taken < RUN && !watch.is_over() && self.turns.is_next_from(turn, &from) {
            let Some(routed) = self.turns.take(turn) else { break };
            deliver(shared, watch.now, routed, to);
            taken += 1;
            watch.on_taken();
        }
        to.dropped_packets() - before < taken as u64
    }
}

/// Reads the clock now and then during a turn.
struct Watch {
    clock: Clock,
    /// The time of the last read.
    now: Time,
    end: Time,
    /// Datagrams between two clock reads, and how many are left until the next.
    every: usize,
    left: usize,
}

impl Watch {
    fn new(clock: Clock, now: Time, time: Duration, every: usize) -> Self {
        Self { clock, now, end: now + time, every, left: every }
    }

    fn on_taken(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            (self.now, self.left) = (self.clock.now(), self.every);
        }
    }

    fn is_over(&self) -> bool {
        self.now >= self.end
    }
}

/// Passes something to a connection outside the receive loop, and lets it send.
pub(crate) fn serve_at_once(shared: &EndpointShared, now: Time, handle: Handle, routed: Routed) {
    if let Some(connection) = shared.find(handle) {
        deliver(shared, now, routed, &mut connection.lock().connection);
        connection.drive();
    }
}

/// Passes something to a connection, whose lock the caller holds. If the key of its peer is revoked from now on, the
/// revocation ends the connection afterwards.
#[inline]
fn deliver(shared: &EndpointShared, now: Time, routed: Routed, to: &mut Connection) {
    #[cfg(test)]
    crate::clock::ahead::pass(tests::COST.get());
    match routed {
        Routed::Connection(_, datagram) => to.handle_datagram(now, datagram),
        Routed::RepeatedPing(_, ping) => to.handle_repeated_ping(&ping),
        Routed::SecondPing(_, ping) => to.handle_second_ping(&ping),
        // The key may have been revoked since the endpoint routed this.
        Routed::Resuming(_, resuming) if !lock(&shared.proto).lists(&resuming.peer_key()) => {}
        Routed::Resuming(_, resuming) => to.handle_resume(now, *resuming),
        Routed::Reset(_, token) => to.handle_reset(now, &token),
        Routed::Nothing | Routed::Reply | Routed::Agreeing(_) | Routed::Accepted(..) => {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use whimbrel_proto::Datagram;

    use super::*;
    use crate::{Endpoint, Mocket};

    thread_local! {
        /// The time that each datagram is made to take.
        pub(super) static COST: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
    }

    /// Queues `count` forged datagrams addressed to this connection.
    fn forge(serving: &mut Serving, to: &Mocket, from: SocketAddr, count: usize) {
        let handle = to.shared.handle;
        let id = to.shared.lock().connection.local_id();
        let bytes = [&[0][..], &id.to_bytes(), &[7; 1_000]].concat();
        for _ in 0..count {
            let datagram = Datagram { from, to: None, ecn: None, bytes: BytesMut::from(&bytes[..]) };
            let lane = serving.lane(handle, from);
            serving.push(lane, bytes.len(), Routed::Connection(handle, datagram));
        }
    }

    fn forged(to: &Mocket) -> u64 {
        to.stats().connection.dropped.forged
    }

    async fn another(server: &Endpoint, client: &Endpoint) -> (Mocket, Mocket) {
        let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
        let near = client.connect(&url).await.unwrap();
        (near, server.accept().await.unwrap())
    }

    #[tokio::test]
    async fn a_flood_of_one_connection_costs_another_a_few_packets_of_it() {
        let (server, client, _near, flooded) = crate::testing::pair().await;
        let (_other, quiet) = another(&server, &client).await;
        crate::clock::ahead::stop();
        let mut serving = Serving::default();
        forge(&mut serving, &flooded, "127.0.0.1:1".parse().unwrap(), 1_000);
        forge(&mut serving, &quiet, "127.0.0.1:2".parse().unwrap(), 1);
        serving.serve_fresh(&server.shared);
        assert_eq!((forged(&flooded), forged(&quiet)), (RUN as u64, 1));
        serving.serve_next(&server.shared);
        assert_eq!(forged(&flooded), 2 * RUN as u64, "the rest waits for turns of its own");
    }

    /// Other connections wait for one expensive datagram, not for sixteen.
    #[tokio::test]
    async fn a_turn_ends_with_the_datagram_that_used_it_up() {
        let (server, client, _near, dear) = crate::testing::pair().await;
        let (_other, quiet) = another(&server, &client).await;
        crate::clock::ahead::stop();
        let mut serving = Serving::default();
        forge(&mut serving, &dear, "127.0.0.1:1".parse().unwrap(), 100);
        COST.set(Duration::from_millis(1));
        serving.serve_fresh(&server.shared);
        assert_eq!(forged(&dear), UNWATCHED as u64, "nobody else was heard of");
        forge(&mut serving, &quiet, "127.0.0.1:2".parse().unwrap(), 1);
        // The new connection has its turn, and then the first one again.
        serving.serve_next(&server.shared);
        serving.serve_next(&server.shared);
        assert_eq!((forged(&quiet), forged(&dear)), (1, UNWATCHED as u64 + 1), "now somebody was");
        COST.set(Duration::ZERO);
    }

    /// Another thread has the connection locked: another receive loop, to which its peer has a path as well.
    #[tokio::test]
    async fn a_locked_connection_makes_no_other_wait() {
        let (server, client, _near, locked) = crate::testing::pair().await;
        let (_other, quiet) = another(&server, &client).await;
        let mut serving = Serving::default();
        forge(&mut serving, &quiet, "127.0.0.1:1".parse().unwrap(), 1);
        forge(&mut serving, &locked, "127.0.0.1:2".parse().unwrap(), 1);
        std::thread::scope(|scope| {
            let (unlock, wait) = std::sync::mpsc::channel();
            let (tell, told) = std::sync::mpsc::channel();
            let shared = &locked.shared;
            let holder = scope.spawn(move || {
                let state = shared.lock();
                tell.send(()).unwrap();
                wait.recv().unwrap();
                drop(state);
            });
            told.recv().unwrap();
            serving.serve_next(&server.shared);
            forge(&mut serving, &quiet, "127.0.0.1:1".parse().unwrap(), 1);
            serving.serve_next(&server.shared);
            assert_eq!((forged(&quiet), serving.is_idle()), (2, false));
            unlock.send(()).unwrap();
            holder.join().unwrap();
        });
        serving.serve_next(&server.shared);
        assert!(forged(&locked) == 1 && serving.is_idle() && serving.passed.is_empty());
    }

    #[tokio::test]
    async fn what_there_is_no_room_for_is_dropped_unopened_and_counted() {
        let (server, _client, near, flooded) = crate::testing::pair().await;
        let mut serving = Serving::default();
        forge(&mut serving, &flooded, "127.0.0.1:1".parse().unwrap(), 20_000);
        while !serving.is_idle() {
            serving.serve_next(&server.shared);
        }
        let crowded = server.stats().crowded;
        assert!(crowded > 10_000, "{crowded}");
        assert_eq!(forged(&flooded) + crowded, 20_000);
        near.send("still there").await.unwrap();
        assert_eq!(flooded.recv().await.unwrap().payload, "still there");
    }

    #[tokio::test]
    async fn bulk_that_is_alone_loses_nothing() {
        let (server, _client, near, far) = crate::testing::pair().await;
        let sending = tokio::spawn(async move {
            for _ in 0..256 {
                near.send(vec![0; 128 << 10]).await.unwrap();
            }
            near
        });
        for _ in 0..256 {
            far.recv().await.unwrap();
        }
        drop(sending.await.unwrap());
        assert_eq!(server.stats().crowded, 0);
    }
}
