//! Drives a flow to its end, and gives it up if it is idle for too long.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::Instant;

use super::limits::Limits;
use super::record::FlowRecord;
use super::socket::Socket;
use crate::flow::{Channel, Ended, Flow};
use crate::protocol::codes;

/// How often the figures of a busy flow are brought up to date, and how late an idle one may be noticed at most.
const LOOK: Duration = Duration::from_secs(1);

/// Hands on bytes until the flow ends.
pub(super) async fn hand_over<C: Channel>(
    mut flow: Flow<Socket, C>,
    record: &FlowRecord,
    limits: &Limits,
) -> Ended {
    let (mut before, mut active) = ((flow.bytes(), false), Instant::now());
    loop {
        // A look is due a second after activity, or when the flow would be idle for too long.
        let limit = if flow.is_half_closed() { limits.tcp_half_closed_idle } else { limits.tcp_idle };
        let (now, bytes) = (Instant::now(), flow.bytes());
        let state = (bytes, flow.is_half_closed());
        record.set(bytes.0, bytes.1);
        // The end of a direction is activity, too. In an outage a flow waits; it is not idle.
        if state != before || !flow.is_reachable() {
            (before, active) = (state, now);
        } else if now.duration_since(active) >= limit {
            return flow.give_up(codes::IDLE);
        }
        let look = (now + LOOK).min(active + limit);
        let ended = tokio::time::timeout_at(look, poll_fn(|cx| flow.poll(cx))).await;
        if let Ok(ended) = ended {
            let (to_peer, from_peer) = flow.bytes();
            record.set(to_peer, from_peer);
            return ended;
        }
    }
}
