//! One connection shared by its handles, the receive loop and its driver task.
//!
//! Any of these can drive a connection: the receive loop after a batch, a sender if the connection is idle, and
//! otherwise the driver task. Packets are built under the lock and sent without it. Only the holder of the transmit
//! buffer sends; others set `again` to tell it that there is more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use whimbrel_net::UdpSocket;
use whimbrel_proto::session::{Outcome, Outgoing, SessionEvent, StreamKind};
use whimbrel_proto::{CloseReason, Connection, Event, Handle, MessageId, Side, StreamId, Time, Transmit};

use crate::clock::Clock;
use crate::ecn::to_net_ecn;
use crate::endpoint_shared::EndpointShared;
use crate::events::{Events, Subscribers};
use crate::held_streams::HeldStreams;
use crate::local_socket::LocalSocket;
use crate::locals::{Locals, Paths};
use crate::lock::lock;
use crate::locked::Locked;
use crate::recording::Recording;
use crate::stream_code::StreamCode;
use crate::submissions::Submissions;
use crate::wakers::Wakers;
use crate::woken::Woken;

/// Timers further away than this may fire a little late.
const HURRY: Duration = Duration::from_secs(8);

/// The maximum number of messages that a sender queues before it lets other tasks run.
const BURST: u32 = 256;

/// The maximum number of send calls, of up to 64 KiB each, before other connections have their turn.
const CALLS: u32 = 2;
/// The same limit if no other connection was served lately.
const CALLS_ALONE: u32 = 16;

pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
    pub(crate) endpoint: Arc<EndpointShared>,
    /// The number of the endpoint's socket that it sends by.
    home: usize,
    state: Mutex<MocketState>,
    submissions: Submissions,
    /// The number of handles that applications hold.
    pub(crate) mockets: AtomicUsize,
    pub(crate) readable: Notify,
    pub(crate) writable: Notify,
    /// Notified when the connection is established or closed, and when a stream can be opened or accepted.
    pub(crate) changed: Notify,
    driver: Notify,
    /// Whether the driver task is to look at the host's addresses.
    roam_due: AtomicBool,
}

pub(crate) struct MocketState {
    pub(crate) connection: Connection,
    pub(crate) outcomes: BTreeMap<MessageId, oneshot::Sender<Outcome>>,
    /// In a box, since most sessions have no streams.
    streams: Option<Box<HeldStreams>>,
    /// In a box, since most sessions have neither subscribers nor pollers.
    listeners: Option<Box<Listeners>>,
    pub(crate) connected: bool,
    /// The session is being suspended. Unread data goes with it.
    pub(crate) suspending: bool,
    /// No handle is left.
    dropped: bool,
    pub(crate) closed: Option<CloseReason>,
    /// The host's addresses for this connection. None: a single path, on the endpoint's socket.
    pub(crate) locals: Option<Box<Locals>>,
    tx: Option<TxBuffer>,
    /// Somebody had something to send while the transmit buffer was taken.
    again: bool,
    /// The driver task was woken and has not run yet.
    scheduled: bool,
    /// The time when the connection was last driven. It is close enough for messages without a lifetime or a tag, and
    /// needs no clock read.
    coarse_now: Time,
    /// Messages queued since the driver task last ran. Limits a sender that never waits, so that others run.
    burst: u32,
    /// When the driver task will wake by itself.
    armed: Time,
    /// Spare memory for the list of submissions.
    spare: Vec<Outgoing>,
    recording: Option<Box<Recording>>,
    /// Those to be woken when the lock is released.
    pub(crate) woken: Woken,
}

