//! Keeps a link to a broker that this one dials.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use whimbrel::{Endpoint, Url};

use super::{Mesh, link};

/// The pause before a broker is dialled again.
const AGAIN: Duration = Duration::from_secs(1);

/// Dials again and again, as long as the process lives.
pub(super) async fn run(mesh: Arc<Mesh>, endpoint: Endpoint, url: Url) {
    loop {
        if let Ok(mocket) = endpoint.connect(&url).await {
            link::run(&mesh, &mocket).await;
        }
        sleep(AGAIN).await;
    }
}
