//! Suspending a session in one process and resuming it in another (Mockets 5.1).

use std::net::SocketAddr;
use std::sync::Arc;

use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::StreamKind;
use whimbrel_proto::{CloseReason, Connection, Handle, StreamId, SuspendMode};

use crate::clock::time_of_day;
use crate::endpoint::Endpoint;
use crate::locals::Locals;
use crate::lock::lock;
use crate::message_stream::MessageStream;
use crate::mocket::Mocket;
use crate::shared::{MocketState, Shared};
use crate::stream::Stream;
use crate::suspended::SuspendedMocket;

/// An error from suspending a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendError {
    /// The session cannot be suspended now. The mocket is unchanged.
    #[error(transparent)]
    Refused(#[from] whimbrel_proto::SuspendError),
    /// The session ended instead.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
}

/// An error from resuming a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// This endpoint cannot resume the session. Nothing was sent to the peer.
    #[error(transparent)]
    Refused(#[from] whimbrel_proto::ResumeError),
    /// None of the local addresses in `Config::paths` leads to the peer.
    #[error(
        "no address in `paths` can reach {0}: add an address of this host in the same family, or use Auto"
    )]
    NoPath(SocketAddr),
    /// No connection was made, or the peer does not continue the session: [`CloseReason::AlreadyResumed`],
    /// [`CloseReason::ResumeExpired`], [`CloseReason::UnknownSession`]. After [`CloseReason::HandshakeTimedOut`], the
    /// session can be resumed again.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

impl Mocket {
    /// Suspends the session and returns its state, with everything unacknowledged and unread. [`Endpoint::resume`]
    /// continues it, in this process or another. Meanwhile the peer stands by: it queues messages up to its limits,
    /// and their lifetimes go on.
    ///
    /// All handles on this mocket are closed with [`CloseReason::Suspended`]. Outcomes awaited here become `Unknown`.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// use whimbrel::SuspendMode;
    ///
    /// let state = mocket.suspend(SuspendMode::Snapshot).await?;
    /// std::fs::write("session", state.seal("correct horse battery staple")?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future does not stop the suspension. It goes on with the mode of that call, and the next call
    /// waits for it and returns the state. Of several calls at a time, one gets the state and the others get
    /// [`SuspendError::Closed`].
    ///
    /// If the peer is unreachable, waits for it until `close_timeout`, or until [`Mocket::suspend_unanswered`]. The
    /// session is then suspended anyway, and the peer learns of it later.
    ///
    /// # Errors
    /// [`SuspendError`]: the session cannot be suspended now, or it has ended.
    pub async fn suspend(&self, mode: SuspendMode) -> Result<SuspendedMocket, SuspendError> {
        self.suspend_to(mode, None).await
    }

    /// Ends the wait of a suspension for the peer's answer, as `close_timeout` would. [`Mocket::suspend`] then returns
    /// the state, and the peer learns of it later. Does nothing if no suspension is under way.
    pub fn suspend_unanswered(&self) {
        let mut state = self.shared.lock();
        state.connection.suspend_unanswered(self.shared.clock.now());
        self.shared.wake(state);
    }

    /// Suspends like [`Mocket::suspend`], for a host with another identity: `heir` may resume the session, too.
    ///
    /// # Errors
    /// The same as for [`Mocket::suspend`].
    pub async fn suspend_for(
        &self,
        mode: SuspendMode,
        heir: PublicKey,
    ) -> Result<SuspendedMocket, SuspendError> {
        self.suspend_to(mode, Some(heir)).await
    }

    async fn suspend_to(
        &self,
        mode: SuspendMode,
        heir: Option<PublicKey>,
    ) -> Result<SuspendedMocket, SuspendError> {
        let proven = |state: &mut MocketState| state.connection.is_peer_proven().then_some(Ok(()));
        self.until_changed(proven, |reason| Err(SuspendError::Closed(reason))).await?;
        self.shared.begin_suspend(mode, heir)?;
        match self.closed().await {
            CloseReason::Suspended => {}
            reason => return Err(SuspendError::Closed(reason)),
        }
        let own_key = lock(&self.shared.endpoint.proto).public_key();
        let now = self.shared.clock.now();
        let suspended = self.shared.lock().connection.take_suspended(now, own_key, time_of_day());
        // None if another call has taken the state.
        let mut suspended = suspended.ok_or(SuspendError::Closed(CloseReason::Suspended))?;
        let fetched = std::mem::take(&mut *lock(&self.inbox));
        if !fetched.is_empty() && suspended.put_back(fetched.into_iter()).is_err() {
            debug_assert!(false, "what was just written can be read");
        }
        Ok(SuspendedMocket(suspended))
    }

    /// Returns the open byte streams. After a session was resumed, [`Mocket::stream`] makes a handle for each.
    pub fn byte_streams(&self) -> Vec<StreamId> {
        self.shared.lock().connection.session_ref().byte_streams()
    }

