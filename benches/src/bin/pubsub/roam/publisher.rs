//! The publisher: a thread of its own, so that subscribers do not keep it waiting.

use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;
use whimbrel_pubsub::message::Draft;
use whimbrel_pubsub::property::{Properties, Value};

use super::course::Course;
use super::native::{PROPERTY, TOPIC, VALUES};
use super::stamp::{Stamp, TENTHS};
use super::wire::Wire;
use crate::client::Outlet;

/// The most messages that are handed over at a time.
const BATCH: u64 = 200;
/// How long the publisher waits until it looks again.
const NAP: Duration = Duration::from_millis(1);

/// The messages to publish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) pace: Pace,
    pub(super) time: Duration,
    /// Bytes of a payload.
    pub(super) size: usize,
    pub(super) seed: u64,
}

/// How fast messages are published.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// So many a second.
    Rate(f64),
    /// As fast as subscribers keep up: none that is connected and up to date lags by more messages of its tenth.
    Window(u64),
}

/// The result of publishing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) messages: u64,
    pub(super) seconds: f64,
}

/// Starts the publisher, which begins at once.
pub(super) fn start(
    wire: Option<Wire>,
    address: &str,
    task: Task,
    course: &Arc<Course>,
) -> anyhow::Result<oneshot::Receiver<anyhow::Result<Published>>> {
    let (done, is_done) = oneshot::channel();
    let (address, course) = (address.to_owned(), Arc::clone(course));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        let published = runtime.block_on(async {
            let way = Way::connect(wire, &address).await?;
            Publisher::new(way, task, &course)?.run().await
        });
        drop(done.send(published));
    });
    Ok(is_done)
}

struct Publisher<'a> {
    way: Way,
    task: Task,
    course: &'a Course,
    rng: ChaCha8Rng,
    /// The properties of a message, by the selector's value.
    values: Vec<Properties>,
    published: u64,
}

impl<'a> Publisher<'a> {
    fn new(way: Way, task: Task, course: &'a Course) -> anyhow::Result<Self> {
        let values =
            (0..(TENTHS * VALUES) as i64).map(|value| Properties::new([(PROPERTY, Value::Integer(value))]));
        let values = values.collect::<Result<_, _>>()?;
        Ok(Self { way, task, course, rng: ChaCha8Rng::seed_from_u64(task.seed), values, published: 0 })
    }

    async fn run(mut self) -> anyhow::Result<Published> {
        let (began, end) = (self.course.now(), self.task.time.as_nanos() as u64);
        loop {
            let elapsed = self.course.now() - began;
            if elapsed >= end {
                break;
            }
            let due = |number: u64, rate: f64| began + (number as f64 / rate * 1e9) as u64;
            let batch = match self.task.pace {
                Pace::Rate(rate) => {
                    ((elapsed as f64 / 1e9 * rate) as u64).saturating_sub(self.published).min(BATCH)
                }
                Pace::Window(window) if self.course.lag() < window => BATCH,
                Pace::Window(_) => 0,
            };
            if batch == 0 {
                tokio::time::sleep(NAP).await;
                continue;
            }
            for number in self.published..self.published + batch {
                let due = match self.task.pace {
                    Pace::Rate(rate) => due(number, rate),
                    Pace::Window(_) => self.course.now(),
                };
                self.publish(due).await?;
            }
            self.published += batch;
            self.way.flush().await?;
        }
        self.way.finish().await?;
        let seconds = (self.course.now() - began) as f64 / 1e9;
        Ok(Published { messages: self.published, seconds })
    }

    async fn publish(&mut self, due: u64) -> anyhow::Result<()> {
        let value = self.rng.random_range(0..self.values.len());
        let tenth = value / VALUES;
        let stamp = Stamp { tenth: tenth as u8, number: self.course.publish(tenth), due };
        self.way.publish(tenth, &self.values[value], &stamp.payload(self.task.size)).await
    }
}

/// A way to the broker.
enum Way {
    Native(Outlet),
    Stream { wire: Wire, stream: OwnedWriteHalf, bytes: Vec<u8>, number: u16 },
}

impl Way {
    async fn connect(wire: Option<Wire>, address: &str) -> anyhow::Result<Self> {
        let Some(wire) = wire else { return Ok(Self::Native(Outlet::connect(address).await?)) };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (mut read, mut stream) = stream.into_split();
        // The broker's answers are nobody's business.
        tokio::spawn(async move { while matches!(read.read(&mut [0; 4096]).await, Ok(1..)) {} });
        stream.write_all(&wire.hello("publisher", false)).await?;
        Ok(Self::Stream { wire, stream, bytes: Vec::new(), number: 0 })
    }

    async fn publish(&mut self, tenth: usize, value: &Properties, payload: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Native(outlet) => {
                let draft = Draft { topic: TOPIC, properties: value.as_bytes(), payload, ..Draft::default() };
                outlet.publish(draft.finish()?).await?;
            }
            Self::Stream { wire, bytes, number, .. } => {
                *number = number.checked_add(1).unwrap_or(1);
                wire.publish(bytes, tenth, *number, payload);
            }
        }
        Ok(())
    }

    /// Hands over what was published.
    async fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Native(outlet) => outlet.flush().await?,
            Self::Stream { stream, bytes, .. } => {
                stream.write_all(bytes).await?;
                bytes.clear();
            }
        }
        Ok(())
    }

    /// Waits until the broker has everything, if it says so.
    async fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Native(outlet) => outlet.finish().await,
            Self::Stream { .. } => Ok(()),
        }
    }
}
