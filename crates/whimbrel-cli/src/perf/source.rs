//! The source: generates the load and receives the sink's reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use whimbrel::{Message, Mocket, SendError, Sender, Tag};
use whimbrel_link::Histogram;

use super::clock::{cpu_time, monotonic_ns};
use super::control::{Control, ControlSender, ECHO, URGENT, parse};
use super::ending::{EarlyEnd, given_up};
use super::figures::{Interval, Latency, Received, Sent, paths};
use super::plan::{Mode, Plan, due};
use super::stamp::{Payloads, Stamp};

/// The rate of urgent messages in mixed mode per second, their size and their priority.
const URGENT_RATE: f64 = 100.0;
const URGENT_SIZE: usize = 64;
const URGENT_PRIORITY: u8 = 200;
/// The tag of messages that replace one another.
const REPLACED: Tag = Tag(1);
/// Messages up to this size may be sent before the peer has announced its limit.
const ALWAYS_TAKEN: usize = 262_144;
/// The most bytes of due messages made at once, unless a single one is longer.
const MADE_AT_ONCE: usize = 4 << 20;
/// How often to check whether everything has arrived.
const POLL: Duration = Duration::from_millis(1);
/// An unreliable message counts as lost if it has not come back by then.
const ECHO_PATIENCE: Duration = Duration::from_secs(1);
/// How long a stopped measurement waits for the other end's figures.
pub(super) const LAST_FIGURES: Duration = Duration::from_secs(3);
/// The most messages taken from the mocket at once.
const TAKE: usize = 256;
/// The error if something other than a sink listens there.
pub(super) const NO_SINK: &str =
    "the other end does not answer like `whimbrel perf serve`: check that it is one, of this version";

/// The result of the source.
pub(super) struct Given {
    pub(super) sent: Sent,
    /// The sink's figures, or its last progress before an early end.
    pub(super) received: Option<Received>,
    pub(super) progress: Option<Interval>,
    /// Whether both ends read one clock; `None` if the sink has not said.
    pub(super) one_clock: Option<bool>,
    /// Why it ended early.
    pub(super) cut: Option<EarlyEnd>,
}

/// The messages that the generator has handed over so far.
#[derive(Clone, Copy, Default)]
struct Generated {
    messages: u64,
    urgent: u64,
}

/// The urgent messages handed over so far, known even if the generator is aborted.
type UrgentSent = Arc<AtomicU64>;

pub(super) struct Source<'a> {
    mocket: &'a Mocket,
    plan: &'a Plan,
    start: Instant,
    cpu_start: Duration,
    round_trips: Histogram,
    progress: Option<Interval>,
    urgent: UrgentSent,
    one_clock: Option<bool>,
    /// The time to wait for a peer out of reach.
    patience: Duration,
    /// The deadline for the sink's first answer.
    hello_by: Option<Instant>,
}

impl<'a> Source<'a> {
    /// Creates a source. `start` is the time of the connect call.
    pub(super) fn new(mocket: &'a Mocket, plan: &'a Plan, start: Instant, patience: Duration) -> Self {
        Self {
            mocket,
            plan,
            start,
            cpu_start: cpu_time(),
            round_trips: Histogram::default(),
            progress: None,
            urgent: UrgentSent::default(),
            one_clock: None,
            patience,
            hello_by: None,
        }
    }

    /// Sets the deadline for the sink's answer; without one by then, there is no sink.
    pub(super) fn expecting_hello(self, by: Instant) -> Self {
        Self { hello_by: Some(by), ..self }
    }

    /// Waits until the deadline for the sink's answer has passed.
    async fn no_hello(&self) -> EarlyEnd {
        match self.hello_by.filter(|_| self.one_clock.is_none()) {
            Some(by) => sleep_until(by).await,
            None => std::future::pending().await,
        }
        EarlyEnd::Lost(NO_SINK.to_owned())
    }

    /// Sends everything, until the sink has reported, the mocket is closed, or the measurement is stopped. `show`
    /// receives the sink's progress meanwhile.
    pub(super) async fn run(mut self, show: impl FnMut(Interval, &Mocket), stop: &Notify) -> Given {
        if self.plan.is_ping_pong() { self.ping_pong(show, stop).await } else { self.load(show, stop).await }
    }

