//! Native clients: sessions of Whimbrel's transport, with the frames of [`whimbrel_pubsub::frame`].

mod access;
mod answers;
mod durable;
mod openings;
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
