//! Messages that arrive after their gap was passed over do not count as delivered.

use std::time::Duration;

use super::super::*;
use super::pipe::*;
use crate::wire::{Reader, Writer, block};
use crate::{Service, Side, Time};

const WAIT: Duration = Duration::from_millis(100);

/// A sender and a receiver, whose packets the test delivers by hand.
struct Hand {
    ends: [Session; 2],
    now: Time,
}

type Packet = (Vec<u8>, Vec<Carried>);

impl Hand {
    fn new() -> Self {
        Self::with(SessionConfig::default())
    }

    fn with(config: SessionConfig) -> Self {
        let mut ends = [Session::new(Side::Client, config), Session::new(Side::Server, config)];
        for end in &mut ends {
            end.set_peer_limits(limits(&config));
        }
        Self { ends, now: Time::ZERO }
    }

    fn packet(&mut self, side: usize) -> Packet {
        let (mut packet, mut carried) = (vec![0; 3], Vec::new());
        self.ends[side].fill(self.now, &mut Writer::new(&mut packet, 1200), &mut carried, 0);
        packet.drain(..3);
        (packet, carried)
    }

    fn arrive(&mut self, to: usize, packet: &Packet) {
        let mut reader = Reader::new(packet.0.clone().into());
        while !reader.is_empty() {
            let kind = reader.u8().unwrap();
            self.ends[to].handle_block(self.now, kind, &mut reader, false).unwrap();
        }
    }

    fn acked(&mut self, side: usize, packet: &Packet) {
        for item in &packet.1 {
            self.ends[side].on_acked(self.now, item);
        }
    }

