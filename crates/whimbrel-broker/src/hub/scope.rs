//! The scope of another broker: the durable subscriptions it may hear of and report, which are those of channels that the link carries.

use whimbrel_pubsub::coverage::Coverage;
use whimbrel_pubsub::message::ChannelId;

use crate::store::Fact;

/// The channels that a link carries.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    channels: Vec<ChannelId>,
    /// Whether these are all that this broker has.
    is_all: bool,
}

impl Scope {
    /// A link that carries `channels` of all that this broker has.
    pub(super) fn new(channels: &[ChannelId], all: &[ChannelId]) -> Self {
        Self { channels: channels.to_vec(), is_all: all.iter().all(|channel| channels.contains(channel)) }
    }

    /// Whether a subscription to these channels is told of. Of one that was ended long ago, they are not known.
    pub(super) fn has(&self, channels: Option<&[ChannelId]>) -> bool {
        channels
            .map_or(self.is_all, |channels| channels.iter().any(|channel| self.channels.contains(channel)))
    }

    /// The part of a fact that is within it.
    pub(super) fn narrow(&self, fact: Fact) -> Option<Fact> {
        let Fact::Covered { name, life, selects, coverage } = fact else { return Some(fact) };
        if coverage.iter().all(|(channel, _)| self.channels.contains(&channel)) {
            return Some(Fact::Covered { name, life, selects, coverage });
        }
        let mut within = Coverage::default();
        for (channel, of_channel) in coverage.iter().filter(|(channel, _)| self.channels.contains(channel)) {
            // There are no more channels than before.
            if let Ok(entry) = within.entry(channel) {
                entry.clone_from(of_channel);
            }
        }
        let coverage = within;
        (!coverage.is_empty()).then_some(Fact::Covered { name, life, selects, coverage })
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::coverage::Range;
    use whimbrel_pubsub::message::{BrokerId, Origin};

    use super::*;
    use crate::durable::Life;
    use crate::store::SubscriptionName;

    const ONE: ChannelId = ChannelId(1);
    const TWO: ChannelId = ChannelId(2);

    fn covered(channels: &[ChannelId]) -> Fact {
        let (origin, range) = (Origin { broker: BrokerId(1), epoch: 1 }, Range { first: 1, last: 9 });
        let mut coverage = Coverage::default();
        for channel in channels {
            coverage.entry(*channel).unwrap().insert(origin, range).unwrap();
        }
        let (name, life) = (SubscriptionName::new("0a/board").unwrap(), Life { born: 1, generation: 1 });
        Fact::Covered { name, life, selects: None, coverage }
    }

    #[test]
    fn nothing_is_said_of_a_channel_that_a_link_does_not_carry() {
        let some = Scope::new(&[ONE], &[ONE, TWO]);
        assert!(some.has(Some(&[TWO, ONE])) && !some.has(Some(&[TWO])) && !some.has(None));
        assert_eq!(some.narrow(covered(&[ONE, TWO])), Some(covered(&[ONE])));
        assert_eq!(some.narrow(covered(&[TWO])), None);
        let all = Scope::new(&[ONE, TWO], &[ONE, TWO]);
        assert!(all.has(None));
        assert_eq!(all.narrow(covered(&[ONE, TWO])), Some(covered(&[ONE, TWO])));
    }
}
