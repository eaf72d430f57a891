//! Service for those who connect: clients, and other brokers.

use std::sync::Arc;

use whimbrel::Endpoint;

use crate::backbone::{self, Backbone};
use crate::hub::Hub;
use crate::native::{self, Access};

/// Serves those who connect to `endpoint`, until it is closed.
///
/// Other brokers are served if they are linked by a mesh.
pub async fn serve(hub: Arc<Hub>, backbone: Backbone, endpoint: Endpoint, access: Arc<Access>) {
    while let Some(mocket) = endpoint.accept().await {
        if mocket.protocol() == backbone::PROTOCOL.as_bytes() {
            if let Backbone::Mesh(mesh) = &backbone {
                tokio::spawn(Arc::clone(mesh).accepted(mocket));
            }
        } else {
            tokio::spawn(native::serve(Arc::clone(&hub), mocket, Arc::clone(&access)));
        }
    }
}
