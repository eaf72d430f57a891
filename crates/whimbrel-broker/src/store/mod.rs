//! A broker's store on disk: the messages of durable channels, and the facts about durable subscriptions.
//!
//! A [`Store`] is a folder. Each durable channel has a [`Log`] in it: segment files to which one thread appends what others hand it, in
//! groups, with one synchronisation a group. An append gives a [`Ticket`], which resolves when the record is as safe as [`Sync`] says.
//! Small facts that change in place are in one database, [`Meta`].
//!
//! Nothing here needs a runtime: tickets are futures, and can also be waited for. Time of day is an argument.
//! `docs/broker-store.md` describes the files.

mod checking;
mod disk;
mod error;
mod folder;
mod format;
mod log;
mod meta;
mod position;
mod settings;
#[cfg(test)]
pub(crate) mod testing;

pub use error::{AppendError, Damage, Notice, StoreError};
pub use folder::Store;
pub use format::Entry;
pub(crate) use log::Later;
pub use log::{Batch, Figures, Log, Most, Record, Salvaged, Ticket, Trimmed, salvage};
pub use meta::{
    DurableSubscription, Fact, FoundSession, LONGEST_MEMORY, MessageName, Meta, MetaError, Outbound, Session,
    SubscriptionName, Tombstone, Written,
};
pub use position::Position;
pub use settings::{LogSettings, ParseSyncError, StoreSettings, Sync};
