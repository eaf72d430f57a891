//! `whimbrel pub` and `whimbrel sub`: publish and subscribe from the command line.

mod brokers;
mod property;
mod publish;
mod shown;
mod subscribe;

pub use publish::PubCommand;
pub use subscribe::SubCommand;
