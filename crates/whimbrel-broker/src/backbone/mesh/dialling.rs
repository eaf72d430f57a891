//! Keeps a link to a broker that this one dials.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use whimbrel::{CloseReason, ConnectError, Endpoint, PublicKey, Url};
use whimbrel_pubsub::message::BrokerId;

use super::core::Mesh;
use super::link;

/// The pause before a broker is dialled again.
const AGAIN: Duration = Duration::from_secs(1);

/// Dials again and again, as long as the process lives.
pub(super) async fn run(mesh: Arc<Mesh>, endpoint: Endpoint, url: Url, broker: BrokerId) {
    let Some(standing) = mesh.standing(broker) else { return };
    loop {
        standing.on_dialling();
        match endpoint.connect(&url).await {
            Ok(mocket) => link::run(&mesh, &mocket).await,
            Err(error) => standing.on_trouble(&unreachable(&url, &mesh.key, &error)),
        }
        standing.on_pause(mesh.hub.clock().time() + AGAIN);
        sleep(AGAIN).await;
    }
}

/// Says why there is no session, and what to look at. A broker that does not know a key does not answer it.
fn unreachable(url: &Url, own: &PublicKey, error: &ConnectError) -> String {
    let Url { host, port, .. } = url;
    match error {
        ConnectError::Closed(CloseReason::HandshakeTimedOut) => format!(
            "no answer from {host}:{port}: does the broker run there, is the key in `url` its own, and does its file have a [[peer]] with this \
             broker's key, {own}?"
        ),
        ConnectError::Closed(CloseReason::Handshake(why)) => {
            format!("{host}:{port} refuses the handshake ({why}): is the key in `url` its own?")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use whimbrel::new_identity;

    use super::*;

    #[test]
    fn a_broker_that_does_not_answer_is_told_with_what_to_look_at() {
        let [own, other] = [(); 2].map(|()| new_identity().public());
        let url: Url = format!("whimbrel://{other}@b.example:4433").parse().unwrap();
        let silent = unreachable(&url, &own, &ConnectError::Closed(CloseReason::HandshakeTimedOut));
        assert!(silent.starts_with("no answer from b.example:4433: ") && silent.contains(&own.to_string()));
        let host = "b.example".to_owned();
        let unknown = ConnectError::Resolve { host, error: std::io::Error::other("no such name") };
        let unknown = unreachable(&url, &own, &unknown);
        assert!(unknown.starts_with("cannot find the address of b.example: no such name"), "{unknown}");
    }
}