    fn lost(&mut self, side: usize, packet: &Packet) {
        for item in &packet.1 {
            self.ends[side].on_lost(self.now, item);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
    }

    /// Sends two messages. Only the first `in_time` packets of the first arrive before the second passes it over.
    /// Returns the packets of the first.
    fn overtaken(&mut self, size: usize, in_time: usize) -> Vec<Packet> {
        let message = Outgoing { tracked: true, ..numbered(Service::UnreliableSequenced, 0, size) };
        self.ends[0].send(self.now, message).unwrap();
        let mut held = Vec::new();
        while self.ends[0].wants_to_send() {
            held.push(self.packet(0));
        }
        for packet in &held[..in_time] {
            self.arrive(1, packet);
        }
        self.ends[0].send(self.now, numbered(Service::UnreliableSequenced, 1, 20)).unwrap();
        let second = self.packet(0);
        self.arrive(1, &second);
        self.acked(0, &second);
        self.pass(WAIT);
        assert_eq!(self.ends[1].recv(self.now).map(|message| number_of(&message)), Some(1));
        held
    }

    fn outcomes(&mut self) -> Vec<Outcome> {
        let events = std::iter::from_fn(|| self.ends[0].poll_event());
        let outcome = |event| if let SessionEvent::Outcome(_, what) = event { Some(what) } else { None };
        events.filter_map(outcome).collect()
    }

    /// Returns the verdicts that precede an acknowledgement.
    fn verdicts(&mut self) -> Packet {
        let (mut packet, mut carried) = (Vec::new(), Vec::new());
        assert!(self.ends[1].has_verdicts());
        self.ends[1].fill_verdicts(&mut Writer::new(&mut packet, 1200), &mut carried);
        assert_eq!(packet[0], block::SKIP_ACK);
        (packet, carried)
    }

    fn exchange(&mut self) {
        for _ in 0..20 {
            for side in [0, 1] {
                let packet = self.packet(side);
                self.arrive(1 - side, &packet);
                self.acked(side, &packet);
            }
        }
        assert!(!self.ends[1].has_verdicts());
        assert_eq!(self.ends[0].credit_used().0, self.ends[1].credit_used().1);
        assert_eq!(self.ends[0].stats().outstanding, 0);
        assert!(self.ends[1].recv(self.now).is_none());
    }
}

#[test]
fn what_comes_late_is_lost_though_it_is_acknowledged() {
    let mut hand = Hand::new();
    let held = hand.overtaken(20, 0);
    hand.arrive(1, &held[0]);
    let verdict = hand.verdicts();
    hand.arrive(0, &verdict);
    hand.acked(0, &held[0]);
    assert_eq!(hand.outcomes(), [Outcome::Lost]);
    hand.acked(1, &verdict);
    hand.exchange();
    assert_eq!(hand.ends[1].stats().late, 1);
}

#[test]
fn the_verdict_rides_with_every_acknowledgement_until_it_arrives() {
    let mut hand = Hand::new();
    let held = hand.overtaken(20, 0);
    hand.arrive(1, &held[0]);
    let first = hand.verdicts();
    let again = hand.verdicts();
    assert_eq!(first.0, again.0);
    hand.arrive(0, &again);
    hand.acked(1, &again);
    assert!(!hand.ends[1].has_verdicts());
    // The first copy was lost, and nothing is left to report.
    hand.lost(1, &first);
    assert!(!hand.ends[1].wants_to_send());
    assert_eq!(hand.outcomes(), [Outcome::Lost]);
    hand.acked(0, &held[0]);
    assert_eq!(hand.outcomes(), []);
    hand.exchange();
}

#[test]
fn a_verdict_that_was_lost_goes_again_by_itself() {
    let mut hand = Hand::new();
    let held = hand.overtaken(20, 0);
    hand.arrive(1, &held[0]);
    let first = hand.packet(1);
    hand.lost(1, &first);
    assert!(hand.ends[1].wants_to_send());
    hand.exchange();
    assert_eq!(hand.outcomes(), [Outcome::Lost]);
}

#[test]
fn a_skip_under_way_and_a_verdict_agree() {
    let mut hand = Hand::new();
    let held = hand.overtaken(20, 0);
    hand.lost(0, &held[0]);
    let skip = hand.packet(0);
    hand.arrive(1, &held[0]);
    let verdict = hand.verdicts();
    hand.arrive(1, &skip);
    hand.arrive(0, &verdict);
    hand.acked(1, &verdict);
    hand.acked(0, &skip);
    hand.exchange();
    assert_eq!(hand.outcomes(), [Outcome::Lost]);
}

/// Returns a verdict on one unreliable sequenced message of stream 0.
fn verdict_on(number: u8) -> Packet {
    (vec![block::SKIP_ACK, 0, 0x00, 0x40, 1, number, 1, 2], Vec::new())
}

#[test]
fn of_messages_that_travel_together_each_has_its_own_verdict() {
    let mut hand = Hand::new();
    for number in 0..5 {
        hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, number, 20)).unwrap();
    }
    let held = hand.packet(0);
    assert_eq!(held.1.len(), 1, "one thing");
    for (number, lost) in [(2, 1), (0, 2), (4, 3), (2, 3)] {
        hand.arrive(0, &verdict_on(number));
        assert_eq!(hand.ends[0].stats().total.lost, lost);
    }
    hand.arrive(1, &held);
    hand.acked(0, &held);
    let total = hand.ends[0].stats().total;
    assert_eq!((total.lost, total.delivered), (3, 2));
    assert_eq!(hand.ends[0].stats().outstanding, 0);
}

#[test]
fn messages_that_travelled_together_and_were_given_up_are_lost_however_late_they_came() {
    let mut hand = Hand::new();
    for number in 0..5 {
        hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, number, 20)).unwrap();
    }
    let held = hand.packet(0);
    hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, 5, 20)).unwrap();
    let second = hand.packet(0);
    hand.arrive(1, &second);
    hand.pass(WAIT);
    assert!(hand.ends[1].recv(hand.now).is_some());
    hand.lost(0, &held);
    let skip = hand.packet(0);
    hand.arrive(1, &held);
    let verdicts = hand.verdicts();
    assert_eq!(verdicts.1.len(), 1, "one verdict on what came together");
    hand.arrive(0, &verdicts);
    assert_eq!(hand.ends[0].stats().total.lost, 5);
    hand.acked(1, &verdicts);
    hand.acked(0, &second);
    hand.arrive(1, &skip);
    hand.acked(0, &skip);
    hand.exchange();
    assert_eq!(hand.ends[0].stats().total.lost, 5);
}

