//! Live traffic beside another load: a publisher and some subscribers, each with a thread, and the latencies of what they get.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use whimbrel_pubsub::frame::Kind;
use whimbrel_pubsub::message::Draft;

use crate::client::{self, Outlet};
use crate::roam::stamp::{SHORTEST, Stamp};
use crate::walk::walk;

const TOPIC: &str = "live";
/// The time between two looks at what is due.
const TICK: Duration = Duration::from_millis(1);

/// Live traffic. It ends with the process, or when a part of it fails.
#[derive(Debug)]
pub(crate) struct Live {
    clock: Instant,
    /// When each message was due, and its latency, in nanoseconds.
    came: Arc<Mutex<Vec<(u64, u64)>>>,
    /// Whether a part of it has failed.
    is_over: Arc<AtomicBool>,
}

/// A stretch of time on the clock of live traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    from: u64,
    to: u64,
}

impl Live {
    /// Starts so many subscribers, and then a publisher with so many messages a second.
    pub(crate) async fn start(url: &str, subscribers: usize, rate: f64) -> anyhow::Result<Self> {
        let live = Self { clock: Instant::now(), came: Arc::default(), is_over: Arc::default() };
        let (ready, is_ready) = oneshot::channel();
        live.spawn(url, move |live, url| async move { live.listen(&url, subscribers, ready).await })?;
        is_ready.await.context("live subscribers cannot attach")?;
        live.spawn(url, move |live, url| async move { live.publish(&url, rate).await })?;
        Ok(live)
    }

    /// Runs a part of it on a thread of its own, so that the rest of this process does not keep it waiting.
    fn spawn<F: Future<Output = anyhow::Result<()>>>(
        &self,
        url: &str,
        part: impl FnOnce(Self, String) -> F + Send + 'static,
    ) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let live =
            Self { clock: self.clock, came: Arc::clone(&self.came), is_over: Arc::clone(&self.is_over) };
        let (over, url) = (Arc::clone(&self.is_over), url.to_owned());
        std::thread::spawn(move || {
            if let Err(error) = runtime.block_on(part(live, url)) {
                eprintln!("live traffic: {error:#}");
            }
            over.store(true, Ordering::Relaxed);
        });
        Ok(())
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    async fn listen(self, url: &str, subscribers: usize, ready: oneshot::Sender<()>) -> anyhow::Result<()> {
        let mut listening = JoinSet::new();
        for _ in 0..subscribers {
            let endpoint = client::endpoint().await?;
            let (mocket, _) = client::connect(&endpoint, url).await?;
            let (mut stream, ..) = client::subscribe(&mocket, TOPIC, None, Kind::Nondurable).await?;
            let (came, clock) = (Arc::clone(&self.came), self.clock);
            listening.spawn(async move {
                let _kept = (endpoint, mocket);
                loop {
                    let frame = stream.recv().await.context("a live subscription ended")?;
                    let now = clock.elapsed().as_nanos() as u64;
                    let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
                    let see = |message: &[u8]| {
                        let payload = &message[message.len().saturating_sub(SHORTEST)..];
                        if let Some(stamp) = Stamp::read(payload) {
                            came.push((stamp.due, now.saturating_sub(stamp.due)));
                        }
                    };
                    walk(&frame.payload, see).map_err(|_| anyhow::anyhow!("no frame"))?;
                }
            });
        }
        ready.send(()).ok();
        let ended: Option<Result<anyhow::Result<()>, _>> = listening.join_next().await;
        ended.context("there are no live subscribers")??
    }

    async fn publish(self, url: &str, rate: f64) -> anyhow::Result<()> {
        let mut outlet = Outlet::connect(url).await?;
        let (began, mut number) = (self.now(), 0_u64);
        while !self.is_over.load(Ordering::Relaxed) {
            let wanted = ((self.now() - began) as f64 / 1e9 * rate) as u64;
            while number < wanted {
                let due = began + (number as f64 / rate * 1e9) as u64;
                let payload = Stamp { tenth: 0, number, due }.payload(SHORTEST);
                outlet
                    .publish(Draft { topic: TOPIC, payload: &payload, ..Draft::default() }.finish()?)
                    .await?;
                number += 1;
            }
            outlet.flush().await?;
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    }

    /// Begins a stretch.
    pub(crate) fn begin(&self) -> Stretch {
        Stretch { from: self.now(), to: u64::MAX }
    }

    /// Ends a stretch.
    pub(crate) fn end(&self, stretch: Stretch) -> Stretch {
        Stretch { to: self.now(), ..stretch }
    }

    /// The latency that 99 % of the deliveries due in a stretch did not exceed, in milliseconds.
    ///
    /// # Errors
    /// Live traffic has ended, or nothing was delivered.
    pub(crate) fn p99(&self, stretch: Stretch) -> anyhow::Result<f64> {
        anyhow::ensure!(!self.is_over.load(Ordering::Relaxed), "live traffic has ended");
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<u64> = came
            .iter()
            .filter(|(due, _)| (stretch.from..stretch.to).contains(due))
            .map(|(_, latency)| *latency)
            .collect();
        all.sort_unstable();
        let at = all.len() * 99 / 100;
        Ok(*all.get(at).context("nothing was delivered live")? as f64 / 1e6)
    }
}
