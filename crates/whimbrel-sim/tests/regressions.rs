//! Faults that the checkers found, each as the smallest case that shows it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{Outgoing, Read, SendError, StreamKind, TagSettings};
use whimbrel_proto::{Cause, CloseReason, Event, Service, StreamId, Tag, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

const MS: Duration = Duration::from_millis(1);

/// Probes through a blackout carried lost messages in turn, and not the oldest each time. When the link came back,
/// the first probe that arrived held a message that had to wait for another round trip.
#[test]
fn regression_probes_bring_the_oldest_lost_message() {
    let mut pair = Pair::connected(1, TransportConfig::default(), "delay=25ms");
    pair.relink("delay=25ms,loss=100%");
    for number in 0..8u8 {
        pair.send(End::Client, Service::ReliableSequenced, Bytes::from(vec![number; 60]));
        pair.run(100 * MS);
    }
    assert!(pair.recv(End::Server).is_empty());
    pair.relink("delay=25ms");
    let begin = pair.now();
    assert!(pair.run_until(MS * 1000, |pair| !pair.recv(End::Server).is_empty()));
    assert!(pair.now().since(begin) <= 275 * MS, "one probe is enough: {:?}", pair.now().since(begin));
}

/// SKIP entries that were lost and came up again out of order were not merged. In the end they filled each probe, so
/// that the newest message did not fit.
#[test]
fn regression_replacements_through_a_blackout_stay_one_entry() {
    let mut pair = Pair::connected(2, TransportConfig::default(), "delay=25ms");
    pair.relink("delay=25ms,loss=100%");
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let (out, client) = (sizes.clone(), pair.world.address(pair.client));
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        if from == client {
            out.borrow_mut().push(bytes.len());
        }
        TapVerdict::Pass
    }));
    for number in 0..40u8 {
        let now = pair.now();
        let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![number; 60].into());
        pair.session(End::Client).replace(now, StreamId(0), Tag(1), message).unwrap();
        pair.run(100 * MS);
    }
    let sizes = sizes.borrow();
    // The first few also hold other blocks of the connection.
    let probes = &sizes[8..];
    let (early, late) = (probes[0], probes[probes.len() - 1]);
    assert!(probes.iter().all(|size| *size >= 93), "a message in each probe: {sizes:?}");
    assert!(late < early + 20, "and no more with time: {sizes:?}");
}

/// A damaged SYN-ACK, which nothing authenticates, led to a PING that no server could answer, repeated until the
/// handshake timed out.
#[test]
fn regression_a_damaged_syn_ack_does_not_end_the_handshake() {
    let mut pair = Pair::new(3, TransportConfig::default(), "delay=25ms");
    let server = pair.world.address(SERVER);
    let mut first = true;
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        if from == server && bytes[0] == 0x83 && std::mem::take(&mut first) {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }
        TapVerdict::Pass
    }));
    pair.send(End::Client, Service::ReliableSequenced, "early");
    assert!(pair.settle(3000 * MS), "{:?}", pair.events(End::Client));
    assert_eq!(pair.recv(End::Server).len(), 1);
}

/// A client whose PING is answered too late begins another connection. The first one stayed at the server for the
/// whole idle timeout.
#[test]
fn regression_an_unproven_connection_does_not_wait_for_the_idle_timeout() {
    let mut pair = Pair::new(4, TransportConfig::default(), "delay=25ms");
    assert!(pair.run_until(1000 * MS, |pair| pair.place(End::Server).is_some()));
    let client = pair.client;
    pair.world.kill(client);
    pair.run(15_000 * MS);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 0);
    assert!(!pair.events(End::Server).contains(&Event::Connected));
}

/// An end that had rotated its keys forgot the old ones after a while, although the peer could not have the new ones
/// yet. If the peer's NAT rebound at that moment, neither end heard the other again.
#[test]
fn regression_old_keys_open_until_the_peer_has_the_new_ones() {
    let mut config = TransportConfig::default();
    config.key_update_packets = 30;
    let mut pair = Pair::connected(5, config, "delay=25ms");
    for _ in 0..25 {
        pair.send(End::Server, Service::ReliableSequenced, "one packet each");
        pair.run(100 * MS);
    }
    let updates = pair.stats(End::Server).key_updates;
    // The server keeps sending into the void until its keys are due.
    pair.relink("loss=100%");
    let client = pair.client;
    pair.world.rebind(client);
    for _ in 0..20 {
        pair.send(End::Server, Service::ReliableSequenced, "into the void");
        pair.run(500 * MS);
    }
    assert!(pair.stats(End::Server).key_updates > updates, "otherwise nothing is shown");
    pair.relink("delay=25ms");
    pair.recv(End::Client);
    pair.send(End::Client, Service::ReliableSequenced, "here I am");
    assert!(pair.run_until(2000 * MS, |pair| !pair.recv(End::Server).is_empty()));
}

