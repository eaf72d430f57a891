//! One connection with the other side.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep_until, timeout};

use super::super::codec::{
    Accepted, Acknowledged, Introducing, Out, Qos, Reason, ServerPacket, Version, frame,
};
use super::dialling::{Stream, dial};
use super::incoming::{Incoming, MOST_UNSAFE};
use super::outgoing::{Limits, Outgoing};
use super::state::Bridge;

/// How long the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often another side is asked that wants no keep-alive.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// The longest packet that is taken.
const LONGEST_PACKET: u32 = (16 << 20) + (64 << 10);
/// The packet identifier of the only SUBSCRIBE. Messages have others.
const SUBSCRIBE: u16 = u16::MAX;

/// The end of a connection.
pub(super) struct Ended {
    pub(super) why: String,
    /// Whether the other side does not know this version of MQTT.
    pub(super) is_version: bool,
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self { why, is_version: false }
    }
}

/// Connects, and carries messages both ways until the connection ends. Returns why it ended.
pub(super) async fn run(bridge: &Bridge, version: Version, outgoing: &mut Outgoing) -> Ended {
    match try_run(bridge, version, outgoing).await {
        Ok(()) => String::from("the connection ended").into(),
        Err(ended) => ended,
    }
}

async fn try_run(bridge: &Bridge, version: Version, outgoing: &mut Outgoing) -> Result<(), Ended> {
    let (reader, writer) = split(dial(&bridge.plan).await?);
    let mut connection = Connection { reader, writer, read: BytesMut::new(), out: Out::new(version) };
    let accepted = connection.introduce(bridge).await?;
    bridge.on_introduced(accepted.cluster.as_deref());
    if !bridge.plan.from.is_empty() {
        connection.subscribe(bridge, &accepted).await?;
    }
    bridge.on_connected(version);
    connection.out.limit(accepted.maximum_packet, true);
    let limits = Limits {
        receive_maximum: accepted.receive_maximum,
        acknowledges: accepted.maximum_qos > 0,
        retains: accepted.retains,
    };
    outgoing.resume(bridge, limits, &mut connection.out);
    let keep_alive = accepted.keep_alive.map_or(bridge.plan.keep_alive, |s| Duration::from_secs(s.into()));
    Ok(connection.carry(bridge, outgoing, keep_alive).await?)
}

struct Connection {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    /// Bytes that were read and are not handled yet.
    read: BytesMut,
    out: Out,
}

impl Connection {
    /// Says who this is. Fails if the other side does not let it in.
    async fn introduce(&mut self, bridge: &Bridge) -> Result<Accepted, Ended> {
        let plan = &bridge.plan;
        self.out.connect(&Introducing {
            client: &plan.client,
            is_clean: plan.from.is_empty(),
            keep_alive: u16::try_from(plan.keep_alive.as_secs()).unwrap_or(u16::MAX),
            session_expiry: u32::try_from(plan.session.as_secs()).unwrap_or(u32::MAX),
            // One less, so that its acknowledgements are read when it may send no more.
            receive_maximum: MOST_UNSAFE as u16 - 1,
            maximum_packet: LONGEST_PACKET,
            cluster: &bridge.hub.name().cluster.to_string(),
            user: plan.user.as_deref(),
            password: plan.password.as_deref(),
        });
        self.flush().await?;
        let accepted = self.answer(|packet| match packet {
            ServerPacket::Connack(accepted) => Some(accepted),
            _ => None,
        });
        let accepted = accepted.await?;
        if accepted.reason == Reason::SUCCESS {
            return Ok(accepted);
        }
        let why = match accepted.reason {
            Reason::BAD_PASSWORD | Reason::NOT_AUTHORIZED => "check `user` and `password`",
            Reason::CLIENT_ID => "see `client`",
            Reason::PROTOCOL_VERSION => "it does not support this version of MQTT",
            _ => &accepted.why,
        };
        let why = format!("the other side refuses the connection (0x{:02x}): {why}", accepted.reason.0);
        let is_version = matches!(accepted.reason, Reason::PROTOCOL_VERSION | Reason::UNSPECIFIED);
        Err(Ended { why, is_version: is_version && self.out.version() == Version::V5 })
    }

    /// Asks for what the rules carry. A session that was kept has it already, but not necessarily by the same rules.
    async fn subscribe(&mut self, bridge: &Bridge, accepted: &Accepted) -> Result<(), String> {
        let most = accepted.maximum_qos.min(1);
        let rules = bridge.plan.from.iter().map(|rule| {
            let qos = if rule.is_acknowledged && most > 0 { Qos::AtLeastOnce } else { Qos::AtMostOnce };
            (rule.filter.as_str(), qos)
        });
        self.out.subscribe(SUBSCRIBE, &rules.collect::<Vec<_>>());
        self.flush().await
    }

