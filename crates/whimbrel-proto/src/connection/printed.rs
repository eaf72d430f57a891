//! Tests that whatever holds a secret implements `Debug`, and does not print the secret.

use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;

use super::control::control_queue::ControlBlock;
use super::control::notices::ControlNotices;
use super::event::{EndpointAnswer, EndpointEvent, Event};
use super::handshake::ticketing::IssuedTicket;
use super::lifecycle::suspended::Suspended;
use crate::crypto::{
    Aead, Claim, Identity, Keys, PathMemory, Proof, PublicKey, ResetKey, ResetToken, SealKey, Secret,
};
use crate::handshake::{AcceptorConfig, ClientConfig, Params, ServerKey};
use crate::{ConnectConfig, ConnectionId, ListenConfig, Side, Ticket, TicketStore, Time, TransportConfig};

/// The byte that fills every secret below.
const BYTE: u8 = 0xa7;
/// Two such bytes in a row as a list, in hexadecimal and as a byte string; three in base64.
const SPELT: [&str; 5] = ["167,167", "a7a7", "a7,a7", "\\xa7\\xa7", "p6en"];

fn hides(name: &str, value: &dyn Debug) {
    for text in [format!("{value:?}"), format!("{value:#?}"), format!("{value:x?}")] {
        let text: String = text.to_lowercase().split_whitespace().collect();
        for spelt in SPELT {
            assert!(!text.contains(spelt), "{name} prints its secret: {text}");
        }
    }
}

fn ticket() -> Ticket {
    Ticket {
        server_key: PublicKey::proven([5; 32]).unwrap(),
        bytes: Bytes::from_static(&[BYTE; 80]),
        until: Time::ZERO + Duration::from_secs(9),
        memory: Some(PathMemory { rate: 7, rtt: Duration::from_millis(7) }),
    }
}

fn suspended() -> Suspended {
    let key = PublicKey::proven([5; 32]).unwrap();
    Suspended {
        claim: Claim::new([1; 16], 3, Secret::new([BYTE; 32])),
        own_key: key,
        peer_key: key,
        remote: "192.0.2.1:9".parse().unwrap(),
        at: Duration::ZERO,
        peer_waits: None,
        heir: Some(key),
        app_data: Bytes::from_static(&[BYTE; 40]),
        snapshot: Bytes::from_static(&[BYTE; 40]),
    }
}

#[test]
fn nothing_that_holds_a_secret_prints_it() {
    let token = ResetToken::new([BYTE; 16]);
    let proof = Proof { session: [1; 16], epoch: 4, mac: [BYTE; 32] };
    let issued = IssuedTicket { bytes: vec![BYTE; 80], life: Duration::from_secs(9) };
    let mut store = TicketStore::default();
    store.insert(ticket());
    let params = Params { first_reset_token: Some(token), resume: Some(proof), ..Params::default() };
    let mut notices = ControlNotices::default();
    notices.push(vec![BYTE; 40]);
    hides("Secret", &Secret::new([BYTE; 32]));
    hides("Identity", &Identity::from_secret([BYTE; 32]));
    hides("ResetToken", &token);
    hides("Proof", &proof);
    hides("Params", &params);
    hides("Ticket", &ticket());
    hides("TicketStore", &store);
    hides("Event", &Event::Ticket(ticket()));
    hides("IssuedTicket", &issued);
    hides("EndpointAnswer::Ticket", &EndpointAnswer::Ticket(issued));
    hides("EndpointAnswer::Id", &EndpointAnswer::Id(ConnectionId(9), token));
    hides("EndpointEvent", &EndpointEvent::PeerResetToken(token));
    hides("Suspended", &suspended());
    hides("Claim", &suspended().claim);
    hides("ControlNotices", &notices);
    hides("ControlBlock", &ControlBlock::Ticket(1));
}

#[test]
fn no_settings_or_keys_print_a_secret() {
    let secret = || Secret::new([BYTE; 32]);
    let acceptor = AcceptorConfig { psk: Some(secret()), ..AcceptorConfig::default() };
    let server_key = ServerKey::Known(PublicKey::proven([5; 32]).unwrap());
    let client = ClientConfig {
        psk: Some(secret()),
        ticket: Some(Bytes::from_static(&[BYTE; 80])),
        resume: Some(suspended().claim),
        ..ClientConfig::new(server_key, true)
    };
    let connect = ConnectConfig {
        server_key,
        protocol: Bytes::new(),
        psk: Some(secret()),
        ticket: Some(ticket()),
        alternatives: Vec::new(),
        transport: TransportConfig::default(),
    };
    hides("ListenConfig", &ListenConfig { acceptor: acceptor.clone(), ..ListenConfig::default() });
    hides("AcceptorConfig", &acceptor);
    hides("ClientConfig", &client);
    hides("ConnectConfig", &connect);
    hides("Keys", &Keys::new(Side::Client, Aead::Aes128Gcm, secret(), secret()));
    hides("SealKey", &SealKey::new(Aead::Aes128Gcm, &secret()));
    hides("ResetKey", &ResetKey::new(&Identity::from_secret([BYTE; 32]), &[BYTE; 32]));
}

#[test]
#[should_panic(expected = "prints its secret")]
fn a_list_of_bytes_would_be_found() {
    hides("bytes", &[BYTE; 4]);
}

#[test]
fn a_state_is_written_without_growing() {
    // A buffer that grows leaves copies of the secret behind.
    let bytes = suspended().to_bytes();
    assert!(bytes.len() > 200 && bytes.len() <= bytes.capacity());
    let mut store = TicketStore::default();
    store.insert(ticket());
    let exported = store.export(Time::ZERO, Duration::ZERO);
    assert_eq!(exported.len(), exported.capacity());
}
