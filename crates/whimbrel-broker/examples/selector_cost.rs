//! Parses, evaluates or matches so many times, to count instructions:
//!
//! ```text
//! cargo build --release --package whimbrel-broker --example selector_cost
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/selector_cost evaluate 20000
//! ```
//!
//! The difference between two numbers of repeats is the cost of the repeats alone.

use std::hint::black_box;
use std::sync::Arc;

use whimbrel_broker::matching::{Found, Limits, Subscription, Table};
use whimbrel_broker::selector::Selector;
use whimbrel_pubsub::property::Properties;
use whimbrel_pubsub::topic::{Topic, TopicFilter};

const SELECTOR: &str = "price > 10 AND sector = 'fish'";
const SUBSCRIPTIONS: u32 = 10_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let repeats: u32 = arguments.next().and_then(|repeats| repeats.parse().ok()).unwrap_or(1);
    match what.as_str() {
        "parse" => (0..repeats).for_each(|_| drop(black_box(Selector::parse(black_box(SELECTOR))))),
        "evaluate" => evaluate(repeats),
        "match" => search(repeats, |number| format!("price > 10 AND symbol = 'S{number}'")),
        "match-range" => {
            search(repeats, |number| format!("price BETWEEN {number} AND {} AND sector = 'fish'", number + 1))
        }
        "match-scanned" => search(repeats, |number| format!("price > 10 AND symbol LIKE '%S{number}'")),
        "insert" => drop(table(repeats, |number| format!("price > 10 AND symbol = 'S{number}'"))),
        _ => eprintln!(
            "what to count? parse, evaluate, match, match-range, match-scanned or insert, and how many times"
        ),
    }
}

fn message() -> Properties {
    let properties =
        [("sector", "fish".into()), ("symbol", "S4711".into()), ("price", 12.5.into()), ("lot", 100.into())];
    Properties::new(properties).unwrap_or_default()
}

fn evaluate(repeats: u32) {
    let (Ok(selector), message) = (Selector::parse(SELECTOR), message()) else { return };
    let taken = (0..repeats).filter(|_| black_box(&selector).matches(black_box(&message))).count();
    println!("{taken} were taken");
}

/// Enters subscriptions with a selector each.
fn table(many: u32, text: impl Fn(u32) -> String) -> Table {
    let limits = Limits {
        max_client_scanned: many as usize,
        max_client_subscriptions: many as usize,
        ..Limits::default()
    };
    let mut table = Table::new(limits);
    let Ok(filter) = TopicFilter::parse("market/+") else { return table };
    for number in 0..many {
        let Ok(selector) = Selector::parse(&text(number)) else { continue };
        let name = Subscription { client: 1, number };
        if let Err(refused) = table.insert(name, &filter, Some(Arc::new(selector))) {
            println!("{refused}");
        }
    }
    table
}

fn search(repeats: u32, text: impl Fn(u32) -> String) {
    let (table, message) = (table(SUBSCRIPTIONS, text), message());
    let Ok(topic) = Topic::parse("market/xetra") else { return };
    let mut found = Found::default();
    for _ in 0..repeats {
        table.matches(black_box(&topic), black_box(&message), &mut found);
    }
    println!("{} found of {}, {} evaluated", found.subscriptions.len(), table.len(), found.evaluated);
}
