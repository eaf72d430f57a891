//! The sink: receives and counts messages, and knows when the measurement is over.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use whimbrel::{Message, Mocket, Sender};

use super::clock::{cpu_time, monotonic_ns};
use super::control::{Control, ControlSender, ECHO, URGENT, parse};
use super::ending::{EarlyEnd, given_up};
use super::figures::{Interval, Received, Sent, paths};
use super::meter::{Meter, Timing};
use super::plan::{Mode, Plan};

/// The most messages taken from the mocket at once.
const TAKE: usize = 1024;
/// How long overtaken messages may still arrive after the source is done.
const GRACE: Duration = Duration::from_millis(250);
/// How often progress is reported.
const INTERVAL: Duration = Duration::from_secs(1);

/// The result of the sink.
pub(super) struct Taken {
    pub(super) received: Received,
    /// The source's figures, if it sent them.
    pub(super) sent: Option<Sent>,
    /// Why it ended early.
    pub(super) cut: Option<EarlyEnd>,
}

/// The receiver of progress reports.
pub(super) trait Audience {
    async fn interval(&mut self, interval: Interval, mocket: &Mocket);
}

/// The other end, which is told by control messages.
pub(super) struct Far;

impl Audience for Far {
    async fn interval(&mut self, interval: Interval, mocket: &Mocket) {
        // If a report does not get through, the next one may. A closed mocket is noticed elsewhere.
        drop(ControlSender::new(mocket).send(&Control::Progress(interval)).await);
    }
}

pub(super) struct Sink<'a> {
    mocket: &'a Mocket,
    plan: &'a Plan,
    load: Meter,
    urgent: Meter,
    timing: Timing,
    /// The time of the connect call, by this process's CLOCK_MONOTONIC.
    start_ns: u64,
    cpu_start: Duration,
    /// Sends the load back.
    echo: Option<Sender>,
    reported: Interval,
    sent: Option<Sent>,
    stopped: bool,
    /// The time to wait for a peer out of reach.
    patience: Duration,
}

impl<'a> Sink<'a> {
    /// Creates a sink. `one_clock` says that stamps are from the clock that this process reads.
    pub(super) fn new(
        mocket: &'a Mocket,
        plan: &'a Plan,
        start_ns: u64,
        one_clock: bool,
        patience: Duration,
    ) -> Self {
        let service = plan.service;
        let timing = match (one_clock, plan.times_each()) {
            (false, _) => Timing::None,
            (true, false) => Timing::Newest,
            (true, true) => Timing::Each,
        };
        let echoes = plan.is_ping_pong() || plan.mode == Mode::Latency && !one_clock;
        let echo = mocket.sender().service(service).ppid(ECHO).build();
        Self {
            mocket,
            plan,
            load: Meter::new(service.is_sequenced()),
            urgent: Meter::new(false),
            timing,
            start_ns,
            cpu_start: cpu_time(),
            echo: echoes.then_some(echo),
            reported: Interval::default(),
            sent: None,
            stopped: false,
            patience,
        }
    }

    /// Receives messages to the end, or until stopped. `early` holds messages that arrived before their kind was
    /// known, with their arrival times.
    pub(super) async fn run(
        mut self,
        early: Vec<(u64, Message)>,
        audience: &mut impl Audience,
        stop: &Notify,
    ) -> Taken {
        for (at_ns, message) in early {
            self.take(at_ns, &[message]).await;
        }
        let cut = self.take_all(audience, stop).await;
        let end_ns = self.end_ns();
        if self.plan.is_cut() || self.stopped {
            self.load.close_gap(end_ns);
        }
        let received = Received {
            seconds: end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            load: self.load.counted(self.start_ns),
            urgent: (self.plan.mode == Mode::Mixed).then(|| self.urgent.counted(self.start_ns)),
            cpu_s: (cpu_time() - self.cpu_start).as_secs_f64(),
            paths: paths(self.mocket),
        };
        Taken { received, sent: self.sent, cut }
    }

    /// The end of the measurement: when its time is over, at the last delivery, or when it is stopped.
    fn end_ns(&self) -> u64 {
        match self.plan.time() {
            _ if self.stopped => monotonic_ns(),
            Some(time) if self.plan.is_cut() => self.start_ns.saturating_add(time.as_nanos() as u64),
            _ => self.load.last_ns().unwrap_or_else(monotonic_ns),
        }
    }

