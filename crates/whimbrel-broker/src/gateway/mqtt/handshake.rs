//! The connection of a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use whimbrel_pubsub::message::Message;

use super::admission::Admitted;
use super::away::Away;
use super::clients::Place;
use super::codec::{CLUSTER, Connack, Connect, Fault, Out, Packet, PropertyList, Reason, Version};
use super::core::Gateway;
use super::door::{Door, Wire};
use super::entrance::Guest;
use super::incoming::{Incoming, MOST_ALIASES, MOST_UNRELEASED};
use super::kept::Kept;
use super::limits::LONGEST_SESSION;
use super::link::Link;
use super::message::Content;
use super::outgoing::Outgoing;
use super::recalling::recall;
use super::session::{Session, Terms, end_on_disk, keep_later};
use super::subscriptions::Subscriptions;
use super::tls::Identity;
use crate::hub::{Client, random};

/// How long a client may take to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest CONNECT, bytes: nobody is known yet.
const LONGEST_CONNECT: usize = 256 << 10;
/// The longest client identifier, bytes.
const LONGEST_CLIENT: usize = 1_024;

/// Serves a connection until it ends.
pub(super) async fn run(
    gateway: Arc<Gateway>,
    door: Arc<Door>,
    (stream, from): (TcpStream, SocketAddr),
    guest: Guest,
    stop: watch::Receiver<()>,
) {
    // Boxed: nothing of it is left in those who are in.
    let entering = Box::pin(enter(&gateway, &door, stream, &guest));
    let entered = tokio::select! {
        entered = entering => entered,
        () = guest.evicted() => None,
    };
    if let Some((connected, link, out)) = entered {
        let session = Box::pin(connected.session(gateway, (link, from), out, stop)).await;
        session.run().await;
    }
}

/// Lets a client in. `None`: it may not, and was told so as far as that is possible.
async fn enter(
    gateway: &Gateway,
    door: &Door,
    stream: TcpStream,
    guest: &Guest,
) -> Option<(Connected, Link<Box<dyn Wire>>, Out)> {
    let most = gateway.limits.max_packet.min(LONGEST_CONNECT);
    let hello = async {
        let (stream, identity) = door.lead(stream, gateway.admission.is_open()).await.ok()?;
        let mut link = Link::new(stream);
        let packet = link.packet(most).await?.ok()?;
        Some((identity, link, packet))
    };
    // Before a client has said who it is, there is no way to answer.
    let (identity, link, (kind, body)) = timeout(CONNECT, hello).await.ok().flatten()?;
    let mut out = Out::new(Connect::version_of(&body));
    match connect(gateway, guest, identity.as_ref(), kind, &body, &mut out).await {
        Ok(connected) => return Some((connected, link, out)),
        Err(fault) if kind >> 4 == 1 => refuse(&mut out, &fault),
        Err(_) => {}
    }
    link.close(out.bytes()).await;
    None
}

fn refuse(out: &mut Out, fault: &Fault) {
    let Fault { reason, why } = fault;
    let properties = PropertyList::default();
    out.connack(Connack { session_present: false, reason: *reason, why, properties });
}

/// A client whose CONNECT is accepted.
struct Connected {
    /// Its client identifier.
    client: String,
    admitted: Admitted,
    place: Place,
    away: Away,
    terms: Terms,
    window: usize,
}

