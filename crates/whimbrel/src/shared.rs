//! One connection shared by its handles, the receive loop and its driver task.
//!
//! Whoever has news drives: the receive loop after a batch, a sender on an idle connection, else the driver task. Packets are
//! built under the lock and sent without it; whoever holds the transmit buffer sends, others leave word (`again`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use whimbrel_net::UdpSocket;
use whimbrel_proto::session::{Outcome, Outgoing, SessionEvent, StreamKind};
use whimbrel_proto::{CloseReason, Connection, Event, Handle, MessageId, Side, StreamId, Time, Transmit};

use crate::backlog::Backlog;
use crate::clock::Clock;
use crate::endpoint::EndpointShared;
use crate::events::{Events, Subscribers};
use crate::local_socket::LocalSocket;
use crate::locals::{Locals, Paths};
use crate::recording::Recording;
use crate::stream_code::StreamCode;
use crate::submissions::Submissions;
use crate::wakers::Wakers;

/// Timers that are further away are not met to the millisecond.
const HURRY: Duration = Duration::from_secs(8);

/// Messages a sender queues before it lets other tasks run.
const BURST: u32 = 256;

/// Buffers of packets that one connection sends in a row, at 64 KiB each, before others have their turn.
const CALLS: u32 = 2;
/// The same where no other connection has been heard of lately.
const CALLS_ALONE: u32 = 16;

/// Locks; a panic elsewhere while holding it has not left the state half-changed more than any error would.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
    pub(crate) endpoint: Arc<EndpointShared>,
    state: Mutex<MocketState>,
    submissions: Submissions,
    /// Handles that applications hold.
    pub(crate) mockets: AtomicUsize,
    pub(crate) readable: Notify,
    pub(crate) writable: Notify,
    /// Connected, closed, a stream opened.
    pub(crate) changed: Notify,
    driver: Notify,
    /// The host's addresses are to be looked at.
    roam_due: AtomicBool,
}

pub(crate) struct MocketState {
    pub(crate) connection: Connection,
    pub(crate) outcomes: BTreeMap<MessageId, oneshot::Sender<Outcome>>,
    pub(crate) readers: BTreeMap<StreamId, Waker>,
    pub(crate) writers: BTreeMap<StreamId, Waker>,
    /// The code with which the peer stopped a byte stream, for each that has a writer: the session forgets streams that are over.
    pub(crate) stops: BTreeMap<StreamId, Option<StreamCode>>,
    pub(crate) backlog: Backlog,
    /// In a box: most sessions are awaited only.
    listeners: Option<Box<Listeners>>,
    pub(crate) connected: bool,
    /// What is unread goes with the session.
    pub(crate) suspending: bool,
    /// No handle is left.
    dropped: bool,
    pub(crate) closed: Option<CloseReason>,
    /// None: one path, by the endpoint's socket.
    pub(crate) locals: Option<Box<Locals>>,
    tx: Option<TxBuffer>,
    /// Somebody had something to send while the buffer was out.
    again: bool,
    /// The driver task was woken and has not run yet.
    scheduled: bool,
    /// When somebody last drove: near enough to now for messages that do not age by the clock, and free.
    coarse_now: Time,
    /// Messages queued since the driver last ran: a sender that never waits must let others run.
    burst: u32,
    /// When the driver task will wake by itself.
    armed: Time,
    /// Memory for submissions.
    spare: Vec<Outgoing>,
    recording: Option<Box<Recording>>,
}

