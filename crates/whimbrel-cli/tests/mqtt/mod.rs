//! A client of MQTT that sends any bytes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod broker;
pub(crate) mod certificates;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub(crate) struct Raw {
    stream: RefCell<TcpStream>,
    is_v5: bool,
}

/// A packet.
pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut length = body.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(body);
    bytes
}

/// A text as it is in packets.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

impl Raw {
    /// Connects and sends something.
    pub(crate) fn open(address: &str, first: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(first).unwrap();
        Self { stream: RefCell::new(stream), is_v5: true }
    }

    /// Sends a CONNECT whose Will, user and password are given as bytes.
    pub(crate) fn connect(
        address: &str,
        level: u8,
        flags: u8,
        keep_alive: u8,
        properties: &[u8],
        client: &str,
        rest: &[u8],
    ) -> Self {
        let properties =
            if level == 5 { [&[properties.len() as u8][..], properties].concat() } else { Vec::new() };
        let head = [text("MQTT"), vec![level, flags, 0, keep_alive], properties].concat();
        let body = [head, text(client), rest.to_vec()].concat();
        Self { is_v5: level == 5, ..Self::open(address, &packet(0x10, &body)) }
    }

    pub(crate) fn v5(address: &str, client: &str) -> Self {
        let raw = Self::connect(address, 5, 2, 60, &[], client, &[]);
        raw.expect_accepted();
        raw
    }

    pub(crate) fn v3(address: &str, client: &str) -> Self {
        let raw = Self::connect(address, 4, 2, 60, &[], client, &[]);
        raw.expect_accepted();
        raw
    }

    /// The same connection for another thread, which only writes to it.
    pub(crate) fn writer(&self) -> TcpStream {
        self.stream.borrow().try_clone().unwrap()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // The broker may have closed already.
        drop(self.stream.get_mut().write_all(bytes));
    }

    pub(crate) fn send(&mut self, first: u8, body: &[u8]) {
        self.write(&packet(first, body));
    }

    /// The next packet, or `None` at the end.
    pub(crate) fn try_receive(&self) -> Option<(u8, Vec<u8>)> {
        let mut stream = self.stream.borrow_mut();
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        let first = byte[0];
        let (mut length, mut shift) = (0, 0);
        loop {
            stream.read_exact(&mut byte).ok()?;
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some((first, body))
    }

    pub(crate) fn receive(&self) -> (u8, Vec<u8>) {
        self.try_receive().expect("a packet")
    }

    /// The body of the CONNACK.
    pub(crate) fn connack(&mut self) -> Vec<u8> {
        let (first, body) = self.receive();
        assert_eq!(first, 0x20);
        body
    }

    /// Reads the CONNACK. Returns whether there was a session, if the broker accepts the client.
    pub(crate) fn session_present(&self) -> Option<bool> {
        let (first, body) = self.receive();
        assert_eq!(first, 0x20);
        (body[1] == 0).then_some(body[0] == 1)
    }

    pub(crate) fn expect_accepted(&self) {
        assert!(self.session_present().is_some(), "the connection is refused");
    }

    /// Subscribes. The options are QoS and flags.
    pub(crate) fn subscribe(&mut self, id: u8, filters: &[(&str, u8)]) -> Vec<u8> {
        self.subscribe_with(id, &[], filters)
    }

    pub(crate) fn subscribe_with(&mut self, id: u8, properties: &[u8], filters: &[(&str, u8)]) -> Vec<u8> {
        let mut body = vec![0, id];
        if self.is_v5 {
            body.push(properties.len() as u8);
            body.extend_from_slice(properties);
        }
        for (filter, options) in filters {
            body.extend(text(filter));
            body.push(*options);
        }
        self.send(0x82, &body);
        self.answer(0x90, id)
    }

    pub(crate) fn unsubscribe(&mut self, id: u8, filters: &[&str]) -> Vec<u8> {
        let mut body = vec![0, id, 0];
        filters.iter().for_each(|filter| body.extend(text(filter)));
        self.send(0xa2, &body);
        self.answer(0xb0, id)
    }

    /// The reasons in an answer.
    fn answer(&self, expected: u8, id: u8) -> Vec<u8> {
        let (first, body) = self.receive();
        assert_eq!((first, &body[..2]), (expected, &[0, id][..]));
        // A length of 128 and more takes two bytes.
        let properties = match body[2..] {
            _ if !self.is_v5 => 0,
            [low, high, ..] if low >= 0x80 => 2 + usize::from(low & 0x7f) + (usize::from(high) << 7),
            [length, ..] => 1 + usize::from(length),
            [] => 0,
        };
        body[2 + properties..].to_vec()
    }

    /// Publishes at QoS 0.
    pub(crate) fn publish(&mut self, first: u8, topic: &str, properties: &[u8], payload: &[u8]) {
        let body =
            [text(topic), vec![properties.len() as u8], properties.to_vec(), payload.to_vec()].concat();
        self.send(first, &body);
    }

    /// Publishes at QoS 1 by MQTT 3.1.1, and waits for the answer.
    pub(crate) fn confirmed(&mut self, first: u8, topic: &str, payload: &[u8]) {
        self.send(first, &[text(topic), vec![0, 1], payload.to_vec()].concat());
        assert_eq!(self.receive(), (0x40, vec![0, 1]));
    }

    /// The next message: first byte, topic and payload. Properties are passed over.
    pub(crate) fn message(&mut self) -> (u8, String, Vec<u8>) {
        let (first, body) = self.receive();
        assert_eq!(first >> 4, 3, "no message: {first:x} {body:?}");
        let end = 2 + usize::from(body[0]) * 256 + usize::from(body[1]);
        let topic = String::from_utf8(body[2..end].to_vec()).unwrap();
        let mut at = end + if first & 6 != 0 { 2 } else { 0 };
        if self.is_v5 {
            let (mut length, mut shift) = (0, 0);
            loop {
                length |= usize::from(body[at] & 0x7f) << shift;
                shift += 7;
                at += 1;
                if body[at - 1] & 0x80 == 0 {
                    break;
                }
            }
            at += length;
        }
        (first, topic, body[at..].to_vec())
    }

    /// Asserts that nothing waits to be received.
    pub(crate) fn expect_nothing(&mut self) {
        self.send(0xc0, &[]);
        assert_eq!(self.receive(), (0xd0, vec![]));
    }

    /// Waits for the end. Returns the reason of the DISCONNECT, if one came.
    pub(crate) fn goodbye(&mut self) -> Option<u8> {
        let mut reason = None;
        while let Some((first, body)) = self.try_receive() {
            if first == 0xe0 {
                reason = body.first().copied();
            }
        }
        reason
    }
}
