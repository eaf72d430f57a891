//! Addresses that change during a connection.

use whimbrel_proto::{Event, Service};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::World;

use super::{SECOND, config, number_of, numbered};

#[test]
fn a_transfer_survives_a_nat_that_rebinds_the_port_every_five_seconds() {
    survives_rebinding(World::rebind);
}

#[test]
fn a_transfer_survives_a_nat_that_rebinds_address_and_port_every_five_seconds() {
    survives_rebinding(World::rebind_address);
}

fn survives_rebinding(rebind: fn(&mut World, usize)) {
    let mut pair = Pair::connected(6, config(), "delay=25ms,rate=2mbit,queue=100ms");
    let client = pair.client;
    let mut next = pair.now() + 5 * SECOND;
    let (mut sent, mut got) = (0u32, 0u32);
    let done = pair.run_until(30 * SECOND, |pair| {
        if pair.now() >= next {
            rebind(&mut pair.world, client);
            next = pair.now() + 5 * SECOND;
        }
        while sent < 4000 && sent < got + 300 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(sent, 1000));
            sent += 1;
        }
        for message in pair.recv(End::Server) {
            assert_eq!(number_of(&message.payload), got);
            got += 1;
        }
        got == 4000
    });
    assert!(done, "{got} of 4000");
    let moves = |events: Vec<Event>| {
        events.iter().filter(|event| matches!(event, Event::PeerAddressChanged { .. })).count()
    };
    assert!(moves(pair.events(End::Server)) >= 3, "{:?}", pair.events(End::Server));
    assert_eq!(moves(pair.events(End::Client)), 0);
}

#[test]
fn a_download_goes_on_after_the_clients_nat_rebinds() {
    // The client only acknowledges: its acknowledgements show the server its new address.
    let mut pair = Pair::connected(7, config(), "delay=25ms,rate=2mbit,queue=100ms");
    for number in 0..2000 {
        pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
    }
    let (mut got, mut rebound) = (0, None);
    let done = pair.run_until(20 * SECOND, |pair| {
        got += pair.recv(End::Client).len();
        if got > 500 && rebound.is_none() {
            rebound = Some(pair.now());
            pair.world.rebind(pair.client);
        }
        got == 2000
    });
    assert!(done, "{got} of 2000");
    let took = pair.now().since(rebound.unwrap());
    assert!(took < 8 * SECOND, "2 Mbit/s carries the rest in 6.2 s; it took {took:?}");
}