thread_local! {
    /// Memory for packets, lent to whoever drives on this thread: thousands of connections that are idle need none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A socket that packets leave by; none: the endpoint's.
type Via = Option<Arc<LocalSocket>>;

#[derive(Default)]
struct TxBuffer {
    bytes: Vec<u8>,
    /// Built, and refused by a full socket.
    pending: Option<Transmit>,
    /// By which socket; none: the endpoint's.
    via: Via,
}

/// Those who subscribe or poll.
#[derive(Default)]
pub(crate) struct Listeners {
    subscribers: Subscribers,
    /// Tasks that poll for messages.
    pub(crate) receivers: Wakers,
    /// Tasks that poll for streams.
    pub(crate) openers: Wakers,
}

impl MocketState {
    pub(crate) fn listeners(&mut self) -> &mut Listeners {
        self.listeners.get_or_insert_default()
    }

    fn wake_receivers(&mut self) {
        if let Some(listeners) = &mut self.listeners {
            listeners.receivers.wake_all();
        }
    }

    /// The time of a send call: exact where the message ages by the clock.
    pub(crate) fn send_time(&self, clock: &Clock, message: &Outgoing) -> Time {
        if message.lifetime.is_none() && message.tag.is_none() { self.coarse_now } else { clock.now() }
    }

    /// The session is being suspended, or was: what it holds goes with it, and nothing is read from it or ended any more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.suspending && self.closed.as_ref().is_none_or(|reason| *reason == CloseReason::Suspended)
    }

    /// Counts a message about to be queued; true if the sender has had its turn.
    pub(crate) fn is_burst_over(&mut self) -> bool {
        self.burst += 1;
        if self.burst <= BURST {
            return false;
        }
        self.burst = 0;
        true
    }

    /// The next stream of a kind that the peer opened.
    pub(crate) fn accept(&mut self, kind: StreamKind) -> Option<StreamId> {
        self.backlog.accept(kind, self.connection.session_ref())
    }

    fn via(&self, transmit: Option<&Transmit>) -> Via {
        let transmit = transmit?;
        self.locals.as_ref()?.socket_for(transmit.source, transmit.destination)
    }

    /// Of the addresses that alone may be used none leads there now.
    fn is_barred(&self, transmit: &Transmit, via: &Via) -> bool {
        let only = |locals: &Locals| matches!(locals.paths, Paths::Only(_));
        // Later a packet names its source, or goes a way that the application opened.
        let begins = !self.connected && self.connection.side() == Side::Client && transmit.source.is_none();
        begins && via.is_none() && self.locals.as_deref().is_some_and(only)
    }
}

/// What driving ended with.
enum Drive {
    /// Nothing more to send now.
    Idle,
    /// This socket is full.
    Blocked(Via),
    /// More to send, but others have their turn first.
    More,
}

impl Shared {
    pub(crate) fn new(
        handle: Handle,
        connection: Connection,
        locals: Option<Box<Locals>>,
        endpoint: Arc<EndpointShared>,
    ) -> Arc<Self> {
        let connected = connection.is_established();
        let record =
            |folder: &PathBuf| Box::new(Recording::new(folder, connection.side(), connection.local_id()));
        let recording = endpoint.config.qlog_dir.as_ref().map(record);
        let shared = Arc::new(Self {
            handle,
            clock: endpoint.clock,
            endpoint,
            state: Mutex::new(MocketState {
                connection,
                outcomes: BTreeMap::new(),
                readers: BTreeMap::new(),
                writers: BTreeMap::new(),
                stops: BTreeMap::new(),
                backlog: Backlog::default(),
                listeners: None,
                connected,
                suspending: false,
                dropped: false,
                closed: None,
                locals,
                tx: Some(TxBuffer::default()),
                again: false,
                scheduled: false,
                coarse_now: Time::ZERO,
                burst: 0,
                armed: Time::ZERO,
                spare: Vec::new(),
                recording,
            }),
            submissions: Submissions::default(),
            mockets: AtomicUsize::new(0),
            readable: Notify::new(),
            writable: Notify::new(),
            changed: Notify::new(),
            driver: Notify::new(),
            roam_due: AtomicBool::new(false),
        });
        tokio::spawn(Arc::clone(&shared).run());
        shared
    }

