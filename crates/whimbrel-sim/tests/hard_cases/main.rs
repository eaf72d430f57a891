//! The hard cases: those of the QUIC interop runner, and the bad input that a transport on the open Internet must
//! withstand. Each test asserts what a user relies on. The clock is virtual, so times are exact.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod handshake;
mod hostile;
mod load;
mod movement;
mod outages;
mod packets;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::{Service, Time, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{TapVerdict, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn config() -> TransportConfig {
    TransportConfig::default()
}

fn numbered(number: u32, length: usize) -> Bytes {
    let mut payload = vec![number as u8; length.max(4)];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload.into()
}

fn number_of(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// Sends `count` messages of `length` from `from`, reads them at the other end, and checks that all arrive once and
/// in order.
fn transfer(pair: &mut Pair, from: End, count: u32, length: usize, limit: Duration) -> Duration {
    let begin = pair.now();
    for number in 0..count {
        pair.send(from, Service::ReliableSequenced, numbered(number, length));
    }
    let mut got = 0;
    let done = pair.run_until(limit, |pair| {
        for message in pair.recv(from.other()) {
            assert_eq!(number_of(&message.payload), got, "in order and once");
            assert_eq!(message.payload, numbered(got, length), "intact");
            got += 1;
        }
        got == count
    });
    let why = (pair.closed(End::Client), pair.closed(End::Server));
    assert!(done, "{got} of {count} after {limit:?}; ends: {why:?}");
    pair.now().since(begin)
}

/// Every datagram that a node sends: when, from, to, bytes.
type Trace = Rc<RefCell<Vec<(Time, SocketAddr, SocketAddr, Vec<u8>)>>>;

fn trace(world: &mut World) -> Trace {
    let trace = Trace::default();
    let out = trace.clone();
    world.set_tap(Box::new(move |now, from, to, bytes| {
        out.borrow_mut().push((now, from, to, bytes.clone()));
        TapVerdict::Pass
    }));
    trace
}