    async fn load(&mut self, mut show: impl FnMut(Interval, &Mocket), stop: &Notify) -> Given {
        let urgent = Arc::clone(&self.urgent);
        let mut generator =
            Box::pin(tokio::spawn(generate(self.mocket.clone(), self.plan.clone(), self.start, urgent)));
        let abort = generator.abort_handle();
        let _stops = AbortOnDrop(abort.clone());
        let mut generated = None;
        // Once stopped: how long to wait for the sink's figures.
        let mut patience = None;
        let given_up = given_up(self.mocket, self.end(), self.patience);
        tokio::pin!(given_up);
        let mut batch = Vec::with_capacity(TAKE);
        loop {
            let mocket = self.mocket;
            tokio::select! {
                taken = mocket.recv_many(&mut batch, TAKE) => if let Err(closed) = taken {
                    let cut = patience.map_or_else(|| closed.0.into(), |_| EarlyEnd::Interrupted);
                    return self.given(generated.unwrap_or_default(), None, Some(cut));
                },
                () = stop.notified(), if patience.is_none() => {
                    if !mocket.is_established() {
                        // Nobody is there who has figures.
                        return self.given(Generated::default(), None, Some(EarlyEnd::Interrupted));
                    }
                    patience = Some(Instant::now() + LAST_FIGURES);
                    abort.abort();
                    drop(ControlSender::new(mocket).send(&Control::Stop).await);
                }
                () = sleep_until(patience.unwrap_or(self.start)), if patience.is_some() => {
                    return self.given(generated.unwrap_or_default(), None, Some(EarlyEnd::Interrupted));
                }
                cut = &mut given_up => return self.given(generated.unwrap_or_default(), None, Some(cut)),
                cut = self.no_hello() => return self.given(generated.unwrap_or_default(), None, Some(cut)),
                ended = &mut generator, if generated.is_none() => {
                    let count = match ended {
                        Ok(Ok(count)) => count,
                        Ok(Err(error)) => {
                            return self.given(Generated::default(), None, Some(error.into()));
                        }
                        // It was aborted because the sink wants no more; the sink continues from here.
                        Err(_) => {
                            generated = Some(Generated::default());
                            continue;
                        }
                    };
                    generated = Some(count);
                    let sent = self.sent(count, true);
                    drop(ControlSender::new(mocket).send(&Control::Done(sent)).await);
                }
            }
            for message in batch.drain(..) {
                match self.hear(&message) {
                    Some(Control::Progress(interval)) => show(interval, self.mocket),
                    Some(Control::Report(received)) => {
                        let cut = patience.map(|_| EarlyEnd::Interrupted);
                        return self.given(generated.unwrap_or_default(), Some(received), cut);
                    }
                    Some(Control::Stop) => {
                        abort.abort();
                        let sent = self.sent(generated.unwrap_or_default(), generated.is_some());
                        drop(ControlSender::new(self.mocket).send(&Control::Done(sent)).await);
                    }
                    _ => {}
                }
            }
        }
    }

    fn hear(&mut self, message: &Message) -> Option<Control> {
        if message.ppid == Some(ECHO) {
            if let Some(stamp) = Stamp::read(&message.payload) {
                self.record_round_trip(stamp);
            }
            return None;
        }
        let control = parse(message)?.ok()?;
        match &control {
            Control::Progress(interval) => self.progress = Some(*interval),
            Control::Hello { one_clock } => self.one_clock = Some(*one_clock),
            _ => {}
        }
        Some(control)
    }

    fn hear_hello(&mut self, message: &Message) {
        if let Some(Ok(Control::Hello { one_clock })) = parse(message) {
            self.one_clock = Some(one_clock);
        }
    }

    fn record_round_trip(&mut self, stamp: Stamp) {
        self.round_trips.record(Duration::from_nanos(monotonic_ns().saturating_sub(stamp.sent_ns)));
    }

    /// Sends one message at a time; the next when the last has come back.
    async fn ping_pong(&mut self, mut show: impl FnMut(Interval, &Mocket), stop: &Notify) -> Given {
        let sender = sender(self.mocket, self.plan);
        let end = self.end();
        let given_up = given_up(self.mocket, end, self.patience);
        tokio::pin!(given_up);
        let mut payloads = Payloads::new();
        let mut bytes = 0;
        let mut interval = Interval::default();
        let mut shown = Histogram::default();
        loop {
            let over = end.is_some_and(|end| Instant::now() >= end)
                || self.plan.bytes.is_some_and(|limit| bytes >= limit);
            if over {
                return self.finish_ping_pong(payloads.made(), None, stop, given_up).await;
            }
            let number = payloads.made();
            let sent_ns = monotonic_ns();
            bytes += self.plan.size as u64;
            if let Err(error) = sender.send(payloads.next(self.plan.size, sent_ns)).await {
                return self.given(generated(payloads.made()), None, Some(error.into()));
            }
            let echo = tokio::select! {
                echo = self.await_echo(number, end) => echo,
                () = stop.notified() => Echo::Never(EarlyEnd::Interrupted),
                cut = &mut given_up => Echo::Never(cut),
            };
            match echo {
                Echo::Never(cut) if matches!(cut, EarlyEnd::Lost(_)) || !self.mocket.is_established() => {
                    return self.given(generated(payloads.made()), None, Some(cut));
                }
                Echo::Never(cut) => {
                    return self.finish_ping_pong(payloads.made(), Some(cut), stop, given_up).await;
                }
                Echo::Lost => continue,
                Echo::Back => {}
            }
            let round_trip = Duration::from_nanos(monotonic_ns() - sent_ns);
            self.round_trips.record(round_trip);
            shown.record(round_trip);
            interval.messages += 1;
            interval.bytes += self.plan.size as u64;
            interval.total_messages += 1;
            interval.total_bytes += self.plan.size as u64;
            interval.to_s = self.start.elapsed().as_secs_f64();
            self.progress = Some(interval);
            if interval.to_s >= interval.from_s + 1.0 {
                interval.latency_us = Latency::of(&std::mem::take(&mut shown)).map(Latency::halved);
                show(interval, self.mocket);
                interval = Interval { from_s: interval.to_s, messages: 0, bytes: 0, ..interval };
            }
        }
    }