    fn socket<'a>(&'a self, via: &'a Via) -> &'a UdpSocket {
        via.as_ref().map_or(&self.endpoint.socket, |local| local.udp())
    }

    /// The state, with everything that was handed in beside it taken over first, so that order is kept.
    pub(crate) fn lock(&self) -> MutexGuard<'_, MocketState> {
        let mut state = lock(&self.state);
        self.take_submissions(&mut state);
        state
    }

    /// The state if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, MocketState>> {
        let mut state = self.state.try_lock().ok()?;
        self.take_submissions(&mut state);
        Some(state)
    }

    /// Queues a copy of a small message with nothing out of the ordinary, if nobody drives and nothing has to be waited for. False: nothing
    /// was done.
    #[inline]
    pub(crate) fn send_copy(&self, template: &Outgoing, payload: &[u8]) -> bool {
        let Some(mut state) = self.try_lock() else { return false };
        if state.burst >= BURST {
            return false;
        }
        let now = state.coarse_now;
        if !state.connection.session().send_copy(now, template, payload) {
            return false;
        }
        state.burst += 1;
        self.drive_or_wake(state);
        true
    }

    /// Something was queued: sends it if the connection is idle, else leaves that to the driver task.
    #[inline]
    pub(crate) fn drive_or_wake(&self, state: MutexGuard<'_, MocketState>) {
        if state.connection.is_idle() {
            drop(state);
            self.drive();
        } else {
            self.wake(state);
        }
    }

    /// Leaves a message for whoever is driving now. Gives it back if the lock has to be waited for.
    pub(crate) fn submit(&self, message: Outgoing) -> Result<(), Outgoing> {
        self.submissions.leave(message)?;
        self.driver.notify_one();
        Ok(())
    }

    fn take_submissions(&self, state: &mut MocketState) {
        if self.submissions.is_waiting() {
            self.open_submissions(state);
        }
    }

    /// Queues what was handed in beside the lock; as much more may be as there is room for now.
    pub(crate) fn open_submissions(&self, state: &mut MocketState) {
        let MocketState { connection, spare, suspending, .. } = state;
        self.submissions.queue(self.clock.now(), connection.session(), spare, *suspending);
    }

    /// Queues what was handed in beside the lock; nothing more may be until somebody opens it again.
    pub(crate) fn shut_submissions(&self, state: &mut MocketState) {
        self.submissions.queue(self.clock.now(), state.connection.session(), &mut state.spare, true);
    }

    /// Sends what there is to send: some of it at once, the rest by the driver task.
    pub(crate) fn drive(&self) {
        if !matches!(self.drive_some(), Drive::Idle) {
            self.driver.notify_one();
        }
    }

    /// The host's networks have changed.
    pub(crate) fn networks_changed(&self) {
        if self.lock().locals.is_some() {
            self.roam_soon();
        }
    }

    /// Has the driver task look at the host's addresses.
    pub(crate) fn roam_soon(&self) {
        self.roam_due.store(true, Ordering::Release);
        self.driver.notify_one();
    }

    /// As [`Shared::drive`], by the driver task, soon.
    pub(crate) fn wake(&self, mut state: MutexGuard<'_, MocketState>) {
        let first = !std::mem::replace(&mut state.scheduled, true);
        drop(state);
        if first {
            self.driver.notify_one();
        }
    }

    /// Sends what there is to send, up to a number of calls.
    fn drive_some(&self) -> Drive {
        let mut state = self.lock();
        let mut calls = 0;
        loop {
            let Some(mut tx) = state.tx.take() else {
                state.again = true;
                return Drive::Idle;
            };
            state.again = false;
            let now = self.clock.now();
            state.coarse_now = now;
            if tx.pending.is_none() {
                if tx.bytes.capacity() == 0 {
                    tx.bytes = SPARE.take();
                }
                tx.bytes.clear();
                let segments = self.endpoint.socket.max_gso_segments();
                tx.pending = state.connection.poll_transmit(now, &mut tx.bytes, segments);
                tx.via = state.via(tx.pending.as_ref());
            }
            let Some(transmit) = tx.pending else {
                SPARE.set(std::mem::take(&mut tx.bytes));
                state.tx = Some(tx);
                self.pump(&mut state);
                if !state.again {
                    self.rearm(state);
                    return Drive::Idle;
                }
                continue;
            };
            let barred = state.is_barred(&transmit, &tx.via);
            drop(state);
            let sent = barred || self.send(&transmit, &tx.bytes, &tx.via);
            state = self.lock();
            if !sent {
                let full = tx.via.clone();
                state.tx = Some(tx);
                return Drive::Blocked(full);
            }
            tx.pending = None;
            state.tx = Some(tx);
            calls += 1;
            if calls >= CALLS && (calls >= CALLS_ALONE || self.endpoint.company.is_there(now)) {
                self.pump(&mut state);
                return Drive::More;
            }
        }
    }

    /// False: the socket is full. Any other error is about these datagrams, which then count as lost.
    fn send(&self, transmit: &Transmit, bytes: &[u8], via: &Via) -> bool {
        let socket = self.socket(via);
        let mut rest = whimbrel_net::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.map(crate::endpoint::to_net_ecn),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            // A socket of one address has no other to send from.
            src_ip: transmit.source.filter(|_| via.is_none()),
        };
        loop {
            match socket.try_send(&rest) {
                Ok(sent) if sent < rest.contents.len() => rest.contents = &rest.contents[sent..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
                _ => return true,
            }
        }
    }

    /// The driver task sleeps until `armed`: wakes it if something is due earlier.
    fn rearm(&self, mut state: MutexGuard<'_, MocketState>) {
        let due = state.connection.poll_timeout().unwrap_or(Time::MAX);
        if due < state.armed && !std::mem::replace(&mut state.scheduled, true) {
            drop(state);
            self.driver.notify_one();
        }
    }

    /// Hands events to whoever waits for them.
    pub(crate) fn pump(&self, state: &mut MocketState) {
        while let Some(event) = state.connection.session().poll_event() {
            match event {
                SessionEvent::Readable if self.mockets.load(Ordering::Acquire) == 0 && state.dropped => {
                    Self::discard(state, self.clock.now());
                }
                SessionEvent::Readable => {
                    self.readable.notify_waiters();
                    state.wake_receivers();
                }
                SessionEvent::Writable => self.writable.notify_waiters(),
                SessionEvent::StreamOpened(id, kind) => {
                    state.backlog.push(id, kind, state.connection.session_ref());
                    self.tell_changed(state);
                }
                SessionEvent::StreamReadable(id) => wake(state.readers.remove(&id)),
                SessionEvent::StreamStopped(id, code) => {
                    if let Some(stop) = state.stops.get_mut(&id) {
                        *stop = Some(StreamCode(code));
                    }
                    wake(state.writers.remove(&id));
                }
                SessionEvent::StreamWritable(id) | SessionEvent::StreamDelivered(id) => {
                    wake(state.writers.remove(&id));
                }
                SessionEvent::Outcome(id, outcome) => {
                    if let Some(waiting) = state.outcomes.remove(&id) {
                        // Whoever asked may have stopped waiting.
                        waiting.send(outcome).ok();
                    }
                }
                SessionEvent::StreamsAvailable => self.tell_changed(state),
                SessionEvent::ReaderStalled { stream, unread } => {
                    self.on_event(state, Event::ReaderStalled { stream, unread });
                }
                SessionEvent::SendBlocked(stream) => self.on_event(state, Event::SendBlocked(stream)),
                _ => {}
            }
        }
        while let Some(event) = state.connection.poll_event() {
            self.on_event(state, event);
        }
        while let Some(event) = state.connection.poll_endpoint_event() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                state.connection.handle_answer(answer);
                state.again = true;
            }
        }
        if let Some(recording) = &mut state.recording
            && let Some(records) = state.connection.poll_qlog()
        {
            recording.append(&records);
        }
        if let Some(log) = &self.endpoint.key_log {
            while let Some(line) = state.connection.poll_key_log() {
                log.append(line);
            }
        }
    }

    fn on_event(&self, state: &mut MocketState, event: Event) {
        match &event {
            Event::Connected | Event::Reattached { .. } | Event::PeerResumed { .. } => {
                state.connected = true;
                if state.locals.is_some() {
                    self.roam_soon();
                }
                if state.dropped && event != Event::Connected {
                    // Nobody has waited for it.
                    state.connection.close(self.clock.now(), 0, "");
                }
            }
            Event::Ticket(ticket) => self.endpoint.keep_ticket(ticket.clone()),
            Event::Closed(reason) => {
                state.closed = Some(reason.clone());
                self.readable.notify_waiters();
                self.writable.notify_waiters();
                state.wake_receivers();
                for (_, waker) in
                    std::mem::take(&mut state.readers).into_iter().chain(std::mem::take(&mut state.writers))
                {
                    waker.wake();
                }
                state.outcomes.clear();
            }
            _ => {}
        }
        self.tell_changed(state);
        if let Some(listeners) = &mut state.listeners {
            listeners.subscribers.tell(&event);
        }
    }

    /// A stream may be opened or accepted, or the session is in another state.
    fn tell_changed(&self, state: &mut MocketState) {
        self.changed.notify_waiters();
        if let Some(listeners) = &mut state.listeners {
            listeners.openers.wake_all();
        }
    }

    /// Events from now on.
    pub(crate) fn subscribe(&self) -> Events {
        let mut state = self.lock();
        let closed = state.closed.clone();
        let subscribers = &mut state.listeners().subscribers;
        let events = subscribers.subscribe();
        if let Some(reason) = closed {
            subscribers.tell(&Event::Closed(reason));
        }
        events
    }

    /// The driver task: timers, and whatever was left to it.
    async fn run(self: Arc<Self>) {
        let sleep = tokio::time::sleep_until(tokio::time::Instant::now());
        tokio::pin!(sleep);
        loop {
            if self.roam_due.swap(false, Ordering::AcqRel) {
                self.roam();
            }
            let blocked = match self.tick() {
                Drive::Idle => None,
                Drive::Blocked(via) => Some(via),
                Drive::More => {
                    tokio::task::yield_now().await;
                    continue;
                }
            };
            let due = match self.arm() {
                Some(due) => due,
                None if self.lock().connection.is_closed() => break,
                None => {
                    self.driver.notified().await;
                    continue;
                }
            };
            sleep.as_mut().reset(self.clock.instant(due));
            tokio::select! {
                () = self.driver.notified() => {}
                () = &mut sleep => {}
                () = self.writable(blocked) => {}
            }
        }
        self.endpoint.forget(self.handle);
    }

    /// Until a full socket has room; for ever if none is full. In a box: thousands of tasks that are idle need no room for what hardly
    /// ever happens.
    fn writable(&self, full: Option<Via>) -> impl Future<Output = ()> + Send {
        let room = full.map(|via| Box::pin(async move { drop(self.socket(&via).writable().await) }));
        let mut room = room.map(|boxed| boxed as Pin<Box<dyn Future<Output = ()> + Send + '_>>);
        poll_fn(move |context| room.as_mut().map_or(Poll::Pending, |room| room.as_mut().poll(context)))
    }

    /// When the driver task must wake by itself; None: not before somebody wakes it.
    fn arm(&self) -> Option<Time> {
        let mut state = self.lock();
        let due = state.connection.poll_timeout().filter(|due| *due < Time::MAX);
        state.armed = due.unwrap_or(Time::MAX);
        // A message's lifetime is met all the same.
        let exact = state.connection.session_ref().poll_timeout().unwrap_or(Time::MAX);
        due.map(|due| unhurried(self.clock.now(), due).min(exact))
    }

    /// One round of the driver task.
    fn tick(&self) -> Drive {
        let mut state = self.lock();
        state.scheduled = false;
        state.burst = 0;
        let now = self.clock.now();
        if state.connection.poll_timeout().is_some_and(|due| due <= now) {
            state.connection.handle_timeout(now);
        }
        drop(state);
        self.drive_some()
    }

    /// Nobody will read any more: what comes is taken and dropped, so that the peer's queue can drain.
    fn discard(state: &mut MocketState, now: Time) {
        state.dropped = true;
        while state.connection.session().recv(now).is_some() {}
    }

    /// A handle was dropped. The last one closes politely.
    pub(crate) fn on_mocket_dropped(&self) {
        if self.mockets.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.lock();
            let now = self.clock.now();
            Self::discard(&mut state, now);
            state.connection.close(now, 0, "");
            self.wake(state);
        }
    }
}

