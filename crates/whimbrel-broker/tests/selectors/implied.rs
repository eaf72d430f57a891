//! Which values of a property a selector implies.

use std::ops::Bound::{Excluded, Included, Unbounded};

use whimbrel_broker::selector::Reach;
use whimbrel_pubsub::property::{Lookup, Value};

use crate::random::{NAMES, Random, properties};
use crate::selector;

fn implied(text: &str, name: &str) -> Reach {
    selector(text).implied(name)
}

#[test]
fn what_is_true_is_implied() {
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let text = random.condition(3).to_string();
        for text in [text.clone(), format!("NOT ({text})")] {
            let parsed = selector(&text);
            let reaches = NAMES.map(|name| (name, parsed.implied(name)));
            for _ in 0..6 {
                let message = properties(&random.message());
                if !parsed.matches(&message) {
                    continue;
                }
                for (name, reach) in &reaches {
                    let value = message.property(name);
                    assert!(
                        reach.allows(value),
                        "seed {seed}: {text} of {message:?}: {name} is {value:?}, not in {reach:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn terms_on_the_key_are_found() {
    let texts = |text: &str, name: &str| implied(text, name).texts().map(|texts| texts.join(" "));
    assert_eq!(texts("s = 'a' AND n > 1", "s").as_deref(), Some("a"));
    assert_eq!(texts("'a' = s", "s").as_deref(), Some("a"));
    assert_eq!(texts("s IN ('b', 'a') AND (s = 'b' OR s = 'c')", "s").as_deref(), Some("b"));
    assert_eq!(texts("s LIKE 'a'", "s").as_deref(), Some("a"));
    assert_eq!(texts("NOT (s <> 'a' OR s IS NULL)", "s").as_deref(), Some("a"));
    assert_eq!(texts("s = 'a' OR n = 1", "s"), None);
    assert_eq!(texts("s LIKE 'a%'", "s"), None);

    let spans = |text: &str| {
        implied(text, "n").numbers().iter().map(|span| (span.low, span.high)).collect::<Vec<_>>()
    };
    assert_eq!(spans("n = 5"), [(5.0, 5.0)]);
    assert_eq!(spans("n BETWEEN 1 AND 10 AND n >= 4"), [(4.0, 10.0)]);
    assert_eq!(spans("n <= 1 OR n >= 10"), [(f64::NEG_INFINITY, 1.0), (10.0, f64::INFINITY)]);
    assert_eq!(spans("NOT (n < 1 OR n > 10) AND n IS NOT NULL AND n < 20"), [(1.0, 10.0)]);
    assert_eq!(spans("n > 5 AND n < 3"), []);
    assert_eq!(spans("n < 10"), [(f64::NEG_INFINITY, 10.0_f64.next_down())]);
    assert_eq!(spans("s = 'a'"), [(f64::NEG_INFINITY, f64::INFINITY)]);
    assert!(implied("n > 5 AND n < 3", "n").is_empty());
    assert!(implied("FALSE", "n").is_empty());
    assert!(implied("n > m", "n").is_present() && implied("n + 1 > m", "n").is_present());
    assert!(!implied("n = 1 OR m = 1", "n").is_present());
    assert_eq!(implied("n IS NULL", "n"), implied("NOT n IS NOT NULL", "n"));
}

#[test]
fn a_range_of_a_key_is_picked_or_not() {
    let below_ten = implied("n < 10", "n");
    assert!(below_ten.allows_numbers(Included(5.0), Excluded(10.0)));
    assert!(!below_ten.allows_numbers(Included(10.0), Excluded(20.0)));
    assert!(below_ten.allows_numbers(Unbounded, Excluded(0.0)));
    let up_to_ten = implied("n <= 10", "n");
    assert!(up_to_ten.allows_numbers(Included(10.0), Excluded(20.0)));
    assert!(!up_to_ten.allows_numbers(Excluded(10.0), Unbounded));
    assert!(!implied("s = 'a' AND n = 'b'", "n").allows_numbers(Unbounded, Unbounded));
}

#[test]
fn regression_a_large_whole_number_is_rounded_to_its_neighbour() {
    // 2^53 + 1 is promoted to 2^53, so the numbers above 2^53 begin with it.
    let large = 1_i64 << 53;
    for (text, value) in [(format!("n > {large}"), large + 1), (format!("n < {}", large + 1), large)] {
        assert!(implied(&text, "n").allows(Some(Value::Integer(value))), "{text}");
    }
}
