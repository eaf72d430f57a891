//! A link over TCP: one connection, with a task that sends and one that receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use whimbrel::PublicKey;

use super::frame::Frames;
use super::mux::{Event, Mux};
use super::noise::{Opener, Sealer};
use super::stream::TcpStreamEnds;
use crate::connector::failure::Failure;

/// The silence after which the peer is asked whether it is there.
const QUIET: Duration = Duration::from_secs(5);
/// The silence after which the link is over. TCP by itself would wait for a quarter of an hour.
pub(super) const GONE: Duration = Duration::from_secs(120);
/// Streams and messages of the peer that wait to be taken. Until they are, nothing more is read.
const WAITING: usize = 64;
/// The most bytes that are sealed and handed to the system at a time.
const BATCH: usize = 64 * 1024;
/// The bytes that are read at a time.
const READ: usize = 64 * 1024;
/// How long what was sent last may take, and then the peer to close its side, too.
const LINGER: Duration = Duration::from_secs(5);

/// A link. Cheap to clone; it ends with its last clone, and with its last stream.
#[derive(Clone, Debug)]
pub(crate) struct TcpLink(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    peer: PublicKey,
    opened: tokio::sync::Mutex<mpsc::Receiver<(u64, Bytes)>>,
    messages: tokio::sync::Mutex<mpsc::Receiver<Bytes>>,
}

/// Whether the peer is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    Answers,
    Silent,
    Over(Arc<str>),
}

#[derive(Debug)]
pub(super) struct Shared {
    mux: Mutex<Mux>,
    state: watch::Sender<LinkState>,
    /// Whether the connection is closed.
    is_closed: watch::Sender<bool>,
    /// Whether this end has closed the link for good.
    is_closed_here: AtomicBool,
}

impl Shared {
    pub(super) fn mux(&self) -> MutexGuard<'_, Mux> {
        self.mux.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the link. `says` is whether the peer can be told.
    fn end(&self, why: &str, says: bool) {
        let is_news = self.state.send_if_modified(|state| {
            let is_news = !matches!(state, LinkState::Over(_));
            if is_news {
                *state = LinkState::Over(why.into());
            }
            is_news
        });
        if is_news {
            self.mux().end_link(says.then_some(why));
        }
    }

    fn set_answers(&self, answers: bool) {
        let now = if answers { LinkState::Answers } else { LinkState::Silent };
        self.state.send_if_modified(|state| {
            let changes = *state != now && !matches!(state, LinkState::Over(_));
            if changes {
                *state = now;
            }
            changes
        });
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end("the other end has let go of the link", true);
    }
}

impl TcpLink {
    /// A link over a connection on which hands were shaken. `received`: what has come already.
    pub(super) fn new(
        stream: TcpStream,
        peer: PublicKey,
        is_dialler: bool,
        sealer: Sealer,
        opener: Opener,
        received: (BytesMut, Frames),
    ) -> Self {
        let shared = Arc::new(Shared {
            mux: Mutex::new(Mux::new(is_dialler)),
            state: watch::channel(LinkState::Answers).0,
            is_closed: watch::channel(false).0,
            is_closed_here: AtomicBool::new(false),
        });
        let (open, opened) = mpsc::channel(WAITING);
        let (tell, messages) = mpsc::channel(WAITING);
        let (reader, writer) = stream.into_split();
        let (sealed, frames) = received;
        let receiving = Receiving { shared: Arc::clone(&shared), reader, opener, sealed, frames, open, tell };
        let sending = tokio::spawn(send(Arc::clone(&shared), writer, sealer));
        tokio::spawn(receiving.run(sending));
        let (opened, messages) = (tokio::sync::Mutex::new(opened), tokio::sync::Mutex::new(messages));
        Self(Arc::new(Handle { shared, peer, opened, messages }))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Returns the key that the peer has proven.
    pub(crate) fn peer_key(&self) -> PublicKey {
        self.0.peer
    }

    /// Opens a stream with these bytes in front.
    pub(crate) fn open_stream(&self, opening: Bytes) -> Result<TcpStreamEnds, Failure> {
        let id = self.shared().mux().open(opening)?;
        Ok(TcpStreamEnds::new(self.clone(), id, Bytes::new()))
    }

    /// Waits for a stream that the peer opens. Can be cancelled at any time.
    pub(crate) async fn accept_stream(&self) -> Option<TcpStreamEnds> {
        let (id, opening) = self.0.opened.lock().await.recv().await?;
        Some(TcpStreamEnds::new(self.clone(), id, opening))
    }

    /// Waits for a message. Can be cancelled at any time.
    pub(crate) async fn recv(&self) -> Option<Bytes> {
        self.0.messages.lock().await.recv().await
    }

    /// Sends a message that may be lost. It is not sent later than this. Returns whether there is room.
    pub(crate) fn send(&self, message: Bytes, lifetime: Duration) -> bool {
        self.shared().mux().send(message, Some(std::time::Instant::now() + lifetime))
    }

    /// Sends a message that arrives if the link stays.
    pub(crate) fn send_surely(&self, message: Bytes) -> bool {
        self.shared().mux().send_surely(message)
    }

    /// Returns whether the peer was heard of, or was not asked.
    pub(crate) fn is_reachable(&self) -> bool {
        *self.shared().state.borrow() == LinkState::Answers
    }

    /// Follows whether it is reachable.
    pub(crate) fn watch(&self) -> TcpWatch {
        TcpWatch(self.shared().state.subscribe())
    }

    /// Waits until the link is over, and returns why.
    pub(crate) async fn closed(&self) -> Arc<str> {
        let mut state = self.shared().state.subscribe();
        let over = state.wait_for(|state| matches!(state, LinkState::Over(_))).await;
        match over.as_deref() {
            Ok(LinkState::Over(why)) => Arc::clone(why),
            _ => "the link is gone".into(),
        }
    }

    /// Returns whether [`TcpLink::close`] was called.
    pub(crate) fn is_closed_here(&self) -> bool {
        self.shared().is_closed_here.load(Ordering::Acquire)
    }

    /// Ends the link for good once everything was sent, and waits until the connection is closed. It is not dialled again.
    pub(crate) async fn close(&self, why: &str) {
        self.shared().is_closed_here.store(true, Ordering::Release);
        self.shared().end(why, true);
        let mut closed = self.shared().is_closed.subscribe();
        // An error means that it is gone.
        drop(closed.wait_for(|closed| *closed).await);
    }

    /// Returns whether a stream is open, of either end.
    pub(crate) fn has_streams(&self) -> bool {
        self.shared().mux().has_streams()
    }

    /// Ends the link.
    pub(crate) fn abort(&self, why: &str) {
        self.shared().end(why, true);
    }

    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.shared().state.borrow(), LinkState::Over(_))
    }
}