    /// Returns a handle on an open byte stream of a resumed session. Reading and writing continue where the earlier
    /// process stopped. Make only one handle for each stream. None: there is no such byte stream.
    pub fn stream(&self, id: StreamId) -> Option<Stream> {
        let mut state = self.shared.lock();
        let known = state.connection.session_ref().stream_kind(id) == Some(StreamKind::Bytes);
        if known {
            state.streams().backlog.was_accepted(id);
        }
        let opening = state.connection.session().take_opening(id).unwrap_or_default();
        drop(state);
        known.then(|| Stream::new(self.clone(), id, opening))
    }

    /// Returns the message streams that this end has not ended, without the default one. After a session was resumed,
    /// [`Mocket::message_stream`] makes a handle for each.
    pub fn message_streams(&self) -> Vec<StreamId> {
        self.shared.lock().connection.session_ref().message_streams()
    }

    /// Returns a handle on an open message stream of a resumed session, with its unread messages and its options. If
    /// the stream had a handle before, messages received meanwhile wait for the new one. Make only one handle for
    /// each stream. None: there is no such stream, or this end has ended it.
    pub fn message_stream(&self, id: StreamId) -> Option<MessageStream> {
        let mut state = self.shared.lock();
        let known = state.connection.session_ref().is_message_stream(id);
        if known {
            state.streams().backlog.was_accepted(id);
        }
        drop(state);
        known.then(|| MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }
}

impl Shared {
    /// Begins to suspend. From now on, nothing is read from the session. Messages submitted before are queued first.
    /// Messages sent from now on wait for the lock, and then go with the session or are refused.
    fn begin_suspend(
        &self,
        mode: SuspendMode,
        heir: Option<PublicKey>,
    ) -> Result<(), whimbrel_proto::SuspendError> {
        let mut state = self.lock();
        if state.suspending {
            // Possibly begun by a call whose future was dropped. This call then returns the state.
            return Ok(());
        }
        self.shut_submissions(&mut state);
        let begun = state.connection.suspend(self.clock.now(), mode, heir);
        state.suspending |= begun.is_ok();
        self.wake(state);
        begun
    }
}

impl Endpoint {
    /// Resumes a suspended session, at the peer's last address or at `peer_address`, and waits until the peer has
    /// agreed. [`Mocket::byte_streams`] and [`Mocket::message_streams`] list the streams that were open.
    ///
    /// ```no_run
    /// # async fn example(endpoint: whimbrel::Endpoint) -> Result<(), Box<dyn std::error::Error>> {
    /// use whimbrel::SuspendedMocket;
    ///
    /// let state = SuspendedMocket::open(&std::fs::read("session")?, "correct horse battery staple")?;
    /// let mocket = endpoint.resume(&state, None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cancel-safe: if the future is dropped before the peer has agreed, the state can be resumed again.
    ///
    /// # Errors
    /// [`ResumeError`]. A state can be resumed only once.
    pub async fn resume(
        &self,
        suspended: &SuspendedMocket,
        peer_address: Option<SocketAddr>,
    ) -> Result<Mocket, ResumeError> {
        let remote = peer_address.unwrap_or(suspended.0.remote);
        let locals = self.shared.locals_of_client(&self.shared.config.paths, remote);
        let locals = locals.map_err(|_| ResumeError::NoPath(remote))?;
        let mocket = {
            let now = self.shared.clock.now();
            let mut proto = lock(&self.shared.proto);
            let taken = proto.resume(now, time_of_day(), &suspended.0, peer_address)?;
            drop(proto);
            self.adopt(taken, locals)
        };
        mocket.established().await?;
        Ok(mocket)
    }

    /// Restores a suspended session and waits for its peer, which was suspended too, to resume it at this endpoint.
    /// [`Event::PeerResumed`](crate::Event::PeerResumed) reports that. Messages can be read and sent at once.
    ///
    /// # Errors
    /// [`ResumeError::Refused`]: this endpoint cannot restore the session.
    #[allow(clippy::unused_async, reason = "must be called within the runtime that will drive it")]
    pub async fn wait_for_peer(&self, suspended: &SuspendedMocket) -> Result<Mocket, ResumeError> {
        let now = self.shared.clock.now();
        let taken = lock(&self.shared.proto).wait_for_peer(now, time_of_day(), &suspended.0)?;
        Ok(self.adopt(taken, self.shared.locals_of_server(suspended.0.remote)))
    }

    fn adopt(&self, (handle, connection): (Handle, Connection), locals: Option<Box<Locals>>) -> Mocket {
        let connection = Shared::new(handle, connection, locals, 0, Arc::clone(&self.shared));
        lock(&self.shared.connections).insert(handle, Arc::clone(&connection));
        connection.drive();
        Mocket::new(connection)
    }
}