    async fn await_echo(&mut self, number: u64, end: Option<Instant>) -> Echo {
        let reliable = self.plan.is_complete();
        let patience = ECHO_PATIENCE.max(4 * self.rtt_if(!reliable));
        let until = Instant::now() + patience;
        // A reliable message comes back, or the mocket ends.
        let until = if reliable { Instant::now() + Duration::from_secs(86_400) } else { until };
        let until = end.map_or(until, |end| until.min(end.max(Instant::now()) + patience * 60));
        loop {
            let message = tokio::select! {
                received = self.mocket.recv() => match received {
                    Ok(message) => message,
                    Err(closed) => return Echo::Never(closed.0.into()),
                },
                () = sleep_until(until) => return Echo::Lost,
                cut = self.no_hello() => return Echo::Never(cut),
            };
            self.hear_hello(&message);
            // A message too short for a number is taken for the one expected.
            let is_it = Stamp::read(&message.payload).is_none_or(|stamp| stamp.number == number);
            if message.ppid == Some(ECHO) && is_it {
                return Echo::Back;
            }
        }
    }

    fn rtt_if(&self, wanted: bool) -> Duration {
        if !wanted {
            return Duration::ZERO;
        }
        self.mocket.stats().connection.paths.iter().map(|path| path.rtt).max().unwrap_or_default()
    }

    async fn finish_ping_pong(
        &self,
        made: u64,
        cut: Option<EarlyEnd>,
        stop: &Notify,
        given_up: impl Future<Output = EarlyEnd>,
    ) -> Given {
        let sent = self.sent(generated(made), true);
        drop(ControlSender::new(self.mocket).send(&Control::Done(sent)).await);
        let why = tokio::select! {
            report = self.report() => match report {
                Ok(received) => return self.given(generated(made), Some(received), cut),
                Err(why) => why,
            },
            () = sleep(LAST_FIGURES), if cut.is_some() => EarlyEnd::Interrupted,
            () = stop.notified() => EarlyEnd::Interrupted,
            why = given_up => why,
        };
        self.given(generated(made), None, Some(cut.unwrap_or(why)))
    }

    async fn report(&self) -> Result<Received, EarlyEnd> {
        loop {
            let message = self.mocket.recv().await.map_err(|closed| EarlyEnd::from(closed.0))?;
            if let Some(Ok(Control::Report(received))) = parse(&message) {
                return Ok(received);
            }
        }
    }

    /// When the time is over.
    fn end(&self) -> Option<Instant> {
        self.plan.time().map(|time| self.start + time)
    }

    fn given(&self, generated: Generated, received: Option<Received>, cut: Option<EarlyEnd>) -> Given {
        let finished = generated.messages > 0;
        Given {
            sent: self.sent(generated, finished),
            received,
            progress: self.progress,
            one_clock: self.one_clock,
            cut,
        }
    }

    fn sent(&self, generated: Generated, finished: bool) -> Sent {
        let stats = self.mocket.stats();
        let session = stats.session;
        Sent {
            messages: generated.messages,
            urgent_messages: generated.urgent.max(self.urgent.load(Ordering::Relaxed)),
            expired: session.total.expired,
            replaced: session.total.replaced,
            lost: session.total.lost,
            retransmitted: session.retransmitted,
            repeated: session.repeated,
            cpu_s: (cpu_time() - self.cpu_start).as_secs_f64(),
            paths: paths(self.mocket),
            total: stats.connection.total.into(),
            finished,
            round_trip_us: Latency::of(&self.round_trips),
        }
    }
}

fn generated(messages: u64) -> Generated {
    Generated { messages, urgent: 0 }
}

enum Echo {
    Back,
    Lost,
    /// The measurement ends here.
    Never(EarlyEnd),
}