impl PartialEq for TcpLink {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Follows whether a link is reachable.
#[derive(Debug)]
pub(crate) struct TcpWatch(watch::Receiver<LinkState>);

impl TcpWatch {
    /// Waits for a change. Returns false once the link is over.
    pub(crate) async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok() && !matches!(*self.0.borrow(), LinkState::Over(_))
    }
}

/// Sends what waits, until the link is over and everything was sent.
async fn send(shared: Arc<Shared>, mut writer: OwnedWriteHalf, mut sealer: Sealer) {
    let mut sealed = BytesMut::new();
    loop {
        let bytes = std::future::poll_fn(|cx| shared.mux().poll_send(BATCH, cx)).await;
        let Some(bytes) = bytes else { break };
        sealed.clear();
        if sealer.seal(&bytes, &mut sealed).is_err() {
            shared.end("no more can be sealed", false);
            break;
        }
        if let Err(error) = writer.write_all(&sealed).await {
            shared.end(&format!("the connection failed: {error}"), false);
            break;
        }
    }
    // An error means that the connection is gone.
    drop(writer.shutdown().await);
}

/// Receives until the link is over.
struct Receiving {
    shared: Arc<Shared>,
    reader: OwnedReadHalf,
    opener: Opener,
    sealed: BytesMut,
    frames: Frames,
    open: mpsc::Sender<(u64, Bytes)>,
    tell: mpsc::Sender<Bytes>,
}

impl Receiving {
    async fn run(mut self, mut sending: JoinHandle<()>) {
        let mut state = self.shared.state.subscribe();
        let why = tokio::select! {
            why = self.receive() => Some(why),
            _ = state.wait_for(|state| matches!(state, LinkState::Over(_))) => None,
        };
        if let Some((why, says)) = why {
            self.shared.end(&why, says);
        }
        let Self { shared, mut reader, open, tell, .. } = self;
        // Who waits for streams and messages hears that none will come.
        drop((open, tell));
        if timeout(LINGER, &mut sending).await.is_err() {
            sending.abort();
        }
        // A connection that is closed with bytes unread is reset, which loses what was sent last.
        let mut rest = [0; 4_096];
        let ended = async { while reader.read(&mut rest).await.is_ok_and(|read| read > 0) {} };
        drop(timeout(LINGER, ended).await);
        shared.is_closed.send_replace(true);
    }

    /// Receives. Returns why the link ends, and whether the peer is to be told.
    async fn receive(&mut self) -> (String, bool) {
        let mut heard = Instant::now();
        let mut sealed = std::mem::take(&mut self.sealed);
        loop {
            if self.opener.open(&mut sealed, self.frames.buffer()).is_err() {
                return ("what came was not sealed by the peer".to_owned(), false);
            }
            loop {
                let event = match self.frames.next() {
                    Ok(Some(frame)) => self.shared.mux().on_frame(frame),
                    Ok(None) => break,
                    Err(violation) => Err(violation),
                };
                match event {
                    // An error means that nobody takes it any more.
                    Ok(Some(Event::Opened(stream, opening))) => drop(self.open.send((stream, opening)).await),
                    Ok(Some(Event::Message(message))) => drop(self.tell.send(message).await),
                    Ok(Some(Event::Closed(why))) => {
                        return (format!("the peer has ended it: {}", shown(&why)), false);
                    }
                    Ok(None) => {}
                    Err(violation) => return (violation.to_string(), true),
                }
            }
            sealed.reserve(READ);
            match timeout(QUIET, self.reader.read_buf(&mut sealed)).await {
                Ok(Ok(0)) => return ("the peer has closed the connection".to_owned(), false),
                Ok(Ok(_)) => {
                    heard = Instant::now();
                    self.shared.set_answers(true);
                }
                Ok(Err(error)) => return (format!("the connection failed: {error}"), false),
                Err(_) if heard.elapsed() >= GONE => return ("the peer does not answer".to_owned(), false),
                Err(_) => {
                    // The second time in a row, the peer has not answered.
                    self.shared.set_answers(heard.elapsed() < QUIET * 2);
                    self.shared.mux().ping();
                }
            }
        }
    }
}

/// Text of the peer, as it may be shown: short, and without control characters.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().filter(|letter| !letter.is_control()).take(200).collect()
}
