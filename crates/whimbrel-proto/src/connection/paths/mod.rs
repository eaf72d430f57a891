//! The paths of a connection: their states, addresses and ids, and the choice of path for each packet.

pub(in crate::connection) mod addresses;
pub(in crate::connection) mod attempts;
pub(in crate::connection) mod challenge_answers;
pub(in crate::connection) mod changeover;
pub(in crate::connection) mod changing_over;
pub(in crate::connection) mod consenting;
pub(crate) mod cost;
pub(in crate::connection) mod coupled;
pub(in crate::connection) mod coupling;
pub(in crate::connection) mod former;
pub(in crate::connection) mod ids;
pub(in crate::connection) mod multipath;
pub(in crate::connection) mod pairing;
pub(in crate::connection) mod path;
pub(in crate::connection) mod path_quota;
pub(in crate::connection) mod path_set;
pub(in crate::connection) mod path_state;
pub(in crate::connection) mod preferring;
pub(crate) mod primary;
pub(in crate::connection) mod proven_there;
pub(in crate::connection) mod rebinding;
pub(in crate::connection) mod retired;
pub(crate) mod scheduler;
pub(in crate::connection) mod steering;
pub(in crate::connection) mod supply;
pub(in crate::connection) mod validation;
