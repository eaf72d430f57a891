//! Listening for links over TCP.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use whimbrel::PublicKey;

use super::connection::{HANDSHAKE, prepare};
use super::frame::Frames;
use super::link::TcpLink;
use super::noise::{HandshakeError, Keys};

/// The most connections whose other end has not proven its key yet. Further ones are closed at once.
const HALF_OPEN: usize = 256;
/// Those of one network: an IPv4 address, or 64 bits of an IPv6 address.
const HALF_OPEN_OF_NETWORK: usize = 16;
/// The pause after the system has refused a connection, for want of files for example.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections whose other end has not proven its key yet, by network.
#[derive(Debug, Default)]
struct HalfOpen(Mutex<HashMap<IpAddr, usize>>);

/// One of them. Dropping it makes room.
struct Place {
    of: Arc<HalfOpen>,
    network: IpAddr,
}

impl HalfOpen {
    fn take(self: &Arc<Self>, address: SocketAddr) -> Option<Place> {
        let network = match address.ip().to_canonical() {
            IpAddr::V4(ip) => IpAddr::V4(ip),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        };
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, of_network) = (networks.values().sum::<usize>(), networks.get(&network).copied());
        if all >= HALF_OPEN || of_network.unwrap_or(0) >= HALF_OPEN_OF_NETWORK {
            return None;
        }
        *networks.entry(network).or_default() += 1;
        Some(Place { of: Arc::clone(self), network })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut networks = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = networks.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                networks.remove(&self.network);
            }
        }
    }
}

/// Accepts links of peers whose keys are `admitted`, and hands each to `take`. Never ends.
pub(crate) async fn serve(
    listener: TcpListener,
    keys: Keys,
    admitted: impl Fn(&PublicKey) -> bool + Clone + Send + Sync + 'static,
    take: impl Fn(TcpLink) + Clone + Send + Sync + 'static,
) {
    let half_open = Arc::new(HalfOpen::default());
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Dropping the connection closes it.
        let Some(place) = half_open.take(address) else { continue };
        let (keys, admitted, take) = (keys.clone(), admitted.clone(), take.clone());
        tokio::spawn(async move {
            let accepted = timeout(HANDSHAKE, accept(stream, &keys, admitted)).await;
            drop(place);
            // A stranger learns nothing, and is no news.
            if let Ok(Ok(link)) = accepted {
                take(link);
            }
        });
    }
}

async fn accept(
    mut stream: TcpStream,
    keys: &Keys,
    admitted: impl Fn(&PublicKey) -> bool,
) -> Result<TcpLink, HandshakeError> {
    prepare(&stream);
    let (peer, sealer, mut opener) = keys.accept(&mut stream, admitted).await?;
    let (mut sealed, mut frames) = (BytesMut::new(), Frames::default());
    while frames.buffer().is_empty() {
        if stream.read_buf(&mut sealed).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        opener.open(&mut sealed, frames.buffer())?;
    }
    Ok(TcpLink::new(stream, peer, false, sealer, opener, (sealed, frames)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_network_takes_the_room_of_others_and_there_is_an_end() {
        let half_open = Arc::new(HalfOpen::default());
        let take = |text: &str| half_open.take(SocketAddr::new(text.parse().unwrap(), 1));
        let mut held: Vec<_> = (0..HALF_OPEN_OF_NETWORK).map(|_| take("192.0.2.1").unwrap()).collect();
        assert!(take("192.0.2.1").is_none() && take("::ffff:192.0.2.1").is_none());
        held.push(take("2001:db8::1").unwrap());
        held.extend((1..HALF_OPEN_OF_NETWORK).map(|at| take(&format!("2001:db8::{at}:1")).unwrap()));
        assert!(take("2001:db8::ffff").is_none(), "the same network");
        let mut networks = 0..;
        while held.len() < HALF_OPEN {
            held.push(take(&format!("2001:db8:0:{:x}::1", networks.next().unwrap() + 1)).unwrap());
        }
        assert!(take("198.51.100.1").is_none());
        held.clear();
        assert!(take("198.51.100.1").is_some());
        assert!(half_open.0.lock().unwrap().is_empty(), "nothing is remembered of who is gone");
    }
}
