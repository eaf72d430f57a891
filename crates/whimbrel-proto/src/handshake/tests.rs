//! Tests of both ends with each other, and with an attacker between them.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::*;
use crate::crypto::{
    Aead, CidGenerator, CookieError, Identity, InvalidKey, Offer, OpenKey, PathMemory, PublicKey, ResetKey,
    SealKey, TicketError,
};
use crate::{ConnectionId, PathId, Time};

const CLIENT_ID: ConnectionId = ConnectionId(0x1111_2222_3333_4444);

fn address() -> SocketAddr {
    "192.0.2.7:5000".parse().unwrap()
}

fn seconds(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn reset_key(identity: &Identity) -> ResetKey {
    ResetKey::new(identity, &[6; 32])
}

/// A server, and a client that has not started.
struct World {
    rng: ChaCha20Rng,
    client: Identity,
    server: Identity,
    acceptor: Acceptor,
    now: Time,
    from: SocketAddr,
}

impl World {
    fn new(seed: u64, config: &AcceptorConfig) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let (client, server) = (Identity::generate(&mut rng), Identity::generate(&mut rng));
        let ids = CidGenerator::new(&server, 3, &mut rng);
        let acceptor = Acceptor::new(&server, config, ids, reset_key(&server), &mut rng);
        Self { rng, client, server, acceptor, now: seconds(100), from: address() }
    }

    fn plain() -> Self {
        Self::new(1, &AcceptorConfig { aes_in_hardware: true, ..AcceptorConfig::default() })
    }

    fn config(&self) -> ClientConfig {
        ClientConfig::new(ServerKey::Known(self.server.public()), true)
    }

    fn begin(&mut self, config: ClientConfig) -> ClientHandshake {
        ClientHandshake::new(&mut self.rng, &self.client, config, CLIENT_ID)
    }

    fn syn(&mut self, syn: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut out = Vec::new();
        self.acceptor.handle_syn(self.now, self.from, syn, &mut out).map(|()| out)
    }

    fn ping(&mut self, ping: &[u8]) -> Result<Ping, Refusal> {
        let mut out = Vec::new();
        let answer =
            self.acceptor.handle_ping(self.now, self.from, ping, &mut self.rng, &mut |_| true, &mut out);
        assert!(out.is_empty(), "only a ticket is answered otherwise");
        answer
    }

    fn accept(&mut self, ping: &[u8]) -> Box<Accepted> {
        match self.ping(ping) {
            Ok(Ping::New(accepted)) => accepted,
            Ok(_) => panic!("not new"),
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// Runs a client up to its PING.
    fn up_to_ping(&mut self, config: ClientConfig) -> (ClientHandshake, PingFlight) {
        let mut client = self.begin(config);
        let syn_ack = self.syn(&client.syn()).unwrap();
        client.handle_syn_ack(&syn_ack).unwrap();
        let flight = client.ping(&Params::default(), PING_LEN, &mut |out| out.bytes(b"first")).unwrap();
        (client, flight)
    }
}

fn finish(accepted: Box<Accepted>) -> Finished {
    accepted.finish(&Params::default(), PING_LEN, &mut |out| out.bytes(b"second")).unwrap()
}

fn refused(answer: Result<Ping, Refusal>) -> Refusal {
    match answer {
        Ok(_) => panic!("accepted"),
        Err(refusal) => refusal,
    }
}

fn failed<T>(answer: Result<T, HandshakeError>) -> HandshakeError {
    match answer {
        Ok(_) => panic!("taken"),
        Err(error) => error,
    }
}

fn passes(seal: &SealKey, open: &OpenKey) -> bool {
    let mut body = b"blocks".to_vec();
    let tag = seal.seal(PathId(0), 1, b"head", &mut body);
    body.extend_from_slice(&tag);
    open.open(PathId(0), 1, b"head", &mut body) == Some(6)
}

/// All packets that differ from `packet` in one bit of one byte.
fn spoilt(packet: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..packet.len()).map(|at| {
        let mut copy = packet.to_vec();
        copy[at] ^= 1 << (at % 8);
        copy
    })
}

/// All prefixes of `packet`, and the packet with one byte appended.
fn cut(packet: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..packet.len()).map(|length| packet[..length].to_vec()).chain([[packet, b"!"].concat()])
}

