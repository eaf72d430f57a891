//! Native clients: sessions of Whimbrel's transport, with the frames of [`whimbrel_pubsub::frame`].

mod access;
mod answers;
mod durable;
mod member;
mod openings;
mod packing;
mod publishing;
mod session;
mod subscriber;

use std::sync::Arc;

use whimbrel::Mocket;

pub use access::{Access, Permissions};

use crate::hub::Hub;

/// Serves a client that has connected, until its session ends.
pub async fn serve(hub: Arc<Hub>, mocket: Mocket, access: Arc<Access>) {
    session::run(hub, mocket, access).await;
}

#[cfg(test)]
mod tests {
    fn of_session<A, B, C, R>(_: impl Fn(A, B, C) -> R) -> usize {
        size_of::<R>()
    }

    fn of_subscriber<A, B, C, D, E, R>(_: impl Fn(A, B, C, D, E) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn the_tasks_of_a_subscriber_that_waits_are_small() {
        let sizes = (of_session(super::session::run), of_subscriber(super::subscriber::run));
        assert!(sizes.0 <= 2_048 && sizes.1 <= 3_072, "a session and a subscription, bytes: {sizes:?}");
    }
}
