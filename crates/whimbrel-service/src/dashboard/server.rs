//! The HTTP server of the dashboard.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::answer::{Content, answer};
use super::guard::Guard;
use super::{DashboardOptions, events};
use crate::error::ServiceError;
use crate::subject::Subject;

/// The most viewers at a time.
const VIEWERS: usize = 16;
/// The most connections at a time. Further ones wait.
const CLIENTS: usize = 64;
/// How long a client may take to send the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long an exchange may take that is no viewer's.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server bound to an address. Dropping it frees the address and ends all connections.
pub(crate) struct DashboardServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl DashboardServer {
    pub(crate) async fn bind(options: DashboardOptions, subject: Arc<Subject>) -> Result<Self, ServiceError> {
        let DashboardOptions { address, hosts } = options;
        let failed = |error| ServiceError::Dashboard { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (guard, viewers) = (Guard::new(hosts), Arc::new(Semaphore::new(VIEWERS)));
        let events = watch::channel(Bytes::new()).0;
        let arrived = Arc::new(Notify::new());
        let desk = Arc::new(Desk { guard, viewers, events: events.clone(), arrived: Arc::clone(&arrived) });
        let task = tokio::spawn(async move {
            tokio::select! {
                () = accept(listener, desk) => {}
                () = events::make(subject, events, arrived) => {}
            }
        });
        Ok(Self { address, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for DashboardServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state that all connections share.
struct Desk {
    guard: Guard,
    viewers: Arc<Semaphore>,
    events: watch::Sender<Bytes>,
    /// Told when a viewer comes.
    arrived: Arc<Notify>,
}

/// A connection's state.
#[derive(Default)]
struct Connection {
    is_viewer: AtomicBool,
    drop: Arc<Notify>,
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let room = Arc::new(Semaphore::new(CLIENTS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of file descriptors, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let desk = Arc::clone(&desk);
        connections.spawn(async move {
            serve(client, &desk).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(client: TcpStream, desk: &Desk) {
    let connection = Connection::default();
    let answer = service_fn(|request: Request<hyper::body::Incoming>| {
        std::future::ready(Ok::<_, Infallible>(desk.respond(&request, &connection)))
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // One request for each connection: a viewer that went is noticed at once.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).keep_alive(false);
    let too_long = async {
        sleep(PATIENCE).await;
        if connection.is_viewer.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    };
    tokio::select! {
        // Errors are ignored: the client may have disconnected.
        ended = http.serve_connection(TokioIo::new(client), answer) => drop(ended),
        () = connection.drop.notified() => {}
        () = too_long => {}
    }
}

impl Desk {
    fn respond<B>(&self, request: &Request<B>, connection: &Connection) -> Response<Content> {
        const PLAIN: &str = "text/plain; charset=utf-8";
        let plain = |status, text| answer(status, PLAIN, Content::whole(text));
        if !self.guard.admits(request.headers()) {
            let why = "ask for the dashboard by its IP address or as localhost, or list this name in `hosts` under [service.dashboard]\n";
            return plain(StatusCode::MISDIRECTED_REQUEST, why);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        }
        match request.uri().path() {
            "/" => page("text/html; charset=utf-8", include_str!("page/index.html")),
            "/style.css" => page("text/css; charset=utf-8", include_str!("page/style.css")),
            "/script.js" => page("text/javascript; charset=utf-8", include_str!("page/script.js")),
            "/events" if !Guard::admits_events(request.headers()) => {
                plain(StatusCode::FORBIDDEN, "only the dashboard's own page gets events\n")
            }
            "/events" => self.events(connection).unwrap_or_else(|| {
                plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the dashboard already has as many viewers as it may: try again later\n",
                )
            }),
            _ => plain(StatusCode::NOT_FOUND, "there are / and /events\n"),
        }
    }

    /// Returns the events for a further viewer. None if there are as many as may be.
    fn events(&self, connection: &Connection) -> Option<Response<Content>> {
        let place = Arc::clone(&self.viewers).try_acquire_owned().ok()?;
        connection.is_viewer.store(true, Ordering::Relaxed);
        // One event waits beside those that the connection has taken.
        let (send, events) = mpsc::channel(1);
        let ending = (Arc::clone(&connection.drop), events::SLOW);
        tokio::spawn(events::follow(self.events.subscribe(), send, ending, place));
        self.arrived.notify_one();
        Some(answer(StatusCode::OK, "text/event-stream", Content::Events(events)))
    }
}

fn page(kind: &'static str, text: &'static str) -> Response<Content> {
    answer(StatusCode::OK, kind, Content::whole(text))
}