#[test]
fn four_packets_carry_data_and_end_with_matching_keys() {
    let mut world = World::plain();
    let mut client = world.begin(world.config());
    let syn = client.syn();
    assert_eq!((syn.len(), client.syn()), (SYN_LEN, syn.clone()));
    let syn_ack = world.syn(&syn).unwrap();
    assert_eq!(syn_ack.len(), 89);
    let outcome = client.handle_syn_ack(&syn_ack).unwrap();
    assert_eq!(outcome.shown_key, None);
    assert_eq!(world.acceptor.ids().core_of(outcome.server_id), 3);

    let theirs = Params {
        protocol: Bytes::from_static(b"chat/1"),
        max_streams: 9,
        session: Some([5; 16]),
        ..Params::default()
    };
    let mut room = 0;
    let flight = client.ping(&theirs, PING_LEN, &mut |out| {
        room = out.remaining();
        out.bytes(&vec![7; room]);
    });
    let flight = flight.unwrap();
    assert_eq!((flight.packet.len(), room), (PING_LEN, 952));
    let mut accepted = world.accept(&flight.packet);
    assert_eq!((accepted.client_id, accepted.server_id), (CLIENT_ID, outcome.server_id));
    assert_eq!(flight.server_id, outcome.server_id);
    assert_eq!(accepted.client_key, world.client.public());
    assert_eq!(accepted.params, theirs);
    assert_eq!(accepted.blocks, vec![7; room]);
    assert_eq!(accepted.memory, None);
    let (early_seal, early_open) = (flight.early.unwrap(), accepted.early.take().unwrap());
    assert!(passes(&early_seal.seal, &early_open.open));
    assert_eq!(early_seal.header.mask(&[1; 16]), early_open.header.mask(&[1; 16]));

    let ours = Params { max_stream_data: 1, idle: Duration::from_secs(5), ..Params::default() };
    let done = accepted.finish(&ours, PING_LEN, &mut |out| out.bytes(b"welcome")).unwrap();
    let established = client.handle_pong(&done.pong).unwrap();
    let token = reset_key(&world.server).token(outcome.server_id);
    assert_eq!(established.params, Params { first_reset_token: Some(token), ..ours });
    assert_eq!(established.blocks, &b"welcome"[..]);
    assert_eq!((established.server_id, established.server_key), (outcome.server_id, world.server.public()));
    assert_eq!(established.handshake_hash, done.handshake_hash);
    assert_eq!(established.aead, Aead::Aes128Gcm);
    let (a, b) = (established.keys, done.keys);
    assert!(passes(&a.seal, &b.open) && passes(&b.seal, &a.open));
    assert!(!passes(&a.seal, &a.open) && !passes(&a.seal, &early_open.open));
    assert_eq!(a.seal_header.mask(&[2; 16]), b.open_header.mask(&[2; 16]));
    assert_eq!(a.open_header.mask(&[2; 16]), b.seal_header.mask(&[2; 16]));
}

#[test]
fn states_may_move_between_threads() {
    const fn is_send<T: Send>() {}
    is_send::<(ClientHandshake, Acceptor, Accepted, Finished, Established)>();
}

#[test]
fn a_seed_reproduces_every_byte_and_another_seed_none() {
    let run = |seed| {
        let mut world = World::new(seed, &AcceptorConfig::default());
        let (_, flight) = world.up_to_ping(world.config());
        let done = finish(world.accept(&flight.packet));
        (flight.packet, done.pong, done.handshake_hash)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0[60..], run(2).0[60..]);
    assert_ne!(run(1).2, run(2).2);
}

