//! The core of a running broker, whoever speaks to it: its channels, and the subscriptions that are attached.
//!
//! A [`Hub`] takes messages and wakes the subscriptions that may want them. Each [`Attachment`] reads on its own, from the channels'
//! buffers: nothing is queued for it, so a slow subscriber holds nothing. Gateways turn what it reads into their protocol.

mod alike;
mod attached;
mod attachment;
mod between;
mod broker_name;
mod catching_up;
mod clock;
mod confirming;
mod copying;
mod core;
mod digging;
mod errands;
mod group;
mod groups;
mod joining;
mod keeper;
mod last_values;
mod links;
mod logging;
mod meeting;
mod members;
mod owed;
mod publisher;
mod publishing;
mod random;
mod regions;
mod register;
mod room;
mod scope;
mod seats;
mod sharers;
mod sharing;
mod signal;
mod stored;
mod storing;
mod turns;
mod word;

pub use self::core::Hub;
pub use alike::{Form, Sink};
pub use attached::ClientId;
pub use attachment::{Attach, Attachment, Progress};
pub use between::{Aged, Outgoing};
pub use broker_name::{BrokerName, broker_text};
pub use clock::Clock;
pub use confirming::Confirming;
pub use digging::Dug;
pub use group::{Receipt, Seat};
pub(crate) use keeper::session_name::is_of_session;
pub use keeper::{
    AttachDurable, DurableAttachment, DurableReport, KeptSession, LogReport, MOST_OF_CLIENT, SessionName,
    StorePlace,
};
pub use logging::{Durability, DurableRules};
pub use publisher::Publishing;
pub use publishing::Finding;
pub(crate) use random::random;
pub use regions::ChannelMap;
pub(crate) use register::Rate;
pub use register::{
    Change, Client, Flow, LOOK, PublisherRecord, Register, SubscriberRecord, SubscriptionKind, Sums,
};
pub use room::{ChannelRules, RoomReport};
pub use seats::UserId;
pub use sharing::Sharing;
pub use storing::{NotTaken, Storing};
pub use turns::Turns;
pub use word::Word;
