//! The part of a channel that a broker holds, whoever subscribes.
//!
//! A [`Channel`] has slots in partitions. Each partition has a size, and a [`Policy`] that says which message gives way when it is
//! full. Every message has two places beside that: by origin and sequence in its origin's log, and in the order of arrival. The log also
//! knows what was received and overwritten, and what exists and was not received. Nothing here knows a subscriber.

mod answer;
mod arrivals;
mod asking;
mod channel;
mod denials;
mod hybrid;
mod known;
mod newer;
mod newest;
mod origin_log;
mod origins;
mod partition;
mod picks;
mod places;
mod policy;
mod rate;
mod receiving;
mod refusal;
mod releasing;
mod requests;
mod restoring;
mod retained;
mod settings;
mod slots;
mod tally;

pub use answer::{GapAnswer, GapRequest};
pub use arrivals::Entry;
pub use channel::{Channel, Figures};
pub use hybrid::{FURTHEST_AHEAD, LARGEST_DRIFT, LATEST, is_far_ahead};
pub use newer::Newness;
pub use origin_log::OriginLog;
pub use picks::{All, Picks, Reach};
pub use places::{LogIndex, SlotId};
pub use policy::{Facts, Lrp, Policy, Pwp, Ran, Room};
pub use receiving::{Published, Received};
pub use refusal::Refusal;
pub use restoring::Restored;
pub use retained::{Retained, RetainedValue};
pub use settings::{ChannelSettings, PartitionSettings, PolicySettings, Size};
pub use slots::Slot;
pub use tally::TALLIED;
