//! One end of a TCP connection as a machine without clock or interface, by smoltcp.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

/// The bytes that wait for either end. The program may have as many on their way.
const BUFFER: usize = 128 * 1024;
/// The largest packet that is sent. Several fit into the buffer of the other end.
const MTU: usize = 16 * 1024;
/// How long a program may leave bytes unacknowledged before its connection is given up.
const UNACKNOWLEDGED: Duration = Duration::from_secs(120);
/// How often a program is asked whether it is there, and has room, while bytes wait for it and nothing else is due.
const ASKED: Duration = Duration::from_secs(10);

/// The machine.
pub(super) struct Machine {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    link: Packets,
    /// The bytes that were not read before both directions had ended.
    rest: VecDeque<Bytes>,
    has_ended: bool,
    is_aborted: bool,
    was_reset: bool,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Machine").field(&self.state()).finish()
    }
}

/// The bytes that a program has sent, as far as there are any to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes(Bytes),
    Nothing,
    End,
    Reset,
}

impl Machine {
    /// Listens in the name of a target, for one connection. None: there is no randomness.
    pub(super) fn listen(target: SocketAddr) -> Option<Self> {
        let mut this = Self::new(target)?;
        this.socket_mut().listen(target).ok()?;
        Some(this)
    }

    /// An end with this address that does nothing yet.
    fn new(own: SocketAddr) -> Option<Self> {
        let mut seed = [0; 8];
        aws_lc_rs::rand::fill(&mut seed).ok()?;
        let mut link = Packets::default();
        let mut config = Config::new(HardwareAddress::Ip);
        // Of this come sequence numbers, which nobody must guess.
        config.random_seed = u64::from_ne_bytes(seed);
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // Everybody is a neighbour. There is room for more than one.
            addresses.push(IpCidr::new(own.ip().into(), 0)).ok();
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let socket = sockets.add(socket);
        let (rest, has_ended) = (VecDeque::new(), false);
        Some(Self { interface, sockets, socket, link, rest, has_ended, is_aborted: false, was_reset: false })
    }

    /// Takes a packet of the program, which `advance` then looks at.
    pub(super) fn on_packet(&mut self, packet: Vec<u8>) {
        self.link.arrived = Some(packet);
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, now: Duration) {
        let before = self.state();
        // It would hold for any silence, and one without anything to acknowledge may last.
        let waits = self.socket_mut().send_queue() > 0;
        self.socket_mut().set_timeout(waits.then(|| UNACKNOWLEDGED.into()));
        if !waits {
            self.socket_mut().set_keep_alive(None);
        }
        self.interface.poll(instant(now), &mut self.link, &mut self.sockets);
        // Probes of a window that was closed end after a while.
        let waits = self.socket_mut().send_queue() > 0;
        if waits && self.due(now).is_none_or(|due| due > now + ASKED) {
            self.socket_mut().set_keep_alive(Some(ASKED.into()));
        }
        self.keep_rest();
        // From these it is over as both ends wanted.
        let is_regular = matches!(
            before,
            State::Closed | State::LastAck | State::Closing | State::TimeWait | State::Listen
        );
        if self.state() == State::Closed && !is_regular && !self.is_aborted {
            self.was_reset = true;
        }
    }

    /// Returns the time after which something is due.
    pub(super) fn due(&mut self, now: Duration) -> Option<Duration> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(Duration::from_micros(at.total_micros().try_into().unwrap_or(0)))
    }

    /// Returns the next packet for the program.
    pub(super) fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.link.leaving.pop_front()
    }

    /// Reads what the program has sent. `advance` then tells it of the room.
    pub(super) fn read(&mut self) -> Read {
        match self.rest.pop_front() {
            Some(bytes) => Read::Bytes(bytes),
            None if self.has_ended => Read::End,
            None => self.receive(),
        }
    }

    /// Once both directions have ended, the socket forgets after a while what was not read.
    fn keep_rest(&mut self) {
        if !matches!(self.state(), State::LastAck | State::Closing | State::TimeWait | State::Closed) {
            return;
        }
        while !self.has_ended {
            match self.receive() {
                Read::Bytes(bytes) => self.rest.push_back(bytes),
                Read::End => self.has_ended = true,
                Read::Nothing | Read::Reset => return,
            }
        }
    }

    fn receive(&mut self) -> Read {
        match self.socket_mut().recv(|bytes| (bytes.len(), Bytes::copy_from_slice(bytes))) {
            Ok(bytes) if bytes.is_empty() => Read::Nothing,
            Ok(bytes) => Read::Bytes(bytes),
            Err(RecvError::Finished) => Read::End,
            Err(RecvError::InvalidState) => Read::Reset,
        }
    }

    /// Writes bytes as far as there is room. Returns how many, or None if the program reads no more.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        self.socket_mut().send_slice(bytes).ok()
    }

    /// Wakes when there is something to read, or the end.
    pub(super) fn wake_reader(&mut self, waker: &Waker) {
        self.socket_mut().register_recv_waker(waker);
    }

    /// Wakes when there is room to write, or the end.
    pub(super) fn wake_writer(&mut self, waker: &Waker) {
        self.socket_mut().register_send_waker(waker);
    }

    /// Ends the direction to the program.
    pub(super) fn finish(&mut self) {
        self.socket_mut().close();
    }

    /// Ends both directions by a reset.
    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
        self.socket_mut().abort();
    }

    /// Whether the program has answered the answer to its SYN.
    pub(super) fn is_established(&self) -> bool {
        !matches!(self.state(), State::Listen | State::SynReceived | State::Closed)
    }

    /// Whether nothing more comes or goes.
    pub(super) fn is_closed(&self) -> bool {
        // A listener that returns to listening was refused.
        matches!(self.state(), State::Closed | State::Listen)
    }

    /// Whether the program has ended its connection before both directions had ended.
    pub(super) fn was_reset(&self) -> bool {
        self.was_reset
    }

    pub(super) fn state(&self) -> State {
        self.sockets.get::<Socket<'_>>(self.socket).state()
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// The packets between the machine and the program.
#[derive(Debug, Default)]
struct Packets {
    arrived: Option<Vec<u8>>,
    leaving: VecDeque<Vec<u8>>,
}

struct Arrived(Vec<u8>);

struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::Device for Packets {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaving<'_>)> {
        self.arrived.take().map(|packet| (Arrived(packet), Leaving(&mut self.leaving)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut checksum = ChecksumCapabilities::default();
        // Whoever hands packets over has checked them, or knows that nobody could have damaged them.
        checksum.tcp = Checksum::Tx;
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities.checksum = checksum;
        capabilities
    }
}

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let written = write(&mut packet);
        self.0.push_back(packet);
        written
    }
}

#[cfg(test)]
mod tests;
