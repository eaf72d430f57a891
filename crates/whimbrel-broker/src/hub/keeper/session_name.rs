//! The names of MQTT clients' sessions, and of their durable subscriptions.

use aws_lc_rs::digest::{SHA256, digest};

use super::refusals::unavailable;
use crate::store::SubscriptionName;
use whimbrel_pubsub::frame::Refusal;

/// The names of subscriptions of sessions begin so. Those of native clients begin with a key.
const PREFIX: &str = "mqtt-";

/// The name of an MQTT client's session: its user, if it named one, and its client identifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionName {
    /// The user.
    pub user: Option<String>,
    /// The client identifier.
    pub client: String,
}

impl SessionName {
    /// The name as the store has it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let user = self.user.as_deref().unwrap_or_default();
        let head = (user.len() as u32) << 1 | u32::from(self.user.is_some());
        [&head.to_le_bytes()[..], user.as_bytes(), self.client.as_bytes()].concat()
    }

    /// The length of the beginning that all names of its user have in the store.
    pub(super) fn user_length(&self) -> usize {
        size_of::<u32>() + self.user.as_ref().map_or(0, String::len)
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk()?;
        let head = u32::from_le_bytes(*head);
        let (user, client) = rest.split_at_checked((head >> 1) as usize)?;
        let user = String::from_utf8(user.to_vec()).ok()?;
        let is_named = head & 1 == 1;
        if !is_named && !user.is_empty() {
            return None;
        }
        Some(Self { user: is_named.then_some(user), client: String::from_utf8(client.to_vec()).ok()? })
    }

    /// The name of its subscription to this filter.
    pub(super) fn subscription(&self, filter: &str) -> Result<SubscriptionName, Refusal> {
        SubscriptionName::new(&format!("{}{}", self.begin(), hex(filter.as_bytes()))).map_err(unavailable)
    }

    /// The beginning of its subscriptions' names.
    pub(super) fn begin(&self) -> String {
        format!("{PREFIX}{}/", hex(&self.encode()))
    }
}

/// As people see it.
impl std::fmt::Display for SessionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.user {
            Some(user) => write!(f, "{user}/{}", self.client),
            None => f.write_str(&self.client),
        }
    }
}

/// Whether a subscription belongs to a session.
pub(crate) fn is_of_session(name: &SubscriptionName) -> bool {
    name.as_str().starts_with(PREFIX)
}

/// Half of a digest: names of any length get one length, and nobody finds two names with the same.
fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_written_and_read(user: Option<String>, client: String, bytes: Vec<u8>) {
            let name = SessionName { user, client };
            let of_user = SessionName { client: String::new(), ..name.clone() }.encode();
            prop_assert_eq!(&name.encode()[..name.user_length()], &of_user);
            prop_assert_eq!(SessionName::parse(&name.encode()), Some(name));
            if let Some(name) = SessionName::parse(&bytes) {
                prop_assert_eq!(name.encode(), bytes);
            }
        }
    }

    #[test]
    fn names_of_sessions_are_none_of_another_session_or_key() {
        let name = |user: Option<&str>, client: &str| {
            let user = user.map(str::to_owned);
            SessionName { user, client: client.to_owned() }
        };
        let names = [name(None, "ab"), name(Some("a"), "b"), name(Some(""), "ab"), name(None, "a")];
        let subscription = |name: &SessionName| name.subscription("t/#").unwrap();
        for (at, one) in names.iter().enumerate() {
            assert!(
                is_of_session(&subscription(one)) && subscription(one).as_str().starts_with(&one.begin())
            );
            assert!(names[..at].iter().all(|other| other.begin() != one.begin()));
        }
    }
}
