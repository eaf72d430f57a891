//! Limits of the core's allocations: none per packet once it is warm, and little memory for an idle connection.
//!
//! Two connections are driven by hand in memory. Only allocations inside calls of the core are counted.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::crypto::Identity;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::session::{Message, Outgoing, Read, SendError};
use whimbrel_proto::{
    ConnectConfig, Connection, Datagram, Endpoint, ListenConfig, Routed, Service, StreamId, Time,
    TransportConfig,
};
use whimbrel_testing::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

thread_local! {
    /// The bytes that each end holds.
    static HELD: [Cell<i64>; 2] = const { [Cell::new(0), Cell::new(0)] };
}

/// Runs a call of the core at an end, counting allocations.
fn core<T>(end: usize, call: impl FnOnce() -> T) -> T {
    let before = counting::bytes();
    counting::switch(true);
    let result = call();
    counting::switch(false);
    HELD.with(|held| held[end].set(held[end].get() + counting::bytes() - before));
    result
}

fn held(end: usize) -> i64 {
    HELD.with(|held| held[end].get())
}

/// Receive buffers that are reused once no part of them is held, like those of sockets.
struct Buffers {
    buffers: VecDeque<BytesMut>,
}

impl Buffers {
    const SIZE: usize = 64 << 10;

    fn new() -> Self {
        Self { buffers: (0..64).map(|_| BytesMut::with_capacity(Self::SIZE)).collect() }
    }

    fn copy(&mut self, packet: &[u8]) -> BytesMut {
        while self.buffers[0].capacity() < packet.len() && !self.buffers[0].try_reclaim(Self::SIZE) {
            self.buffers.rotate_left(1);
        }
        self.buffers[0].extend_from_slice(packet);
        self.buffers[0].split()
    }
}

/// An end, and the packets in flight to it.
struct End {
    connection: Connection,
    address: SocketAddr,
    coming: VecDeque<(Time, BytesMut)>,
    buffers: Buffers,
    free_at: Time,
    inbox: VecDeque<Message>,
}

/// Two ends with a link of 800 Mbit/s and 2 ms in each direction between them.
struct Rig {
    now: Time,
    ends: [End; 2],
    packets: u64,
    out: Vec<u8>,
    received: u64,
}

const DELAY: Duration = Duration::from_millis(2);
const NANOS_PER_BYTE: u64 = 10;
const CLIENT: usize = 0;
const SERVER: usize = 1;

fn endpoint(number: u8, listen: Option<ListenConfig>, transport: &TransportConfig) -> Endpoint {
    let identity = Identity::from_secret([number; 32]);
    Endpoint::new(identity, listen, transport.clone(), number, [number; 32], true)
}

/// Connects the client with this number from that address. Returns both ends of the connection, and when it was
/// accepted.
fn meet(
    server: &mut Endpoint,
    number: u8,
    from: SocketAddr,
    to: SocketAddr,
    transport: &TransportConfig,
) -> (Time, Connection, Box<Connection>) {
    let mut client = endpoint(number, None, transport);
    let config = ConnectConfig {
        server_key: ServerKey::Known(server.public_key()),
        protocol: Bytes::new(),
        psk: None,
        ticket: None,
        alternatives: Vec::new(),
        transport: transport.clone(),
    };
    let mut now = Time::ZERO;
    let (_, mut connection) = client.connect(now, to, config);
    let (mut out, mut reply) = (Vec::new(), Vec::with_capacity(2048));
    let mut buffers = Buffers::new();
    loop {
        now += DELAY;
        out.clear();
        if connection.poll_transmit(now, &mut out, 1).is_none() {
            continue;
        }
        reply.clear();
        let datagram = datagram(from, buffers.copy(&out));
        match core(SERVER, || server.handle_datagram(now, datagram, &mut reply)) {
            Routed::Accepted(_, accepted) => return (now, connection, accepted),
            Routed::Reply => connection.handle_datagram(now, self::datagram(to, buffers.copy(&reply))),
            _ => {}
        }
    }
}