    /// Receives everything. Returns why it ended early, if it did.
    async fn take_all(&mut self, audience: &mut impl Audience, stop: &Notify) -> Option<EarlyEnd> {
        let start = self.instant(self.start_ns);
        let mut tick = start + INTERVAL;
        let mut end = match self.plan.time() {
            Some(time) if self.plan.is_cut() => Some(start + time),
            _ => None,
        };
        let given_up = given_up(self.mocket, self.plan.time().map(|time| start + time), self.patience);
        tokio::pin!(given_up);
        let far_off = start + Duration::from_secs(30 * 86_400);
        let mut batch = Vec::with_capacity(TAKE);
        loop {
            if self.has_all() || self.stopped {
                return None;
            }
            if self.sent.is_some() && end.is_none() {
                end = Some(Instant::now() + GRACE + 2 * self.rtt());
            }
            let mocket = self.mocket;
            tokio::select! {
                biased;
                () = sleep_until(end.unwrap_or(far_off)) => return None,
                () = sleep_until(tick) => {
                    let interval = self.interval();
                    audience.interval(interval, mocket).await;
                    // After a long pause there is not one report for each missed second.
                    tick = (tick + INTERVAL).max(Instant::now());
                }
                taken = mocket.recv_many(&mut batch, TAKE) => match taken {
                    Ok(_) => {
                        self.take(monotonic_ns(), &batch).await;
                        batch.clear();
                    }
                    Err(closed) => return Some(closed.0.into()),
                },
                () = stop.notified() => {
                    self.stopped = true;
                    return Some(EarlyEnd::Interrupted);
                }
                cut = &mut given_up => return Some(cut),
            }
        }
    }

    async fn take(&mut self, now_ns: u64, batch: &[Message]) {
        let load = batch.iter().filter(|message| message.ppid.is_none());
        self.load.record(now_ns, load, self.timing);
        if batch.iter().all(|message| message.ppid.is_none()) && self.echo.is_none() {
            return;
        }
        let urgent = batch.iter().filter(|message| message.ppid == Some(URGENT));
        let timing = if self.timing == Timing::None { Timing::None } else { Timing::Each };
        self.urgent.record(now_ns, urgent, timing);
        for message in batch {
            match (parse(message), &self.echo) {
                (Some(Ok(Control::Done(sent))), _) => self.sent = Some(sent),
                (Some(Ok(Control::Stop)), _) => self.stopped = true,
                (None, Some(echo)) if message.ppid.is_none() => {
                    // A closed mocket is noticed by the next receive.
                    drop(echo.send(message.payload.clone()).await);
                }
                _ => {}
            }
        }
    }

    /// Returns whether nothing more can arrive.
    fn has_all(&self) -> bool {
        let whole =
            self.plan.mode != Mode::Mixed && self.plan.bytes.is_some_and(|bytes| self.load.bytes() >= bytes);
        let sent = self.sent.as_ref().is_some_and(|sent| {
            // The other end's counters may have any value.
            let gone = sent.expired.saturating_add(sent.replaced).saturating_add(sent.lost);
            sent.finished
                && self.load.unique().saturating_add(gone) >= sent.messages
                && (self.plan.is_complete() || self.load.unique() == sent.messages)
        });
        whole && !self.plan.is_ping_pong() || sent
    }

    fn interval(&mut self) -> Interval {
        let before = self.reported;
        self.reported = Interval {
            from_s: before.to_s,
            to_s: monotonic_ns().saturating_sub(self.start_ns) as f64 / 1e9,
            bytes: self.load.bytes() - before.total_bytes,
            messages: self.load.messages() - before.total_messages,
            latency_us: self.load.take_interval_latency(),
            total_bytes: self.load.bytes(),
            total_messages: self.load.messages(),
        };
        self.reported
    }

    fn rtt(&self) -> Duration {
        self.mocket.stats().connection.paths.iter().map(|path| path.rtt).max().unwrap_or_default()
    }

    fn instant(&self, ns: u64) -> Instant {
        let ago = Duration::from_nanos(monotonic_ns().saturating_sub(ns));
        Instant::now().checked_sub(ago).unwrap_or_else(Instant::now)
    }
}
