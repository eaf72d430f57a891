//! A connection of a host, and what a driver does for it.

use whimbrel_proto::{Connection, Endpoint, Event, Handle, Time};

use crate::world::{Departure, Outbox};

/// The most packets that a connection hands over at once.
const SEGMENTS: usize = 10;

/// A connection and its events.
pub struct Peer {
    /// The connection.
    pub connection: Connection,
    /// Every event so far.
    pub events: Vec<(Time, Event)>,
    due: Due,
}

/// Whether a connection must be polled again, as a driver polls only connections that something happened to.
enum Due {
    /// The connection was accessed: it may have something to send, and another timer.
    Touched,
    /// The connection has nothing to send before its timer, if it has one.
    Quiet(Option<Time>),
}

impl Peer {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, events: Vec::new(), due: Due::Touched }
    }

    pub(super) fn touch(&mut self) -> &mut Self {
        self.due = Due::Touched;
        self
    }

    pub(super) fn timer(&self) -> Option<Time> {
        match self.due {
            Due::Touched => self.connection.poll_timeout(),
            Due::Quiet(timer) => timer,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.timer().is_some_and(|at| at <= now) {
            self.touch().connection.handle_timeout(now);
        }
    }

    /// Sends all there is to send and takes all events, if anything happened to the connection. `buffer` is scratch
    /// space.
    pub(super) fn drive(
        &mut self,
        now: Time,
        handle: Handle,
        endpoint: &mut Endpoint,
        buffer: &mut Vec<u8>,
        out: &mut Outbox,
    ) {
        if matches!(self.due, Due::Quiet(_)) {
            return;
        }
        loop {
            self.transmit(now, buffer, out);
            self.collect(now, out);
            if !self.consult(now, handle, endpoint) {
                break;
            }
        }
        self.due = Due::Quiet(self.connection.poll_timeout());
    }

    fn transmit(&mut self, now: Time, buffer: &mut Vec<u8>, out: &mut Outbox) {
        loop {
            buffer.clear();
            let Some(transmit) = self.connection.poll_transmit(now, buffer, SEGMENTS) else { break };
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            assert_eq!(buffer.len(), transmit.size, "a transmit is what was appended");
            let is_of_it = |packet: &[u8]| packet.get(1..9) == buffer.get(1..9);
            assert!(buffer.chunks(segment).all(is_of_it), "several are cut where one ends: each has the id");
            for packet in buffer.chunks(segment) {
                out.send(Departure {
                    source: transmit.source,
                    to: transmit.destination,
                    ecn: transmit.ecn,
                    bytes: packet.to_vec(),
                });
            }
        }
    }

    fn collect(&mut self, now: Time, out: &mut Outbox) {
        while let Some(event) = self.connection.poll_event() {
            out.report(format!("{event:?}"));
            self.events.push((now, event));
        }
    }

    /// Passes on what the connection has to tell its endpoint. Returns whether an answer was given, so that there may be
    /// more to send.
    fn consult(&mut self, now: Time, handle: Handle, endpoint: &mut Endpoint) -> bool {
        let mut answered = false;
        while let Some(event) = self.connection.poll_endpoint_event() {
            if let Some(answer) = endpoint.handle_event(now, handle, event) {
                self.connection.handle_answer(answer);
                answered = true;
            }
        }
        answered
    }
}
