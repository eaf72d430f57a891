//! An attacker without keys is on the path for a while, and forwards packets from its own address, faster than they
//! arrive directly.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use whimbrel_proto::{Event, Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LINK: &str = "delay=10ms";

/// The attacker's way with packets that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The attacker is not on the path.
    Off,
    /// It forwards copies.
    Copies,
    /// It forwards copies of the client's packets; it does not see the server's.
    CopiesUp,
    /// It forwards the packets themselves, and nothing arrives directly.
    Takes,
}

/// Packets to send from the attacker's address, and their destinations.
type Queue = Rc<RefCell<Vec<(SocketAddr, Vec<u8>)>>>;

/// A host of the attacker, which forwards what it receives as long as it is up.
struct Relay {
    pair: Pair,
    address: SocketAddr,
    way: Rc<Cell<Way>>,
    up: Rc<Cell<bool>>,
    /// The number of packets to the attacker's host.
    through: Rc<Cell<u64>>,
    queue: Queue,
}

impl Relay {
    fn new(seed: u64) -> Self {
        let mut pair = Pair::connected(seed, TransportConfig::default(), LINK);
        let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
        let link = || LINK.parse().expect("it is well written");
        let node = pair.world.add_client(TransportConfig::default(), link(), link());
        let address = pair.world.address(node);
        pair.run(SECOND);
        let (way, up) = (Rc::new(Cell::new(Way::Off)), Rc::new(Cell::new(true)));
        let (through, queue) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let (tap_way, tap_up, tap_through, tap_queue) =
            (Rc::clone(&way), Rc::clone(&up), Rc::clone(&through), Rc::clone(&queue));
        pair.world.set_tap(Box::new(move |_, from, to, bytes| {
            if to == address {
                tap_through.set(tap_through.get() + 1);
                if tap_up.get() {
                    let other = if from == client { server } else { client };
                    tap_queue.borrow_mut().push((other, bytes.clone()));
                }
                return TapVerdict::Drop;
            }
            let way = tap_way.get();
            if way == Way::Copies || way == Way::Takes || way == Way::CopiesUp && from == client {
                tap_queue.borrow_mut().push((to, bytes.clone()));
            }
            if way == Way::Takes { TapVerdict::Drop } else { TapVerdict::Pass }
        }));
        Self { pair, address, way, up, through, queue }
    }

    /// Lets time pass with a message in each direction every 20 ms.
    fn talk(&mut self, time: Duration) {
        let begin = self.pair.now();
        for tick in 0.. {
            if self.pair.now().since(begin) >= time {
                break;
            }
            if tick % 20 == 0 {
                for end in End::BOTH {
                    self.pair.send(end, Service::ReliableSequenced, "x");
                    self.pair.recv(end);
                }
            }
            self.pair.run(MS);
            for (to, bytes) in self.queue.take() {
                self.pair.world.inject(self.address, to, &bytes);
            }
        }
    }

    /// The number of ends that believe that the other is at the attacker's address.
    fn taken_in(&mut self) -> usize {
        End::BOTH.into_iter().filter(|end| self.pair.connection(*end).remote() == self.address).count()
    }

    fn moves(&mut self) -> usize {
        let moved = |event: &&Event| matches!(event, Event::PeerAddressChanged { .. });
        End::BOTH.iter().map(|end| self.pair.events(*end).iter().filter(moved).count()).sum()
    }
}

/// Each end challenged the attacker's address, got the answer from there, and moved; the attacker kept the session
/// for ever.
#[test]
fn packets_passed_on_faster_than_they_come_move_nothing() {
    for way in [Way::Copies, Way::CopiesUp] {
        let mut relay = Relay::new(1);
        relay.way.set(way);
        relay.talk(10 * SECOND);
        assert_eq!((relay.taken_in(), relay.moves()), (0, 0), "{way:?}");
    }
}

/// An attacker that cuts the path can get between two ends. Once off the path it is bypassed again, however
/// faithfully it forwards packets.
#[test]
fn whoever_stood_between_two_ends_is_left_out_once_off_the_way() {
    let mut relay = Relay::new(2);
    relay.way.set(Way::Takes);
    relay.talk(5 * SECOND);
    assert_eq!(relay.taken_in(), 2, "cut off, both go on with who is there");
    relay.way.set(Way::Off);
    relay.talk(20 * SECOND);
    assert_eq!(relay.taken_in(), 0);
    relay.through.set(0);
    relay.talk(SECOND);
    assert_eq!(relay.through.get(), 0, "nothing goes by the attacker");
}

/// The address to which both ends had moved fell silent. Neither tried the other's former address, nor dialled there.
#[test]
fn whoever_stood_between_two_ends_and_falls_silent_cuts_nothing_off() {
    let mut relay = Relay::new(3);
    relay.way.set(Way::Takes);
    relay.talk(5 * SECOND);
    assert_eq!(relay.taken_in(), 2);
    relay.way.set(Way::Off);
    relay.up.set(false);
    relay.talk(5 * SECOND);
    assert_eq!(relay.taken_in(), 0);
    let pair = &mut relay.pair;
    pair.send(End::Client, Service::ReliableSequenced, "are you there?");
    let came = pair.run_until(SECOND, |pair| {
        pair.recv(End::Server).iter().any(|message| message.payload == "are you there?")
    });
    assert!(came, "{:?}", pair.events(End::Client));
}

/// The attacker is off the path for longer than the connection lasts: the session is dialled at its former address.
#[test]
fn a_session_is_dialled_where_it_was_before_it_was_led_away() {
    let mut relay = Relay::new(4);
    relay.way.set(Way::Takes);
    relay.talk(5 * SECOND);
    relay.pair.relink("delay=10ms,loss=100%");
    relay.up.set(false);
    relay.way.set(Way::Off);
    relay.pair.run(Duration::from_secs(400));
    relay.pair.relink(LINK);
    relay.talk(30 * SECOND);
    assert_eq!(relay.taken_in(), 0);
    let again = |event: &Event| matches!(event, Event::Reattached { .. });
    assert!(relay.pair.events(End::Client).iter().any(again), "{:?}", relay.pair.events(End::Client));
}