impl Rig {
    fn new(transport: &TransportConfig) -> Self {
        let mut server = endpoint(2, Some(ListenConfig::default()), transport);
        let addresses: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        // The first connection also creates the endpoint's maps, which then have room for some more.
        meet(&mut server, 3, ([10, 0, 0, 3], 1).into(), addresses[SERVER], transport);
        HELD.with(|held| held[SERVER].set(0));
        let (now, connection, accepted) =
            meet(&mut server, 1, addresses[CLIENT], addresses[SERVER], transport);
        let end = |connection, address| End {
            connection,
            address,
            coming: VecDeque::with_capacity(8192),
            buffers: Buffers::new(),
            free_at: Time::ZERO,
            inbox: VecDeque::with_capacity(8192),
        };
        let ends = [end(connection, addresses[CLIENT]), end(*accepted, addresses[SERVER])];
        Self { now, ends, packets: 0, out: Vec::with_capacity(64 << 10), received: 0 }
    }

    /// Does everything that is due now, then advances to when something is due next.
    fn step(&mut self) {
        for at in [CLIENT, SERVER] {
            let now = self.now;
            let from = self.ends[1 - at].address;
            let end = &mut self.ends[at];
            while end.coming.front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, bytes)) = end.coming.pop_front() else { break };
                let datagram = datagram(from, bytes);
                core(at, || end.connection.handle_datagram(now, datagram));
            }
            core(at, || {
                if end.connection.poll_timeout().is_some_and(|due| due <= now) {
                    end.connection.handle_timeout(now);
                }
                while end.connection.poll_event().is_some() {}
                while end.connection.poll_endpoint_event().is_some() {}
                while end.connection.session().poll_event().is_some() {}
                end.connection.session().recv_many(now, &mut end.inbox, usize::MAX);
            });
            self.received += end.inbox.len() as u64;
            end.inbox.clear();
            self.transmit(at);
        }
        let due = self.ends.iter().flat_map(|end| {
            [end.connection.poll_timeout(), end.coming.front().map(|(due, _)| *due)].into_iter().flatten()
        });
        let next = due.min().unwrap_or(self.now);
        // At least 20 µs, so that rounding cannot stop the clock.
        self.now = next.max(self.now + Duration::from_micros(20));
    }

    fn transmit(&mut self, from: usize) {
        loop {
            self.out.clear();
            let (now, out) = (self.now, &mut self.out);
            let end = &mut self.ends[from];
            let Some(transmit) = core(from, || end.connection.poll_transmit(now, out, 10)) else { break };
            let to = &mut self.ends[1 - from];
            for packet in self.out[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                self.packets += 1;
                to.free_at = to.free_at.max(now) + Duration::from_nanos(packet.len() as u64 * NANOS_PER_BYTE);
                to.coming.push_back((to.free_at + DELAY, to.buffers.copy(packet)));
            }
        }
    }

    /// Fills the sender's queue with messages up to some number of bytes and steps on, until `packets` have been
    /// sent.
    fn send(&mut self, service: Service, payload: &Bytes, packets: u64) {
        let end = self.packets + packets;
        while self.packets < end {
            let now = self.now;
            let session = self.ends[CLIENT].connection.session();
            for _ in 0..256 {
                let message = Outgoing::new(StreamId(0), service, payload.clone());
                if session.stats().queue_bytes > 1 << 20 {
                    break;
                }
                match core(CLIENT, || session.send(now, message)) {
                    Ok(_) => {}
                    Err(SendError::QueueFull(_)) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
            self.step();
        }
    }
}

fn datagram(from: SocketAddr, bytes: BytesMut) -> Datagram {
    Datagram { from, to: None, ecn: None, bytes }
}

/// The allocations in `packets` of steady traffic, after `warm` packets, and the messages received.
fn steady(congestion: Congestion, service: Service, size: usize, warm: u64, packets: u64) -> (u64, u64) {
    let mut transport = TransportConfig::default();
    transport.congestion = congestion;
    let mut rig = Rig::new(&transport);
    let payload = Bytes::from(vec![7; size]);
    rig.send(service, &payload, warm);
    let calls = counting::calls();
    let before = rig.received;
    rig.send(service, &payload, packets);
    (counting::calls() - calls, rig.received - before)
}

#[test]
fn a_packet_allocates_nothing() {
    const PACKETS: u64 = 1_000_000;
    let fixed = Congestion::Fixed { bytes_per_s: 90_000_000 };
    let cases = [
        ("bulk, gauge", Congestion::Gauge, Service::ReliableSequenced, 128 << 10, 2_000_000),
        ("bulk, fixed", fixed, Service::ReliableSequenced, 16 << 10, 1_000_000),
        ("small, rs", Congestion::Gauge, Service::ReliableSequenced, 50, 1_000_000),
        ("small, ru", Congestion::Gauge, Service::ReliableUnsequenced, 50, 1_000_000),
        ("small, uu", fixed, Service::UnreliableUnsequenced, 50, 1_000_000),
    ];
    // Allocations are counted per thread.
    std::thread::scope(|scope| {
        for (name, congestion, service, size, warm) in cases {
            scope.spawn(move || {
                // Its window varies, so it takes a while until no queue exceeds its former length.
                let (calls, messages) = steady(congestion, service, size, warm, PACKETS);
                println!("{name}: {calls} allocations in {PACKETS} packets, {messages} messages");
                assert!(messages > 1000, "{name}: {messages} messages");
                assert_eq!(calls, 0, "{name}: allocations in {PACKETS} packets");
            });
        }
    });
}

#[test]
fn an_idle_connection_takes_little() {
    let mut rig = Rig::new(&TransportConfig::default());
    let until = rig.now + Duration::from_secs(60);
    while rig.now < until {
        rig.step();
    }
    let bytes = held(SERVER);
    println!("{bytes} bytes, {} of them the connection itself", size_of::<Connection>());
    assert!(rig.ends.iter().all(|end| end.connection.is_established()));
    assert!(size_of::<Connection>() <= 4800, "{}", size_of::<Connection>());
    // The ciphers allocate some 1,200 bytes more, outside Rust's allocator.
    assert!((1..10_000).contains(&bytes), "{bytes}");
}

/// Streams that have carried something both ways and are open: a proxy has one for each connection that it carries.
#[test]
fn an_idle_stream_takes_little() {
    const STREAMS: u64 = 20_000;
    let mut transport = TransportConfig::default();
    transport.session.max_streams = STREAMS + 1;
    // More streams are granted only if what may be sent on them could be held.
    transport.memory_budget = 16 << 30;
    let mut rig = Rig::new(&transport);
    let rest = |rig: &mut Rig| {
        let until = rig.now + Duration::from_secs(5);
        while rig.now < until {
            rig.step();
        }
    };
    rest(&mut rig);
    let before = [CLIENT, SERVER].map(held);
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let now = rig.now;
        let session = rig.ends[CLIENT].connection.session();
        let opened = core(CLIENT, || {
            let stream = session.open_stream_with(now, b"example.org:443").unwrap();
            session.write(now, stream, Bytes::from_static(b"question")).unwrap();
            stream
        });
        streams.push(opened);
        if streams.len() % 64 == 0 {
            // The peer grants more as it hears of these.
            rest(&mut rig);
        }
    }
    rest(&mut rig);
    for (end, other) in [(SERVER, CLIENT), (CLIENT, SERVER)] {
        for (nth, stream) in streams.iter().enumerate() {
            if nth % 64 == 0 {
                rig.step();
            }
            let now = rig.now;
            let session = rig.ends[end].connection.session();
            core(end, || {
                if end == SERVER {
                    assert_eq!(session.take_opening(*stream).unwrap(), "example.org:443");
                }
                assert!(matches!(session.read(*stream, 100), Ok(Read::Data(bytes)) if bytes.len() == 8));
                if end == SERVER {
                    session.write(now, *stream, Bytes::from_static(b"answered")).unwrap();
                }
            });
        }
        rest(&mut rig);
        assert_eq!(rig.ends[other].connection.session().stats().outstanding, 0);
    }
    let each = [CLIENT, SERVER].map(|end| (held(end) - before[end]) / STREAMS as i64);
    println!("{each:?} bytes a stream, client and server");
    assert!(each.iter().all(|bytes| (1..=350).contains(bytes)), "{each:?} bytes a stream");
}