async fn connect(
    gateway: &Gateway,
    guest: &Guest,
    identity: Option<&Identity>,
    kind: u8,
    body: &[u8],
    out: &mut Out,
) -> Result<Connected, Fault> {
    let Packet::Connect(connect) = Packet::read(kind, body, None)? else {
        return Err(Fault::protocol("the first packet is not CONNECT"));
    };
    let said = &connect.properties;
    let most = said.maximum_packet.map_or(usize::MAX, |most| most as usize);
    out.limit(most, said.request_problem != Some(0));
    if said.auth_method.is_some() {
        return Err(Fault::new(Reason::AUTH_METHOD, "the broker supports no authentication methods"));
    }
    let (client, is_assigned) = client_of(&connect)?;
    let admitted = gateway.admission.admit(guest, identity, connect.user, connect.password).await?;
    let will = will_of(&admitted, &connect)?;
    let expiry = expiry_of(&connect);
    // It gives way to nobody from here on: what is kept of its session is its own now, and would be lost with it.
    if !guest.settle() {
        return Err(Fault::new(Reason::UNAVAILABLE, "too many connections wait to be let in"));
    }
    let entered = gateway.clients.enter((admitted.user().cloned(), client.clone())).await;
    let (place, mut away) = entered.ok_or_else(|| {
        Fault::new(
            Reason::UNAVAILABLE,
            "the former connection with this client identifier has not ended in time",
        )
    })?;
    let is_wanted = !connect.is_clean;
    if is_wanted && let Some((_, until)) = away.session.take_if(|(kept, _)| kept.is_on_disk_alone) {
        match recall(&gateway.hub, place.session()).await {
            Ok(kept) => away.session = kept.map(|kept| (kept, until)),
            Err(fault) => {
                away.session = Some((Kept::on_disk_alone(), until));
                place.leave(away);
                return Err(fault);
            }
        }
    }
    // A session goes on, or is over and its Will is due.
    let goes_on = is_wanted && away.session.as_ref().is_some_and(|(_, until)| *until > Instant::now());
    if !goes_on {
        let is_stored = away.session.as_ref().is_some_and(|(kept, _)| kept.is_stored);
        // What was promised to nobody any more must not come back after a restart.
        if (is_stored || away.is_over)
            && let Err(fault) = end_on_disk(&gateway.hub, place.session()).await
        {
            place.leave(away);
            return Err(fault);
        }
        away.session = None;
        if let Some((message, _)) = away.will.take() {
            gateway.publish_will(place.user(), message);
        }
    }
    let mut properties = PropertyList::default();
    if connect.version == Version::V5 {
        properties.u16(0x21, MOST_UNRELEASED);
        properties.u32(0x27, u32::try_from(gateway.limits.max_packet).unwrap_or(u32::MAX));
        properties.u16(0x22, MOST_ALIASES);
        if is_assigned {
            properties.binary(0x12, client.as_bytes());
        }
        if u64::from(said.session_expiry.unwrap_or(0)) != expiry.as_secs() {
            properties.u32(0x11, expiry.as_secs() as u32);
        }
    }
    if connect.properties.user(CLUSTER).is_some() {
        properties.user(CLUSTER, &gateway.hub.name().cluster.to_string());
    }
    out.connack(Connack { session_present: goes_on, reason: Reason::SUCCESS, why: "", properties });
    let keep_alive = (connect.keep_alive > 0).then(|| Duration::from_secs(connect.keep_alive.into()) * 3 / 2);
    let window = said.receive_maximum.unwrap_or(u16::MAX).into();
    let terms = Terms { version: connect.version, keep_alive, expiry, will };
    Ok(Connected { client, admitted, place, away, terms, window })
}

impl Connected {
    async fn session<S>(
        self,
        gateway: Arc<Gateway>,
        (link, from): (Link<S>, SocketAddr),
        out: Out,
        stop: watch::Receiver<()>,
    ) -> Box<Session<S>>
    where
        S: AsyncRead + AsyncWrite,
    {
        let Self { client, admitted, place, away, terms, window } = self;
        let name = admitted.user().map_or_else(|| client.clone(), |user| format!("{user}/{client}"));
        let known = Arc::new(Client::new(&name, Some(from)));
        let kept = away.session.map(|(kept, _)| kept).unwrap_or_default();
        let Kept { subscriptions: parked, shared, in_flight, received, is_stored, seats, .. } = kept;
        let session = (!terms.expiry.is_zero() || is_stored).then(|| place.session());
        let incoming = Incoming::new(
            Arc::clone(&gateway),
            (admitted.clone(), &known),
            terms.version,
            (session.clone(), received),
        );
        let mut outgoing = Outgoing::new(out, window, incoming.publisher(), &admitted.quota());
        if is_stored {
            outgoing.keep(&gateway.hub, place.session());
        }
        outgoing.resume(in_flight, gateway.hub.clock().now().wall_ms);
        // What changed since the client was let in is noticed, too.
        let mut changes = admitted.changes();
        changes.mark_changed();
        let client = (random(), known);
        let mut subscriptions =
            Subscriptions::new(Arc::clone(&gateway), admitted.clone(), client, terms.version, session);
        let fault = Box::pin(subscriptions.resume(parked, shared)).await.err();
        subscriptions.join_again(seats);
        if is_stored {
            keep_later(&gateway.hub, &place.session(), (terms.expiry, None), subscriptions.lines());
        }
        Box::new(Session {
            gateway,
            admitted,
            changes,
            link,
            place,
            terms,
            incoming,
            outgoing,
            subscriptions,
            is_stored,
            fault,
            stop,
        })
    }
}