/// A byte stream that was reset after all its bytes had arrived ended as if finished, so truncated data looked
/// complete.
#[test]
fn regression_a_reset_stream_is_not_finished() {
    let mut pair = Pair::connected(6, TransportConfig::default(), "delay=25ms");
    let stream = pair.session(End::Client).open_stream(StreamKind::Bytes).unwrap();
    let now = pair.now();
    assert_eq!(pair.session(End::Client).write(now, stream, Bytes::from_static(b"half of")), Ok(7));
    pair.run(100 * MS);
    pair.session(End::Client).reset(stream, 42).unwrap();
    pair.run(100 * MS);
    assert_eq!(pair.session(End::Server).read(stream, 100), Ok(Read::Reset(42)));
}

/// Byte streams at rest were remembered by their slots, so the queues of one that had ended since were looked for when
/// the seventeenth came to rest.
#[test]
fn regression_a_stream_that_ended_at_rest_is_not_looked_for() {
    let mut pair = Pair::connected(6, TransportConfig::default(), "delay=25ms");
    let streams: Vec<_> =
        (0..17).map(|_| pair.session(End::Client).open_stream(StreamKind::Bytes).unwrap()).collect();
    let send = |pair: &mut Pair, stream| {
        let now = pair.now();
        assert_eq!(pair.session(End::Client).write(now, stream, Bytes::from_static(b"all")), Ok(3));
        pair.run(100 * MS);
        assert_eq!(pair.session(End::Server).read(stream, 100), Ok(Read::Data(Bytes::from_static(b"all"))));
    };
    for &stream in &streams[..16] {
        send(&mut pair, stream);
    }
    pair.session(End::Client).reset(streams[0], 1).unwrap();
    pair.session(End::Server).reset(streams[0], 1).unwrap();
    pair.run(200 * MS);
    assert_eq!(pair.session(End::Server).read(streams[0], 100), Ok(Read::Reset(1)));
    assert_eq!(pair.session(End::Client).read(streams[0], 100), Ok(Read::Reset(1)));
    send(&mut pair, streams[16]);
}

/// A restarted server did not answer packets of 41 bytes or less, so a client that only kept the connection alive
/// never noticed the restart.
#[test]
fn regression_a_keep_alive_notices_a_restarted_server() {
    let mut pair = Pair::connected(7, TransportConfig::default(), "delay=25ms");
    pair.run(1000 * MS);
    pair.world.restart_server();
    assert!(pair.run_until(26_000 * MS, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
}

/// Challenges to a new address used up its allowance before all tries were made, and left a timer that was always
/// due.
#[test]
fn regression_challenges_without_allowance_do_not_spin() {
    let mut pair = Pair::connected(8, TransportConfig::default(), "delay=25ms");
    let client = pair.client;
    pair.world.rebind(client);
    pair.world.link(SERVER, client).reconfigure("loss=100%".parse().unwrap());
    // Three times the length of a keep-alive is enough for two challenges.
    pair.run(40_000 * MS);
    assert_eq!(pair.closed(End::Server), None);
}

/// An end that had heard nothing for a while answered a challenge only with its next probe, when the challenge was
/// given up already. If both ends had data in flight when the NAT rebound, the new address was never proven.
#[test]
fn regression_a_challenge_is_answered_at_once() {
    let mut pair = Pair::connected(9, TransportConfig::default(), "delay=5ms");
    let client = pair.client;
    pair.relink("loss=100%");
    for end in End::BOTH {
        for _ in 0..50 {
            pair.send(end, Service::ReliableSequenced, vec![7; 1000]);
        }
    }
    pair.run(3000 * MS);
    pair.world.rebind(client);
    pair.relink("delay=5ms");
    let mut got = 0;
    let done = pair.run_until(1000 * MS, |pair| {
        got += pair.recv(End::Client).len() + pair.recv(End::Server).len();
        got == 100
    });
    assert!(done, "{got} of 100");
}

/// An empty message that did not fit into the rest of a packet was split into fragments without a last one, and sent
/// again and again.
#[test]
fn regression_an_empty_message_is_not_split() {
    let mut pair = Pair::connected(10, TransportConfig::default(), "delay=25ms");
    pair.relink("loss=100%");
    let mut tag = 0;
    for length in [0, 140, 0, 100, 0, 120, 0, 110, 0].repeat(10) {
        tag += 1;
        let tag = (length > 0).then_some(Tag((1 << 61) + tag % 8));
        let message = Outgoing {
            tag,
            ..Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![1; length].into())
        };
        pair.try_send(End::Client, message).unwrap();
    }
    pair.run(3000 * MS);
    pair.relink("delay=25ms");
    let mut got = 0;
    let done = pair.run_until(2000 * MS, |pair| {
        got += pair.recv(End::Server).len();
        got == 90
    });
    assert!(done, "{got} of 90");
}

/// Tags and codes that cannot be encoded caused a failed assertion, or nonsense on the wire.
#[test]
fn regression_numbers_without_an_encoding_are_refused_or_cut() {
    let mut pair = Pair::connected(11, TransportConfig::default(), "delay=25ms");
    let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, Bytes::from_static(b"x"));
    let tagged = Outgoing { tag: Some(Tag(u64::MAX)), ..message.clone() };
    assert_eq!(pair.try_send(End::Client, tagged), Err(SendError::TagTooLarge));
    let now = pair.now();
    let session = pair.session(End::Client);
    assert_eq!(session.replace(now, StreamId(0), Tag(1 << 62), message), Err(SendError::TagTooLarge));
    let refused = session.tag_settings(now, StreamId(0), Tag(1 << 62), TagSettings::default());
    assert_eq!(refused, Err(SendError::TagTooLarge));
    assert_eq!(session.cancel(now, StreamId(0), Tag(u64::MAX)), 0);
    pair.close(End::Client, u64::MAX, "the end");
    assert!(pair.run_until(1000 * MS, Pair::both_closed));
}

