//! Decisions: which flows are carried, where and how, and what a peer may open here. Pure: it opens no sockets and looks
//! nothing up.

mod condition;
mod conditions;
mod dscp;
mod index;
mod origin;
mod pattern;
mod permit;
mod ports;
mod rule;
mod rules;
mod special;

pub use condition::{Condition, InvalidCondition, Network};
pub use conditions::Conditions;
pub use dscp::{Dscp, InvalidDscp};
pub use origin::{Interfaces, InvalidInterfaces, InvalidWayIn, Origin, WayIn};
pub use pattern::{InvalidPattern, Pattern};
pub use permit::{InvalidPermit, Permit, Permits};
pub use ports::Ports;
pub use rule::{Accept, Action, Dns, FlowKey, Protocol, Rule};
pub use rules::{Asks, Decision, NeverMatches, Rules};
pub use special::is_special;
