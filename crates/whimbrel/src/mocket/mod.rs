//! What an application holds: a handle on a session.

mod delivery;
mod receiving;
mod sender;
mod sending;
mod streams;
mod tags;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::{Message, SessionStats, StreamCredit, TagStats};
use whimbrel_proto::{CloseReason, ConnectionStats, ExportError, Threshold, Ticket, TooManyThresholds};

use crate::events::Events;
use crate::shared::{MocketState, Shared};

pub use delivery::Delivery;
pub use sender::{Sender, SenderBuilder};
pub use tags::TagHandle;

/// A mobile socket: one end of a session. Clones are handles on the same session; when the last is dropped the session is closed
/// politely (what was sent is still delivered).
///
/// Futures are cancel-safe: a dropped `send`, `send_tracked` or `open_stream` has done nothing, a dropped `recv` or `accept_stream` has taken
/// nothing, a dropped `close` goes on closing, and a dropped `suspend` goes on suspending for the next call. The one exception is
/// [`Sender::send_many`], which has queued a first part.
pub struct Mocket {
    pub(crate) shared: Arc<Shared>,
    /// Fetched and not yet given out; shared by the clones.
    pub(crate) inbox: Arc<Mutex<VecDeque<Message>>>,
}

impl Clone for Mocket {
    fn clone(&self) -> Self {
        self.shared.mockets.fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(&self.shared), inbox: Arc::clone(&self.inbox) }
    }
}

impl Drop for Mocket {
    fn drop(&mut self) {
        self.shared.on_mocket_dropped();
    }
}

impl std::fmt::Debug for Mocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Mocket")
            .field("peer", &state.connection.peer_key().map(|key| key.to_string()))
            .field("remote", &state.connection.remote())
            .field("closed", &state.closed)
            .finish_non_exhaustive()
    }
}

/// Handles on the same session are equal.
impl PartialEq for Mocket {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Mocket {}

impl std::hash::Hash for Mocket {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.shared).hash(state);
    }
}

/// Figures of a mocket.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Keys and paths.
    pub connection: ConnectionStats,
    /// Messages and streams.
    pub session: SessionStats,
    /// Each tag used, both ways.
    pub tags: Vec<TagStats>,
}