#[test]
fn the_cipher_is_what_both_do_in_hardware() {
    for (client, server, chosen) in [
        (Offer::both(true), true, Aead::Aes128Gcm),
        (Offer::both(true), false, Aead::ChaCha20Poly1305),
        (Offer::both(false), true, Aead::ChaCha20Poly1305),
        (Offer::only(Aead::Aes128Gcm), false, Aead::Aes128Gcm),
    ] {
        let mut world =
            World::new(1, &AcceptorConfig { aes_in_hardware: server, ..AcceptorConfig::default() });
        let (mut at_client, flight) = world.up_to_ping(ClientConfig { aeads: client, ..world.config() });
        let accepted = world.accept(&flight.packet);
        assert_eq!(accepted.aead, chosen);
        let early = accepted.early.as_ref().unwrap();
        assert!(passes(&flight.early.unwrap().seal, &early.open), "early data before the choice");
        let done = finish(accepted);
        let established = at_client.handle_pong(&done.pong).unwrap();
        assert_eq!((established.aead, established.keys.aead()), (chosen, chosen));
        assert!(passes(&established.keys.seal, &done.keys.open));
    }
}

#[test]
fn spoilt_packets_fail_and_the_genuine_ones_still_work() {
    let mut world = World::plain();
    let mut client = world.begin(world.config());
    let mut bystander = World::new(9, &AcceptorConfig::default());

    // A changed SYN gets a SYN-ACK at most, and the PING that follows is refused.
    for syn in spoilt(&client.syn()) {
        let Ok(syn_ack) = world.syn(&syn) else { continue };
        let mut victim = world.begin(world.config());
        if victim.handle_syn_ack(&syn_ack).is_ok() {
            let flight = victim.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
            refused(world.ping(&flight.packet));
        }
    }
    for syn in cut(&client.syn()) {
        assert!(world.syn(&syn).is_err());
    }

    // A changed SYN-ACK is refused or leads to a PING that is refused. Then the genuine one is accepted.
    let syn_ack = world.syn(&client.syn()).unwrap();
    for forged in spoilt(&syn_ack).chain(cut(&syn_ack)) {
        if client.handle_syn_ack(&forged).is_ok() {
            let flight = client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
            refused(world.ping(&flight.packet));
            bystander.ping(&flight.packet).err().unwrap();
        }
    }
    client.handle_syn_ack(&syn_ack).unwrap();
    let flight = client.ping(&Params::default(), PING_LEN, &mut |out| out.bytes(b"first")).unwrap();

    // Three forgeries with each cookie, because a cookie is void after a few failures.
    let count = spoilt(&flight.packet).chain(cut(&flight.packet)).count();
    for first in (0..count).step_by(3) {
        let used = world.acceptor.cookies_used().len();
        let (_, flight) = world.up_to_ping(world.config());
        for forged in spoilt(&flight.packet).chain(cut(&flight.packet)).skip(first).take(3) {
            refused(world.ping(&forged));
        }
        assert_eq!(world.acceptor.cookies_used().len(), used);
        world.accept(&flight.packet);
    }
    let done = finish(world.accept(&flight.packet));

    for forged in spoilt(&done.pong).chain(cut(&done.pong)) {
        failed(client.handle_pong(&forged));
    }
    let established = client.handle_pong(&done.pong).unwrap();
    assert!(
        passes(&established.keys.seal, &done.keys.open) && passes(&done.keys.seal, &established.keys.open)
    );
}

/// Forward secrecy. The thief has the static keys of both ends, even the server's key for cookies, and all that was
/// sent. Only the ephemeral keys are missing, and with them everything opens.
#[test]
fn packets_recorded_before_stay_sealed_for_a_thief_of_all_static_keys() {
    let sealed = |seal: &SealKey| {
        let mut packet = b"blocks".to_vec();
        let tag = seal.seal(PathId(0), 1, b"head", &mut packet);
        packet.extend_from_slice(&tag);
        packet
    };
    let opens =
        |open: &OpenKey, packet: &[u8]| open.open(PathId(0), 1, b"head", &mut packet.to_vec()).is_some();
    let ping_of = |client: &mut ClientHandshake, syn_ack: &[u8]| {
        client.handle_syn_ack(syn_ack).unwrap();
        client.ping(&Params::default(), PING_LEN, &mut |out| out.bytes(b"first")).unwrap().packet
    };
    let mut world = World::plain();
    let mut client = world.begin(world.config());
    let syn_ack = world.syn(&client.syn()).unwrap();
    let ping = ping_of(&mut client, &syn_ack);
    let server = finish(world.accept(&ping));
    let client = client.handle_pong(&server.pong).unwrap();
    let (from_client, from_server) = (sealed(&client.keys.seal), sealed(&server.keys.seal));

    for knows_ephemeral_keys in [true, false] {
        let mut thief = World::plain();
        let mut as_client = thief.begin(thief.config());
        if !knows_ephemeral_keys {
            thief.rng = ChaCha20Rng::seed_from_u64(99);
            as_client = thief.begin(thief.config());
        }
        // Early data is sealed to the server's static key alone.
        let accepted = thief.accept(&ping);
        assert_eq!(accepted.blocks, "first");
        let keys = finish(accepted).keys;
        assert_eq!(opens(&keys.open, &from_client), knows_ephemeral_keys);
        assert_eq!(sealed(&keys.seal) == from_server, knows_ephemeral_keys);
        ping_of(&mut as_client, &syn_ack);
        let established = as_client.handle_pong(&server.pong);
        let opened = established.is_ok_and(|client| opens(&client.keys.open, &from_server));
        assert_eq!(opened, knows_ephemeral_keys);
    }
}

