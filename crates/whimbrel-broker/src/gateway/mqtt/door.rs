//! The addresses for clients: TCP, with TLS or WebSocket or both on it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::tls::{Identity, Tls};
use super::websocket::WebSocket;

/// An address at which clients of MQTT come in.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    websocket: Option<Arc<WebSocket>>,
}

/// A connection, whatever carries it.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Wire for S {}

impl Door {
    /// Clients connect by TCP to `listener`, or by TLS or WebSocket or both if these are given.
    pub fn new(listener: TcpListener, tls: Option<Arc<Tls>>, websocket: Option<Arc<WebSocket>>) -> Self {
        Self { listener, tls, websocket }
    }

    pub(super) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.listener.accept().await
    }

    /// Leads a client in. Returns its identity, if TLS tells one. Pages of strangers may not connect if clients have rights without a
    /// password, as `is_open` says.
    pub(super) async fn lead(
        &self,
        stream: TcpStream,
        is_open: bool,
    ) -> io::Result<(Box<dyn Wire>, Option<Identity>)> {
        // Small answers would wait for others otherwise.
        drop(stream.set_nodelay(true));
        let (stream, identity): (Box<dyn Wire>, _) = match &self.tls {
            Some(tls) => {
                let (stream, identity) = tls.accept(stream).await?;
                (Box::new(stream), identity)
            }
            None => (Box::new(stream), None),
        };
        let Some(websocket) = &self.websocket else { return Ok((stream, identity)) };
        // A browser also sends its user's certificate for any page.
        let needs_origin = is_open || identity.is_some();
        let stream = websocket.accept(stream, self.tls.is_some(), needs_origin).await?;
        Ok((Box::new(stream), identity))
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (&self.websocket, &self.tls) {
            (None, None) => "mqtt",
            (None, Some(_)) => "mqtts",
            (Some(_), None) => "ws",
            (Some(_), Some(_)) => "wss",
        };
        let path = self.websocket.as_ref().map_or("", |websocket| &websocket.path);
        match self.listener.local_addr() {
            Ok(address) => write!(f, "{scheme}://{address}{path}"),
            Err(_) => write!(f, "{scheme}"),
        }
    }
}
