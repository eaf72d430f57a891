//! Service for those who connect: clients, and other brokers.

use std::sync::Arc;

use whimbrel::Endpoint;

use crate::backbone::{self, Mesh};
use crate::hub::Hub;
use crate::native::{self, Access};

/// Serves those who connect to `endpoint`, until it is closed.
pub async fn serve(hub: Arc<Hub>, mesh: Arc<Mesh>, endpoint: Endpoint, access: Arc<Access>) {
    while let Some(mocket) = endpoint.accept().await {
        if mocket.protocol() == backbone::PROTOCOL.as_bytes() {
            tokio::spawn(Arc::clone(&mesh).accepted(mocket));
        } else {
            tokio::spawn(native::serve(Arc::clone(&hub), mocket, Arc::clone(&access)));
        }
    }
}
