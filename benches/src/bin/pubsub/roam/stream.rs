//! A subscriber over TCP, whose subscription the broker keeps while it is away.

use anyhow::{Context, ensure};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::ledger::Ledger;
use super::stamp::Stamp;
use super::wire::{Item, Wire};
use super::{PATIENCE, Promise};

/// Bytes of a read.
const ROOM: usize = 64 << 10;

/// A subscriber, connected or not.
#[derive(Debug)]
pub(super) struct Stream {
    wire: Wire,
    name: String,
    tenth: usize,
    is_kept: bool,
    was_there: bool,
    stream: Option<TcpStream>,
    bytes: Vec<u8>,
    held: usize,
    /// Acknowledgements that were not sent yet.
    answers: BytesMut,
}

/// Asks for something once, and waits until it is done.
pub(super) async fn prepare(wire: Wire, address: &str, seconds_held: f64) -> anyhow::Result<()> {
    let Some(request) = wire.prepare(seconds_held) else { return Ok(()) };
    let mut stream = TcpStream::connect(address).await?;
    ask(wire, &mut stream, &[wire.hello("preparing", false), request].concat()).await
}

impl Stream {
    pub(super) fn new(wire: Wire, number: usize, tenth: usize, promise: Promise) -> Self {
        let is_kept = promise != Promise::Nondurable;
        let (name, bytes) = (format!("c{number}"), vec![0; ROOM]);
        let answers = BytesMut::new();
        Self { wire, name, tenth, is_kept, was_there: false, stream: None, bytes, held: 0, answers }
    }

    pub(super) async fn attach(&mut self, address: &str) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut sends = self.wire.hello(&self.name, self.is_kept);
        let keep = self.wire.keep(&self.name, self.tenth).filter(|_| !self.was_there);
        if let Some(keep) = keep {
            ask(self.wire, &mut stream, &[std::mem::take(&mut sends), keep].concat()).await?;
        }
        // A session of MQTT that is kept has its subscription. Its messages come as soon as it is there again.
        let has_one = self.wire == Wire::Mqtt && self.was_there && self.is_kept;
        if !has_one {
            sends.extend(self.wire.subscribe(&self.name, self.tenth));
        }
        stream.write_all(&sends).await?;
        (self.stream, self.was_there, self.held) = (Some(stream), true, 0);
        self.answers.clear();
        Ok(())
    }

    /// Takes what has come, once something has, and acknowledges it. Cancel-safe.
    pub(super) async fn take(&mut self, ledger: &mut Ledger, now: impl Fn() -> u64) -> anyhow::Result<()> {
        let stream = self.stream.as_mut().context("not attached")?;
        stream.write_all_buf(&mut self.answers).await?;
        let came = stream.read(&mut self.bytes[self.held..]).await?;
        ensure!(came > 0, "the broker closed a subscription");
        self.held += came;
        let (now, wire, answers, mut last) = (now(), self.wire, &mut self.answers, Vec::new());
        let done = wire.scan(&self.bytes[..self.held], |item| {
            let Item::Payload(payload, what) = item else { return };
            if let Some(stamp) = Stamp::read(payload) {
                ledger.came(stamp, now);
            }
            if wire.acknowledges_all() {
                last = what.to_vec();
            } else if !what.is_empty() {
                wire.acknowledge(answers, what);
            }
        });
        if !last.is_empty() {
            wire.acknowledge(answers, &last);
        }
        self.bytes.copy_within(done..self.held, 0);
        self.held -= done;
        Ok(())
    }

    /// Goes away without a word, as a device without a signal does.
    pub(super) fn leave(&mut self) {
        self.stream = None;
    }
}

async fn ask(wire: Wire, stream: &mut TcpStream, bytes: &[u8]) -> anyhow::Result<()> {
    stream.write_all(bytes).await?;
    let (mut bytes, mut is_done) = (Vec::new(), false);
    let answered = async {
        while !is_done {
            ensure!(stream.read_buf(&mut bytes).await? > 0, "the broker does not do what was asked for");
            let done = wire.scan(&bytes, |item| is_done |= item == Item::Done);
            bytes.drain(..done);
        }
        Ok(())
    };
    timeout(PATIENCE, answered).await.context("a broker does not answer")?
}
