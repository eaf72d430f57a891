//! The messages that a bridge carries, and their topics.

use whimbrel_pubsub::topic::TopicFilter;

/// A rule of a bridge, in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeRule {
    /// The topics of the side that a message leaves.
    pub filter: TopicFilter,
    /// The beginning that a topic loses on the way. A topic without it is not carried.
    pub strip: String,
    /// The prefix that the topic is given on the way.
    pub prefix: String,
    /// Whether a message is acknowledged, and sent again until it is: QoS 1, and not 0.
    pub is_acknowledged: bool,
}

impl BridgeRule {
    /// The topic on the other side. `None`: the rule does not carry it.
    pub(super) fn rename(&self, topic: &str) -> Option<String> {
        if !self.filter.matches_text(topic) {
            return None;
        }
        let rest = topic.strip_prefix(&*self.strip)?;
        let renamed = format!("{}{rest}", self.prefix);
        (!renamed.is_empty()).then_some(renamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_get_another_beginning() {
        let rule = |strip: &str, prefix: &str| BridgeRule {
            filter: "site/#".parse().unwrap(),
            strip: strip.to_owned(),
            prefix: prefix.to_owned(),
            is_acknowledged: true,
        };
        assert_eq!(rule("", "").rename("site/a").as_deref(), Some("site/a"));
        assert_eq!(rule("site/", "plant/7/").rename("site/a").as_deref(), Some("plant/7/a"));
        assert_eq!(rule("site/", "").rename("site"), None);
        assert_eq!(rule("site", "").rename("site"), None, "nothing would be left");
        assert_eq!(rule("", "").rename("other"), None);
    }
}
