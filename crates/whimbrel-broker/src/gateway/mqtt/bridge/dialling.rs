//! Connections to the other side of a bridge.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::plan::BridgePlan;

/// How long a connection and the TLS handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects with the other side.
pub(super) async fn dial(plan: &BridgePlan) -> Result<Box<dyn Stream>, String> {
    match timeout(PATIENCE, connect(plan)).await {
        Ok(connected) => connected,
        Err(_) => Err(format!("{}:{} does not answer", plan.host, plan.port)),
    }
}

async fn connect(plan: &BridgePlan) -> Result<Box<dyn Stream>, String> {
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot connect with {}:{}: {error}", plan.host, plan.port);
    let stream = TcpStream::connect((&*plan.host, plan.port)).await.map_err(|error| cannot(&error))?;
    stream.set_nodelay(true).map_err(|error| cannot(&error))?;
    let Some(files) = &plan.tls else { return Ok(Box::new(stream)) };
    // Read again each time, so that a new certificate is used without a restart.
    let config = files.load().map_err(|error| error.why)?;
    let name = ServerName::try_from(plan.host.clone()).map_err(|error| cannot(&error))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.map(|stream| Box::new(stream) as Box<dyn Stream>).map_err(|error| cannot(&error))
}