/// The client identifier, and whether the broker made it.
fn client_of(connect: &Connect<'_>) -> Result<(String, bool), Fault> {
    if connect.client.len() > LONGEST_CLIENT {
        return Err(Fault::new(Reason::CLIENT_ID, "a client identifier has at most 1,024 bytes here"));
    }
    if !connect.client.is_empty() {
        return Ok((connect.client.to_owned(), false));
    }
    if connect.version == Version::V3 && !connect.is_clean {
        let why = "a client that wants a session to be kept needs an identifier";
        return Err(Fault::new(Reason::CLIENT_ID, why));
    }
    Ok((format!("whimbrel-{:016x}", random()), true))
}

/// The Will, and after which time it is published.
fn will_of(admitted: &Admitted, connect: &Connect<'_>) -> Result<Option<(Message, Duration)>, Fault> {
    let Some(will) = &connect.will else { return Ok(None) };
    let message = Content::of_will(will).message()?;
    admitted.may_publish(will.topic)?;
    admitted.spend(message.encoded().len())?;
    let delay = Duration::from_secs(will.properties.will_delay.unwrap_or(0).into());
    Ok(Some((message, delay)))
}

/// For how long the session is kept after the connection.
fn expiry_of(connect: &Connect<'_>) -> Duration {
    let asked = match connect.version {
        Version::V5 => Duration::from_secs(connect.properties.session_expiry.unwrap_or(0).into()),
        Version::V3 if connect.is_clean => Duration::ZERO,
        Version::V3 => LONGEST_SESSION,
    };
    asked.min(LONGEST_SESSION)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::IpAddr;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::BrokerId;

    use super::super::admission::{Admission, Rules};
    use super::super::entrance::MOST_PENDING;
    use super::super::limits::Limits;
    use super::*;
    use crate::hub::{BrokerName, ChannelRules, Hub};
    use crate::native::Permissions;

    /// CONNECT by MQTT 3.1.1 without a clean session, client identifier `boat`.
    const CONNECT_OF_BOAT: &[u8] = b"\x00\x04MQTT\x04\x00\x00\x00\x00\x04boat";

    fn gateway() -> Arc<Gateway> {
        let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(1), name: "here".into() };
        let hub = Hub::new(name, vec![ChannelRules::all_topics()], crate::matching::Limits::default());
        let rules = Rules { anonymous: Some(Permissions::everything()), ..Rules::default() };
        let limits = Limits { max_attempts_per_address: 1_000_000, ..Limits::default() };
        Gateway::new(hub, Arc::new(Admission::new(rules)), limits, |_| {})
    }

    /// Its session was lost with the connection.
    #[test]
    fn regression_a_client_whose_session_is_being_read_gives_way_to_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, wait) = mpsc::channel::<()>();
            let slow_disk = tokio::task::spawn_blocking(move || wait.recv().ok());
            let gateway = gateway();
            let until = Instant::now() + Duration::from_secs(60);
            gateway.clients.restore((None, "boat".to_owned()), Kept::on_disk_alone(), until);
            let enter = || gateway.entrance.enter(IpAddr::from([192, 0, 2, 1]), Instant::now()).unwrap();
            let (guest, mut out) = (enter(), Out::new(Version::V3));
            let mut connecting = pin!(connect(&gateway, &guest, None, 0x10, CONNECT_OF_BOAT, &mut out));
            let once = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending()));
            assert!(once.await, "it waits for the disk");
            let _others: Vec<_> = (0..MOST_PENDING + 1).map(|_| enter()).collect();
            tokio::select! {
                biased;
                () = guest.evicted() => panic!("another takes its place"),
                () = std::future::ready(()) => {}
            }
            drop(release);
            assert!(connecting.await.is_ok());
            slow_disk.await.unwrap();
        });
    }
}
