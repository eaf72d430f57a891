//! `whimbrel link`: a bad link between UDP programs, without root.
//!
//! A [`Relay`] listens where the client would expect its server and passes everything on, both ways, through one
//! [`whimbrel_sim::link::Link`] a direction. It runs on a thread of its own: packets leave when they are due, to
//! some tens of microseconds, which the timers of an async runtime cannot do. Idle, it sleeps.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use whimbrel_cli::link::{Relay, RelayConfig};
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
mod command;
mod engine;
mod packet;
mod relay;
mod report;
mod wait;

pub use command::LinkCommand;
pub use relay::{Relay, RelayConfig, RelayControl};
pub use report::RelayReport;
pub use wait::{Waiter, punctual};

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From a client to the server.
    Up,
    /// From the server to a client.
    Down,
}
