//! The HTTP server for `/metrics` and `/healthz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Metrics;
use crate::error::ServiceError;
use crate::health::Health;

/// The maximum number of clients at a time. Further ones wait.
const CLIENTS: usize = 16;
/// How long a client may take to send the head of a request. [`PATIENCE`] limits the whole exchange.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// A server bound to an address. Dropping it frees the address.
pub(crate) struct MetricsServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl MetricsServer {
    pub(crate) async fn bind(
        address: SocketAddr,
        metrics: Metrics,
        health: Health,
    ) -> Result<Self, ServiceError> {
        let failed = |error| ServiceError::Metrics { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { address, task: tokio::spawn(accept(listener, metrics, health)) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, metrics: Metrics, health: Health) {
    let room = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (metrics, health) = (metrics.clone(), health.clone());
        tokio::spawn(async move {
            drop(tokio::time::timeout(PATIENCE, serve(client, metrics, health)).await);
            drop(permit);
        });
    }
}

async fn serve(client: TcpStream, metrics: Metrics, health: Health) {
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = respond(request.method(), request.uri().path(), &metrics, &health);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).keep_alive(true);
    // Errors are ignored: the client may have disconnected.
    drop(http.serve_connection(TokioIo::new(client), answer).await);
}

fn respond(method: &Method, path: &str, metrics: &Metrics, health: &Health) -> Response<Full<Bytes>> {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, OPEN_METRICS, metrics.text()),
        (&Method::GET | &Method::HEAD, "/healthz") => match health.check() {
            Ok(()) => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, PLAIN, "there are /metrics and /healthz\n".to_owned())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