thread_local! {
    /// Packet memory, lent to whatever drives a connection on this thread. Thousands of idle connections thus need
    /// none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The socket that packets leave by. None: the endpoint's.
type Via = Option<Arc<LocalSocket>>;

#[derive(Default)]
struct TxBuffer {
    bytes: Vec<u8>,
    /// A packet batch that was built but refused by a full socket.
    pending: Option<Transmit>,
    /// The socket for the pending packets. None: the endpoint's.
    via: Via,
}

/// The subscribers to events, and the tasks that poll.
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

    pub(crate) fn streams(&mut self) -> &mut HeldStreams {
        self.streams.get_or_insert_default()
    }

    fn wake_receivers(&mut self) {
        if let Some(listeners) = &mut self.listeners {
            listeners.receivers.leave_for(&mut self.woken);
        }
    }

    /// Returns the time to use for a send call. It is exact only if the message may have a lifetime or a rate limit.
    pub(crate) fn send_time(&self, clock: &Clock, message: &Outgoing) -> Time {
        if message.needs_exact_time() { clock.now() } else { self.coarse_now }
    }

    /// Returns whether the session is being suspended, or was. What it holds goes with it, so nothing is read from it
    /// or ended any more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.suspending && self.closed.as_ref().is_none_or(|reason| *reason == CloseReason::Suspended)
    }

    /// Counts a message about to be queued. Returns true if the sender must let others run first.
    pub(crate) fn is_burst_over(&mut self) -> bool {
        self.burst += 1;
        if self.burst <= BURST {
            return false;
        }
        self.burst = 0;
        true
    }

    /// Returns the next stream of a kind that the peer opened.
    pub(crate) fn accept(&mut self, kind: StreamKind) -> Option<StreamId> {
        self.streams.as_mut()?.backlog.accept(kind, self.connection.session_ref())
    }

    fn via(&self, transmit: Option<&Transmit>) -> Via {
        let transmit = transmit?;
        self.locals.as_ref()?.socket_for(transmit.source, transmit.destination)
    }

    /// Returns whether the connection may use only certain local addresses and none of them leads to this destination
    /// now.
    fn is_barred(&self, transmit: &Transmit, via: &Via) -> bool {
        let only = |locals: &Locals| matches!(locals.paths, Paths::Only(_));
        // Applies to the handshake only. Later, a packet names its source, or takes a path that the application
        // opened.
        let begins = !self.connected && self.connection.side() == Side::Client && transmit.source.is_none();
        begins && via.is_none() && self.locals.as_deref().is_some_and(only)
    }
}

/// The result of driving a connection.
enum Drive {
    /// There is nothing more to send now.
    Idle,
    /// This socket is full.
    Blocked(Via),
    /// There is more to send, but other connections have their turn first.
    More,
}

