//! Drives a flow to its end, and gives it up if it is idle for too long.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::limits::Limits;
use super::record::FlowRecord;
use super::socket::Socket;
use crate::flow::{Channel, Ended, Flow};
use crate::protocol::codes;

/// Hands on bytes until the flow ends.
pub(super) async fn hand_over<C: Channel>(
    mut flow: Flow<Socket, C>,
    record: &FlowRecord,
    limits: &Limits,
) -> Ended {
    let mut active = Instant::now();
    loop {
        let limit = if flow.is_half_closed() { limits.tcp_half_closed_idle } else { limits.tcp_idle };
        let due = active + limit;
        let step = poll_fn(|cx| go_on(&mut flow, record, &mut active, cx));
        match tokio::time::timeout_at(due, step).await {
            Ok(Step::Ended(ended)) => return ended,
            Ok(Step::HalfClosed) => {}
            // There was something meanwhile.
            Err(_) if active.elapsed() < limit => {}
            // In an outage a flow waits; it is not idle.
            Err(_) if !flow.is_reachable() => active = Instant::now(),
            Err(_) => return flow.give_up(codes::IDLE),
        }
    }
}

/// Why the limit on idleness is looked at again.
enum Step {
    Ended(Ended),
    /// Another limit holds from now on.
    HalfClosed,
}

/// Hands on what there is, and keeps the figures and the time of the last activity.
fn go_on<C: Channel>(
    flow: &mut Flow<Socket, C>,
    record: &FlowRecord,
    active: &mut Instant,
    cx: &mut Context<'_>,
) -> Poll<Step> {
    let before = (flow.bytes(), flow.is_half_closed());
    let polled = flow.poll(cx);
    let after = (flow.bytes(), flow.is_half_closed());
    if after != before {
        *active = Instant::now();
        record.set(after.0.0, after.0.1);
    }
    match polled {
        Poll::Ready(ended) => Poll::Ready(Step::Ended(ended)),
        Poll::Pending if after.1 && !before.1 => Poll::Ready(Step::HalfClosed),
        Poll::Pending => Poll::Pending,
    }
}
