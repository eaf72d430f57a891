//! A subscriber that roams.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::course::{Course, Stage, tenth_of};
use super::ledger::Ledger;
use super::native::Native;
use super::stream::Stream;
use super::wire::Wire;
use super::{Promise, QUIET};
use crate::mobility::{Leg, Walk};

/// A subscriber: its way, its connection, and what it received.
pub(super) struct Roamer {
    number: usize,
    walk: Walk,
    inlet: Inlet,
    addresses: Vec<String>,
    course: Arc<Course>,
    ledger: Ledger,
    /// It counts as up to date once it lags by fewer messages than this.
    near: u64,
}

/// A connection of any make.
enum Inlet {
    Native(Box<Native>),
    Stream(Stream),
}

/// Why a stay at a broker is over.
enum Ended {
    /// Its time is up.
    Stay,
    /// Nothing more is published.
    Course,
}

impl Roamer {
    /// A subscriber that is attached at its first broker.
    pub(super) async fn new(
        number: usize,
        (wire, promise): (Option<Wire>, Promise),
        mut walk: Walk,
        addresses: &[String],
        course: Arc<Course>,
        near: u64,
    ) -> anyhow::Result<(Self, Leg)> {
        let tenth = tenth_of(number);
        let inlet = match wire {
            None => Inlet::Native(Box::new(Native::new(number, tenth, promise).await?)),
            Some(wire) => Inlet::Stream(Stream::new(wire, number, tenth, promise)),
        };
        let addresses = addresses.to_vec();
        let leg = walk.next().unwrap_or(Leg { broker: 0, stays: Duration::MAX, away: None });
        let mut roamer = Self { number, walk, inlet, addresses, course, ledger: Ledger::default(), near };
        roamer.attach(leg.broker).await?;
        Ok((roamer, leg))
    }

    /// Roams until nothing more is published and everything has come that comes. Returns what it received.
    pub(super) async fn roam(mut self, first: Leg) -> anyhow::Result<(usize, Ledger)> {
        let course = Arc::clone(&self.course);
        course.comes(Stage::Running).await;
        let mut leg = first;
        while let Ended::Stay = self.stay(leg.stays).await? {
            self.leave();
            let away = leg.away.unwrap_or_default();
            tokio::select! {
                () = sleep(away) => {}
                () = course.comes(Stage::Over) => {}
            }
            leg = self.walk.next().unwrap_or(leg);
            self.attach(leg.broker).await?;
        }
        self.finish().await?;
        self.leave();
        Ok((self.number, self.ledger))
    }

    async fn attach(&mut self, broker: usize) -> anyhow::Result<()> {
        self.ledger.connects += 1;
        match &mut self.inlet {
            Inlet::Native(native) => native.attach(&self.addresses[broker]).await,
            Inlet::Stream(stream) => stream.attach(&self.addresses[broker]).await,
        }
    }

    fn leave(&mut self) {
        self.course.is_away(self.number);
        match &mut self.inlet {
            Inlet::Native(native) => native.leave(),
            Inlet::Stream(stream) => stream.leave(),
        }
    }

    /// Receives for so long, or until nothing more is published.
    async fn stay(&mut self, stays: Duration) -> anyhow::Result<Ended> {
        let (course, mut is_near) = (Arc::clone(&self.course), false);
        let until = Instant::now().checked_add(stays).unwrap_or_else(far);
        let over = course.comes(Stage::Over);
        tokio::pin!(over);
        loop {
            tokio::select! {
                taken = take(&mut self.inlet, &mut self.ledger, &course) => taken?,
                () = sleep_until(until) => return Ok(Ended::Stay),
                () = &mut over => return Ok(Ended::Course),
            }
            is_near |= self.ledger.next + self.near >= course.published(tenth_of(self.number));
            if is_near {
                course.follows(self.number, self.ledger.next);
            }
        }
    }

    /// Receives what is left, until everything is there or nothing comes any more.
    async fn finish(&mut self) -> anyhow::Result<()> {
        let published = self.course.published(tenth_of(self.number));
        while !self.ledger.is_complete(published) {
            match timeout(QUIET, take(&mut self.inlet, &mut self.ledger, &self.course)).await {
                Ok(taken) => taken?,
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

async fn take(inlet: &mut Inlet, ledger: &mut Ledger, course: &Course) -> anyhow::Result<()> {
    match inlet {
        Inlet::Native(native) => native.take(ledger, || course.now()).await,
        Inlet::Stream(stream) => stream.take(ledger, || course.now()).await,
    }
}

/// A time that does not come.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}