/// When to wake for what is due at `due`: what is seconds away may come a little later, up to this part of the time until then, and with
/// it what other connections have due at about the same time. One wake-up serves thousands that are idle, and mostly for nothing: what
/// they waited for has moved on.
fn unhurried(now: Time, due: Time) -> Time {
    const PART: u32 = 64;
    let ahead = due.since(now);
    if ahead < HURRY {
        return due;
    }
    let grain = (ahead.as_nanos() as u64 / u64::from(PART)).next_power_of_two() / 2;
    Time::from_nanos(due.as_nanos().div_ceil(grain).saturating_mul(grain))
}

/// Ten thousand connections are this many times ten thousand: what is large and rarely needed belongs in a box.
const _: () = assert!(size_of::<Shared>() <= 5400);

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_task_of_an_idle_connection_is_small() {
        let (_server, _client, near, _far) = crate::testing::pair().await;
        // What the runtime adds makes three units of 128 bytes of it, which it aligns tasks to.
        let size = size_of_val(&Arc::clone(&near.shared).run());
        assert!(size <= 264, "{size}");
    }

    #[tokio::test]
    async fn what_send_many_queued_before_an_error_does_not_wait_for_other_news() {
        let (_server, _client, near, far) = crate::testing::pair().await;
        let is_driver_coming = || near.shared.lock().scheduled;
        while is_driver_coming() {
            tokio::task::yield_now().await;
        }
        let too_large = bytes::Bytes::from(vec![0; (16 << 20) + 1]);
        let sent = near.sender().build().send_many(["before".into(), too_large, "after".into()]).await;
        assert_eq!(sent, Err(crate::SendError::TooLarge { limit: 16 << 20 }));
        assert!(is_driver_coming(), "nobody sends what was queued");
        assert_eq!(far.recv().await.unwrap().payload, "before");
        near.begin_close(0, "");
        assert!(far.recv().await.is_err());
    }

    #[test]
    fn what_is_far_away_comes_together_and_hardly_late() {
        let second = |seconds: f64| Time::ZERO + Duration::from_secs_f64(seconds);
        let mut wakings = std::collections::BTreeSet::new();
        for number in 0..10_000 {
            let now = second(1000.0 + f64::from(number) / 400.0);
            let due = now + Duration::from_millis(27_500);
            let at = unhurried(now, due);
            assert!(at >= due && at.since(due) <= due.since(now) / 64, "{number}: {:?} late", at.since(due));
            wakings.insert(at);
        }
        assert!(wakings.len() <= 100, "{} wake-ups for 10,000 timers within 25 s", wakings.len());
        for milliseconds in [0, 1, 25, 1_000, 7_999] {
            let due = second(5.3) + Duration::from_millis(milliseconds);
            assert_eq!(unhurried(second(5.3), due), due, "what is near is met");
        }
    }
}