    /// Carries messages both ways. Reading and writing never wait for each other: two sides that both write would wait for good.
    async fn carry(
        self,
        bridge: &Bridge,
        outgoing: &mut Outgoing,
        keep_alive: Duration,
    ) -> Result<(), String> {
        let Self { mut reader, mut writer, mut read, mut out } = self;
        let mut incoming = Incoming::new(bridge, out.version());
        let pause = if keep_alive.is_zero() { LONGEST_PAUSE } else { keep_alive };
        let mut watch = Watch::new(pause);
        loop {
            while take_packet(&mut read, &mut out, bridge, outgoing, &mut incoming)? {}
            incoming.wake();
            outgoing.read(bridge, &mut out).await;
            watch.on_to_write(out.len());
            let (may_read, may_send) = (incoming.has_room(), outgoing.has_room(&out));
            let again = incoming.due();
            tokio::select! {
                id = incoming.stored() => out.acknowledge(Acknowledged::Publish, id?, Reason::SUCCESS, ""),
                got = reader.read_buf(&mut read), if may_read => {
                    if got.map_err(lost)? == 0 {
                        return Ok(());
                    }
                    watch.on_read();
                }
                () = sleep_until(again.unwrap_or(watch.due)), if again.is_some() => incoming.offer()?,
                written = write(&mut writer, &mut out), if watch.is_writing => {
                    written.map_err(lost)?;
                    watch.on_written();
                }
                () = outgoing.woken(), if may_send => {}
                () = sleep_until(watch.due) => {
                    watch.look(out.len(), may_read)?;
                    if !watch.is_writing {
                        out.pingreq();
                    }
                }
                () = bridge.stopping() => {
                    out.leave();
                    drop(timeout(PATIENCE, write(&mut writer, &mut out)).await);
                    return Ok(());
                }
            }
        }
    }

    async fn flush(&mut self) -> Result<(), String> {
        let written = timeout(PATIENCE, write(&mut self.writer, &mut self.out)).await;
        written.map_err(|_| "the other side does not accept data".to_owned())?.map_err(lost)
    }

    /// Waits for an answer; nothing else may come before it.
    async fn answer<T>(&mut self, is_it: impl Fn(ServerPacket<'_>) -> Option<T>) -> Result<T, String> {
        let wait = async {
            loop {
                let found =
                    frame(&self.read, LONGEST_PACKET as usize).map_err(|fault| fault.why.to_string())?;
                if let Some(place) = found.filter(|place| place.end <= self.read.len()) {
                    let packet = self.read.split_to(place.end).freeze();
                    let body = &packet[place.body..];
                    let read = ServerPacket::read(packet[0], body, self.out.version());
                    let answer = is_it(read.map_err(|fault| fault.why.to_string())?);
                    return answer
                        .ok_or_else(|| "the other side answered with an unexpected packet".to_owned());
                }
                if self.reader.read_buf(&mut self.read).await.map_err(lost)? == 0 {
                    return Err("the other side closes the connection".to_owned());
                }
            }
        };
        timeout(PATIENCE, wait).await.map_err(|_| "the other side does not answer".to_owned())?
    }
}

/// Handles the packet at the front. `false`: none is whole, or there is no room.
fn take_packet(
    read: &mut BytesMut,
    out: &mut Out,
    bridge: &Bridge,
    outgoing: &mut Outgoing,
    incoming: &mut Incoming<'_>,
) -> Result<bool, String> {
    if !incoming.has_room() {
        return Ok(false);
    }
    let found = frame(read, LONGEST_PACKET as usize).map_err(|fault| fault.why.to_string())?;
    let Some(place) = found.filter(|place| place.end <= read.len()) else { return Ok(false) };
    let packet = read.split_to(place.end).freeze();
    let handled = ServerPacket::read(packet[0], &packet[place.body..], out.version());
    match handled.map_err(|fault| format!("the other side breaks the protocol: {}", fault.why))? {
        ServerPacket::Publish(publish) => {
            bridge.figures.received_bytes.add(packet.len() as u64);
            incoming.take(&publish)?;
        }
        ServerPacket::Puback(id, reason) => outgoing.acknowledged(bridge, id, reason.is_refusal()),
        ServerPacket::Suback(SUBSCRIBE, reasons) => {
            for (rule, reason) in
                bridge.plan.from.iter().zip(&reasons).filter(|(_, reason)| reason.is_refusal())
            {
                let why = format!("the other side refuses `{}` (0x{:02x})", rule.filter, reason.0);
                bridge.tell_once(&why);
            }
        }
        ServerPacket::Pingresp | ServerPacket::Suback(..) => {}
        ServerPacket::Disconnect(reason) => {
            return Err(format!("the other side ends the connection (0x{:02x})", reason.0));
        }
        ServerPacket::Connack(_) => return Err("the other side accepts the connection twice".to_owned()),
    }
    Ok(true)
}

/// Writes all that waits. If it is not awaited to its end, what is left still waits.
async fn write(writer: &mut WriteHalf<Box<dyn Stream>>, out: &mut Out) -> std::io::Result<()> {
    writer.write_all_buf(out.bytes()).await?;
    writer.flush().await
}

/// Notices another side that neither sends nor takes anything.
struct Watch {
    pause: Duration,
    /// When the other side is asked whether it is there.
    due: Instant,
    heard: Instant,
    is_writing: bool,
    /// The bytes that waited to be written when it was last looked.
    waiting: usize,
}

impl Watch {
    fn new(pause: Duration) -> Self {
        let now = Instant::now();
        Self { pause, due: now + pause, heard: now, is_writing: false, waiting: 0 }
    }

    fn on_to_write(&mut self, bytes: usize) {
        self.is_writing |= bytes > 0;
    }

    fn on_written(&mut self) {
        (self.is_writing, self.waiting) = (false, 0);
        self.due = Instant::now() + self.pause;
    }

    fn on_read(&mut self) {
        self.heard = Instant::now();
    }

    /// The pause is over, and `bytes` wait to be written.
    fn look(&mut self, bytes: usize, may_read: bool) -> Result<(), String> {
        self.due = Instant::now() + self.pause;
        if bytes > 0 && bytes == self.waiting {
            return Err("the other side no longer accepts data".to_owned());
        }
        self.waiting = bytes;
        if may_read && self.heard.elapsed() > self.pause + PATIENCE {
            return Err("the other side is silent".to_owned());
        }
        Ok(())
    }
}

fn lost(error: std::io::Error) -> String {
    format!("the connection is lost: {error}")
}
