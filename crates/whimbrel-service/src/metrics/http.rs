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
use super::scrapes::Scrapes;
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
        Ok(Self { address, task: tokio::spawn(accept(listener, Scrapes::new(metrics), health)) })
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

async fn accept(listener: TcpListener, scrapes: Scrapes, health: Health) {
    let room = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (scrapes, health) = (scrapes.clone(), health.clone());
        tokio::spawn(async move {
            drop(tokio::time::timeout(PATIENCE, serve(client, scrapes, health)).await);
            drop(permit);
        });
    }
}

async fn serve(client: TcpStream, scrapes: Scrapes, health: Health) {
    let answer = service_fn(|request: Request<hyper::body::Incoming>| async {
        Ok::<_, Infallible>(respond(request, &scrapes, &health).await)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // One request for each connection: a client cannot send thousands of them ahead, and has to wait for its turn
    // among the others after each.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).keep_alive(false);
    // Errors are ignored: the client may have disconnected.
    drop(http.serve_connection(TokioIo::new(client), answer).await);
}

async fn respond<B>(request: Request<B>, scrapes: &Scrapes, health: &Health) -> Response<Full<Bytes>> {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => match scrapes.text().await {
            Ok(text) => (StatusCode::OK, OPEN_METRICS, text),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "a collector panicked\n".into()),
        },
        (&Method::GET | &Method::HEAD, "/healthz") => match health.check() {
            Ok(()) => (StatusCode::OK, PLAIN, "ok\n".into()),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n").into()),
        },
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, PLAIN, "there are /metrics and /healthz\n".into())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".into()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use whimbrel::{Config, Endpoint};

    use super::*;

    #[tokio::test]
    async fn a_connection_has_one_answer_whatever_is_sent_ahead() {
        let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server =
            MetricsServer::bind(any, Metrics::new(&endpoint, "test", ""), Health::new()).await.unwrap();
        for path in ["/metrics", "/healthz"] {
            let mut client = TcpStream::connect(server.address()).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
            client.write_all(request.repeat(10).as_bytes()).await.unwrap();
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).await.unwrap();
            let answers = String::from_utf8(answers).unwrap();
            assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
            assert!(answers.contains("connection: close"), "{answers}");
        }
    }
}