#[test]
fn replays_change_nothing() {
    let mut world = World::plain();
    let mut client = world.begin(world.config());
    let syn = client.syn();
    let first = world.syn(&syn).unwrap();
    let second = world.syn(&syn).unwrap();
    assert_ne!(first, second, "each SYN has its own cookie");
    client.handle_syn_ack(&first).unwrap();
    client.handle_syn_ack(&first).unwrap();
    let flight = client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    let again = client.ping(&Params::default(), PING_LEN, &mut |_| ());
    assert_eq!(failed(again), HandshakeError::NoCookie, "one PING a cookie");
    let done = finish(world.accept(&flight.packet));
    let Ok(Ping::Repeated { server_id }) = world.ping(&flight.packet) else { panic!("not a repetition") };
    assert_eq!(server_id, flight.server_id);

    // The same cookie with another Noise message.
    client.handle_syn_ack(&first).unwrap();
    let other = client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    assert_eq!(refused(world.ping(&other.packet)), Refusal::Replayed);

    client.handle_pong(&done.pong).unwrap();
    assert_eq!(failed(client.handle_pong(&done.pong)), HandshakeError::NotOurs);

    // The cookie is remembered while it is valid, and stale from then on.
    world.now += Duration::from_secs(10);
    assert!(matches!(world.ping(&flight.packet), Ok(Ping::Repeated { .. })));
    world.now += Duration::from_nanos(1);
    assert_eq!(refused(world.ping(&flight.packet)), Refusal::Cookie(CookieError::Stale));
    world.now += Duration::from_secs(20);
    assert_eq!(refused(world.ping(&flight.packet)), Refusal::Cookie(CookieError::Invalid));
}

#[test]
fn a_forged_syn_ack_costs_a_silence_and_not_the_connection() {
    let mut world = World::plain();
    let mut client = world.begin(world.config());
    let genuine = world.syn(&client.syn()).unwrap();
    let mut forged = genuine.clone();
    *forged.last_mut().unwrap() ^= 1;
    let ping = |client: &mut ClientHandshake| client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    // No more than the client keeps; the genuine one is neither first nor last.
    client.handle_syn_ack(&forged).unwrap();
    ping(&mut client);
    client.handle_syn_ack(&genuine).unwrap();
    let flight = ping(&mut client);
    for _ in 0..2 {
        client.handle_syn_ack(&forged).unwrap();
        ping(&mut client);
    }
    let done = finish(world.accept(&flight.packet));
    let established = client.handle_pong(&done.pong).unwrap();
    assert!(passes(&established.keys.seal, &done.keys.open));
}

#[test]
fn cookies_belong_to_an_address_and_a_process() {
    let mut world = World::plain();
    let (_, flight) = world.up_to_ping(world.config());
    world.from = "192.0.2.8:5000".parse().unwrap();
    assert_eq!(refused(world.ping(&flight.packet)), Refusal::Cookie(CookieError::Invalid));
    world.from = address();
    let ids = CidGenerator::new(&world.server, 3, &mut world.rng);
    let reset = reset_key(&world.server);
    let restarted = Acceptor::new(&world.server, &AcceptorConfig::default(), ids, reset, &mut world.rng);
    let before = std::mem::replace(&mut world.acceptor, restarted);
    assert_eq!(refused(world.ping(&flight.packet)), Refusal::Cookie(CookieError::Invalid));
    world.acceptor = before;
    world.accept(&flight.packet);
}

