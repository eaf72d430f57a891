//! The handle itself: who the peer is, how the session does, and its end.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::{Message, SessionStats, StreamCredit, TagStats};
use whimbrel_proto::{CloseReason, ConnectionStats, ExportError, Threshold, Ticket, TooManyThresholds};

use crate::events::Events;
use crate::shared::{MocketState, Shared};

/// A mobile socket: one end of a session. Clones are handles on the same session. Dropping the last one closes the
/// session gracefully: messages sent before are still delivered.
///
/// # Cancel safety
/// Futures are cancel-safe, except that of [`Sender::send_many`](crate::Sender::send_many), which may have queued a first part. A dropped
/// `send`, `send_tracked` or `open_stream` has done nothing. A dropped `recv` or `accept_stream` has taken nothing. A
/// dropped `close` goes on closing. A dropped `suspend` goes on suspending, for the next call.
pub struct Mocket {
    pub(crate) shared: Arc<Shared>,
    /// Messages fetched from the session and not yet returned. Shared by the clones.
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

/// Statistics of a mocket.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Statistics of the connection: keys and paths.
    pub connection: ConnectionStats,
    /// Statistics of the session: messages and streams.
    pub session: SessionStats,
    /// Statistics of each tag in use, in both directions.
    pub tags: Vec<TagStats>,
}

impl Mocket {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        shared.mockets.fetch_add(1, Ordering::AcqRel);
        Self { shared, inbox: Arc::default() }
    }

    /// Returns the public key of the peer, which is its identity. None before the handshake.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.shared.lock().connection.peer_key()
    }

    /// Returns the peer's current address. It changes when the peer moves.
    pub fn peer_addr(&self) -> std::net::SocketAddr {
        self.shared.lock().connection.remote()
    }

    /// Returns the application protocol that the client named when it connected
    /// ([`Config::protocol`](crate::Config::protocol)). Empty if it named none, or if the session was resumed in
    /// another process.
    pub fn protocol(&self) -> bytes::Bytes {
        self.shared.lock().connection.protocol()
    }

    /// Fills `out` with keying material that only the two ends have, derived from `label` and `context` (as in RFC
    /// 5705). Anything signed or sealed with it is bound to this connection. It changes when the session goes on over
    /// another connection.
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

    /// Returns whether the handshake is complete. A session that the peer has suspended stays established.
    pub fn is_established(&self) -> bool {
        self.shared.lock().connected
    }

    /// Returns whether the session has ended. [`Mocket::closed`] returns the reason.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed.is_some()
    }

    /// Waits until the handshake is complete. Cancel-safe.
    ///
    /// # Errors
    /// The reason why the connection could not be established.
    pub async fn established(&self) -> Result<(), CloseReason> {
        self.until_changed(|state| state.connected.then_some(Ok(())), Err).await
    }

    /// Waits until the peer has proven that it holds the final keys.
    pub(crate) async fn proven(&self) -> Result<(), CloseReason> {
        self.until_changed(|state| state.connection.is_peer_proven().then_some(Ok(())), Err).await
    }

    /// Waits until the mocket is closed by either end, and returns the reason. Cancel-safe.
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
                if state.connection.session().has_control() {
                    // The peer is told what is waited for.
                    self.shared.wake(state);
                }
            }
            changed.await;
        }
    }

    /// Subscribes to the events from now on (Mockets 3.4). On a closed mocket, the only event is
    /// [`Event::Closed`](crate::Event::Closed). A subscriber that falls far behind is told how many events it missed,
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

    /// Returns the newest ticket from the server, updated with what is known of the path by now. The endpoint itself
    /// keeps it for the next connection to that server. None on the listening side, and if the server gives no
    /// tickets.
    pub fn ticket(&self) -> Option<Ticket> {
        self.shared.lock().connection.ticket()
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> Stats {
        let state = self.shared.lock();
        let connection = state.connection.stats(self.shared.clock.now());
        let session = state.connection.session_ref();
        Stats { connection, session: session.stats(), tags: session.tag_stats() }
    }

    /// Returns the flow control credit of each stream: what is unread here, what the peer may send, and what this end
    /// may send. [`StreamCredit::unread_for`] reveals a stream whose reader has stalled, and
    /// [`StreamCredit::blocked_for`] one that the peer does not read.
    pub fn stream_credit(&self) -> Vec<StreamCredit> {
        let state = self.shared.lock();
        state.connection.session_ref().stream_credit(self.shared.clock.now())
    }

    /// Watches these thresholds from now on, in place of any set before. [`Event::Quality`](crate::Event::Quality)
    /// reports when a value crosses its threshold, and at first each value that is already above. Hysteresis keeps a
    /// value that hovers at its threshold from being reported repeatedly.
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
    /// More than [`MAX_THRESHOLDS`](crate::MAX_THRESHOLDS) are given. Those set before stay.
    pub fn watch(&self, thresholds: impl IntoIterator<Item = Threshold>) -> Result<(), TooManyThresholds> {
        let mut state = self.shared.lock();
        let set = state.connection.set_thresholds(self.shared.clock.now(), thresholds);
        self.shared.wake(state);
        set
    }

    /// Returns how many bytes of one message currently fit into one packet.
    pub fn max_unfragmented(&self) -> usize {
        self.shared.lock().connection.max_unfragmented()
    }

    /// Closes the session gracefully and waits. Everything sent before is delivered first, in both directions.
    /// Closing begins with the first poll and goes on if the future is dropped.
    pub async fn close(&self, code: u64, text: &str) -> CloseReason {
        self.begin_close(code, text);
        self.closed().await
    }

    /// Begins to close like [`Mocket::close`], without waiting.
    pub fn begin_close(&self, code: u64, text: &str) {
        let mut state = self.shared.lock();
        self.shared.shut_submissions(&mut state);
        state.connection.close(self.shared.clock.now(), code, text);
        self.shared.wake(state);
    }

    /// Closes the session at once. Undelivered messages are lost, and their outcome is Unknown.
    pub fn abort(&self, code: u64, text: &str) {
        let mut state = self.shared.lock();
        state.connection.abort(self.shared.clock.now(), code, text);
        self.shared.pump(&mut state);
        self.shared.wake(state);
    }
}
