//! What an application holds: a handle on a session.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{broadcast, oneshot};
use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::session::{
    Message, OpenError, Outcome, Outgoing, RouteClass, Session, SessionStats, StreamError, StreamKind,
    StreamOptions, TagSettings, TagStats,
};
use whimbrel_proto::{
    CloseReason, ConnectionStats, Event, MessageId, Service, StreamId, Tag, Threshold, Ticket,
    TooManyThresholds,
};

use crate::error::{Closed, SendError, StreamOpenError, StreamOptionsError};
use crate::message_stream::MessageStream;
use crate::shared::{Shared, State, lock};
use crate::stream::Stream;

/// What [`Mocket::send`] sends: reliable, in order, and nothing else said.
static PLAIN: Outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, Bytes::new());

fn with(template: &Outgoing, payload: Bytes) -> Outgoing {
    Outgoing { payload, ..template.clone() }
}

/// Messages fetched from the session at once.
const FETCH: usize = 256;

/// A mobile socket: one end of a session. Clones are handles on the same session; when the last is dropped the session is closed
/// politely (what was sent is still delivered).
///
/// All futures are cancel-safe: a dropped `send` has queued nothing, a dropped `recv` has taken nothing.
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

    /// Waits for the handshake.
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

    /// Waits until the mocket is closed, by whomever.
    pub async fn closed(&self) -> CloseReason {
        self.until_changed(|_| None, |reason| reason).await
    }

    pub(crate) async fn until_changed<T>(
        &self,
        mut done: impl FnMut(&mut State) -> Option<T>,
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

    /// Sends a message, reliable and in order, as a datagram socket would (Mockets 4.1). Waits for room.
    ///
    /// # Errors
    /// Too large, or closed.
    pub fn send(&self, payload: impl Into<Bytes>) -> impl Future<Output = Result<(), SendError>> + Send {
        self.send_as(&PLAIN, payload.into(), None)
    }

    /// As [`Mocket::send`], or [`SendError::QueueFull`] at once.
    ///
    /// # Errors
    /// Too large, no room, or closed.
    pub fn try_send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.try_send_as(&PLAIN, payload.into())
    }

    /// A way of sending: service, tag, priority, lifetime, fixed once and used often.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
    /// use std::time::Duration;
    /// use whimbrel::Tag;
    ///
    /// let positions = mocket.sender().unreliable().tag(Tag(1)).lifetime(Duration::from_millis(500)).build();
    /// positions.send("47.37 N 8.54 E").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sender(&self) -> SenderBuilder {
        SenderBuilder { template: PLAIN.clone(), mocket: self.clone(), enqueue_limit: None }
    }

    /// The next message of any stream that was not claimed. Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed and all that came was read.
    pub async fn recv(&self) -> Result<Message, Closed> {
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(message) = lock(&self.inbox).pop_front() {
                return Ok(message);
            }
            self.fetch().await?;
        }
    }

    /// Appends at least one and at most `most` messages to `out`; returns how many. Cancel-safe.
    ///
    /// # Errors
    /// As [`Mocket::recv`].
    pub async fn recv_many(&self, out: &mut Vec<Message>, most: usize) -> Result<usize, Closed> {
        tokio::task::coop::consume_budget().await;
        loop {
            let readable = self.shared.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            let count = self.take_many(out, most);
            if count > 0 {
                return Ok(count);
            }
            if let Some(reason) = &self.shared.lock().closed {
                return Err(Closed(reason.clone()));
            }
            readable.await;
        }
    }

    /// What was fetched before, else straight from the session.
    fn take_many(&self, out: &mut Vec<Message>, most: usize) -> usize {
        let mut inbox = lock(&self.inbox);
        if !inbox.is_empty() {
            let count = inbox.len().min(most);
            out.extend(inbox.drain(..count));
            return count;
        }
        self.read_from_session(out, most)
    }

    fn read_from_session(&self, out: &mut impl Extend<Message>, most: usize) -> usize {
        let mut state = self.shared.lock();
        if state.suspending {
            // It goes with the session.
            return 0;
        }
        let now = self.shared.clock.now();
        let count = state.connection.session().recv_many(now, out, most);
        if count > 0 && state.connection.session().has_control() {
            // Credit to give back.
            self.shared.wake(state);
        }
        count
    }

    /// The next message if one is there.
    pub fn try_recv(&self) -> Option<Message> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() {
            self.refill(&mut inbox);
        }
        inbox.pop_front()
    }

    /// Waits until the inbox holds something.
    async fn fetch(&self) -> Result<(), Closed> {
        loop {
            let readable = self.shared.readable.notified();
            tokio::pin!(readable);
            readable.as_mut().enable();
            if self.refill(&mut lock(&self.inbox)) {
                return Ok(());
            }
            if let Some(reason) = &self.shared.lock().closed {
                return Err(Closed(reason.clone()));
            }
            readable.await;
        }
    }

    fn refill(&self, inbox: &mut VecDeque<Message>) -> bool {
        !inbox.is_empty() || self.read_from_session(inbox, FETCH) > 0
    }

    /// Tells the sender that the application has taken this message, if it asked ([`SenderBuilder::confirm`]).
    pub fn confirm(&self, message: &Message) {
        let mut state = self.shared.lock();
        state.connection.session().confirm(message);
        self.shared.wake(state);
    }

    /// Queues a message, waiting for room. The first attempt, which nearly always succeeds, keeps no state across a wait, and the future
    /// is small: moving a large one costs as much as queueing 50 bytes.
    #[inline]
    fn send_as<'a>(
        &'a self,
        template: &'a Outgoing,
        payload: Bytes,
        limit: Option<Duration>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'a {
        let mut first = Some(payload);
        let mut waiting: Option<SendWait<'a>> = None;
        std::future::poll_fn(move |cx| {
            if let Some(payload) = first.take() {
                if self.shared.send_copy(template, &payload) {
                    return Poll::Ready(Ok(()));
                }
                match self.try_outgoing(with(template, payload), Turns::Taken) {
                    Err((SendError::QueueFull, Some(back))) => {
                        waiting = Some(Box::pin(self.send_in_time(*back, limit)));
                    }
                    other => return Poll::Ready(other.map_err(|(error, _)| error)),
                }
            }
            match &mut waiting {
                Some(waiting) => waiting.as_mut().poll(cx),
                None => Poll::Ready(Ok(())),
            }
        })
    }

    fn try_send_as(&self, template: &Outgoing, payload: Bytes) -> Result<(), SendError> {
        if self.shared.send_copy(template, &payload) {
            return Ok(());
        }
        self.try_outgoing(with(template, payload), Turns::Ignored).map_err(|(error, _)| error)
    }

    async fn send_in_time(&self, outgoing: Outgoing, limit: Option<Duration>) -> Result<(), SendError> {
        let sending = self.send_when_room(outgoing);
        match limit {
            None => sending.await,
            Some(limit) => {
                tokio::time::timeout(limit, sending).await.unwrap_or(Err(SendError::EnqueueTimedOut))
            }
        }
    }

    async fn send_when_room(&self, outgoing: Outgoing) -> Result<(), SendError> {
        let mut outgoing = outgoing;
        loop {
            // A sender that finds room for ever would starve the driver on a runtime of one thread.
            tokio::task::yield_now().await;
            outgoing = self.wait_for_room(outgoing).await?;
            match self.try_outgoing(outgoing, Turns::Ignored) {
                Err((SendError::QueueFull, Some(back))) => outgoing = *back,
                other => return other.map_err(|(error, _)| error),
            }
        }
    }

    async fn wait_for_room(&self, outgoing: Outgoing) -> Result<Outgoing, SendError> {
        let writable = self.shared.writable.notified();
        tokio::pin!(writable);
        writable.as_mut().enable();
        // Room may have come between the refusal and now.
        match self.try_room(&outgoing) {
            Room::Yes => return Ok(outgoing),
            Room::Closed(reason) => return Err(SendError::Closed(reason)),
            Room::No => {}
        }
        writable.await;
        Ok(outgoing)
    }

    fn try_room(&self, outgoing: &Outgoing) -> Room {
        let mut state = self.shared.lock();
        if let Some(reason) = &state.closed {
            return Room::Closed(reason.clone());
        }
        // What was held and has just been queued may have filled the queue without having been refused: ask, so that we are told.
        let has_room = state.connection.session().has_room(outgoing.payload.len() as u64);
        if has_room && !state.is_holding() { Room::Yes } else { Room::No }
    }

    fn try_outgoing(&self, outgoing: Outgoing, turns: Turns) -> Result<(), Refused> {
        match self.shared.try_lock() {
            Some(state) => self.queue(state, outgoing, turns),
            // Somebody drives: leave the message beside rather than wait for the lock.
            None => match self.shared.submit(outgoing) {
                Ok(()) => Ok(()),
                Err(outgoing) => self.queue(self.shared.lock(), outgoing, turns),
            },
        }
    }

    fn queue(
        &self,
        mut state: MutexGuard<'_, State>,
        outgoing: Outgoing,
        turns: Turns,
    ) -> Result<(), Refused> {
        if state.is_holding() || (turns == Turns::Taken && state.is_burst_over()) {
            return Err((SendError::QueueFull, Some(Box::new(outgoing))));
        }
        let now = state.send_time(&self.shared.clock, &outgoing);
        if let Err(error) = state.connection.session().send(now, outgoing) {
            return Err(translate(error, &state));
        }
        self.shared.drive_or_wake(state);
        Ok(())
    }

    async fn send_tracked(&self, outgoing: Outgoing) -> Result<Delivery, SendError> {
        tokio::task::coop::consume_budget().await;
        let mut outgoing = Outgoing { tracked: true, ..outgoing };
        loop {
            match self.try_tracked(outgoing) {
                Ok(delivery) => return Ok(delivery),
                Err((SendError::QueueFull, Some(back))) => outgoing = self.wait_for_room(*back).await?,
                Err((error, _)) => return Err(error),
            }
        }
    }

    fn try_tracked(&self, outgoing: Outgoing) -> Result<Delivery, Refused> {
        let mut state = self.shared.lock();
        if state.is_holding() {
            return Err((SendError::QueueFull, Some(Box::new(outgoing))));
        }
        let now = self.shared.clock.now();
        let id = match state.connection.session().send(now, outgoing) {
            Ok(id) => id,
            Err(error) => return Err(translate(error, &state)),
        };
        Ok(self.track(state, id))
    }

    fn track(&self, mut state: MutexGuard<'_, State>, id: MessageId) -> Delivery {
        let (tell, outcome) = oneshot::channel();
        state.outcomes.insert(id, tell);
        self.shared.wake(state);
        Delivery { id, outcome }
    }

    /// Cancels what is queued or under way with this tag; returns how many messages.
    pub fn cancel(&self, tag: Tag) -> usize {
        self.cancel_on(StreamId(0), tag)
    }

    pub(crate) fn cancel_on(&self, stream: StreamId, tag: Tag) -> usize {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let cancelled = state.connection.session().cancel(now, stream, tag);
        self.shared.wake(state);
        cancelled
    }

    /// Replaces what is queued or under way with this tag by one reliable, sequenced message, which keeps the place of the first
    /// replaced (Mockets 3.3).
    ///
    /// ```no_run
    /// # fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
    /// # use whimbrel::Tag;
    /// // Whatever the link is like, the newest position gets through, and no older one waits before it.
    /// mocket.replace(Tag(1), "47.37 N 8.54 E")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Mocket::try_send`].
    pub fn replace(&self, tag: Tag, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.replace_with(tag, with(&PLAIN, payload.into()))
    }

    fn replace_with(&self, tag: Tag, outgoing: Outgoing) -> Result<(), SendError> {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let stream = outgoing.stream;
        match state.connection.session().replace(now, stream, tag, outgoing) {
            Ok(_) => {
                self.shared.drive_or_wake(state);
                Ok(())
            }
            Err(error) => Err(translate(error, &state).0),
        }
    }

    /// Settings of all messages with a tag. One chain of calls sets all of them; a later chain begins anew.
    ///
    /// ```no_run
    /// # fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
    /// # use {std::time::Duration, whimbrel::Tag};
    /// mocket.tag(Tag(2)).bandwidth(25_000)?.lifetime(Duration::from_millis(200))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tag(&self, tag: Tag) -> TagHandle<'_> {
        self.tag_on(StreamId(0), tag)
    }

    pub(crate) fn tag_on(&self, stream: StreamId, tag: Tag) -> TagHandle<'_> {
        TagHandle { mocket: self, stream, tag, settings: TagSettings::default() }
    }

    /// Opens a byte stream, with the interface of a TCP socket. Waits while the peer allows no more streams.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let mut stream = mocket.open_stream().await?;
    /// stream.write_all(b"question").await?;
    /// stream.shutdown().await?;
    /// let mut answer = Vec::new();
    /// stream.read_to_end(&mut answer).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The mocket is closed or closing.
    pub async fn open_stream(&self) -> Result<Stream, StreamOpenError> {
        let id = self.open_by(|session| session.open_stream(StreamKind::Bytes)).await?;
        Ok(Stream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    /// Opens a stream of messages. Waits while the peer allows no more streams; the peer hears of it with its first message.
    ///
    /// # Errors
    /// The mocket is closed or closing.
    pub async fn open_messages(&self, options: StreamOptions) -> Result<MessageStream, StreamOpenError> {
        let id = self.open_by(|session| session.open_messages(options)).await?;
        Ok(MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    async fn open_by(
        &self,
        mut open: impl FnMut(&mut Session) -> Result<StreamId, OpenError>,
    ) -> Result<StreamId, StreamOpenError> {
        let opened = |state: &mut State| match open(state.connection.session()) {
            Ok(id) => Some(Ok(id)),
            Err(OpenError::Limit) => None,
            Err(_) => Some(Err(StreamOpenError::Closing)),
        };
        self.until_changed(opened, |reason| Err(StreamOpenError::Closed(reason))).await
    }

    /// The next stream of messages the peer opened. From then on its messages come out of it; before, and of streams that nobody
    /// accepts, they come out of [`Mocket::recv`], with the number of their stream. Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed.
    pub async fn accept_messages(&self) -> Result<MessageStream, Closed> {
        let id = self.accept_by(StreamKind::Messages).await?;
        Ok(MessageStream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    async fn accept_by(&self, wanted: StreamKind) -> Result<StreamId, Closed> {
        let next = |state: &mut State| {
            let at = state.opened.iter().position(|(_, kind)| *kind == wanted)?;
            state.opened.remove(at).map(|(id, _)| Ok(id))
        };
        self.until_changed(next, |reason| Err(Closed(reason))).await
    }

    /// Changes what a message stream is set to at this end, for what is sent and what comes from now on: of the default stream, 0,
    /// too.
    ///
    /// # Errors
    /// [`StreamOptionsError`]: only a [`MessageStream`] can keep the latest only.
    pub fn set_stream_options(
        &self,
        stream: StreamId,
        options: StreamOptions,
    ) -> Result<(), StreamOptionsError> {
        let mut state = self.shared.lock();
        state.connection.session().set_stream_options(stream, options).map_err(|error| match error {
            StreamError::SharedInbox => StreamOptionsError::SharedInbox,
            _ => StreamOptionsError::NoStream,
        })
    }

    /// The next byte stream the peer opened. Cancel-safe.
    ///
    /// # Errors
    /// The mocket is closed.
    pub async fn accept_stream(&self) -> Result<Stream, Closed> {
        let id = self.accept_by(StreamKind::Bytes).await?;
        Ok(Stream::new(Arc::clone(&self.shared), self.clone(), id))
    }

    /// Events from now on (Mockets 3.4). A subscriber that falls far behind is told how many it missed.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) {
    /// use whimbrel::Event;
    ///
    /// let mut events = mocket.subscribe();
    /// while let Ok(event) = events.recv().await {
    ///     if event == Event::PeerUnreachable {
    ///         println!("the link is down");
    ///     }
    /// }
    /// # }
    /// ```
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
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

    /// Watches these thresholds from now on, and no others: [`Event::Quality`] tells when a figure crosses one, and of those that are
    /// above already. With hysteresis, so that a figure that hovers at its level is told once.
    ///
    /// ```no_run
    /// # async fn example(mocket: whimbrel::Mocket) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use whimbrel::{Event, Quality, Threshold};
    ///
    /// let mut events = mocket.subscribe();
    /// mocket.watch([Quality::Rtt(Duration::from_millis(300)), Quality::Loss(50)].map(Threshold::new))?;
    /// while let Ok(event) = events.recv().await {
    ///     if let Event::Quality(change) = event {
    ///         println!("{}: {:?}", if change.above { "worse" } else { "better" }, change.now);
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

    /// Closes politely and waits: everything sent before is delivered first, both ways.
    pub async fn close(&self, code: u64, text: &str) -> CloseReason {
        self.begin_close(code, text);
        self.closed().await
    }

    /// As [`Mocket::close`], without waiting.
    pub fn begin_close(&self, code: u64, text: &str) {
        let mut state = self.shared.lock();
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

type SendWait<'a> = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send + 'a>>;

/// Whether a sender that has queued many messages must let others run first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turns {
    Taken,
    Ignored,
}

/// Why a message was not queued, and the message, if trying again makes sense.
type Refused = (SendError, Option<Box<Outgoing>>);

enum Room {
    Yes,
    No,
    Closed(CloseReason),
}

fn translate(error: whimbrel_proto::session::SendError, state: &State) -> Refused {
    use whimbrel_proto::session::SendError as Inner;
    match error {
        Inner::QueueFull(back) => (SendError::QueueFull, Some(back)),
        Inner::TooLarge { limit } => (SendError::TooLarge { limit }, None),
        Inner::TooManyTags => (SendError::TooManyTags, None),
        Inner::Closed => (SendError::Closed(state.closed.clone().unwrap_or(CloseReason::Local)), None),
        _ => (SendError::NoStream, None),
    }
}

/// What became of a tracked message: await it.
///
/// ```no_run
/// # async fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
/// use whimbrel::Outcome;
///
/// let delivery = mocket.sender().build().send_tracked("a report").await?;
/// match delivery.outcome().await {
///     Outcome::Delivered => println!("in the peer's inbox"),
///     other => println!("not delivered: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Delivery {
    id: MessageId,
    outcome: oneshot::Receiver<Outcome>,
}

impl Delivery {
    /// The send call's number.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Waits for the outcome; Unknown if the session ends first.
    pub async fn outcome(self) -> Outcome {
        self.outcome.await.unwrap_or(Outcome::Unknown)
    }
}

/// Chooses how messages travel (Mockets `getSender`).
pub struct SenderBuilder {
    mocket: Mocket,
    template: Outgoing,
    enqueue_limit: Option<Duration>,
}

impl SenderBuilder {
    /// The service whole.
    pub fn service(mut self, service: Service) -> Self {
        self.template.service = service;
        self
    }

    /// Lost messages are not sent again. Default: reliable.
    pub fn unreliable(mut self) -> Self {
        self.template.service = Service::new(false, self.template.service.is_sequenced());
        self
    }

    /// Delivered as they arrive. Default: sequenced.
    pub fn unsequenced(mut self) -> Self {
        self.template.service = Service::new(self.template.service.is_reliable(), false);
        self
    }

    /// Delivered in the order sent (the default).
    pub fn sequenced(mut self) -> Self {
        self.template.service = Service::new(self.template.service.is_reliable(), true);
        self
    }

    /// The group, for cancel, replace, limits.
    pub fn tag(mut self, tag: Tag) -> Self {
        self.template.tag = Some(tag);
        self
    }

    /// 0 to 255, higher first. Default 100.
    pub fn priority(mut self, priority: u8) -> Self {
        self.template.priority = priority;
        self
    }

    /// Given up this long after the send call. Default: never.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.template.lifetime = Some(lifetime);
        self
    }

    /// How the connection is to carry them, where it has a choice. Default: as the stream's options say.
    pub fn route(mut self, route: RouteClass) -> Self {
        self.template.route = Some(route);
        self
    }

    /// Payload protocol identifier, carried to the receiver (MMSP).
    pub fn ppid(mut self, ppid: u32) -> Self {
        self.template.ppid = Some(ppid);
        self
    }

    /// Asks the receiving application to confirm: the outcome of a tracked message is then Taken.
    pub fn confirm(mut self) -> Self {
        self.template.confirm = true;
        self
    }

    /// On another message stream than the default.
    pub fn stream(mut self, stream: StreamId) -> Self {
        self.template.stream = stream;
        self
    }

    /// How long `send` waits for room in the queue before it fails. Default: for ever.
    pub fn enqueue_limit(mut self, limit: Duration) -> Self {
        self.enqueue_limit = Some(limit);
        self
    }

    /// Done.
    pub fn build(self) -> Sender {
        Sender { mocket: self.mocket, template: self.template, enqueue_limit: self.enqueue_limit }
    }
}

/// A way of sending. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    mocket: Mocket,
    template: Outgoing,
    enqueue_limit: Option<Duration>,
}

impl Sender {
    /// Queues a message; waits for room, no longer than the enqueue limit. Cancel-safe: dropped, it has queued nothing.
    ///
    /// # Errors
    /// Too large, closed, or no room in time.
    pub fn send(&self, payload: impl Into<Bytes>) -> impl Future<Output = Result<(), SendError>> + Send {
        self.mocket.send_as(&self.template, payload.into(), self.enqueue_limit)
    }

    /// Queues a message or fails at once.
    ///
    /// # Errors
    /// Too large, no room, or closed.
    pub fn try_send(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.mocket.try_send_as(&self.template, payload.into())
    }

    /// Queues many messages at the cost of little more than one; waits for room. Cancelled, it has queued a first part of them.
    ///
    /// # Errors
    /// As [`Sender::send`]; what came before the error is queued.
    pub async fn send_many(&self, payloads: impl IntoIterator<Item = Bytes>) -> Result<(), SendError> {
        tokio::task::coop::consume_budget().await;
        let mut payloads = payloads.into_iter().peekable();
        while payloads.peek().is_some() {
            if let Some(refused) = self.queue_some(&mut payloads)? {
                // Waits for room for the first that found none, then goes on.
                self.mocket.send_when_room(refused).await?;
            }
        }
        Ok(())
    }

    fn queue_some(&self, payloads: &mut impl Iterator<Item = Bytes>) -> Result<Option<Outgoing>, SendError> {
        let mut state = self.mocket.shared.lock();
        if state.is_holding() {
            return Ok(payloads.next().map(|payload| with(&self.template, payload)));
        }
        let now = self.mocket.shared.clock.now();
        for payload in payloads {
            if state.connection.session().send_copy(now, &self.template, &payload) {
                continue;
            }
            let outgoing = with(&self.template, payload);
            if let Err(error) = state.connection.session().send(now, outgoing) {
                return match translate(error, &state) {
                    (SendError::QueueFull, back) => {
                        self.mocket.shared.wake(state);
                        Ok(back.map(|back| *back))
                    }
                    (error, _) => Err(error),
                };
            }
        }
        self.mocket.shared.wake(state);
        Ok(None)
    }

    /// Queues a message whose outcome can be awaited.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub async fn send_tracked(&self, payload: impl Into<Bytes>) -> Result<Delivery, SendError> {
        let sending = self.mocket.send_tracked(with(&self.template, payload.into()));
        match self.enqueue_limit {
            None => sending.await,
            Some(limit) => {
                tokio::time::timeout(limit, sending).await.unwrap_or(Err(SendError::EnqueueTimedOut))
            }
        }
    }

    /// Replaces what is queued or under way with this sender's tag (tag 0 if it has none).
    ///
    /// # Errors
    /// As [`Sender::try_send`].
    pub fn replace(&self, payload: impl Into<Bytes>) -> Result<(), SendError> {
        let tag = self.template.tag.unwrap_or(Tag(0));
        self.mocket.replace_with(tag, with(&self.template, payload.into()))
    }
}

/// Settings of a tag's messages, queued ones included: each call takes effect at once.
pub struct TagHandle<'a> {
    mocket: &'a Mocket,
    stream: StreamId,
    tag: Tag,
    settings: TagSettings,
}

impl TagHandle<'_> {
    /// No more than this many payload bytes a second.
    ///
    /// # Errors
    /// [`SendError::TooManyTags`].
    pub fn bandwidth(mut self, bytes_per_s: u64) -> Result<Self, SendError> {
        self.settings.bandwidth = Some(bytes_per_s);
        self.apply()
    }

    /// Lifetime of messages sent from now on.
    ///
    /// # Errors
    /// [`SendError::TooManyTags`].
    pub fn lifetime(mut self, lifetime: Duration) -> Result<Self, SendError> {
        self.settings.lifetime = Some(lifetime);
        self.apply()
    }

    /// Priority of messages sent from now on.
    ///
    /// # Errors
    /// [`SendError::TooManyTags`].
    pub fn priority(mut self, priority: u8) -> Result<Self, SendError> {
        self.settings.priority = Some(priority);
        self.apply()
    }

    fn apply(self) -> Result<Self, SendError> {
        let mut state = self.mocket.shared.lock();
        let now = self.mocket.shared.clock.now();
        let set = state.connection.session().tag_settings(now, self.stream, self.tag, self.settings);
        set.map_err(|error| translate(error, &state).0)?;
        self.mocket.shared.wake(state);
        Ok(self)
    }
}
