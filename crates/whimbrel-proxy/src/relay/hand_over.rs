//! Drives a flow to its end, and gives it up if it is idle for too long.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::flows::RunningFlow;
use super::limits::Limits;
use super::reach::Reached;
use super::record::{FlowRecord, FlowState};
use super::socket::Socket;
use super::steering::Steering;
use crate::flow::{Channel, Ended, Flow};
use crate::protocol::codes;

/// How long a peer has to begin a new context before a compressed flow is taken apart.
const SETTLING: Duration = Duration::from_secs(3);

/// Hands on bytes until the flow ends. None: it is to go on in another process, and nothing was closed.
pub(super) async fn hand_over<C: Channel>(
    flow: &mut Flow<Socket, C>,
    running: &RunningFlow,
    limits: &Limits,
    mut steering: Steering,
) -> Option<Ended> {
    let record = &*running.record;
    let mut parking = running.parking();
    let state = |is_held| if is_held { FlowState::Held } else { FlowState::Running };
    record.set_state(state(flow.is_held()));
    let mut active = Instant::now();
    let mut was_reset = pin!(flow.program().was_reset());
    let budget = running.hold_budget();
    flow.set_hold(steering.hold_bytes(), budget);
    let mut reached = steering.reached();
    loop {
        let limit = if flow.is_half_closed() { limits.tcp_half_closed_idle } else { limits.tcp_idle };
        let due = active + limit;
        let step = poll_fn(|cx| go_on(flow, record, &mut active, cx));
        let step = tokio::select! {
            biased;
            step = tokio::time::timeout_at(due, step) => step,
            () = &mut was_reset => return Some(flow.program_was_reset()),
            () = parking.asked() => {
                flow.channel_mut().settle();
                // A flow that does not settle is reset.
                let settled = tokio::time::timeout(SETTLING, poll_fn(|cx| flow.poll_settled(cx))).await;
                return settled.ok().flatten();
            }
            // A flow that waits to write looks whether it may take more from its program.
            () = changed(&mut reached) => continue,
            change = steering.changed() => {
                if let Some(code) = change.ends {
                    return Some(flow.give_up(code));
                }
                flow.set_held(change.is_held);
                flow.set_hold(change.hold_bytes.unwrap_or_default(), budget);
                flow.channel_mut().set_priority(change.priority);
                flow.channel_mut().set_cap(change.cap);
                record.set_state(state(change.is_held));
                active = Instant::now();
                continue;
            }
        };
        match step {
            Ok(Step::Ended(ended)) => return Some(ended),
            Ok(Step::HalfClosed) => {}
            // There was something meanwhile.
            Err(_) if active.elapsed() < limit => {}
            // In an outage, or held, a flow waits; it is not idle.
            Err(_) if flow.is_held() || !flow.is_reachable() => active = Instant::now(),
            Err(_) => return Some(flow.give_up(codes::IDLE)),
        }
    }
}

async fn changed(reached: &mut Option<Reached>) {
    match reached {
        Some(reached) => reached.changed().await,
        None => std::future::pending().await,
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
