//! Dialling a peer over TCP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::lookup_host;
use tokio::time::timeout;
use whimbrel::{PublicKey, Url};

use super::connection::{HANDSHAKE, prepare};
use super::frame::{Frame, Frames};
use super::link::TcpLink;
use super::noise::{HandshakeError, Keys};
use crate::sockets::{Mark, connect_marked};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(10);
/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 4;
/// Why a peer cannot be reached over TCP.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("cannot find the address of {host}: {error}")]
    LookUp { host: String, error: io::Error },
    #[error("cannot connect to {address} over TCP: {error}")]
    Connect { address: SocketAddr, error: io::Error },
    #[error(
        "{address} answered, but has not proven the key in the URL ({why}). Check that the URL has the listener's key, and that the listener knows ours, {own}. The listener must use the connector tcp, and both ends need the same pre-shared key, or none"
    )]
    Handshake { address: SocketAddr, why: String, own: PublicKey },
}

/// Connects to a peer.
pub(crate) async fn dial(url: &Url, key: &PublicKey, keys: &Keys, mark: Mark) -> Result<TcpLink, DialError> {
    let failed = |error| DialError::LookUp { host: url.host.clone(), error };
    let found = timeout(CONNECTING, lookup_host((url.host.as_str(), url.port))).await;
    let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(failed)?;
    let mut last = failed(io::ErrorKind::NotFound.into());
    for address in found.take(MOST_TRIED) {
        match dial_address(address, key, keys, mark).await {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn dial_address(
    address: SocketAddr,
    key: &PublicKey,
    keys: &Keys,
    mark: Mark,
) -> Result<TcpLink, DialError> {
    let connected = timeout(CONNECTING, connect_marked(address, mark)).await;
    let mut stream = connected
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|error| DialError::Connect { address, error })?;
    prepare(&stream);
    let own = keys.identity.public();
    let failed = |why: String| DialError::Handshake { address, why, own };
    let shaken = timeout(HANDSHAKE, async {
        let (mut sealer, opener) = keys.dial(&mut stream, key).await?;
        // The listener waits for a first record.
        let (mut first, (head, _)) = (BytesMut::new(), Frame::Ping.parts());
        sealer.seal(head.as_slice(), &mut first)?;
        stream.write_all(&first).await?;
        Ok::<_, HandshakeError>((sealer, opener))
    });
    let (sealer, opener) = match shaken.await {
        Ok(Ok(shaken)) => shaken,
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed("it did not answer".to_owned())),
    };
    let received = (BytesMut::new(), Frames::default());
    Ok(TcpLink::new(stream, *key, true, sealer, opener, received))
}
