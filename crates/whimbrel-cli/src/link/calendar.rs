//! Packets under way, in the order they are due.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use whimbrel_net::EcnCodepoint;
use whimbrel_proto::Time;

use super::Direction;
use super::clients::ClientId;

/// A packet that will arrive.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) due: Time,
    pub(super) direction: Direction,
    pub(super) client: ClientId,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) payload: Vec<u8>,
}

impl Packet {
    /// Whether the two can leave in one system call as segments of one size.
    pub(super) fn is_like(&self, next: &Self) -> bool {
        (self.direction, self.client, self.ecn) == (next.direction, next.client, next.ecn)
    }
}

/// A heap of packets, and the memory of those that have left, to be used again.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Reverse<Entry>>,
    pushed: u64,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    /// Breaks ties, so that packets due together keep their order.
    number: u64,
    packet: Packet,
}

impl Calendar {
    /// An empty buffer for a payload.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(1500))
    }

    pub(super) fn push(&mut self, packet: Packet) {
        self.pushed += 1;
        self.heap.push(Reverse(Entry { number: self.pushed, packet }));
    }

    /// When the next packet is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.packet.due)
    }

    /// The next packet, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Packet> {
        self.next_due().filter(|due| *due <= now)?;
        self.heap.pop().map(|Reverse(entry)| entry.packet)
    }

    /// Takes back a payload's memory.
    pub(super) fn recycle(&mut self, mut payload: Vec<u8>) {
        payload.clear();
        self.spare.push(payload);
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.packet.due, self.number).cmp(&(other.packet.due, other.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_by_time_and_then_in_the_order_they_went_in() {
        let mut calendar = Calendar::default();
        for (name, nanos) in [(0, 20), (1, 10), (2, 20), (3, 30), (4, 10)] {
            calendar.push(Packet {
                due: Time::from_nanos(nanos),
                direction: Direction::Up,
                client: ClientId(0),
                ecn: None,
                payload: vec![name],
            });
        }
        let names: Vec<_> = std::iter::from_fn(|| calendar.pop_due(Time::from_nanos(20)))
            .map(|packet| packet.payload[0])
            .collect();
        assert_eq!(names, [1, 4, 0, 2]);
        assert_eq!(calendar.next_due(), Some(Time::from_nanos(30)));
    }
}
