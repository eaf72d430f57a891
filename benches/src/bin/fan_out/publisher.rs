//! Publishers: each is a thread of its own, so that subscribers do not keep it waiting.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use whimbrel::{Endpoint, Mocket, Sender};
use whimbrel_pubsub::frame::{BrokerFrame, ClientFrame};

use crate::native;
use crate::stamp::{self, Stamp};
use crate::wire::Wire;

/// The most messages that are handed over at a time.
const BATCH: u64 = 500;

/// A step for the publisher.
#[derive(Debug)]
struct Step {
    number: u32,
    rate: f64,
    time: Duration,
    done: oneshot::Sender<anyhow::Result<Published>>,
}

/// The counts of a step's publishing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) messages: u64,
    /// When the step began.
    pub(crate) began: u64,
}

/// A handle on the threads of the publishers.
#[derive(Debug)]
pub(crate) struct Publishers(Vec<mpsc::UnboundedSender<Step>>);

/// Connects publishers and lets them wait for steps.
pub(crate) fn start(wire: Option<Wire>, address: &str, publishers: u32) -> anyhow::Result<Publishers> {
    let all = (0..publishers).map(|publisher| start_one(wire, address, publisher));
    Ok(Publishers(all.collect::<anyhow::Result<_>>()?))
}

fn start_one(
    wire: Option<Wire>,
    address: &str,
    publisher: u32,
) -> anyhow::Result<mpsc::UnboundedSender<Step>> {
    let (send, mut steps) = mpsc::unbounded_channel::<Step>();
    let address = address.to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut outlet = Outlet::connect(wire, &address, publisher).await;
            let mut next = 0;
            while let Some(Step { number, rate, time, done }) = steps.recv().await {
                let published = match &mut outlet {
                    Ok(outlet) => outlet.run((number, publisher), rate, time, &mut next).await,
                    Err(error) => Err(anyhow::anyhow!("{error:#}")),
                };
                drop(done.send(published));
            }
        });
    });
    Ok(send)
}

impl Publishers {
    /// Publishes for `time` at `rate` messages a second in all, or as many as go.
    pub(crate) async fn run(&self, number: u32, rate: f64, time: Duration) -> anyhow::Result<Published> {
        let mut published = Vec::new();
        for publisher in &self.0 {
            let (done, is_done) = oneshot::channel();
            let rate = rate / self.0.len() as f64;
            publisher.send(Step { number, rate, time, done }).ok().context("a publisher has ended")?;
            published.push(is_done);
        }
        let mut all = Published { messages: 0, began: u64::MAX };
        for is_done in published {
            let one = is_done.await.context("a publisher has ended")??;
            all.messages += one.messages;
            all.began = all.began.min(one.began);
        }
        Ok(all)
    }
}

/// A way to the broker.
enum Outlet {
    Native { _endpoint: Endpoint, mocket: Mocket, sender: Sender, credit: u64, sent: u64, answered: u64 },
    Stream { wire: Wire, stream: OwnedWriteHalf, bytes: Vec<u8> },
}

impl Outlet {
    async fn connect(wire: Option<Wire>, address: &str, publisher: u32) -> anyhow::Result<Self> {
        let Some(wire) = wire else {
            let (endpoint, mocket, welcome) = native::connect(address).await?;
            let (sender, credit) = (mocket.sender().build(), welcome.credit.messages.into());
            return Ok(Self::Native { _endpoint: endpoint, mocket, sender, credit, sent: 0, answered: 0 });
        };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (mut read, mut stream) = stream.into_split();
        // The broker's greetings are nobody's business.
        tokio::spawn(
            async move { while matches!(read.read(&mut [0; 4096]).await, Ok(length) if length > 0) {} },
        );
        stream.write_all(&wire.hello(usize::from(u16::MAX) + publisher as usize)).await?;
        Ok(Self::Stream { wire, stream, bytes: Vec::new() })
    }

    async fn run(
        &mut self,
        (step, publisher): (u32, u32),
        rate: f64,
        time: Duration,
        next: &mut u64,
    ) -> anyhow::Result<Published> {
        let began = stamp::now();
        let (first, end) = (*next, time.as_nanos() as u64);
        let due = |number: u64| began + ((number - first) as f64 / rate * 1e9) as u64;
        loop {
            let elapsed = stamp::now() - began;
            let wanted = first + (elapsed.min(end) as f64 / 1e9 * rate) as u64;
            if elapsed >= end && (*next >= wanted || elapsed >= end + end / 4) {
                return Ok(Published { messages: *next - first, began });
            }
            if *next >= wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let batch = *next..wanted.min(*next + BATCH);
            let stamped = |number| Stamp { due: due(number), step, publisher, number }.payload();
            let many: Vec<_> = batch.map(stamped).collect();
            // A broker that does not take more ends the step late, not never.
            let left = Duration::from_nanos((end + end / 4).saturating_sub(elapsed));
            match tokio::time::timeout(left, self.publish(&many, next)).await {
                Ok(published) => published?,
                Err(_) => return Ok(Published { messages: *next - first, began }),
            }
        }
    }

    async fn publish(&mut self, many: &[[u8; stamp::LENGTH]], next: &mut u64) -> anyhow::Result<()> {
        match self {
            Self::Native { mocket, sender, credit, sent, answered, .. } => {
                let mut frames = Vec::with_capacity(many.len());
                for payload in many {
                    while *sent - *answered == *credit {
                        let all = std::mem::take(&mut frames);
                        sender.send_many(all).await?;
                        *answered = answer(&mocket.recv().await?.payload)?;
                    }
                    *sent += 1;
                    *next += 1;
                    frames.push(ClientFrame::Publish(*sent, native::message(payload)?).encode());
                }
                sender.send_many(frames).await?;
                while let Some(message) = mocket.try_recv() {
                    *answered = answer(&message.payload)?;
                }
            }
            Self::Stream { wire, stream, bytes } => {
                bytes.clear();
                let number = many.len() as u64;
                many.iter().for_each(|payload| wire.publish(bytes, payload));
                *next += number;
                stream.write_all(bytes).await?;
            }
        }
        Ok(())
    }
}

/// Returns the last number that an answer is about.
fn answer(frame: &bytes::Bytes) -> anyhow::Result<u64> {
    match BrokerFrame::parse(frame)? {
        BrokerFrame::Published { last, .. } => Ok(last),
        other => bail!("the broker refuses a message: {other:?}"),
    }
}
