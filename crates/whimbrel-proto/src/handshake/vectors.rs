//! The test vectors `docs/vectors/handshake.txt`: one handshake and a few sealed packets, byte by byte, for other
//! implementations. `WHIMBREL_WRITE_VECTORS=1 cargo test -p whimbrel-proto vectors` rewrites the file.

use std::fmt::Write as _;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::clear::{PingPacket, PongPacket, SynAckPacket, prologue};
use super::noise::Pattern;
use super::params::Secrets;
use super::*;
use crate::crypto::{
    Aead, CidGenerator, Claim, HeaderKey, Identity, Keys, Offer, OpenKey, ResetKey, SealKey, Secret,
};
use crate::wire::Writer;
use crate::wire::packet::PROTECTED_BITS;
use crate::{ConnectionId, PathId, Side, Time};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors/handshake.txt");

struct Vectors(String);

impl Vectors {
    fn section(&mut self, words: &str) {
        write!(self.0, "\n# {words}\n").unwrap();
    }

    fn bytes(&mut self, name: &str, bytes: impl AsRef<[u8]>) {
        let hex: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.0, "{name} = {hex}").unwrap();
    }
}

fn draw(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn handshake(vectors: &mut Vectors) {
    let mut rng = ChaCha20Rng::seed_from_u64(0x5748);
    let (client_key, server_key) = (Identity::from_secret([0xc1; 32]), Identity::from_secret([0x5e; 32]));
    let ids = CidGenerator::new(&server_key, 0, &mut rng);
    let config = AcceptorConfig { aes_in_hardware: true, ..AcceptorConfig::default() };
    let salt = [0x5a; 32];
    let reset = ResetKey::new(&server_key, &salt);
    let mut acceptor = Acceptor::new(&server_key, &config, ids, reset.clone(), &mut rng);
    let from = "192.0.2.1:4433".parse().unwrap();
    let client_id = ConnectionId(0x0123_4567_89ab_cdef);

    let mut seeded = ChaCha20Rng::from_seed(draw(&mut rng.clone()));
    let (early, client_ephemeral) = (draw(&mut seeded), draw(&mut seeded));
    let config = ClientConfig::new(ServerKey::Known(server_key.public()), true);
    let mut client = ClientHandshake::new(&mut rng, &client_key, config, client_id);
    let (syn, mut syn_ack) = (client.syn(), Vec::new());
    acceptor.handle_syn(Time::ZERO, from, &syn, &mut syn_ack).unwrap();
    client.handle_syn_ack(&syn_ack).unwrap();
    let params = Params {
        protocol: "vector".into(),
        max_streams: 100,
        session: Some([0x11; 16]),
        ..Params::default()
    };
    let ping = client.ping(&params, PING_LEN, &mut |out| out.bytes(b"client's blocks")).unwrap();
    let server_ephemeral = draw(&mut rng.clone());
    let answer =
        acceptor.handle_ping(Time::ZERO, from, &ping.packet, &mut rng, &mut |_| true, &mut Vec::new());
    let Ok(Ping::New(accepted)) = answer else { panic!("a good PING") };
    let params = Params { max_stream_data: 1_000_000, ..Params::default() };
    let finished = accepted.finish(&params, PING_LEN, &mut |out| out.bytes(b"server's blocks")).unwrap();
    let established = client.handle_pong(&finished.pong).unwrap();

    // The same again, from nothing but the contents of the file.
    let answer = SynAckPacket::parse(&syn_ack).unwrap();
    let prologue = prologue([&syn, answer.covered]);
    let pattern = Pattern::new(None);
    let mut noise =
        pattern.initiator(&client_key, &server_key.public(), &prologue, client_ephemeral).unwrap();
    let mut responder = pattern.responder(&server_key, &prologue, server_ephemeral).unwrap();
    let first_hash: [u8; 32] = noise.get_handshake_hash().try_into().unwrap();
    let (mut first, mut second, mut message) = (vec![0; 300], vec![0; 300], vec![0; 500]);
    let sent = PingPacket::parse(&ping.packet).unwrap();
    let length = responder.read_message(sent.noise, &mut first).unwrap();
    first.truncate(length);
    let length = noise.write_message(&first, &mut message).unwrap();
    assert_eq!(message[..length], *sent.noise);
    let sent = PongPacket::parse(&finished.pong).unwrap();
    let length = noise.read_message(sent.noise, &mut second).unwrap();
    second.truncate(length);
    let length = responder.write_message(&second, &mut message).unwrap();
    assert_eq!(message[..length], *sent.noise);
    assert_eq!(noise.get_handshake_hash(), established.handshake_hash);
    let (split_client, split_server) = noise.dangerously_get_raw_split();

    vectors.section("Handshake. The cookie is the server's own affair: take it as it is.");
    vectors.bytes("client.static.private", client_key.secret());
    vectors.bytes("client.static.public", client_key.public().as_bytes());
    vectors.bytes("server.static.private", server_key.secret());
    vectors.bytes("server.static.public", server_key.public().as_bytes());
    vectors.bytes("client.ephemeral.private", client_ephemeral);
    vectors.bytes("server.ephemeral.private", server_ephemeral);
    vectors.bytes("early_secret", early);
    vectors.bytes("syn", &syn);
    vectors.bytes("syn_ack", &syn_ack);
    vectors.bytes("prologue", prologue);
    vectors.bytes("message_1.payload", &first);
    vectors.bytes("ping", &ping.packet);
    vectors.bytes("message_2.payload", &second);
    vectors.bytes("pong", &finished.pong);
    vectors.bytes("handshake_hash", established.handshake_hash);
    vectors.bytes("raw_split.client", split_client);
    vectors.bytes("raw_split.server", split_server);

    vectors.section("Secrets and keys, AES-128-GCM");
    for (name, secret) in [
        ("early", Secret::new(early).derive("early")),
        ("client", Secret::new(split_client).derive("client")),
        ("server", Secret::new(split_server).derive("server")),
    ] {
        keys(vectors, name, Aead::Aes128Gcm, &secret);
    }

    vectors.section("Stateless reset: token of the server's id under the server's static key and the salt of its instance");
    vectors.bytes("reset.salt", salt);
    vectors.bytes("reset.id", ping.server_id.to_bytes());
    vectors.bytes("reset.token", reset.token(ping.server_id).as_bytes());
    assert_eq!(established.params.first_reset_token, Some(reset.token(ping.server_id)));

    vectors.section("Resumption: this handshake's session, as if another with the same hash before message 1 and the same keys resumed it");
    let secret = Secret::new(split_client).derive("client").derive("resume");
    let claim = Claim::new([0x11; 16], 0, Secret::new(*secret.bytes()));
    let proof = claim.prove(&first_hash);
    vectors.bytes("resume.secret", secret.bytes());
    vectors.bytes("resume.hash", first_hash);
    vectors.bytes("resume.parameter", [&proof.session[..], &proof.epoch.to_be_bytes(), &proof.mac].concat());
    vectors.bytes("resume.next_secret", claim.next(&secret).secret().bytes());

    exporter(vectors, &Secret::new(split_client), &Secret::new(split_server));
}

/// Prints the secrets that both ends export, before and after their keys were rotated.
fn exporter(vectors: &mut Vectors, split_client: &Secret, split_server: &Secret) {
    let (label, context) = (b"EXPERIMENTAL vector", b"of the application");
    let secret = split_client.derive("client").derive("exporter");
    // More than two of HKDF's blocks.
    let mut exported = [0; 80];
    assert!(secret.export(label, context, &mut exported));
    for side in [Side::Client, Side::Server] {
        let mut keys = Keys::new(side, Aead::Aes128Gcm, split_client.clone(), split_server.clone());
        for _ in 0..2 {
            let mut out = [0; 80];
            assert!(keys.export(side, label, context, &mut out));
            assert_eq!(out, exported);
            keys.rotate();
        }
    }
    vectors.section("Exported keying material, from the secret of the client's packets");
    vectors.bytes("exporter.secret", secret.bytes());
    vectors.bytes("exporter.label", label);
    vectors.bytes("exporter.context", context);
    vectors.bytes("exporter.output", exported);
}

/// Lists of parameters with EXTENSIONS, and the known ones among their bits.
fn extensions(vectors: &mut Vectors) {
    let own = Params { extensions: Extensions::OWN, ..Params::default() };
    let secrets = Secrets { aeads: Offer::only(Aead::Aes128Gcm), early: None };
    let mut list = Vec::new();
    own.write(Side::Client, &secrets, &mut Writer::new(&mut list, 100));

    vectors.section("EXTENSIONS in lists of parameters, and the bits that this version takes from them: as it writes them itself, and of later versions");
    for (name, list, taken) in [
        ("of_this_version", list, 7),
        ("with_unknown_bits", b"\x01\x01\x01\x10\x02\x4a\x35\x00".to_vec(), 5),
        ("of_unknown_bits", b"\x01\x01\x01\x10\x04\x80\x00\xff\xf8\x00".to_vec(), 0),
    ] {
        vectors.bytes(&format!("extensions.{name}"), &list);
        vectors.bytes(&format!("extensions.{name}.taken"), [taken]);
        for side in [Side::Client, Side::Server] {
            let read = Params::parse(side, list.clone().into()).unwrap();
            assert_eq!(
                read.extensions,
                Extensions { openings: taken & 1 != 0, small_shares: taken & 2 != 0, coding: taken & 4 != 0 }
            );
        }
    }
}

fn keys(vectors: &mut Vectors, name: &str, aead: Aead, secret: &Secret) {
    let (mut key, mut iv, mut hp) = (vec![0; aead.key_len()], [0; 12], vec![0; aead.key_len()]);
    secret.expand("key", &[], &mut key);
    secret.expand("iv", &[], &mut iv);
    secret.expand("hp", &[], &mut hp);
    vectors.bytes(&format!("{name}.secret"), secret.bytes());
    vectors.bytes(&format!("{name}.key"), key);
    vectors.bytes(&format!("{name}.iv"), iv);
    vectors.bytes(&format!("{name}.hp"), hp);
    vectors.bytes(&format!("{name}.next_secret"), secret.next().bytes());
}

/// A packet of path 2 with number 0x3a5b7, written in three bytes, key phase 1.
fn packet(vectors: &mut Vectors, aead: Aead) {
    let secret = Secret::new(std::array::from_fn(|at| at as u8));
    let (path, number) = (PathId(2), 0x3_a5b7);
    let head = [&[0x06][..], &[0xab; 8], &[0x03, 0xa5, 0xb7]].concat();
    let plain = b"blocks, up to the tag";
    let mut body = plain.to_vec();
    let tag = SealKey::new(aead, &secret).seal(path, number, &head, &mut body);
    body.extend_from_slice(&tag);
    let mut wire = [&head[..], &body].concat();
    // The packet number starts at 9, so the sample at 13.
    let sample = *wire[13..].first_chunk().unwrap();
    let mask = HeaderKey::new(aead, &secret).mask(&sample);
    wire[0] ^= mask[0] & PROTECTED_BITS;
    (0..3).for_each(|at| wire[9 + at] ^= mask[1 + at]);
    assert_eq!(OpenKey::new(aead, &secret).open(path, number, &head, &mut body), Some(plain.len()));

    vectors.section(&format!("Packet, {aead:?}: path 2, number 0x3a5b7"));
    keys(vectors, "packet", aead, &secret);
    vectors.bytes("packet.head", head);
    vectors.bytes("packet.blocks", plain);
    vectors.bytes("packet.sample", sample);
    vectors.bytes("packet.mask", mask);
    vectors.bytes("packet.wire", wire);
}

#[test]
fn vectors_are_as_written_down() {
    let mut vectors = Vectors(
        "# Whimbrel, version 0x57480001. Bytes in hexadecimal; docs/protocol.md says what they mean.\n"
            .into(),
    );
    handshake(&mut vectors);
    extensions(&mut vectors);
    packet(&mut vectors, Aead::Aes128Gcm);
    packet(&mut vectors, Aead::ChaCha20Poly1305);
    if std::env::var_os("WHIMBREL_WRITE_VECTORS").is_some() {
        std::fs::write(FILE, &vectors.0).unwrap();
    }
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), vectors.0, "bytes changed: is that meant?");
}