/// Aborts the generator when the source is dropped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn sender(mocket: &Mocket, plan: &Plan) -> Sender {
    let builder = mocket.sender().service(plan.service);
    let builder = match plan.lifetime() {
        Some(lifetime) => builder.lifetime(lifetime),
        None => builder,
    };
    if plan.replace { builder.tag(REPLACED).build() } else { builder.build() }
}

/// Hands everything over, and waits until its fate is known.
async fn generate(
    mocket: Mocket,
    plan: Plan,
    start: Instant,
    urgent: UrgentSent,
) -> Result<Generated, SendError> {
    if plan.size > ALWAYS_TAKEN {
        mocket.established().await.map_err(SendError::Closed)?;
    }
    let sender = sender(&mocket, &plan);
    let messages = match (plan.mode, plan.rate) {
        (Mode::Mixed, rate) => tokio::select! {
            flooded = flood(&sender, &plan) => flooded?,
            failed = hurry(&mocket, rate.unwrap_or(URGENT_RATE), &urgent) => return failed.map(|()| generated(0)),
        },
        (_, Some(rate)) => pour(&sender, &plan, rate, start).await?,
        (_, None) => flood(&sender, &plan).await?,
    };
    loop {
        let session = mocket.stats().session;
        if session.queue_messages == 0 && session.outstanding == 0 {
            return Ok(Generated { messages, urgent: urgent.load(Ordering::Relaxed) });
        }
        sleep(POLL).await;
    }
}

/// The message sizes of a load that is limited in bytes; the last message has what is left.
struct Sizes {
    size: usize,
    left: u64,
}

impl Sizes {
    fn new(plan: &Plan) -> Self {
        Self { size: plan.size, left: plan.bytes.unwrap_or(u64::MAX) }
    }
}

impl Iterator for Sizes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let size = (self.size as u64).min(self.left);
        self.left -= size;
        (size > 0).then_some(size as usize)
    }
}

/// Sends as much as there is room for.
async fn flood(sender: &Sender, plan: &Plan) -> Result<u64, SendError> {
    let mut payloads = Payloads::new();
    let mut sizes = Sizes::new(plan);
    if plan.batch == 1 {
        for size in sizes {
            sender.send(payloads.next(size, monotonic_ns())).await?;
        }
        return Ok(payloads.made());
    }
    loop {
        let before = payloads.made();
        // The clock is read once per batch.
        let now = monotonic_ns();
        let batch = sizes.by_ref().take(plan.batch).map(|size| payloads.next(size, now));
        sender.send_many(batch).await?;
        if payloads.made() == before {
            return Ok(before);
        }
    }
}

/// Sends at a rate, as long as the plan says.
async fn pour(sender: &Sender, plan: &Plan, rate: f64, start: Instant) -> Result<u64, SendError> {
    let mut payloads = Payloads::new();
    let mut sizes = Sizes::new(plan);
    let begin = Instant::now();
    let end = plan.time().map(|time| start + time);
    let mut ready = Vec::new();
    loop {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            return Ok(payloads.made());
        }
        let wanted = ((now - begin).as_secs_f64() * rate) as u64 + 1;
        let sent_ns = monotonic_ns();
        // However many messages are due, no more are made than a queue would accept: the plan may be a stranger's.
        let most = plan.batch.max(1024).min(MADE_AT_ONCE / plan.size.max(1)).max(1);
        let count = wanted.saturating_sub(payloads.made()).min(most as u64) as usize;
        ready.extend(sizes.by_ref().take(count).map(|size| payloads.next(size, sent_ns)));
        if count > 0 && ready.is_empty() {
            return Ok(payloads.made());
        }
        if plan.replace {
            for payload in ready.drain(..) {
                sender.replace(payload)?;
            }
        } else if ready.len() == 1 {
            for payload in ready.drain(..) {
                sender.send(payload).await?;
            }
        } else {
            sender.send_many(ready.drain(..)).await?;
        }
        sleep_until(begin + due(payloads.made(), rate)).await;
    }
}

/// Sends the urgent messages of mixed mode until it is dropped.
async fn hurry(mocket: &Mocket, rate: f64, count: &UrgentSent) -> Result<(), SendError> {
    let mut payloads = Payloads::new();
    let sender = mocket.sender().unsequenced().priority(URGENT_PRIORITY).ppid(URGENT).build();
    let begin = Instant::now();
    loop {
        sender.send(payloads.next(URGENT_SIZE, monotonic_ns())).await?;
        count.store(payloads.made(), Ordering::Relaxed);
        sleep_until(begin + due(payloads.made(), rate)).await;
    }
}

/// Waits for a future, up to a limit.
pub(super) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    timeout(limit, future).await.ok()
}
