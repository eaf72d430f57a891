//! Lost parts of messages that have a lifetime, while repair symbols are in use.

use bytes::Bytes;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Service, StreamId};
use whimbrel_sim::pair::End;

use super::{MS, SECOND, config, two};

/// A part that is lost on a slow path is missed too late to be sent there again, but not too late for a fast path.
#[test]
fn a_slow_path_leaves_lost_parts_to_a_fast_one() {
    const FRAMES: usize = 600;
    let transport = config().repair_budget(1);
    let fast = "rate=3mbit,delay=10ms,queue=100ms";
    let mut pair = two(7, transport, fast, "rate=10mbit,delay=100ms,queue=100ms,loss=5%");
    let (lifetime, mut in_time, mut sent_at) = (340 * MS, 0, Vec::new());
    for frame in 0..FRAMES + 30 {
        if frame < FRAMES {
            let mut payload = (frame as u64).to_be_bytes().to_vec();
            payload.resize(15_000, 7);
            let mut outgoing = Outgoing::new(StreamId(0), Service::ReliableUnsequenced, Bytes::from(payload));
            outgoing.lifetime = Some(lifetime);
            sent_at.push(pair.now());
            pair.try_send(End::Client, outgoing).expect("there is room");
        }
        pair.run_until(SECOND / 30, |pair| {
            for message in pair.recv(End::Server) {
                let frame = u64::from_be_bytes(message.payload[..8].try_into().expect("it is longer"));
                in_time += usize::from(pair.now().since(sent_at[frame as usize]) <= lifetime);
            }
            false
        });
    }
    let stats = pair.stats(End::Client);
    println!("{in_time} of {FRAMES} in time; {:?}", stats.coding);
    assert!(stats.coding.sources > 1_000, "repair symbols are in use");
    assert!(in_time >= 550, "{in_time}, where 530 are if the slow path decides");
}
