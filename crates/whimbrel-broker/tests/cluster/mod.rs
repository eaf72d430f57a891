//! A simulated cluster: brokers as nodes on a bus that loses, delays, reorders and partitions, publishers, subscribers that roam, and a
//! checker outside that knows every publish and looks into every buffer.
//!
//! The seed decides everything that happens.

mod bus;
mod checker;
mod node;
mod publisher;
mod scenario;
mod subscriber;
mod tally;
mod taste;
mod truth;
mod world;

pub(crate) use tally::Tally;
pub(crate) use world::run_seed;
