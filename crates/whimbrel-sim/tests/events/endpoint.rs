//! Whom an endpoint answers, and why not.

use tracing::Level;
use whimbrel_proto::{ListenConfig, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, World};

use super::collected::{Collected, Told};
use super::{LINK, SECOND, id, link, one};

fn unanswered(listen: ListenConfig) -> (String, Vec<Told>) {
    Collected::during(|| {
        let transport = TransportConfig::default();
        let world = World::new(1, transport.clone(), listen);
        let mut pair = Pair::join(world, transport, link(LINK), link(LINK));
        assert!(!pair.settle(9 * SECOND), "nobody is let in");
        pair.world.address(pair.client).to_string()
    })
}

fn endpoint<'a>(events: &'a [Told], message: &str) -> Vec<&'a Told> {
    let fits = |told: &&Told| told.target == "whimbrel::endpoint" && told.message() == message;
    events.iter().filter(fits).collect()
}

#[test]
fn a_refused_syn_says_where_it_came_from_and_the_operator_is_warned_once() {
    let listen = ListenConfig::default().syns_per_second(0);
    let (from, events) = unanswered(listen);
    let refused = endpoint(&events, "SYN refused");
    assert!(refused.len() > 2, "{refused:#?}");
    for told in refused {
        assert_eq!((told.field("from"), told.level), (&*from, Level::DEBUG));
        assert_eq!(told.field("reason"), "over the limit of SYNs a second");
    }
    let warned: Vec<_> = events.iter().filter(|told| told.level <= Level::WARN).collect();
    assert_eq!(warned.len(), 1, "a flood must not fill the log: {warned:#?}");
    assert_eq!(warned[0].field("setting"), "syns_per_second");
}

#[test]
fn a_syn_that_makes_no_sense_is_refused_with_the_reason() {
    let ((), events) = Collected::during(|| {
        let mut pair = Pair::connected(2, TransportConfig::default(), LINK);
        let (from, to) = (pair.world.address(pair.client), pair.world.address(SERVER));
        // A packet in the clear of type SYN, and too short for one.
        let mut packet = vec![0x80 | whimbrel_proto::wire::block::SYN];
        packet.extend_from_slice(&[7; 40]);
        pair.world.inject(from, to, &packet);
        pair.run(SECOND);
    });
    let refused = endpoint(&events, "SYN refused");
    assert!(refused.len() == 1 && refused[0].field("reason").contains("SYN"), "{refused:#?}");
}

#[test]
fn a_client_that_is_not_on_the_list_is_named() {
    let (from, events) = unanswered(ListenConfig::default().allow(Some([].into())));
    let refused = endpoint(&events, "client refused");
    assert!(!refused.is_empty());
    for told in refused {
        assert_eq!((told.level, told.field("from")), (Level::INFO, &*from));
        assert!(
            told.field("reason").contains("not on the list") && told.field("client").len() == 43,
            "{told:?}"
        );
    }
}

#[test]
fn a_revoked_key_is_named_by_the_endpoint_and_by_each_connection() {
    let ((key, ids), events) = Collected::during(|| {
        let mut pair = Pair::connected(3, TransportConfig::default(), LINK);
        let key = pair.connection(End::Server).peer_key().expect("it is proven");
        let ids = End::BOTH.map(|end| id(&mut pair, end));
        pair.world.revoke(SERVER, &key);
        pair.run(SECOND);
        (key.to_string(), ids)
    });
    let revoked = endpoint(&events, "key revoked");
    assert!(revoked.len() == 1 && revoked[0].field("key") == key, "{revoked:#?}");
    assert_eq!(one(&events, &ids[1], "key revoked").field("key"), key);
    let closed = one(&events, &ids[1], "closed");
    assert_eq!(closed.field("reason"), "the peer's key is no longer allowed");
    assert_eq!(closed.field("told"), "Refused: this key is not let in any more");
    let closed = one(&events, &ids[0], "closed");
    assert!(closed.field("reason").starts_with("aborted by the peer: Refused"), "{closed:?}");
    assert_eq!(closed.field("owner"), "remote");
}