/// A client that waited for credit sent nothing. The grant went to an address that its NAT had given up, until the
/// keep-alive.
#[test]
fn regression_waiting_for_credit_is_not_silent() {
    let mut config = TransportConfig::default();
    config.session.session_window = 262_144;
    config.session.stream_window = 262_144;
    let mut pair = Pair::connected(12, config, "delay=25ms");
    for _ in 0..8 {
        pair.send(End::Client, Service::ReliableSequenced, vec![7; 60_000]);
    }
    pair.run(2000 * MS);
    let client = pair.client;
    pair.world.rebind(client);
    let mut got = 0;
    let done = pair.run_until(3000 * MS, |pair| {
        got += pair.recv(End::Server).len();
        got == 8
    });
    assert!(done, "{got} of 8");
}

/// Each SACK costs work in proportion to what is in flight, and a packet could hold two hundred of them.
#[test]
fn regression_a_packet_holds_one_sack() {
    let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms");
    let now = pair.now();
    let sack = [1, 0, 0, 0, 0, 0, 0];
    pair.connection(End::Server).handle_blocks(now, Bytes::copy_from_slice(&sack));
    assert_eq!(pair.closed(End::Server), None);
    pair.connection(End::Server).handle_blocks(now, [sack, sack].concat().into());
    pair.run(100 * MS);
    let Some(CloseReason::PeerMisbehaved(why)) = pair.closed(End::Server) else { panic!("two were taken") };
    assert_eq!(why.cause, Cause::InvalidField);
}

/// Two FINs crossed and one was lost. The FIN-ACK of the lost FIN's sender overtook that FIN and was ignored, because
/// it answered nothing known. That sender's FIN-ACK then had no peer left to answer it, so it ended by timeout.
#[test]
fn regression_fin_ack_may_come_with_or_before_the_fin_that_crossed() {
    let (fin, fin_ack) = ([6, 0, 0], [7]);
    for blocks in [[&fin[..], &fin_ack].concat(), [&fin_ack[..], &fin].concat()] {
        let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms");
        pair.close(End::Client, 1, "here");
        pair.run(MS);
        assert_eq!(pair.closed(End::Client), None, "it waits for FIN-ACK");
        let now = pair.now();
        pair.connection(End::Client).handle_blocks(now, blocks.into());
        pair.world.flush();
        assert_eq!(pair.closed(End::Client), Some(CloseReason::Local));
        assert!(
            pair.run_until(100 * MS, |pair| pair.both_closed()),
            "FIN-DONE or what follows ends the other"
        );
    }
    // Both FINs crossed, and both sides have answered.
    let mut pair = Pair::connected(1, TransportConfig::default(), "delay=10ms");
    for end in End::BOTH {
        pair.close(end, 1, "here");
    }
    let begin = pair.now();
    assert!(pair.run_until(1000 * MS, |pair| pair.both_closed()));
    assert!(pair.now().since(begin) <= 41 * MS, "{:?}", pair.now().since(begin));
}

/// After seven SYNs, the round trip counted from the latest one. Where it is longer than 800 ms, that was a tenth of it.
/// Then everything looked like a queue, and bulk crawled for half a minute.
#[test]
fn regression_the_round_trip_of_a_long_path_counts_from_the_right_syn() {
    for (delay, least) in [(390, 780), (440, 880), (600, 1_200), (950, 1_900)] {
        let mut pair = Pair::connected(3, TransportConfig::default(), &format!("delay={delay}ms"));
        let shortest = pair.stats(End::Client).paths[0].rtt_min;
        assert!(shortest >= MS * least, "{delay} ms there: {shortest:?}");
        assert!(shortest <= MS * least + MS * 2, "{delay} ms there: {shortest:?}");
    }
}

/// An answer that comes after many SYNs may belong to any of the latest. What was assumed then is forgotten once the round
/// trip is known.
#[test]
fn regression_a_server_that_comes_late_is_not_taken_to_be_far_away() {
    let mut pair = Pair::new(4, TransportConfig::default(), "delay=10ms,loss=100%");
    pair.run(7_200 * MS);
    pair.relink("delay=10ms");
    assert!(pair.settle(1_000 * MS), "it answers a later SYN");
    let path = pair.stats(End::Client).paths[0];
    assert!(path.rtt_min <= 30 * MS && path.rtt <= 50 * MS, "{:?}, {:?}", path.rtt_min, path.rtt);
}
