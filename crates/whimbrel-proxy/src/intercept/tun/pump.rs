//! The pump: reads packets from the interface for as long as that is there, and hands each to whom it concerns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::device::{Device, LARGEST};
use super::fragments::Fragments;
use super::packet::{Ends, Head, ICMP, UDP};
use super::stack::TunTcp;
use super::udp;
use super::virtio::{LENGTH, Undone};
use crate::intercept::echo::Echoes;
use crate::intercept::kernel::{Gate, Pair, SynRefusal, Verdict, dscp, refusal, stray_reset};
use crate::policy::Dscp;

/// How often what has had its time is forgotten.
const LOOK: Duration = Duration::from_secs(1);
/// Datagrams that wait to be sorted by program. Further ones are lost, as in a socket's buffer.
const WAITING: usize = 256;
/// Where a SYN has its flags.
const FLAGS: usize = 13;
const FIN_SYN_RST_ACK: u8 = 0x17;
const SYN: u8 = 0x02;

/// A datagram of a program.
#[derive(Debug)]
pub(super) struct SentDatagram {
    pub(super) program: SocketAddr,
    pub(super) target: SocketAddr,
    pub(super) payload: Bytes,
    pub(super) dscp: Option<Dscp>,
}

/// The outlet of the pump, for those who serve programs. Dropping it has the pump refuse connections.
#[derive(Debug)]
pub(super) struct Outflow {
    /// Connections that are to be opened. No more than the gate holds.
    pub(super) openings: mpsc::UnboundedReceiver<Pair>,
    pub(super) datagrams: mpsc::Receiver<SentDatagram>,
}

/// The pump.
#[derive(Debug)]
pub(super) struct Pump {
    device: Arc<Device>,
    gate: Arc<Gate>,
    tcp: TunTcp,
    echoes: Arc<Echoes>,
    /// Whether another process is about to take over: it gets the SYNs that come again.
    moves: Arc<AtomicBool>,
    fragments: Fragments,
    openings: mpsc::UnboundedSender<Pair>,
    datagrams: mpsc::Sender<SentDatagram>,
}

impl Pump {
    /// A pump for this interface.
    pub(super) fn new(
        device: Arc<Device>,
        gate: Arc<Gate>,
        tcp: TunTcp,
        echoes: Arc<Echoes>,
        moves: Arc<AtomicBool>,
    ) -> (Self, Outflow) {
        let (open, openings) = mpsc::unbounded_channel();
        let (send, datagrams) = mpsc::channel(WAITING);
        let fragments = Fragments::default();
        let pump = Self { device, gate, tcp, echoes, moves, fragments, openings: open, datagrams: send };
        (pump, Outflow { openings, datagrams })
    }

    /// Runs until the interface is gone.
    pub(super) async fn run(mut self) {
        let (mut buffer, mut look) = (vec![0; LARGEST], interval(LOOK));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let device = Arc::clone(&self.device);
        loop {
            tokio::select! {
                biased;
                _ = look.tick() => {
                    self.gate.expire();
                    self.tcp.expire();
                    self.echoes.expire();
                    self.fragments.expire(Instant::now());
                }
                read = device.read(&mut buffer) => match read {
                    Ok(length) => drop(self.on_packet(&mut buffer[..length])),
                    Err(_) => return,
                }
            }
        }
    }

    /// Takes a packet with its header. What makes no sense is dropped, as is what nobody here understands.
    fn on_packet(&mut self, buffer: &mut [u8]) -> Option<()> {
        let (undone, packet) = Undone::parse(buffer)?;
        let head = Head::parse(packet)?;
        if let Some(ends) = head.tcp(packet) {
            let flags = packet[head.payload + FLAGS];
            self.on_segment(buffer, &head, ends, flags & FIN_SYN_RST_ACK == SYN);
        } else if head.fragment.is_none() && head.protocol == ICMP[usize::from(head.source.is_ipv6())] {
            self.echoes.on_packet(&packet[..head.end]);
        } else if head.protocol == UDP {
            match head.fragment {
                Some(_) => {
                    let whole = self.fragments.add(&head, packet, Instant::now())?;
                    let dscp = dscp(packet);
                    self.on_datagrams(udp::parse(&head, &whole, undone.is_trusted, None)?, dscp);
                }
                None => {
                    let (payload, dscp) = (packet.get(head.payload..head.end)?, dscp(packet));
                    let parsed = udp::parse(&head, payload, undone.is_trusted, undone.datagrams)?;
                    self.on_datagrams(parsed, dscp);
                }
            }
        }
        Some(())
    }

    fn on_datagrams(&self, (ends, payloads): (Ends, Vec<Bytes>), dscp: Option<Dscp>) {
        for payload in payloads {
            // A full queue loses the datagram.
            let sent = SentDatagram { program: ends.source, target: ends.destination, payload, dscp };
            self.datagrams.try_send(sent).ok();
        }
    }

    fn on_segment(&self, buffer: &mut [u8], head: &Head, ends: Ends, is_syn: bool) {
        let pair = Pair { program: ends.source, target: ends.destination };
        if !is_syn {
            if !self.tcp.on_segment(buffer, head, ends) {
                // The rest of a connection that nobody here knows, perhaps of an earlier proxy.
                let reset = stray_reset(&buffer[LENGTH..]);
                reset.iter().for_each(|reset| self.device.write_bare(reset));
            }
            return;
        }
        if self.moves.load(Ordering::Acquire) {
            return;
        }
        if self.openings.is_closed() {
            let reset = refusal(&buffer[LENGTH..], SynRefusal::Reset);
            return reset.iter().for_each(|reset| self.device.write_bare(reset));
        }
        match self.gate.on_syn(pair, buffer, dscp(&buffer[LENGTH..])) {
            Verdict::Open => drop(self.openings.send(pair)),
            Verdict::HandBack => self.tcp.hand_back(buffer.to_vec(), pair, true),
            Verdict::Nothing => {}
        }
    }
}
