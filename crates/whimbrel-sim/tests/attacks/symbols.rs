//! Repair symbols that lie: what is computed from them is handled like any packet of the peer's.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::wire::{Writer, block};
use whimbrel_proto::{Cause, CloseReason, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

/// The coefficient of a symbol, as docs/protocol.md says.
fn coefficient(key: u16, number: u64) -> u8 {
    let mut z = (number << 16 | u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) % 255) as u8 + 1
}

fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        product ^= if b & 1 == 1 { a } else { 0 };
        a = a << 1 ^ if a & 0x80 == 0 { 0 } else { 0x1d };
        b >>= 1;
    }
    product
}

/// A repair symbol of one source symbol.
fn repair(number: u64, key: u16, symbol: &[u8]) -> Bytes {
    let mut blocks = Vec::new();
    let mut out = Writer::new(&mut blocks, 1_400);
    out.u8(block::REPAIR);
    out.varint(number);
    out.varint(1);
    out.bytes(&key.to_be_bytes());
    let framed = [&(symbol.len() as u16).to_be_bytes()[..], symbol].concat();
    framed.iter().for_each(|byte| out.u8(times(*byte, coefficient(key, number))));
    blocks.into()
}

#[test]
fn symbols_with_foreign_blocks_close_the_connection() {
    for (symbol, ends) in [
        (&[block::PADDING, 0, 0][..], false),
        (&[block::FIN, 0, 0], true),
        (&[block::SOURCE, 1], true),
        (&[block::REPAIR, 0, 1, 0, 0], true),
        (&[block::SACK], true),
    ] {
        let mut pair = Pair::connected(3, TransportConfig::default(), "rate=100mbit,delay=5ms");
        let now = pair.now();
        pair.connection(End::Server).handle_blocks(now, repair(5, 77, symbol));
        assert_eq!(pair.connection(End::Server).stats(now).coding.recovered, 1, "{symbol:?}");
        // What becomes of the connection is heard when the world goes on.
        pair.run_until(Duration::from_millis(50), |_| false);
        match pair.closed(End::Server) {
            Some(CloseReason::PeerMisbehaved(why)) => {
                assert!(ends && why.cause == Cause::UnrecognizedBlock, "{why:?}");
            }
            other => assert!(!ends && other.is_none(), "{symbol:?}: {other:?}"),
        }
    }
}

/// A packet with many SOURCE would otherwise make its receiver sum the rest of the packet for each of them.
#[test]
fn behind_source_only_blocks_of_the_session_are_allowed() {
    for (behind, ends) in [
        (&[][..], false),
        (&[block::PADDING, 0], false),
        (&[block::SOURCE, 2], true),
        (&[block::REPAIR, 0, 1, 0, 0], true),
        (&[block::KEEP_ALIVE], true),
        (&[block::FIN, 0, 0], true),
    ] {
        let mut pair = Pair::connected(4, TransportConfig::default(), "rate=100mbit,delay=5ms");
        let now = pair.now();
        let blocks = [&[block::SOURCE, 1], behind].concat();
        pair.connection(End::Server).handle_blocks(now, blocks.into());
        pair.run_until(Duration::from_millis(50), |_| false);
        match pair.closed(End::Server) {
            Some(CloseReason::PeerMisbehaved(why)) => {
                assert!(ends && why.cause == Cause::UnrecognizedBlock, "{why:?}");
            }
            other => assert!(!ends && other.is_none(), "{behind:?}: {other:?}"),
        }
    }
}