impl Shared {
    pub(crate) fn new(
        handle: Handle,
        connection: Connection,
        locals: Option<Box<Locals>>,
        home: usize,
        endpoint: Arc<EndpointShared>,
    ) -> Arc<Self> {
        let connected = connection.is_established();
        let record =
            |folder: &PathBuf| Box::new(Recording::new(folder, connection.side(), connection.local_id()));
        let recording = endpoint.config.qlog_dir.as_ref().map(record);
        let shared = Arc::new(Self {
            handle,
            clock: endpoint.clock,
            home,
            endpoint,
            state: Mutex::new(MocketState {
                connection,
                outcomes: BTreeMap::new(),
                streams: None,
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
                woken: Woken::default(),
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
        via.as_ref().map_or_else(|| self.endpoint.socket_at(self.home), |local| local.udp())
    }

    /// Locks the state. First queues all submissions that were made without the lock, so that order is kept.
    pub(crate) fn lock(&self) -> Locked<'_> {
        let mut state = Locked::new(self, lock(&self.state));
        self.take_submissions(&mut state);
        state
    }

    /// Locks the state if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_>> {
        let mut state = Locked::new(self, self.state.try_lock().ok()?);
        self.take_submissions(&mut state);
        Some(state)
    }

    /// Queues a copy of a small message without special options, if the state is not locked and there is room.
    /// Returns false if nothing was done.
    #[inline]
    pub(crate) fn send_copy(&self, template: &Outgoing, payload: &[u8]) -> bool {
        // Queueing wakes nobody, so the plain lock will do, which is quicker.
        let Ok(mut state) = self.state.try_lock() else { return false };
        self.take_submissions(&mut state);
        if state.burst >= BURST {
            return false;
        }
        let now = state.coarse_now;
        if !state.connection.session().send_copy(now, template, payload) {
            return false;
        }
        state.burst += 1;
        let is_idle = state.connection.is_idle();
        let first = !is_idle && !std::mem::replace(&mut state.scheduled, true);
        drop(state);
        if is_idle {
            self.drive();
        } else if first {
            self.driver.notify_one();
        }
        true
    }

    /// Sends what was just queued if the connection is idle. Otherwise leaves that to the driver task.
    #[inline]
    pub(crate) fn drive_or_wake(&self, state: Locked<'_>) {
        if state.connection.is_idle() {
            drop(state);
            self.drive();
        } else {
            self.wake(state);
        }
    }

    /// Leaves a message for the current holder of the lock. Gives it back if the lock has to be waited for.
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

    /// Queues the submissions, and admits as many new ones as there is room for now.
    pub(crate) fn open_submissions(&self, state: &mut MocketState) {
        let MocketState { connection, spare, suspending, .. } = state;
        self.submissions.queue(self.clock.now(), connection.session(), spare, *suspending);
    }

    /// Queues the submissions, and admits no more until [`Shared::open_submissions`] is called.
    pub(crate) fn shut_submissions(&self, state: &mut MocketState) {
        self.submissions.queue(self.clock.now(), state.connection.session(), &mut state.spare, true);
    }

    /// Sends what there is to send. The driver task sends what is left after a few calls.
    pub(crate) fn drive(&self) {
        if !matches!(self.drive_some(), Drive::Idle) {
            self.driver.notify_one();
        }
    }

    /// Handles a change of the host's networks.
    pub(crate) fn networks_changed(&self) {
        if self.lock().locals.is_some() {
            self.roam_soon();
        }
    }

    /// Makes the driver task look at the host's addresses.
    pub(crate) fn roam_soon(&self) {
        self.roam_due.store(true, Ordering::Release);
        self.driver.notify_one();
    }

    /// Wakes the driver task, which then drives the connection.
    pub(crate) fn wake(&self, mut state: Locked<'_>) {
        let first = !std::mem::replace(&mut state.scheduled, true);
        drop(state);
        if first {
            self.driver.notify_one();
        }
    }

    /// Sends what there is to send, up to a limit of calls.
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
                let segments = self.endpoint.socket().max_gso_segments();
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

    /// Sends a batch. Returns false if the socket is full. Any other error concerns these datagrams alone, which then
    /// count as lost.
    fn send(&self, transmit: &Transmit, bytes: &[u8], via: &Via) -> bool {
        let socket = self.socket(via);
        let mut rest = whimbrel_net::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.map(to_net_ecn),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            // A socket bound to one address cannot send from another.
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

    /// Wakes the driver task, which sleeps until `armed`, if a timer is due earlier.
    fn rearm(&self, mut state: Locked<'_>) {
        let due = state.connection.poll_timeout().unwrap_or(Time::MAX);
        if due < state.armed && !std::mem::replace(&mut state.scheduled, true) {
            drop(state);
            self.driver.notify_one();
        }
    }

    /// Passes events on to those who wait for them.
    pub(crate) fn pump(&self, state: &mut MocketState) {
        while let Some(event) = state.connection.session().poll_event() {
            match event {
                SessionEvent::Readable if self.mockets.load(Ordering::Acquire) == 0 && state.dropped => {
                    Self::discard(state, self.clock.now());
                }
                SessionEvent::Readable => {
                    state.woken.readable = true;
                    state.wake_receivers();
                }
                SessionEvent::Writable => state.woken.writable = true,
                SessionEvent::StreamOpened(id, kind) => {
                    let backlog = &mut state.streams.get_or_insert_default().backlog;
                    backlog.push(id, kind, state.connection.session_ref());
                    self.tell_changed(state);
                }
                SessionEvent::StreamReadable(id) => {
                    let reader = state.streams().readers.remove(&id);
                    state.woken.add(reader);
                }
                SessionEvent::StreamStopped(id, code) => {
                    state.streams().stops.on_stopped(id, StreamCode(code));
                    let writer = state.streams().writers.remove(&id);
                    state.woken.add(writer);
                }
                SessionEvent::StreamWritable(id) | SessionEvent::StreamDelivered(id) => {
                    let writer = state.streams().writers.remove(&id);
                    state.woken.add(writer);
                }
                SessionEvent::Outcome(id, outcome) => {
                    if let Some(waiting) = state.outcomes.remove(&id) {
                        state.woken.others().outcomes.push((waiting, outcome));
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
                    // No handle was left to wait for it.
                    state.connection.close(self.clock.now(), 0, "");
                }
            }
            Event::Ticket(ticket) => self.endpoint.keep_ticket(ticket.clone()),
            Event::Closed(reason) => {
                state.closed = Some(reason.clone());
                (state.woken.readable, state.woken.writable) = (true, true);
                state.wake_receivers();
                if let Some(streams) = &mut state.streams {
                    streams.leave_for(&mut state.woken);
                }
                let mut unknown = std::mem::take(&mut state.outcomes);
                if !unknown.is_empty() {
                    state.woken.others().unknown.append(&mut unknown);
                }
            }
            _ => {}
        }
        self.tell_changed(state);
        if let Some(listeners) = &mut state.listeners {
            let woken = listeners.subscribers.tell(&event);
            state.woken.add(woken);
        }
    }

    /// Reports that a stream may be opened or accepted, or that the state of the session has changed.
    fn tell_changed(&self, state: &mut MocketState) {
        state.woken.changed = true;
        if let Some(listeners) = &mut state.listeners {
            listeners.openers.leave_for(&mut state.woken);
        }
    }

    /// Subscribes to the events from now on.
    pub(crate) fn subscribe(&self) -> Events {
        let mut state = self.lock();
        let closed = state.closed.clone();
        let subscribers = &mut state.listeners().subscribers;
        let events = subscribers.subscribe();
        if let Some(reason) = closed {
            // The new subscriber has not waited yet, and others were told.
            subscribers.tell(&Event::Closed(reason));
        }
        events
    }

    /// The driver task: handles timers, and drives whenever it is woken.
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

    /// Waits until a full socket has room, or for ever if none is full. Boxed, so that thousands of idle tasks need
    /// no memory for what rarely happens.
    fn writable(&self, full: Option<Via>) -> impl Future<Output = ()> + Send {
        let room = full.map(|via| Box::pin(async move { drop(self.socket(&via).writable().await) }));
        let mut room = room.map(|boxed| boxed as Pin<Box<dyn Future<Output = ()> + Send + '_>>);
        poll_fn(move |context| room.as_mut().map_or(Poll::Pending, |room| room.as_mut().poll(context)))
    }

    /// Returns when the driver task must wake by itself. None: not before it is notified.
    fn arm(&self) -> Option<Time> {
        let mut state = self.lock();
        let due = state.connection.poll_timeout().filter(|due| *due < Time::MAX);
        state.armed = due.unwrap_or(Time::MAX);
        // The lifetime of a message is exact even if it ends far in the future.
        let exact = state.connection.session_ref().poll_timeout().unwrap_or(Time::MAX);
        due.map(|due| unhurried(self.clock.now(), due).min(exact))
    }

    /// Runs one round of the driver task.
    fn tick(&self) -> Drive {
        let mut state = self.lock();
        state.scheduled = false;
        state.burst = 0;
        // This task sets its timer again afterwards, so nobody wakes it for that meanwhile.
        state.armed = Time::ZERO;
        state.connection.handle_timeout(self.clock.now());
        drop(state);
        self.drive_some()
    }

    /// Takes and drops everything received, since no handle is left to read it. The peer's queue can then drain.
    fn discard(state: &mut MocketState, now: Time) {
        state.dropped = true;
        while state.connection.session().recv(now).is_some() {}
    }

    /// Handles the drop of a handle. The last one closes the session gracefully.
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

/// Returns when to wake for a timer due at `due`. A timer seconds away may fire late by up to 1/64 of the time until
/// then, together with those of other connections. One wake-up then serves thousands of idle connections. Most such
/// wake-ups find nothing to do, because the timer has moved on.
fn unhurried(now: Time, due: Time) -> Time {
    const PART: u32 = 64;
    let ahead = due.since(now);
    if ahead < HURRY {
        return due;
    }
    let grain = (ahead.as_nanos() as u64 / u64::from(PART)).next_power_of_two() / 2;
    Time::from_nanos(due.as_nanos().div_ceil(grain).saturating_mul(grain))
}

/// Ten thousand connections need ten thousand times this much memory. Anything large and rarely needed belongs in a
/// box.
const _: () = assert!(size_of::<Shared>() <= 5400);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_task_of_an_idle_connection_is_small() {
        let (_server, _client, near, _far) = crate::testing::pair().await;
        // With what the runtime adds, the task takes three units of 128 bytes, its alignment.
        let size = size_of_val(&Arc::clone(&near.shared).run());
        assert!(size <= 264, "{size}");
    }

    #[tokio::test]
    async fn a_turn_to_send_is_short_in_company_and_long_alone() {
        let mut config = crate::Config::default();
        // Neither pacing nor probes for a larger packet shorten a batch.
        config.transport.congestion = whimbrel_proto::congestion::Congestion::Fixed { bytes_per_s: 10 << 30 };
        config.transport.max_udp_payload = 1200;
        let (_server, _client, near, _far) = crate::testing::pair_with(config).await;
        let shared = &near.shared;
        while !matches!(shared.drive_some(), Drive::Idle) {}
        let message = Outgoing::new(StreamId(0), crate::Service::ReliableSequenced, vec![7; 4 << 20].into());
        shared.lock().connection.session().send(shared.clock.now(), message).unwrap();
        let sent = || near.stats().connection.total.sent_packets;
        let in_a_call = {
            let (mut state, segments) = (shared.lock(), shared.endpoint.socket().max_gso_segments());
            let transmit = state.connection.poll_transmit(shared.clock.now(), &mut Vec::new(), segments);
            let transmit = transmit.unwrap();
            transmit.size.div_ceil(transmit.segment_size.unwrap_or(transmit.size)) as u64
        };
        let turn = || {
            let before = sent();
            assert!(matches!(shared.drive_some(), Drive::More), "there is more to send");
            sent() - before
        };
        assert_eq!(turn(), u64::from(CALLS_ALONE) * in_a_call);
        shared.endpoint.company.note(shared.clock.now() + Duration::from_secs(3600));
        assert_eq!(turn(), u64::from(CALLS) * in_a_call);
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
