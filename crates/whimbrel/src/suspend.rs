//! Leaving a process and coming back in another (Mockets 5.1).

use std::net::SocketAddr;
use std::sync::Arc;

use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::StreamKind;
use whimbrel_proto::{CloseReason, Connection, Handle, StreamId, SuspendMode};

use crate::endpoint::{Endpoint, time_of_day};
use crate::locals::Locals;
use crate::message_stream::MessageStream;
use crate::mocket::Mocket;
use crate::shared::{MocketState, Shared, lock};
use crate::stream::Stream;
use crate::suspended::SuspendedMocket;

/// Suspending.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendError {
    /// Not now; the mocket is as it was.
    #[error(transparent)]
    Refused(#[from] whimbrel_proto::SuspendError),
    /// The session ended instead.
    #[error("the mocket is closed: {0}")]
    Closed(CloseReason),
}

/// Resuming.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// Not with this endpoint; the peer heard of nothing.
    #[error(transparent)]
    Refused(#[from] whimbrel_proto::ResumeError),
    /// None of the addresses in `Config::paths` leads to the peer.
    #[error("none of the paths' addresses leads to {0}")]
    NoPath(SocketAddr),
    /// No connection, or the peer does not go on with the session: [`CloseReason::AlreadyResumed`], [`CloseReason::ResumeExpired`],
    /// [`CloseReason::UnknownSession`]. After [`CloseReason::HandshakeTimedOut`] it can be tried again.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

impl Mocket {
    /// Ends this end of the session without ending the session: what is unacknowledged and unread is in what is returned, the peer stands
    /// by (its sends queue by their limits, lifetimes run), and [`Endpoint::resume`] goes on, in this process or another. All handles on
    /// the mocket see it closed with [`CloseReason::Suspended`]; deliveries awaited here answer `Unknown`.
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
    /// Dropped before the end it goes on suspending, as that call said; the next call waits for it and gets the state. Of several at a time
    /// one gets it, the others [`SuspendError::Closed`].
    ///
    /// A peer that is out of reach is waited for until `close_timeout`, then left to find out by itself.
    ///
    /// # Errors
    /// [`SuspendError`].
    pub async fn suspend(&self, mode: SuspendMode) -> Result<SuspendedMocket, SuspendError> {
        self.suspend_to(mode, None).await
    }

    /// As [`Mocket::suspend`], for a host with another identity: `heir` may resume the session, too.
    ///
    /// # Errors
    /// [`SuspendError`].
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
        // Another call has it.
        let mut suspended = suspended.ok_or(SuspendError::Closed(CloseReason::Suspended))?;
        let fetched = std::mem::take(&mut *lock(&self.inbox));
        if !fetched.is_empty() && suspended.put_back(fetched.into_iter()).is_err() {
            debug_assert!(false, "what was just written can be read");
        }
        Ok(SuspendedMocket(suspended))
    }

    /// Byte streams that are open: of a session that was resumed, those to go on with by [`Mocket::stream`].
    pub fn byte_streams(&self) -> Vec<StreamId> {
        self.shared.lock().connection.session_ref().byte_streams()
    }

    /// A handle on an open byte stream of a session that was resumed; where an earlier process stopped reading or writing it goes on. Of
    /// one stream there should be one handle.
    pub fn stream(&self, id: StreamId) -> Option<Stream> {
        let mut state = self.shared.lock();
        let known = state.connection.session_ref().stream_kind(id) == Some(StreamKind::Bytes);
        if known {
            state.backlog.was_accepted(id);
        }
        let opening = state.connection.session().take_opening(id).unwrap_or_default();
        drop(state);
        known.then(|| Stream::new(self.clone(), id, opening))
    }

    /// Message streams that this end has not ended, beside the default one: of a session that was resumed, those to go on with by
    /// [`Mocket::message_stream`].
    pub fn message_streams(&self) -> Vec<StreamId> {
        self.shared.lock().connection.session_ref().message_streams()
    }

    /// A handle on an open message stream of a session that was resumed, with what was unread and what it was set to. What comes on a
    /// stream that had a handle waits for the next one. Of one stream there should be one handle. None: there is no such stream, or this
    /// end has ended it.
    pub fn message_stream(&self, id: StreamId) -> Option<MessageStream> {
        let mut state = self.shared.lock();
        let known = state.connection.session_ref().is_message_stream(id);
        if known {
            state.backlog.was_accepted(id);
        }
        drop(state);
        known.then(|| MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }
}

impl Shared {
    /// From now on nothing is read from the session; what was handed in is in it first, and what is sent from now on waits for the lock,
    /// and goes with the session or is refused.
    fn begin_suspend(
        &self,
        mode: SuspendMode,
        heir: Option<PublicKey>,
    ) -> Result<(), whimbrel_proto::SuspendError> {
        let mut state = self.lock();
        if state.suspending {
            // By a call that nobody waits for any more, perhaps: this one gets what comes of it.
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
    /// Goes on with a suspended session, at the peer's last address or another, and waits until the peer has agreed. Streams that
    /// were open are found by [`Mocket::byte_streams`] and [`Mocket::message_streams`].
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
    /// Who stops waiting before the peer has agreed can resume the state again.
    ///
    /// # Errors
    /// [`ResumeError`]. Of one state there is one resumption.
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

    /// Takes a suspended session up and waits for its peer, which was suspended too, to resume it here: [`crate::Event::PeerResumed`].
    /// Messages can be read and sent at once.
    ///
    /// # Errors
    /// [`ResumeError::Refused`].
    #[allow(clippy::unused_async, reason = "must be called within the runtime that will drive it")]
    pub async fn wait_for_peer(&self, suspended: &SuspendedMocket) -> Result<Mocket, ResumeError> {
        let now = self.shared.clock.now();
        let taken = lock(&self.shared.proto).wait_for_peer(now, time_of_day(), &suspended.0)?;
        Ok(self.adopt(taken, self.shared.locals_of_server(suspended.0.remote)))
    }

    fn adopt(&self, (handle, connection): (Handle, Connection), locals: Option<Box<Locals>>) -> Mocket {
        let connection = Shared::new(handle, connection, locals, Arc::clone(&self.shared));
        lock(&self.shared.connections).insert(handle, Arc::clone(&connection));
        connection.drive();
        Mocket::new(connection)
    }
}
