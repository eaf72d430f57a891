//! Key agreements for PINGs, outside the receive loop if there is a core for it.

use std::sync::Arc;

use whimbrel_proto::{Agreeing, Time};

use crate::agreements::Leaving;
use crate::endpoint_shared::EndpointShared;
use crate::lock::lock;
use crate::receive::{Door, hand_over, reply_to};
use crate::serving::serve_at_once;

/// Leaves an agreement to the thread, and starts the thread if it is not running. Gives the agreement back if the loop
/// is to make it at once. Gives it up if there is no room.
pub(crate) fn leave(
    shared: &Arc<EndpointShared>,
    now: Time,
    door: &Door,
    agreeing: Agreeing,
) -> Option<Agreeing> {
    match shared.agreements.leave(now, agreeing) {
        Leaving::AtOnce(agreeing) => return Some(agreeing),
        Leaving::Refused(agreeing) => lock(&shared.proto).abandon(&agreeing),
        Leaving::Waits { start: false } => {}
        Leaving::Waits { start: true } => {
            let (shared, door) = (Arc::clone(shared), door.clone());
            tokio::task::spawn_blocking(move || work(&shared, &door));
        }
    }
    None
}

/// Makes agreements until none waits.
fn work(shared: &Arc<EndpointShared>, door: &Door) {
    let (mut reply, mut accepted) = (Vec::new(), Vec::new());
    loop {
        let next = shared.agreements.next();
        let Some(agreeing) = next else { return };
        let (from, to) = agreeing.addresses();
        let agreed = agreeing.run();
        let now = shared.clock.now();
        reply.clear();
        let found = lock(&shared.proto).handle_agreed(now, agreed, &mut reply);
        reply_to(&door.socket, from, to, &reply);
        match found.handle() {
            Some(handle) => serve_at_once(shared, now, handle, found),
            None => accepted.push((from, found)),
        }
        hand_over(shared, &mut accepted, door);
    }
}
