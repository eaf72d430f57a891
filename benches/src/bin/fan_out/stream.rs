//! Subscribers over TCP.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::audience::{Audience, Tally};
use crate::stamp;
use crate::wire::{Item, Wire};

/// Bytes of a read.
const ROOM: usize = 64 << 10;

/// Subscribes. Returns what has to live as long as the subscriptions.
pub(crate) async fn subscribe(
    wire: Wire,
    address: &str,
    audience: &Audience,
    slow: usize,
) -> anyhow::Result<Box<dyn Send>> {
    let mut reading = JoinSet::new();
    for (number, tally) in audience.tallies().enumerate() {
        let stream = attach(wire, address, number).await?;
        reading.spawn(read(wire, stream, tally));
    }
    let mut quiet = Vec::new();
    for number in 0..slow {
        quiet.push(attach(wire, address, audience.len() + number).await?);
    }
    Ok(Box::new((reading, quiet)))
}

async fn attach(wire: Wire, address: &str, number: usize) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&[wire.hello(number), wire.subscribe()].concat()).await?;
    let (mut bytes, mut is_there) = (Vec::new(), false);
    while !is_there {
        ensure!(stream.read_buf(&mut bytes).await? > 0, "the broker does not take the subscription");
        let done = wire.scan(&bytes, |item| is_there |= item == Item::Subscribed);
        bytes.drain(..done);
    }
    Ok(stream)
}

async fn read(wire: Wire, mut stream: TcpStream, tally: Arc<Mutex<Tally>>) -> anyhow::Result<()> {
    let (mut bytes, mut held) = (vec![0; ROOM], 0);
    loop {
        let came = stream.read(&mut bytes[held..]).await.context("the broker closed a subscription")?;
        ensure!(came > 0, "the broker closed a subscription");
        held += came;
        let now = stamp::now();
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        let done = wire.scan(&bytes[..held], |item| {
            if let Item::Payload(payload) = item {
                tally.came(payload, now);
            }
        });
        drop(tally);
        bytes.copy_within(done..held, 0);
        held -= done;
    }
}