#[test]
fn a_verdict_is_on_some_of_what_travelled_together_and_on_no_reliable_ones() {
    let mut hand = Hand::new();
    let unreliable =
        |number| Outgoing { tracked: true, ..numbered(Service::UnreliableSequenced, number, 2000) };
    for number in 0..5 {
        hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, number, 20)).unwrap();
    }
    hand.ends[0].send(hand.now, unreliable(5)).unwrap();
    while hand.ends[0].wants_to_send() {
        hand.packet(0);
    }
    hand.arrive(0, &(vec![block::SKIP_ACK, 0, 0x00, 0x40, 1, 1, 3, 2], Vec::new()));
    assert_eq!(hand.ends[0].stats().total.lost, 3);
    // The message in parts waits for the answer to its SKIP.
    hand.arrive(0, &(vec![block::SKIP_ACK, 0, 0x00, 0x40, 1, 0, 6, 2], Vec::new()));
    assert_eq!((hand.ends[0].stats().total.lost, hand.outcomes()), (5, vec![]));
    let skip = hand.packet(0);
    hand.arrive(1, &skip);
    let answer = hand.packet(1);
    hand.arrive(0, &answer);
    assert_eq!(hand.outcomes(), [Outcome::Lost]);
}

#[test]
fn an_answer_of_no_known_value_is_refused() {
    let mut hand = Hand::new();
    hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, 0, 20)).unwrap();
    hand.packet(0);
    let mut reader = Reader::new(vec![0, 0x00, 0x40, 1, 0, 1, 3].into());
    let refused = hand.ends[0].handle_block(hand.now, block::SKIP_ACK, &mut reader, false);
    assert_eq!(refused.unwrap_err().cause, crate::Cause::InvalidField);
}

#[test]
fn a_verdict_on_more_than_travel_together_is_refused() {
    let mut hand = Hand::new();
    for number in 0..300 {
        hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, number, 8)).unwrap();
    }
    while hand.ends[0].wants_to_send() {
        hand.packet(0);
    }
    let mut verdict = |count: u16| {
        let [high, low] = (0x4000 | count).to_be_bytes();
        let mut reader = Reader::new(vec![0, 0x00, 0x40, 1, 0, high, low, 2].into());
        hand.ends[0].handle_block(hand.now, block::SKIP_ACK, &mut reader, false)
    };
    assert_eq!(verdict(257).unwrap_err().cause, crate::Cause::InvalidField);
    verdict(256).unwrap();
    assert_eq!(hand.ends[0].stats().total.lost, 256);
}

#[test]
fn many_late_together_are_each_told_though_more_come_while_the_verdict_is_out() {
    let mut hand = Hand::new();
    // There are two packets, and more messages in them than there may be verdicts.
    let mut held = Vec::new();
    for batch in 0..2 {
        for number in 0..40 {
            hand.ends[0]
                .send(hand.now, numbered(Service::UnreliableSequenced, batch * 40 + number, 20))
                .unwrap();
        }
        while hand.ends[0].wants_to_send() {
            held.push(hand.packet(0));
        }
    }
    hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, 99, 20)).unwrap();
    let last = hand.packet(0);
    hand.arrive(1, &last);
    hand.pass(WAIT);
    assert!(hand.ends[1].recv(hand.now).is_some());
    let half = held.len() / 2;
    for packet in &held[..half] {
        hand.arrive(1, packet);
    }
    let first = hand.verdicts();
    for packet in &held[half..] {
        hand.arrive(1, packet);
    }
    let second = hand.verdicts();
    assert_eq!((first.1.len(), second.1.len()), (1, 1));
    // Only the messages that the first verdict named are settled.
    hand.arrive(0, &first);
    hand.acked(1, &first);
    let rest = hand.verdicts();
    assert!(rest.0 != second.0);
    hand.lost(1, &second);
    hand.arrive(0, &rest);
    hand.acked(1, &rest);
    assert_eq!(hand.ends[0].stats().total.lost, 80);
    for packet in held.iter().chain([&last]) {
        hand.acked(0, packet);
    }
    hand.exchange();
    assert_eq!((hand.ends[0].stats().total.lost, hand.ends[0].stats().total.delivered), (80, 1));
}

#[test]
fn late_messages_in_parts_that_are_forgotten_do_not_pile_up() {
    let window = 1 << 30;
    let roomy = SessionConfig { stream_share: window, ..SessionConfig::default() };
    let mut hand = Hand::with(roomy);
    for _ in 0..=MAX_RANGES + 32 {
        // Nothing comes back, so all verdicts but the latest are forgotten.
        for packet in hand.overtaken(2000, 0) {
            hand.arrive(1, &packet);
            hand.acked(0, &packet);
        }
        assert_eq!(hand.outcomes(), [Outcome::Delivered]);
    }
}

