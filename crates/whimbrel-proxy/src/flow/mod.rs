//! A TCP flow: a program's connection on one side, a byte stream on the other. Pure: it knows both only by what they
//! can do ([`Program`], [`Channel`]), so that it runs over real sockets and in the simulator alike.

mod body;
pub mod compressed;
mod ends;
mod hold;

pub use body::{Direction, Ended, Flow, InHand};
pub use ends::{Broken, Channel, Program};
pub use hold::HoldBudget;