impl Mocket {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        shared.mockets.fetch_add(1, Ordering::AcqRel);
        Self { shared, inbox: Arc::default() }
    }

    /// The peer's key: its identity. None before the handshake.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.shared.lock().connection.peer_key()
    }

    /// The peer's address now; it changes when the peer moves.
    pub fn peer_addr(&self) -> std::net::SocketAddr {
        self.shared.lock().connection.remote()
    }

    /// The application protocol that the client named when it connected ([`crate::Config::protocol`]); empty if none, and after a session
    /// was resumed in another process.
    pub fn protocol(&self) -> bytes::Bytes {
        self.shared.lock().connection.protocol()
    }

    /// Fills `out` with keying material that both ends have and nobody else, told apart by `label` and `context` (as RFC 5705): what is
    /// signed or sealed with it holds for this connection only. It changes when the session goes on over another connection.
    ///
    /// # Errors
    /// [`ExportError`]: the peer is not proven yet, or `out` is longer than 8,160 bytes.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.shared.lock().connection.export_keying_material(out, label, context)
    }

    /// The handshake is over. A session that the peer has suspended stays established.
    pub fn is_established(&self) -> bool {
        self.shared.lock().connected
    }

    /// The session has ended: [`Mocket::closed`] says why.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed.is_some()
    }

    /// Waits for the handshake. Cancel-safe.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn established(&self) -> Result<(), CloseReason> {
        self.until_changed(|state| state.connected.then_some(Ok(())), Err).await
    }

    /// Waits until the peer has shown that it holds the final keys.
    pub(crate) async fn proven(&self) -> Result<(), CloseReason> {
        self.until_changed(|state| state.connection.is_peer_proven().then_some(Ok(())), Err).await
    }

    /// Waits until the mocket is closed, by whomever. Cancel-safe.
    pub async fn closed(&self) -> CloseReason {
        self.until_changed(|_| None, |reason| reason).await
    }

    pub(crate) async fn until_changed<T>(
        &self,
        mut done: impl FnMut(&mut MocketState) -> Option<T>,
        closed: impl FnOnce(CloseReason) -> T,
    ) -> T {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = self.shared.lock();
                if let Some(result) = done(&mut state) {
                    return result;
                }
                if let Some(reason) = &state.closed {
                    return closed(reason.clone());
                }
            }
            changed.await;
        }
    }

    /// Events from now on (Mockets 3.4); of a mocket that is closed, that. A subscriber that falls far behind is told how many it missed,
    /// and goes on.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) {
    /// use whimbrel::{Event, EventsError};
    ///
    /// let mut events = mocket.subscribe();
    /// loop {
    ///     match events.recv().await {
    ///         Ok(Event::PeerUnreachable) => println!("the link is down"),
    ///         Ok(Event::Closed(reason)) => {
    ///             println!("closed: {reason}");
    ///             break;
    ///         }
    ///         Ok(_) => {}
    ///         Err(EventsError::Missed(count)) => println!("{count} events were missed"),
    ///         Err(_) => break,
    ///     }
    /// }
    /// # }
    /// ```
    pub fn subscribe(&self) -> Events {
        self.shared.subscribe()
    }

    /// The newest ticket the server gave, with what is known of the path by now; the endpoint keeps it for the next connection to that
    /// server by itself. None on the listening side, and where the listener gives none.
    pub fn ticket(&self) -> Option<Ticket> {
        self.shared.lock().connection.ticket()
    }

    /// Figures now.
    pub fn stats(&self) -> Stats {
        let state = self.shared.lock();
        let connection = state.connection.stats(self.shared.clock.now());
        let session = state.connection.session_ref();
        Stats { connection, session: session.stats(), tags: session.tag_stats() }
    }

    /// Who holds credit: of each stream what is unread here, what the peer may send, and what this end may. One whose reader has stalled
    /// stands out by [`StreamCredit::unread_for`], one that the peer does not read by [`StreamCredit::blocked_for`].
    pub fn stream_credit(&self) -> Vec<StreamCredit> {
        let state = self.shared.lock();
        state.connection.session_ref().stream_credit(self.shared.clock.now())
    }

    /// Watches these thresholds from now on, and no others: [`crate::Event::Quality`] tells when a figure crosses one, and of those that are
    /// above already. With hysteresis, so that a figure that hovers at its level is told once.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use whimbrel::{Event, EventsError, Quality, Threshold};
    ///
    /// let mut events = mocket.subscribe();
    /// mocket.watch([Quality::Rtt(Duration::from_millis(300)), Quality::Loss(50)].map(Threshold::new))?;
    /// loop {
    ///     match events.recv().await {
    ///         Ok(Event::Quality(change)) => {
    ///             println!("{}: {:?}", if change.above { "worse" } else { "better" }, change.now);
    ///         }
    ///         Ok(Event::Closed(_)) | Err(_) => break,
    ///         Ok(_) | Err(_) => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// More than [`crate::MAX_THRESHOLDS`]; those before stay.
    pub fn watch(&self, thresholds: impl IntoIterator<Item = Threshold>) -> Result<(), TooManyThresholds> {
        let mut state = self.shared.lock();
        let set = state.connection.set_thresholds(self.shared.clock.now(), thresholds);
        self.shared.wake(state);
        set
    }

    /// Bytes of one message that travel in one packet at present.
    pub fn max_unfragmented(&self) -> usize {
        self.shared.lock().connection.max_unfragmented()
    }

    /// Closes politely and waits: everything sent before is delivered first, both ways. Closing has begun with the first poll and goes on
    /// if the future is dropped.
    pub async fn close(&self, code: u64, text: &str) -> CloseReason {
        self.begin_close(code, text);
        self.closed().await
    }

    /// As [`Mocket::close`], without waiting.
    pub fn begin_close(&self, code: u64, text: &str) {
        let mut state = self.shared.lock();
        self.shared.shut_submissions(&mut state);
        state.connection.close(self.shared.clock.now(), code, text);
        self.shared.wake(state);
    }

    /// Ends at once: what was not delivered is lost, its outcome Unknown.
    pub fn abort(&self, code: u64, text: &str) {
        let mut state = self.shared.lock();
        state.connection.abort(self.shared.clock.now(), code, text);
        self.shared.pump(&mut state);
        self.shared.wake(state);
    }
}