#[test]
fn of_a_message_in_parts_the_first_late_part_decides() {
    for before in 0..4 {
        let mut hand = Hand::new();
        let held = hand.overtaken(4000, before);
        assert_eq!(held.len(), 4);
        for packet in &held[before..] {
            hand.arrive(1, packet);
        }
        assert_eq!(hand.ends[1].stats().late, 1);
        let verdict = hand.verdicts();
        hand.arrive(0, &verdict);
        hand.acked(1, &verdict);
        for packet in &held {
            hand.acked(0, packet);
        }
        hand.exchange();
        assert_eq!(hand.outcomes(), [Outcome::Lost], "{before} parts came in time");
    }
}

#[test]
fn verdicts_of_what_cannot_be_passed_over_change_nothing() {
    let mut hand = Hand::new();
    for (number, service) in Service::ALL.into_iter().enumerate() {
        let message = Outgoing { tracked: true, ..numbered(service, number as u64, 20) };
        hand.ends[0].send(hand.now, message).unwrap();
    }
    let packet = hand.packet(0);
    for domain in [0x00, 0x04, 0x08, 0x0c] {
        let block = vec![block::SKIP_ACK, 0, domain, 0x40, 1, 0, 1, 2];
        hand.arrive(0, &(block, Vec::new()));
    }
    let outcomes = hand.outcomes();
    assert_eq!(outcomes, [Outcome::Lost], "only of the unreliable sequenced one");
    hand.arrive(1, &packet);
    hand.acked(0, &packet);
    assert_eq!(hand.outcomes(), [Outcome::Delivered; 3]);
}

#[test]
fn late_parts_without_end_close_the_connection() {
    // Parts without a message length are kept until their SKIP. A peer that sends no SKIP is disconnected.
    let mut hand = Hand::new();
    let mut failed = None;
    for number in 0..40_000u64 {
        let mut packet = Vec::new();
        let mut out = Writer::new(&mut packet, 1200);
        // The packet has a middle part of the first message, then all of the second.
        let part = crate::wire::data::DataHead {
            flags: 0,
            stream: 0,
            number: 2 * number,
            offset: 1,
            extras: crate::wire::data::Extras::NONE,
            message_length: None,
        };
        part.write(&mut out, crate::wire::data::Length::Bytes(1));
        out.u8(7);
        let whole = crate::wire::data::DataHead {
            flags: crate::wire::data::BEGIN | crate::wire::data::END,
            number: 2 * number + 1,
            offset: 0,
            ..part
        };
        whole.write(&mut out, crate::wire::data::Length::Bytes(0));
        let mut reader = Reader::new(packet.into());
        while !reader.is_empty() && failed.is_none() {
            let kind = reader.u8().unwrap();
            failed = hand.ends[1].handle_block(hand.now, kind, &mut reader, false).err();
        }
        if failed.is_some() {
            break;
        }
        hand.pass(WAIT);
        while hand.ends[1].recv(hand.now).is_some() {}
        hand.packet(1);
    }
    assert_eq!(failed.unwrap().cause, crate::Cause::LimitExceeded);
}

#[test]
fn none_of_many_late_ones_in_parts_counts_as_delivered() {
    const COUNT: u64 = 100;
    let mut hand = Hand::new();
    for number in 0..COUNT {
        let message = Outgoing { tracked: true, ..numbered(Service::UnreliableSequenced, number, 1_500) };
        hand.ends[0].send(hand.now, message).unwrap();
    }
    let mut held = Vec::new();
    while hand.ends[0].wants_to_send() {
        held.push(hand.packet(0));
    }
    hand.ends[0].send(hand.now, numbered(Service::UnreliableSequenced, COUNT, 20)).unwrap();
    let last = hand.packet(0);
    hand.arrive(1, &last);
    hand.acked(0, &last);
    hand.pass(WAIT);
    assert_eq!(hand.ends[1].recv(hand.now).map(|message| number_of(&message)), Some(COUNT));
    for packet in &held {
        hand.arrive(1, packet);
    }
    let verdicts = hand.verdicts();
    hand.arrive(0, &verdicts);
    hand.acked(1, &verdicts);
    for packet in &held {
        hand.acked(0, packet);
    }
    hand.exchange();
    let outcomes = hand.outcomes();
    assert_eq!(outcomes.len() as u64, COUNT);
    assert!(outcomes.iter().all(|what| *what == Outcome::Lost), "{outcomes:?}");
}
