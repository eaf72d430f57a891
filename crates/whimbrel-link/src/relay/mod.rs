//! A bad link between UDP programs that needs no root. `whimbrel link` is built on it.
//!
//! A [`Relay`] listens where the client would expect its server, and passes everything on in both directions through
//! one [`Link`](crate::Link) per direction. It runs on its own thread: packets leave on time to some tens of
//! microseconds, which the timers of an async runtime cannot do. It sleeps when idle.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use whimbrel_link::relay::{Relay, RelayConfig};
//!
//! let mut config = RelayConfig::new("127.0.0.1:0".parse()?, "127.0.0.1:4433".parse()?);
//! config.up = "rate=4mbit, delay=25ms, loss=5%".parse()?;
//! config.down = config.up.clone();
//! let relay = Relay::spawn(config)?;
//! println!("connect to {}", relay.local_addr());
//! # relay.stop()?;
//! # Ok(())
//! # }
//! ```

mod clients;
mod engine;
mod packet;
mod report;
mod wait;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use whimbrel_net::{BareSocket, SocketOptions};

use crate::LinkConfig;
use engine::Engine;
pub use report::{Lane, RelayReport};
pub use wait::{Waiter, punctual};

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From a client to the server.
    Up,
    /// From the server to a client.
    Down,
}

/// The settings of a relay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RelayConfig {
    /// The address that clients send to. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The server's address.
    pub to: SocketAddr,
    /// The link from clients to the server. Default: a perfect wire.
    pub up: LinkConfig,
    /// The link from the server to clients. Default: a perfect wire.
    pub down: LinkConfig,
    /// The seed of the random draws. Default: 1.
    pub seed: u64,
    /// How often the upstream ports change, as with a NAT that forgets its mappings. Default: never.
    pub rebind_every: Option<Duration>,
    /// The most clients at a time; each costs a socket. One more replaces the one that was silent longest. Default:
    /// 256.
    pub clients_max: usize,
}

whimbrel_proto::setters!(RelayConfig {
    listen: SocketAddr,
    to: SocketAddr,
    up: LinkConfig,
    down: LinkConfig,
    seed: u64,
    rebind_every: Option<Duration>,
    clients_max: usize,
});

impl RelayConfig {
    /// Creates settings for a perfect wire from `listen` to `to`.
    pub fn new(listen: SocketAddr, to: SocketAddr) -> Self {
        Self {
            listen,
            to,
            up: LinkConfig::default(),
            down: LinkConfig::default(),
            seed: 1,
            rebind_every: None,
            clients_max: 256,
        }
    }
}

/// A running relay. Dropping it stops it.
///
/// The clock of the links starts with the first packet from a client, so outage schedules count from there.
#[derive(Debug)]
pub struct Relay {
    local: SocketAddr,
    control: RelayControl,
    thread: Option<JoinHandle<io::Result<RelayReport>>>,
}

/// Controls a running relay from another thread. It is cheap to clone. Orders to a relay that has ended are ignored.
#[derive(Clone, Debug)]
pub struct RelayControl {
    orders: Sender<Order>,
    wake: Arc<UnixStream>,
}

/// An order to a relay.
#[derive(Debug)]
pub(super) enum Order {
    Reconfigure(Direction, Box<LinkConfig>),
    Rebind,
    Report(Sender<RelayReport>),
    Stop,
}

/// The relay's end of its controls.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) orders: Receiver<Order>,
    pub(super) wake: UnixStream,
}

impl Relay {
    /// Opens the listening socket and starts the relay's thread.
    ///
    /// # Errors
    /// The listening address is not available, or the system is out of threads or descriptors.
    pub fn spawn(config: RelayConfig) -> io::Result<Self> {
        let listen = BareSocket::bind(config.listen, &SocketOptions::default())?;
        let local = listen.local_addr()?;
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (orders, received) = mpsc::channel();
        let engine = Engine::new(listen, local, &config, Orders { orders: received, wake: woken });
        let thread = thread::Builder::new().name("whimbrel-link".into()).spawn(move || engine.run())?;
        Ok(Self { local, control: RelayControl { orders, wake: wake.into() }, thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// A handle that controls the relay.
    pub fn control(&self) -> RelayControl {
        self.control.clone()
    }

    /// Stops the relay; packets in flight are lost.
    ///
    /// # Errors
    /// The error that had stopped it before.
    pub fn stop(self) -> io::Result<RelayReport> {
        self.control.stop();
        self.wait()
    }

    /// Blocks until the relay has been stopped.
    ///
    /// # Errors
    /// The error that stopped it, if it was not [`RelayControl::stop`].
    pub fn wait(mut self) -> io::Result<RelayReport> {
        let died = || io::Error::other("the relay's thread has panicked");
        let thread = self.thread.take().ok_or_else(died)?;
        thread.join().map_err(|_| died())?
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // Its report is not needed, and a panic was already printed.
            drop(thread.join());
        }
    }
}

impl RelayControl {
    /// Changes one direction's link at run time. Packets already in it keep their fate.
    pub fn reconfigure(&self, direction: Direction, config: LinkConfig) {
        self.order(Order::Reconfigure(direction, config.into()));
    }

    /// Changes the upstream ports of all clients now.
    pub fn rebind(&self) {
        self.order(Order::Rebind);
    }

    /// Returns the figures so far; `None` if the relay has ended.
    pub fn report(&self) -> Option<RelayReport> {
        let (answer, answered) = mpsc::channel();
        self.order(Order::Report(answer));
        answered.recv().ok()
    }

    /// Ends the relay.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    fn order(&self, order: Order) {
        // Both fail if the relay has ended. The write also fails while the bytes of earlier orders are unread.
        if self.orders.send(order).is_ok() {
            drop((&*self.wake).write(&[0]));
        }
    }
}
