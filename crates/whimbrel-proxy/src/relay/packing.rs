//! Flows as parcels: packed in one process, unpacked in another.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Buf;
use tokio::net::TcpStream;
use whimbrel::StreamId;

use super::carrier::Carrier;
use super::channel::StreamChannel;
use super::direct::Direct;
use super::flow_parcel::{FlowNote, FlowParcel, OtherEnd};
use super::flows::{Flows, RunningFlow};
use super::limits::Limits;
use super::parking::{Other, Parked};
use super::record::FlowRecord;
use super::refused::Refused;
use super::session::Session;
use super::socket::Socket;
use super::steering::Steering;
use super::wish::Wish;
use super::{direct_flow, near};
use crate::connector::{Link, Stream};
use crate::flow::{Direction, Ended, Flow};
use crate::policy::Protocol;

/// A flow that goes on here and was opened here.
#[derive(Debug)]
pub(crate) enum Unpacked {
    Carried(Flow<Socket, Carrier>, RunningFlow),
    Direct(Flow<Socket, Direct>, RunningFlow),
}

impl Parked {
    /// The session that the flow belongs to, if it is carried.
    pub(crate) fn link(&self) -> Option<&Link> {
        match &self.other {
            Other::Stream(channel) => Some(channel.stream().link()),
            Other::Direct(_) => None,
        }
    }

    /// Packs the flow. Its session, which has this place, was suspended. None: its connection is closed.
    pub(crate) fn pack(mut self, session: usize) -> Option<FlowParcel> {
        let other = match self.other {
            Other::Stream(Carrier::Plain(channel)) => OtherEnd::Stream(session, channel.save(None)),
            Other::Stream(Carrier::Compressed { stage, .. }) => {
                // A context of the peer that is in use cannot be handed over.
                let (paused, taken) = stage.pause()?;
                self.hand.out.advance(taken);
                self.hand.sent += taken as u64;
                OtherEnd::Stream(session, stage.inner().save(Some(paused)))
            }
            Other::Direct(direct) => OtherEnd::Direct(file(direct.into_inner()?)?),
        };
        let note = FlowNote::of(&self.running.record);
        Some(FlowParcel { program: file(self.program.into_inner()?)?, other, hand: self.hand, note })
    }
}

fn file(tcp: TcpStream) -> Option<OwnedFd> {
    tcp.into_std().ok().map(OwnedFd::from)
}

fn socket(file: OwnedFd) -> io::Result<TcpStream> {
    let tcp = std::net::TcpStream::from(file);
    tcp.set_nonblocking(true)?;
    TcpStream::from_std(tcp)
}

fn running(parcel: &FlowParcel, peer: &Arc<str>, flows: &Flows, limits: &Limits) -> Option<RunningFlow> {
    let FlowNote { by_peer, target, program, rule, age, origin, .. } = parcel.note.clone();
    let record = FlowRecord::resumed(Protocol::Tcp, Arc::clone(peer), by_peer, target, program, rule)
        .from(&origin)
        .since(age, (parcel.hand.sent, parcel.hand.received));
    flows.add(record, limits.max_flows)
}

impl Session {
    /// Goes on with a flow of this session. Returns it if this end has opened it; the peer's are served. A flow that cannot go on
    /// is reset.
    pub(crate) fn unpack(&self, parcel: FlowParcel) -> Option<Unpacked> {
        let context = self.context();
        let OtherEnd::Stream(_, saved) = &parcel.other else { return None };
        // First, so that the peer hears of a flow that cannot go on: a stream that is dropped is reset.
        let stream = Stream::Whimbrel(self.link().mocket()?.stream(StreamId(saved.stream))?);
        let running = running(&parcel, &context.peer, &context.flows, &context.limits)?;
        let FlowParcel { program, other: OtherEnd::Stream(_, saved), hand, .. } = parcel else { return None };
        let program = Socket::resumed(socket(program).ok()?, hand.back_state == Direction::Done);
        let channel = StreamChannel::resumed(self.link().clone(), stream, &saved, self.bond());
        let carrier = match saved.paused {
            Some(paused) => {
                let wish = Wish::again(&paused, &context.means)?;
                Carrier::compressed(wish.resume(channel, paused, &running.record), self.restarts())
            }
            None => Carrier::Plain(channel),
        };
        let flow = Flow::resume(program, carrier, hand);
        if saved.is_opener {
            return Some(Unpacked::Carried(flow, running));
        }
        let permit = Arc::clone(&context.shares.flows).try_acquire_owned().ok()?;
        let far = Arc::clone(self.far());
        context.flows.over().spawn(async move { far.run(flow, running, permit).await });
        None
    }
}

impl Unpacked {
    /// Goes on with a flow that is not carried. None: it cannot go on, and is reset.
    pub(crate) fn direct(parcel: FlowParcel, flows: &Flows, limits: &Limits) -> Option<Self> {
        let running = running(&parcel, &"direct".into(), flows, limits)?;
        let FlowParcel { program, other: OtherEnd::Direct(target), hand, .. } = parcel else { return None };
        let program = Socket::resumed(socket(program).ok()?, hand.back_state == Direction::Done);
        let target = Direct::resumed(socket(target).ok()?, hand.out_state == Direction::Done);
        Some(Self::Direct(Flow::resume(program, target, hand), running))
    }

    pub(crate) fn record(&self) -> Arc<FlowRecord> {
        let (Self::Carried(_, running) | Self::Direct(_, running)) = self;
        Arc::clone(&running.record)
    }

    /// Where it goes, and the program's address.
    pub(crate) fn ends(&self) -> (String, Option<SocketAddr>) {
        let record = self.record();
        (record.target.clone(), record.program)
    }

    /// Hands on bytes until the flow ends, or goes on in another process.
    pub(crate) async fn run(self, limits: &Limits, steering: Steering) -> Result<Option<Ended>, Refused> {
        match self {
            Self::Carried(flow, running) => near::run(flow, running, limits, steering).await,
            Self::Direct(flow, running) => Ok(direct_flow::run(flow, running, limits, steering).await),
        }
    }
}
