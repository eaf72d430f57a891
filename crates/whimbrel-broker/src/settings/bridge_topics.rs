//! Whether a bridge can carry anything: its rules name topics of the broker at which they are published here.

use whimbrel_pubsub::topic::TopicFilter;

use crate::gateway::mqtt::BridgeRule;
use crate::hub::ChannelRules;

/// The most filters of channels that an error names.
const MOST_NAMED: usize = 8;

/// A direction of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the other broker.
    Out,
    /// From it.
    In,
}

/// The setting of a rule that is at fault, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong(pub(super) &'static str, pub(super) String);

impl Direction {
    /// Its name in a file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }

    /// Checks that a rule carries something if these are the channels here.
    pub(super) fn check(self, rule: &BridgeRule, channels: &[ChannelRules]) -> Result<(), Wrong> {
        let BridgeRule { filter, strip, prefix, .. } = rule;
        let Some(there) = renamed(filter, strip, prefix) else {
            let why = format!(
                "no topic of the filter `{filter}` begins with `{strip}`: write a beginning of `filter`"
            );
            return Err(Wrong("strip", why));
        };
        let here = if self == Self::Out { filter } else { &there };
        let is_here = |channel: &ChannelRules| channel.topics.iter().any(|topics| topics.overlaps(here));
        if channels.iter().any(is_here) {
            return Ok(());
        }
        let all = channels.iter().flat_map(|channel| &channel.topics).map(|topics| format!("`{topics}`"));
        let all = all.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
        let why = match self {
            Self::Out => format!("no channel of this broker has topics that match `{here}`"),
            Self::In => format!(
                "what matches `{filter}` comes here as `{here}`, and no channel of this broker has such topics"
            ),
        };
        Err(Wrong(
            "filter",
            format!("{why}: write a filter of topics that are here ({all}), or add a [[channel]]"),
        ))
    }
}

/// The topics of a filter, renamed: a filter that has all of them, and may have more. `None`: there are none.
fn renamed(filter: &TopicFilter, strip: &str, prefix: &str) -> Option<TopicFilter> {
    let text = filter.as_str();
    // A wildcard is a whole level.
    let literal = text.find(['+', '#']).map_or(text, |wildcard| &text[..wildcard]);
    if let Some(rest) = literal.strip_prefix(strip).map(|_| &text[strip.len()..]) {
        if let Ok(renamed) = format!("{prefix}{rest}").parse() {
            return Some(renamed);
        }
    } else if !strip.starts_with(literal) || literal == text {
        return None;
    }
    let whole_levels = prefix.rfind('/').map_or("", |end| &prefix[..=end]);
    format!("{whole_levels}#").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(filter: &str, strip: &str, prefix: &str) -> BridgeRule {
        let filter = filter.parse().unwrap();
        BridgeRule { filter, strip: strip.to_owned(), prefix: prefix.to_owned(), is_acknowledged: true }
    }

    #[test]
    fn topics_are_renamed_as_filters() {
        for (filter, strip, prefix, wanted) in [
            ("a/#", "", "", Some("a/#")),
            ("a/+/b", "a/", "site/", Some("site/+/b")),
            ("a/b", "a/", "", Some("b")),
            ("a/#", "a", "x", Some("x/#")),
            ("a/#", "a/", "x", Some("#")),
            ("a/#", "a/", "x/y", Some("x/#")),
            ("#", "a/b/", "c/", Some("c/#")),
            ("a/#", "b/", "", None),
            ("a/b", "a/b/c", "", None),
        ] {
            let found = renamed(&filter.parse().unwrap(), strip, prefix);
            assert_eq!(found.as_ref().map(TopicFilter::as_str), wanted, "{filter} {strip} {prefix}");
        }
    }

    #[test]
    fn regression_a_rule_that_can_never_carry_anything_is_refused() {
        let mut prices = ChannelRules::all_topics();
        prices.topics = vec!["prices/#".parse().unwrap()];
        let channels = [prices];
        let check = |direction: Direction, rule: BridgeRule| direction.check(&rule, &channels);
        assert_eq!(check(Direction::Out, rule("prices/fish", "prices/", "site/")), Ok(()));
        let Wrong(setting, why) = check(Direction::Out, rule("sensors/#", "", "prices/")).unwrap_err();
        assert!(setting == "filter" && why.contains("`sensors/#`") && why.contains("`prices/#`"), "{why}");
        assert_eq!(check(Direction::In, rule("sensors/#", "sensors/", "prices/")), Ok(()));
        let Wrong(setting, why) = check(Direction::In, rule("prices/#", "", "site/")).unwrap_err();
        assert!(setting == "filter" && why.contains("comes here as `site/prices/#`"), "{why}");
        let Wrong(setting, _) = check(Direction::Out, rule("prices/#", "sensors/", "")).unwrap_err();
        assert_eq!(setting, "strip");
    }
}