#[test]
fn another_server_cannot_answer() {
    let mut world = World::plain();
    let stranger = Identity::generate(&mut world.rng).public();
    let (_, flight) = world.up_to_ping(ClientConfig::new(ServerKey::Known(stranger), true));
    assert_eq!(refused(world.ping(&flight.packet)), Refusal::Forged);
}

#[test]
fn another_version_is_told_which_is_spoken() {
    let mut world = World::plain();
    let mut client = world.begin(world.config());
    let mut syn = client.syn();
    syn[9..13].copy_from_slice(&7u32.to_be_bytes());
    let mut answer = world.syn(&syn).unwrap();
    assert_eq!(answer.len(), 23);
    // The answer is our own version's; to the client it looks like a version other than the one it asked for.
    answer[9..13].copy_from_slice(&7u32.to_be_bytes());
    assert_eq!(failed(client.handle_syn_ack(&answer)), HandshakeError::Version(7));
    let syn_ack = world.syn(&client.syn()).unwrap();
    client.handle_syn_ack(&syn_ack).unwrap();
}

#[test]
fn trust_on_first_use_sends_nothing_early() {
    let mut world = World::new(1, &AcceptorConfig { show_key: true, ..AcceptorConfig::default() });
    let mut client = world.begin(ClientConfig::new(ServerKey::Ask, true));
    let syn_ack = world.syn(&client.syn()).unwrap();
    assert!(syn_ack.len() <= SYN_LEN);
    let shown = client.handle_syn_ack(&syn_ack).unwrap().shown_key.unwrap();
    assert_eq!(shown, world.server.public());
    let ping = |client: &mut ClientHandshake| {
        client.ping(&Params::default(), PING_LEN, &mut |_| panic!("no early data"))
    };
    assert_eq!(failed(ping(&mut client)), HandshakeError::KeyNotTrusted);
    client.trust(shown);
    let flight = ping(&mut client).unwrap();
    assert!(flight.early.is_none());
    let mut other = world.syn(&client.syn()).unwrap();
    let differing = Identity::generate(&mut world.rng).public();
    other[22..54].copy_from_slice(differing.as_bytes());
    let differs = client.handle_syn_ack(&other);
    assert_eq!(failed(differs), HandshakeError::KeyDiffers { shown: differing }, "once trusted, no other");
    let accepted = world.accept(&flight.packet);
    assert!(accepted.early.is_none() && accepted.blocks.is_empty());
    client.handle_pong(&finish(accepted).pong).unwrap();
}

#[test]
fn a_server_that_hides_its_key_and_one_that_changed_it_stop_before_ping() {
    let mut world = World::plain();
    let mut client = world.begin(ClientConfig::new(ServerKey::Ask, true));
    let syn_ack = world.syn(&client.syn()).unwrap();
    assert_eq!(failed(client.handle_syn_ack(&syn_ack)), HandshakeError::NoKeyShown);

    let mut world = World::new(1, &AcceptorConfig { show_key: true, ..AcceptorConfig::default() });
    let remembered = Identity::generate(&mut world.rng).public();
    let mut client = world.begin(ClientConfig::new(ServerKey::Remembered(remembered), true));
    let syn_ack = world.syn(&client.syn()).unwrap();
    let shown = world.server.public();
    assert_eq!(failed(client.handle_syn_ack(&syn_ack)), HandshakeError::KeyDiffers { shown });
    let ping = client.ping(&Params::default(), PING_LEN, &mut |_| ());
    assert_eq!(failed(ping), HandshakeError::NoCookie);

    // A key without secrecy is not shown to the application.
    let mut client = world.begin(ClientConfig::new(ServerKey::Ask, true));
    let mut syn_ack = world.syn(&client.syn()).unwrap();
    syn_ack[22..54].fill(0);
    assert_eq!(failed(client.handle_syn_ack(&syn_ack)), HandshakeError::NoKeyShown);
    assert_eq!(PublicKey::new([0; 32]), Err(InvalidKey::LowOrder));
}

