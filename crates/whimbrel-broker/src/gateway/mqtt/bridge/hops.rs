//! The brokers and clusters through which bridges carried a message.
//!
//! They stand in a user property, `x-whimbrel-hops`, one id behind the other. A message is not taken from another side if our cluster is
//! among them, and not sent to another side that is.

use aws_lc_rs::digest::{SHA256, digest};

/// The user property.
pub(super) const HOPS: &str = "x-whimbrel-hops";
/// The most hops of a message. One that made more is dropped: somewhere there is a loop that nothing else has stopped.
const MOST: usize = 16;

/// A cluster, or a broker of others, as bridges name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop(String);

impl Hop {
    pub(super) fn of(what: &str) -> Self {
        let whole = digest(&SHA256, what.as_bytes());
        Self(whole.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether a message went through here.
    pub(super) fn is_among(&self, hops: &str) -> bool {
        hops.split(' ').any(|hop| hop == self.0)
    }

    /// The hops of a message that also goes through here. `None`: it has made too many.
    pub(super) fn after(&self, hops: &str) -> Option<String> {
        let made = hops.split(' ').filter(|hop| !hop.is_empty());
        if made.clone().count() >= MOST || hops.len() > MOST * 2 * self.0.len() {
            return None;
        }
        Some(made.chain([&*self.0]).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_remembers_where_it_was_and_does_not_go_on_for_ever() {
        let [one, other] = ["one", "other"].map(Hop::of);
        let hops = one.after("").unwrap();
        assert!(one.is_among(&hops) && !other.is_among(&hops) && !one.is_among(""));
        let both = other.after(&hops).unwrap();
        assert!(one.is_among(&both) && other.is_among(&both));
        let mut hops = String::new();
        let made = std::iter::from_fn(|| {
            hops = one.after(&hops)?;
            Some(())
        });
        assert_eq!(made.take(1_000).count(), MOST);
        assert_eq!(one.after(&"x".repeat(100_000)), None);
    }
}
