//! Names of topics, and the filters by which subscribers choose them.
//!
//! The rules are those of MQTT 5 (section 4.7). A topic is a text of levels between slashes, such as `fish/north/cod`. A filter is a
//! topic in which `+` stands for any one level and a last `#` for any number of further levels, none included. Levels may be
//! empty, so `/fish` has two. Letters are compared exactly.
//!
//! A topic whose first level begins with `$` is the broker's own business: a filter that begins with a wildcard does not match it.
//!
//! A subscription names a filter, and with `$share/GROUP/FILTER` a group whose members share the messages between them.

mod error;
mod filter;
mod limits;
mod name;
mod shared;

#[cfg(test)]
mod tests;

pub use error::{TopicError, TopicFault};
pub use filter::{Level, TopicFilter};
pub use limits::{MAX_LEVELS, MAX_TOPIC_LEN};
pub use name::Topic;
pub(crate) use name::check_topic;
pub use shared::{GroupName, Subscribed};