#[test]
fn ephemeral_keys_without_secrecy_are_refused() {
    let mut world = World::plain();
    let (_, flight) = world.up_to_ping(world.config());
    let mut packet = flight.packet;
    packet[84..116].fill(0);
    assert_eq!(refused(world.ping(&packet)), Refusal::Forged);
}

#[test]
fn a_pre_shared_key_is_needed_at_both_ends_and_turns_early_data_off() {
    let config = AcceptorConfig { psk: Some([1; 32].into()), ..AcceptorConfig::default() };
    let mut world = World::new(1, &config);
    let (mut client, flight) = world.up_to_ping(ClientConfig { psk: Some([1; 32].into()), ..world.config() });
    assert!(flight.early.is_none());
    let accepted = world.accept(&flight.packet);
    assert!(accepted.blocks.is_empty() && accepted.early.is_none());
    let done = finish(accepted);
    let established = client.handle_pong(&done.pong).unwrap();
    assert!(passes(&established.keys.seal, &done.keys.open));
    assert_eq!(established.blocks, &b"second"[..]);

    let (_, without) = world.up_to_ping(world.config());
    assert_eq!(refused(world.ping(&without.packet)), Refusal::Forged);

    // psk2 is mixed in with message 2, so the client notices first, and the server with the first sealed packet.
    let (mut client, wrong) = world.up_to_ping(ClientConfig { psk: Some([2; 32].into()), ..world.config() });
    let done = finish(world.accept(&wrong.packet));
    assert_eq!(failed(client.handle_pong(&done.pong)), HandshakeError::Forged);
}

#[test]
fn a_full_register_refuses_and_does_not_grow() {
    let config = AcceptorConfig { cookies_remembered: 2, ..AcceptorConfig::default() };
    let mut world = World::new(1, &config);
    for _ in 0..2 {
        let (_, flight) = world.up_to_ping(world.config());
        world.accept(&flight.packet);
    }
    let (_, flight) = world.up_to_ping(world.config());
    assert_eq!(refused(world.ping(&flight.packet)), Refusal::Full);
    assert_eq!((world.acceptor.cookies_used().len(), world.acceptor.cookies_used().refused()), (2, 1));
    world.now += Duration::from_secs(11);
    let (_, flight) = world.up_to_ping(world.config());
    world.accept(&flight.packet);
    assert_eq!(world.acceptor.cookies_used().len(), 1);
}

#[test]
fn a_ticket_saves_a_round_trip_once() {
    let mut world = World::plain();
    let memory = PathMemory { rate: 1_000_000, rtt: Duration::from_millis(30) };
    let (ticket, life) = world.acceptor.issue_ticket(world.now, &world.client.public(), memory);
    assert_eq!(life, Duration::from_secs(86_400));
    world.now += Duration::from_secs(3_600);
    // The client comes from another address.
    world.from = "198.51.100.1:1".parse().unwrap();
    let mut client =
        world.begin(ClientConfig { ticket: Some(Bytes::copy_from_slice(&ticket)), ..world.config() });
    assert!(client.has_ticket());
    let flight = client.ping(&Params::default(), PING_LEN, &mut |out| out.bytes(b"early")).unwrap();
    assert_eq!(world.acceptor.ids().core_of(flight.server_id), 3);
    for forged in spoilt(&flight.packet) {
        let mut out = Vec::new();
        let answer = world.acceptor.handle_ping(
            world.now,
            world.from,
            &forged,
            &mut world.rng,
            &mut |_| true,
            &mut out,
        );
        assert!(matches!(answer, Err(_) | Ok(Ping::Answered(TicketError::Invalid))));
        assert!(out.len() <= forged.len());
    }
    let accepted = world.accept(&flight.packet);
    assert_eq!((accepted.memory, &accepted.blocks[..]), (Some(memory), &b"early"[..]));
    assert!(passes(&flight.early.unwrap().seal, &accepted.early.as_ref().unwrap().open));
    let done = accepted.finish(&Params::default(), 65_535, &mut |out| {
        let room = out.remaining();
        out.bytes(&vec![0; room]);
    });
    let done = done.unwrap();
    assert_eq!(done.pong.len(), 3 * flight.packet.len(), "the address is not validated");
    assert!(matches!(world.ping(&flight.packet), Ok(Ping::Repeated { .. })));
    for forged in spoilt(&done.pong) {
        failed(client.handle_pong(&forged));
    }
    let established = client.handle_pong(&done.pong).unwrap();
    assert!(passes(&established.keys.seal, &done.keys.open));

    // A second use of the ticket is answered with a SYN-ACK, and the handshake continues from there.
    let mut client =
        world.begin(ClientConfig { ticket: Some(Bytes::copy_from_slice(&ticket)), ..world.config() });
    let flight = client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    let mut syn_ack = Vec::new();
    let answer = world.acceptor.handle_ping(
        world.now,
        world.from,
        &flight.packet,
        &mut world.rng,
        &mut |_| true,
        &mut syn_ack,
    );
    assert!(matches!(answer, Ok(Ping::Answered(TicketError::Used))));
    assert!(!client.has_ticket());
    client.handle_syn_ack(&syn_ack).unwrap();
    let flight = client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    let accepted = world.accept(&flight.packet);
    assert_eq!(accepted.memory, None);
    client.handle_pong(&finish(accepted).pong).unwrap();
}

