//! A simulated cluster that keeps durable messages: brokers that crash, lose a disk, and are cut off from each other, publishers that wait for
//! acknowledgements, and subscribers that roam.
//!
//! What decides is the broker's own: who has copies, whose word about a subscription counts, what a reader tells, and what may be removed.
//! The world around it is a model. The seed decides everything that happens.

mod node;
mod subscriber;
mod world;

pub(crate) use world::{Tally, run_seed};
