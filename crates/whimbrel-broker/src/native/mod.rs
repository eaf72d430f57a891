//! Native clients: sessions of Whimbrel's transport, with the frames of [`whimbrel_pubsub::frame`].

mod access;
mod openings;
mod session;
mod subscriber;

use std::sync::Arc;

use whimbrel::Endpoint;

pub use access::{Access, Permissions};

use crate::hub::Hub;

/// Serves the clients that connect to `endpoint`, until it is closed.
pub async fn serve(hub: Arc<Hub>, endpoint: Endpoint, access: Arc<Access>) {
    while let Some(mocket) = endpoint.accept().await {
        tokio::spawn(session::run(Arc::clone(&hub), mocket, Arc::clone(&access)));
    }
}