#[test]
fn a_stolen_ticket_is_worth_nothing() {
    let mut world = World::plain();
    let (ticket, _) = world.acceptor.issue_ticket(world.now, &world.client.public(), PathMemory::default());
    let owner = std::mem::replace(&mut world.client, Identity::from_secret([66; 32]));
    let mut thief =
        world.begin(ClientConfig { ticket: Some(Bytes::copy_from_slice(&ticket)), ..world.config() });
    let flight = thief.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    let mut out = Vec::new();
    let answer = world.acceptor.handle_ping(
        world.now,
        world.from,
        &flight.packet,
        &mut world.rng,
        &mut |_| true,
        &mut out,
    );
    assert!(matches!(answer, Ok(Ping::Answered(TicketError::NotYours))));
    world.client = owner;
    let mut client =
        world.begin(ClientConfig { ticket: Some(Bytes::copy_from_slice(&ticket)), ..world.config() });
    let flight = client.ping(&Params::default(), PING_LEN, &mut |_| ()).unwrap();
    world.accept(&flight.packet);
}

#[test]
fn a_ticket_without_the_servers_key_is_not_used() {
    let mut world = World::plain();
    let client = world.begin(ClientConfig {
        ticket: Some(Bytes::from_static(&[0; 80])),
        ..ClientConfig::new(ServerKey::Ask, true)
    });
    assert!(!client.has_ticket());
}

#[test]
fn a_short_ping_with_a_ticket_is_not_answered_with_more() {
    let mut world = World::plain();
    let head = clear::PingPacket::write_head(ConnectionId(1), CLIENT_ID, clear::Pass::Ticket(&[1]));
    for length in 32..SYN_LEN {
        let packet = [&head[..], &vec![0; length]].concat();
        let mut out = Vec::new();
        let answer = world.acceptor.handle_ping(
            world.now,
            world.from,
            &packet,
            &mut world.rng,
            &mut |_| true,
            &mut out,
        );
        assert!(out.len() <= packet.len());
        assert_eq!(answer.is_ok(), packet.len() >= SYN_LEN);
    }
}

proptest::proptest! {
    #[test]
    fn any_packet_is_answered(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), kind in 0x82u8..0x86, ours: bool,
    ) {
        let mut world = World::plain();
        let mut client = world.begin(world.config());
        let mut packet = bytes;
        if let Some(first) = packet.first_mut() {
            *first = kind;
        }
        if ours && packet.len() > 9 {
            packet[1..9].copy_from_slice(&CLIENT_ID.to_bytes());
        }
        let mut out = Vec::new();
        world.acceptor.handle_syn(world.now, world.from, &packet, &mut out).ok();
        world.acceptor.handle_ping(world.now, world.from, &packet, &mut world.rng, &mut |_| true, &mut out).ok();
        proptest::prop_assert!(out.len() <= packet.len());
        client.handle_syn_ack(&packet).ok();
        client.handle_pong(&packet).ok();
        let (mut client, flight) = world.up_to_ping(world.config());
        client.handle_pong(&packet).ok();
        let done = finish(world.accept(&flight.packet));
        client.handle_pong(&done.pong).unwrap();
    }
}
