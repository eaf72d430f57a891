//! Packets that are copied, forged or damaged, and a peer that lies.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;
use whimbrel_proto::{Cause, CloseReason, Event, Service};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{SECOND, config, number_of, numbered, trace, transfer};

#[test]
fn replayed_and_duplicated_sealed_packets_deliver_nothing_twice() {
    let mut pair = Pair::connected(5, config(), "delay=20ms,duplicate=100%,rate=10mbit");
    let sent = trace(&mut pair.world);
    for number in 0..200 {
        let service = Service::ALL[number as usize % 4];
        pair.send(End::Client, service, numbered(number, 700));
    }
    pair.run(2 * SECOND);
    let got: Vec<u32> = pair.recv(End::Server).iter().map(|message| number_of(&message.payload)).collect();
    assert_eq!(got.len(), 200);
    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 200);
    let packets = sent.borrow().clone();
    for (_, from, to, bytes) in &packets {
        pair.world.inject(*from, *to, bytes);
    }
    pair.run(SECOND);
    assert_eq!(pair.recv(End::Server).len(), 0);
    assert_eq!(pair.closed(End::Server), None);
}

#[test]
fn a_copied_packet_with_a_forged_source_redirects_nothing() {
    let mut pair = Pair::connected(8, config(), "delay=25ms,rate=2mbit,queue=100ms");
    let sent = trace(&mut pair.world);
    let server = pair.world.address(SERVER);
    let forged: SocketAddr = "192.0.2.66:666".parse().unwrap();
    for number in 0..400 {
        pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
        pair.send(End::Client, Service::ReliableSequenced, numbered(number, 100));
    }
    let (mut seen, mut got, mut fed) = (0, 0, 0);
    let done = pair.run_until(10 * SECOND, |pair| {
        // The attacker is closer: its copy of each of the client's packets arrives first.
        let news: Vec<_> = sent.borrow()[seen..].to_vec();
        seen += news.len();
        for (_, from, to, bytes) in news {
            if to == server && from != forged {
                fed += bytes.len();
                pair.world.inject(forged, to, &bytes);
            }
        }
        got += pair.recv(End::Client).len();
        got == 400
    });
    assert!(done, "{got} of 400");
    assert!(!pair.events(End::Server).iter().any(|event| matches!(event, Event::PeerAddressChanged { .. })));
    let leaked: usize =
        sent.borrow().iter().filter(|(_, _, to, _)| *to == forged).map(|(.., b)| b.len()).sum();
    assert!(leaked <= 3 * fed, "three times what came from there at the most: {leaked} for {fed}");
    assert!(leaked < 10_000, "challenges only: {leaked}");
}

#[test]
fn garbage_disturbs_nothing_and_is_counted() {
    let mut pair = Pair::connected(28, config(), "delay=20ms,rate=4mbit");
    let sent = trace(&mut pair.world);
    for number in 0..200 {
        pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
    }
    let (mut seen, mut got, mut dice) = (0, 0, 1u32);
    let done = pair.run_until(5 * SECOND, |pair| {
        let news: Vec<_> = sent.borrow()[seen..].to_vec();
        seen += news.len();
        for (_, from, to, bytes) in news {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Truncated, damaged, and extended.
            let mut short = bytes.clone();
            short.truncate(dice as usize % bytes.len());
            let mut damaged = bytes.clone();
            damaged[dice as usize % bytes.len()] ^= 1 | (dice >> 24) as u8;
            let mut long = bytes.clone();
            long.extend_from_slice(&dice.to_be_bytes());
            for packet in [short, damaged, long] {
                pair.world.inject(from, to, &packet);
            }
        }
        got += pair.recv(End::Server).len();
        got == 200
    });
    assert!(done, "{got}: {:?}", (pair.closed(End::Client), pair.closed(End::Server)));
    assert!(pair.stats(End::Server).dropped.forged > 100);
}

/// A SACK of every packet up to `largest` on the first path.
fn sack_of_all(largest: u64) -> Bytes {
    let varint = (0x8000_0000 | u32::try_from(largest).unwrap()).to_be_bytes();
    [&[1, 0, 0][..], &varint, &[0, 0], &varint].concat().into()
}

#[test]
fn who_acknowledges_what_it_did_not_get_is_found_out() {
    let mut pair = Pair::connected(5, config(), "rate=20mbit, delay=20ms, loss=2%, reorder=5%");
    transfer(&mut pair, End::Server, 2_000, 1_000, 60 * SECOND);
    let stats = pair.stats(End::Server);
    let path = &stats.paths[0];
    assert!(path.left_out >= 3, "{path:?}");
    assert_eq!((pair.closed(End::Server), stats.dropped.made_up), (None, 0), "an honest peer");
    // PONG has number 0.
    let largest = path.sent_packets + path.left_out;
    let now = pair.now();
    pair.connection(End::Server).handle_blocks(now, sack_of_all(largest));
    pair.run(SECOND);
    let why = pair.closed(End::Server);
    let Some(CloseReason::PeerMisbehaved(why)) = why else { panic!("{why:?}") };
    assert_eq!(
        (why.cause, why.what),
        (Cause::AckOfUnsent, "a packet was acknowledged whose number was left out")
    );
    assert_eq!(pair.stats(End::Server).dropped.made_up, 1);
    let told = pair.closed(End::Client);
    assert!(matches!(told, Some(CloseReason::Aborted(Cause::AckOfUnsent, _))), "{told:?}");
}
