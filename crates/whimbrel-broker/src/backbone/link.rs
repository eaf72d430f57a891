//! One session with another broker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use whimbrel::Mocket;
use whimbrel_pubsub::message::{BrokerId, Origin};

use super::Mesh;
use super::frame::{Hello, MeshFrame, VERSION};
use crate::buffer::{GapAnswer, GapRequest};
use crate::hub::{Finding, Outgoing};

/// How long the other broker may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// The most messages that are taken before others get their turn.
const BATCH: usize = 256;
/// The most bytes of messages in a frame.
const FRAME: usize = 16 << 10;
/// How often it is looked whether this is still the session for messages.
const LOOK: Duration = Duration::from_secs(1);

/// Serves the link until its session ends. Fails if the other broker does what none should, or is none of ours.
pub(super) async fn run(mesh: &Arc<Mesh>, mocket: &Mocket) -> Result<(), String> {
    if mocket.established().await.is_err() {
        return Ok(());
    }
    let Some(broker) = mesh.peer(mocket.peer_key()) else {
        return Err("this broker is none of the configured peers".to_owned());
    };
    let Some(own) = mesh.hub.own() else { return Err("this broker has no channel".to_owned()) };
    let hello = Hello {
        version: VERSION,
        cluster: mesh.hub.name().cluster,
        origin: own,
        channels: mesh.hub.channels(),
    };
    if mocket.send(MeshFrame::Hello(hello.clone()).encode()).await.is_err() {
        return Ok(());
    }
    let Ok(first) = timeout(HELLO, mocket.recv()).await else {
        return Err("it does not say hello".to_owned());
    };
    let Ok(first) = first else { return Ok(()) };
    let Some(MeshFrame::Hello(theirs)) = MeshFrame::parse(&first.payload) else {
        return Err("its first message is no hello of this version".to_owned());
    };
    check(&hello, &theirs, broker)?;
    let number = mesh.links.insert(broker, mocket.clone());
    let outgoing = mesh.hub.outgoing();
    let ended = tokio::select! {
        ended = receive(mesh, mocket, theirs.origin) => ended,
        () = send(mesh, mocket, outgoing, broker, number) => Ok(()),
    };
    mesh.links.remove(broker, number);
    ended
}

fn check(ours: &Hello, theirs: &Hello, broker: BrokerId) -> Result<(), String> {
    if theirs.version.abs_diff(ours.version) > 1 {
        return Err(format!("it speaks version {}, and we speak {}", theirs.version, ours.version));
    }
    if theirs.cluster != ours.cluster {
        return Err(format!(
            "it is of cluster {}, and we are of {}: give all brokers the same `cluster`",
            theirs.cluster, ours.cluster
        ));
    }
    if theirs.origin.broker != broker {
        return Err("it calls itself by another broker's id".to_owned());
    }
    if theirs.channels != ours.channels {
        return Err(
            "its channels differ from ours: give all brokers the same [[channel]] sections".to_owned()
        );
    }
    Ok(())
}

/// Sends what is published here, and at first what is known here.
async fn send(mesh: &Mesh, mocket: &Mocket, mut outgoing: Outgoing, broker: BrokerId, number: u64) {
    for channel in mesh.hub.channels() {
        if mocket.send(MeshFrame::Heads(channel, mesh.hub.heads(channel)).encode()).await.is_err() {
            return;
        }
    }
    let sender = mocket.sender().unsequenced().build();
    loop {
        while let Some((channel, messages)) = outgoing.next(FRAME) {
            // Of two sessions the newer one is used; what this one passes over goes there.
            if mesh.links.is_newest(broker, number)
                && sender.send(MeshFrame::Messages(channel, messages).encode()).await.is_err()
            {
                return;
            }
        }
        tokio::select! {
            () = outgoing.woken() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn receive(mesh: &Mesh, mocket: &Mocket, by: Origin) -> Result<(), String> {
    let (mut received, mut finding) = (Vec::new(), Finding::default());
    loop {
        if mocket.recv_many(&mut received, BATCH).await.is_err() {
            return Ok(());
        }
        for message in received.drain(..) {
            let answers = take(mesh, by, &message.payload, &mut finding)?;
            for answer in answers {
                if mocket.send(answer).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Takes a frame. Returns what to send back.
fn take(mesh: &Mesh, by: Origin, payload: &Bytes, finding: &mut Finding) -> Result<Vec<Bytes>, String> {
    let hub = &mesh.hub;
    match MeshFrame::parse(payload) {
        Some(MeshFrame::Messages(channel, messages)) => {
            for aged in messages {
                match hub.receive(channel, aged, finding) {
                    Some(Ok(_)) => {}
                    Some(Err(refusal)) => return Err(refusal.to_string()),
                    None => return Err("it sends messages of a channel that is not here".to_owned()),
                }
            }
        }
        Some(MeshFrame::Heads(channel, heads)) => hub.handle_heads(channel, by, &heads),
        Some(MeshFrame::Request(channel, origin, ranges)) => {
            let request = GapRequest { to: hub.name().broker, origin, ranges };
            let Some(GapAnswer { messages, gone, absent, .. }) = hub.answer(channel, &request) else {
                return Err("it asks for a channel that is not here".to_owned());
            };
            let mut answers = Vec::new();
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for aged in messages {
                bytes += aged.1.encoded().len();
                batch.push(aged);
                if bytes >= FRAME {
                    answers.push(MeshFrame::Messages(channel, std::mem::take(&mut batch)).encode());
                    bytes = 0;
                }
            }
            if !batch.is_empty() {
                answers.push(MeshFrame::Messages(channel, batch).encode());
            }
            // In order: what is denied is what did not come before.
            answers.push(MeshFrame::Denials(channel, origin, gone, absent).encode());
            return Ok(answers);
        }
        Some(MeshFrame::Denials(channel, origin, gone, absent)) => {
            hub.handle_denials(channel, origin, &GapAnswer { by, messages: Vec::new(), gone, absent });
        }
        Some(MeshFrame::Hello(_)) => return Err("it says hello a second time".to_owned()),
        None => return Err("it sends what is no frame of this version".to_owned()),
    }
    Ok(Vec::new())
}
