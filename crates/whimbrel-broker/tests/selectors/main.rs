//! Selectors and the table of subscriptions, from outside: what they mean, what is refused, and that random ones agree with a plain model.

mod artemis;
mod errors;
mod expression;
mod implied;
mod matching;
mod meaning;
mod memory;
mod model;
mod random;

use whimbrel_broker::selector::Selector;
use whimbrel_pubsub::property::{Properties, Value};
use whimbrel_testing::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// A message with these properties.
fn message(pairs: &[(&str, Value<'_>)]) -> Properties {
    Properties::new(pairs.iter().copied()).expect("properties")
}

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
