//! The selection of a subscription: a topic filter, and an optional selector.
//! The content of a partition is described in the same way.

mod rule;

use std::sync::Arc;

use whimbrel_pubsub::message::Message;
use whimbrel_pubsub::topic::TopicFilter;

pub use rule::{KeyRange, PartitionRule};

use crate::buffer::{Picks, Reach};
use crate::selector::Selector;

/// A topic filter and a selector. A message is selected if both take it.
#[derive(Clone, Debug)]
pub struct Selection {
    filter: TopicFilter,
    selector: Option<Arc<Selector>>,
    shape: Shape,
}

/// The shape of a filter, by which the usual filters need not walk through levels.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// `#`.
    All,
    /// No wildcard.
    One,
    Other,
}

impl Selection {
    /// Selects by a filter, and by a selector if there is one.
    pub fn new(filter: TopicFilter, selector: Option<Arc<Selector>>) -> Self {
        let shape = match filter.as_str() {
            "#" => Shape::All,
            text if !text.contains(['+', '#']) => Shape::One,
            _ => Shape::Other,
        };
        Self { filter, selector, shape }
    }

    /// Returns the filter.
    pub fn filter(&self) -> &TopicFilter {
        &self.filter
    }

    /// Returns the selector.
    pub fn selector(&self) -> Option<&Arc<Selector>> {
        self.selector.as_ref()
    }

    /// Returns the part of a partition with this rule that can be selected.
    pub fn reach(&self, rule: &PartitionRule) -> Reach {
        if !self.filter.overlaps(rule.filter()) {
            return Reach::None;
        }
        let covers = self.filter.covers(rule.filter());
        match (&self.selector, rule.key()) {
            (None, _) if covers => Reach::Whole,
            (Some(selector), Some(key)) if !key.is_allowed_by(&selector.implied(key.name())) => Reach::None,
            // What is a number in the range makes a comparison true or false, and here never false.
            (Some(selector), Some(key)) if covers && !key.is_allowed_by(&selector.excluded(key.name())) => {
                Reach::Whole
            }
            _ => Reach::Part,
        }
    }
}

