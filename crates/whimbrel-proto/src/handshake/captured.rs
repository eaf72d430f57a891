//! A captured handshake, taken up at either end: nothing of it is random, and cookies are taken as they are.

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::agreement::{Agreement, PingAsked, PingProof};
use super::clear::{PingPacket, SynAckPacket, prologue};
use super::noise::{Noise, Pattern};
use super::{Accepted, ClientConfig, ClientHandshake, ServerKey};
use crate::crypto::{Identity, ResetToken, Secret};
use crate::{ConnectionId, Time};

/// The packets of a handshake, and the keys of both ends.
pub(crate) struct Captured {
    pub(crate) client: Identity,
    pub(crate) server: Identity,
    pub(crate) client_ephemeral: [u8; 32],
    pub(crate) server_ephemeral: [u8; 32],
    pub(crate) syn: Vec<u8>,
    pub(crate) syn_ack: Vec<u8>,
    pub(crate) ping: Vec<u8>,
    pub(crate) pong: Vec<u8>,
}

impl Captured {
    pub(crate) fn ids(&self) -> [ConnectionId; 2] {
        let ping = PingPacket::parse(&self.ping).unwrap();
        [ping.client_id, ping.server_id]
    }

    fn prologue(&self) -> [u8; 32] {
        prologue([&self.syn, SynAckPacket::parse(&self.syn_ack).unwrap().covered])
    }

    /// The client as the server knows it from PING.
    pub(crate) fn accepted(&self) -> Accepted {
        let ping = PingPacket::parse(&self.ping).unwrap();
        let asked = PingAsked {
            from: "192.0.2.1:4433".parse().unwrap(),
            packet: self.ping.clone(),
            head: ping.head.len(),
            server_id: ping.server_id,
            client_id: ping.client_id,
            ephemeral: ping.ephemeral().unwrap(),
            pass: PingProof::Cookie { until: Time::MAX },
        };
        let agreement = Agreement {
            identity: self.server.clone(),
            pattern: Arc::new(Pattern::new(None)),
            aes_in_hardware: true,
            token: ResetToken::new([0x77; 16]),
            ours: Secret::new(self.server_ephemeral),
            prologue: self.prologue(),
            asked,
        };
        *agreement.run().opened.expect("PING is understood")
    }

    /// A client that makes the same SYN.
    pub(crate) fn handshake(&self) -> ClientHandshake {
        let config = ClientConfig::new(ServerKey::Known(self.server.public()), true);
        let rng = &mut ChaCha20Rng::seed_from_u64(1);
        let handshake = ClientHandshake::new(rng, &self.client, config, self.ids()[0]);
        assert_eq!(handshake.syn(), self.syn);
        handshake
    }

    /// Lets the client wait for the PONG to the captured PING, and to no other.
    pub(crate) fn wait_for_pong(&self, handshake: &mut ClientHandshake) {
        handshake.wait_for_pong(self.ids()[1], self.server.public(), self.noise_after_ping());
    }

    /// The client's Noise after it has written message 1, which comes out the same.
    fn noise_after_ping(&self) -> Noise {
        let (pattern, prologue) = (Pattern::new(None), self.prologue());
        let sent = PingPacket::parse(&self.ping).unwrap().noise;
        let (mut payload, mut message) = (vec![0; sent.len()], vec![0; sent.len()]);
        let mut server = pattern.responder(&self.server, &prologue, self.server_ephemeral).unwrap();
        let length = server.read_message(sent, &mut payload).unwrap();
        let mut noise =
            pattern.initiator(&self.client, &self.server.public(), &prologue, self.client_ephemeral).unwrap();
        noise.write_message(&payload[..length], &mut message).unwrap();
        assert_eq!(message, sent);
        noise
    }
}