impl Picks for Selection {
    #[inline]
    fn picks(&self, message: &Message) -> bool {
        let topic = message.topic();
        let is_of_filter = match self.shape {
            Shape::All => !topic.starts_with('$'),
            Shape::One => topic == self.filter.as_str(),
            Shape::Other => self.filter.matches_text(topic),
        };
        is_of_filter && self.selector.as_ref().is_none_or(|selector| selector.matches(message))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use proptest::prelude::*;
    use whimbrel_pubsub::message::Draft;
    use whimbrel_pubsub::property::{Properties, Value};

    use super::*;

    fn selection(filter: &str, selector: &str) -> Selection {
        let selector = (!selector.is_empty()).then(|| Arc::new(Selector::parse(selector).unwrap()));
        Selection::new(filter.parse().unwrap(), selector)
    }

    fn rule(filter: &str, low: f64, high: f64) -> PartitionRule {
        let key = KeyRange::new("price", Bound::Included(low), Bound::Excluded(high)).unwrap();
        PartitionRule::new(filter.parse().unwrap(), Some(key))
    }

    fn message(topic: &str, price: i64, other: Option<i64>) -> Message {
        let pairs = [("price", Some(price)), ("other", other)];
        let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, Value::Integer(value?))));
        let properties = Properties::new(pairs).unwrap();
        Draft { topic, properties: properties.as_bytes(), ..Draft::default() }.finish().unwrap()
    }

    #[test]
    fn filters_and_selectors_tell_how_much_of_a_partition_they_select() {
        let partition = rule("fish/#", 10.0, 20.0);
        for (filter, selector, reach) in [
            ("#", "", Reach::Whole),
            ("fish/+", "", Reach::Part),
            ("birds/#", "", Reach::None),
            ("#", "price >= 10", Reach::Whole),
            ("#", "price > 10", Reach::Part),
            ("#", "price < 10", Reach::None),
            ("#", "price < 100 OR other = 1", Reach::Whole),
            ("#", "price < 100 AND other = 1", Reach::Part),
            ("#", "price IS NULL", Reach::None),
            ("#", "NOT price >= 20", Reach::Whole),
            ("fish/#", "price BETWEEN 10 AND 20", Reach::Whole),
        ] {
            assert_eq!(selection(filter, selector).reach(&partition), reach, "{filter} {selector}");
        }
    }

    fn condition() -> impl Strategy<Value = String> {
        let one = ("(price|other)", "(=|<>|<|<=|>|>=)", -2_i64..8)
            .prop_map(|(name, how, value)| format!("{name} {how} {value}"));
        let odd = prop_oneof![Just("price IS NULL"), Just("other IS NOT NULL"), Just("price LIKE 'a'")];
        let leaf = prop_oneof![4 => one, 1 => odd.prop_map(str::to_owned)];
        leaf.prop_recursive(4, 16, 2, |inner| {
            prop_oneof![
                (inner.clone(), "(AND|OR)", inner.clone()).prop_map(|(a, how, b)| format!("({a} {how} {b})")),
                inner.prop_map(|a| format!("NOT ({a})")),
            ]
        })
    }

    /// Values beside each other, of all types.
    const VALUES: [Option<Value<'static>>; 25] = [
        None,
        Some(Value::Boolean(true)),
        Some(Value::Boolean(false)),
        Some(Value::Text("1")),
        Some(Value::Text("")),
        Some(Value::Bytes(b"1")),
        Some(Value::Integer(i64::MIN)),
        Some(Value::Integer(-1)),
        Some(Value::Integer(0)),
        Some(Value::Integer(1)),
        Some(Value::Integer((1 << 53) - 1)),
        Some(Value::Integer(1 << 53)),
        Some(Value::Integer((1 << 53) + 1)),
        Some(Value::Integer((1 << 53) + 2)),
        Some(Value::Integer(i64::MAX)),
        Some(Value::Float(f64::NAN)),
        Some(Value::Float(f64::NEG_INFINITY)),
        Some(Value::Float(f64::INFINITY)),
        Some(Value::Float(-0.0)),
        Some(Value::Float(0.0)),
        Some(Value::Float(f64::MIN_POSITIVE)),
        Some(Value::Float(0.5)),
        Some(Value::Float(1.0)),
        Some(Value::Float(1.0 + f64::EPSILON)),
        Some(Value::Float((1_u64 << 53) as f64)),
    ];

    /// A bound of a range; none with some luck.
    fn bound() -> impl Strategy<Value = Option<f64>> {
        let numbers = VALUES.iter().flatten().filter_map(|value| match value {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value).filter(|value| !value.is_nan()),
            _ => None,
        });
        proptest::option::of(proptest::sample::select(numbers.collect::<Vec<_>>()))
    }

    fn odd_condition() -> impl Strategy<Value = String> {
        let literal = "(0|1|-1|9007199254740991|9007199254740992|9007199254740993|-9223372036854775808|\
            9223372036854775807|0\\.0|-0\\.0|0\\.5|1\\.0|1e308|'1'|''|TRUE|price|other)";
        let side = "(price|other|-price|price [+] 0|price / 0|0 - price)";
        let compared = (side, "(=|<>)", literal).prop_map(|(a, how, b)| format!("{a} {how} {b}"));
        let number = "(0|1|9007199254740992|9007199254740993|0\\.5|-0\\.0|other)";
        let ordered = (side, "(<|<=|>|>=)", number, any::<bool>()).prop_map(|(a, how, b, is_mirrored)| {
            if is_mirrored { format!("{b} {how} {a}") } else { format!("{a} {how} {b}") }
        });
        let between = (number, number).prop_map(|(low, high)| format!("price BETWEEN {low} AND {high}"));
        let asked = "(price IS NULL|price IS NOT NULL|other IS NULL|price IN [(]'1', ''[)]|price LIKE '1'|price|TRUE|FALSE)";
        let leaf = prop_oneof![2 => compared, 3 => ordered, 1 => between, 1 => asked];
        leaf.prop_recursive(3, 12, 2, |inner| {
            prop_oneof![
                (inner.clone(), "(AND|OR)", inner.clone()).prop_map(|(a, how, b)| format!("({a} {how} {b})")),
                inner.prop_map(|a| format!("NOT ({a})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_reach_is_certain_for_values_of_all_types(text in odd_condition(), low in bound(), high in bound(), other in 0..VALUES.len()) {
            // Some of them compare what the parser knows to be of different types.
            let Ok(selector) = Selector::parse(&text) else { return Ok(()) };
            let low = low.map_or(Bound::Unbounded, Bound::Included);
            let key = KeyRange::new("price", low, high.map_or(Bound::Unbounded, Bound::Excluded)).unwrap();
            let partition = PartitionRule::new("#".parse().unwrap(), Some(key));
            let selection = Selection::new("#".parse().unwrap(), Some(Arc::new(selector)));
            let reach = selection.reach(&partition);
            for price in VALUES {
                let pairs = [("price", price), ("other", VALUES[other])];
                let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
                let properties = Properties::new(pairs).unwrap();
                let draft = Draft { topic: "t", properties: properties.as_bytes(), ..Draft::default() };
                let message = draft.finish().unwrap();
                if partition.picks(&message) {
                    let picked = selection.picks(&message);
                    prop_assert!(reach != Reach::Whole || picked, "{text}: {price:?}");
                    prop_assert!(reach != Reach::None || !picked, "{text}: {price:?}");
                }
            }
        }

        #[test]
        fn the_reach_is_certain(text in condition(), low in 0_i64..6, more in 1_i64..4, other in proptest::option::of(-1_i64..7)) {
            let partition = rule("#", low as f64, (low + more) as f64);
            let selection = selection("#", &text);
            let reach = selection.reach(&partition);
            for price in 0..10 {
                let message = message("t", price, other);
                if partition.picks(&message) {
                    let picked = selection.picks(&message);
                    prop_assert!(reach != Reach::Whole || picked, "{text}: {price} {other:?}");
                    prop_assert!(reach != Reach::None || !picked, "{text}: {price} {other:?}");
                }
            }
        }
    }
}
