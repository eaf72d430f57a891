//! The meaning of selectors.

use whimbrel_broker::selector::Truth;
use whimbrel_pubsub::property::{Properties, Value};

use crate::model::Model;
use crate::random::{Random, properties};
use crate::{message, selector};

fn fish() -> Properties {
    message(&[
        ("n", 3.into()),
        ("price", 12.5.into()),
        ("sector", "fish".into()),
        ("quote", "it's".into()),
        ("fresh", true.into()),
        ("frozen", false.into()),
        ("raw", (&b"\x01"[..]).into()),
        ("big", i64::MAX.into()),
        ("nan", f64::NAN.into()),
    ])
}

#[test]
fn selectors_mean_what_jms_says() {
    let message = fish();
    let cases = [
        // Comparison, and numbers of both kinds.
        ("n = 3", Truth::True),
        ("n = 3.0", Truth::True),
        ("n <> 3", Truth::False),
        ("price > 12 AND price < 13", Truth::True),
        ("n >= 3 AND n <= 3", Truth::True),
        ("sector = 'fish'", Truth::True),
        ("sector <> 'meat'", Truth::True),
        ("quote = 'it''s'", Truth::True),
        ("fresh = TRUE", Truth::True),
        ("fresh <> frozen", Truth::True),
        ("fresh", Truth::True),
        ("NOT frozen", Truth::True),
        ("n", Truth::False),
        ("NOT n", Truth::True),
        // Words in any case, names as they are.
        ("sector like 'f%' and Not frozen", Truth::True),
        ("Sector = 'fish'", Truth::Unknown),
        // An absent property.
        ("missing = 1", Truth::Unknown),
        ("1 = missing", Truth::Unknown),
        ("missing = missing", Truth::Unknown),
        ("NOT missing = 1", Truth::Unknown),
        ("missing", Truth::Unknown),
        ("missing = 1 AND n = 4", Truth::False),
        ("missing = 1 OR n = 3", Truth::True),
        ("NOT (missing = 1 AND n = 4)", Truth::True),
        ("missing LIKE '%'", Truth::Unknown),
        ("missing NOT LIKE '%'", Truth::Unknown),
        ("missing IN ('a')", Truth::Unknown),
        ("missing NOT IN ('a')", Truth::Unknown),
        ("missing BETWEEN 1 AND 2", Truth::Unknown),
        ("missing + 1 = 2", Truth::Unknown),
        ("missing IS NULL", Truth::True),
        ("missing IS NOT NULL", Truth::False),
        ("n IS NULL", Truth::False),
        ("raw IS NOT NULL", Truth::True),
        // Different types.
        ("sector = 3", Truth::False),
        ("sector <> 3", Truth::False),
        ("NOT sector = 3", Truth::True),
        ("n = 'fish'", Truth::False),
        ("fresh = 1", Truth::False),
        ("sector > n", Truth::False),
        ("'a' = 1", Truth::False),
        ("raw = raw", Truth::False),
        ("sector + 1 = 2", Truth::Unknown),
        ("+sector = 'fish'", Truth::Unknown),
        ("n LIKE '3'", Truth::False),
        ("n NOT LIKE '3'", Truth::True),
        ("n IN ('3')", Truth::False),
        ("n NOT IN ('3')", Truth::True),
        ("sector BETWEEN 1 AND 2", Truth::False),
        ("sector NOT BETWEEN 1 AND 2", Truth::False),
        // Texts and booleans have no order.
        ("sector < quote", Truth::False),
        ("sector >= sector", Truth::False),
        ("fresh > frozen", Truth::False),
        // Arithmetic is Java's.
        ("n / 2 = 1", Truth::True),
        ("n / 2.0 = 1.5", Truth::True),
        ("n / 0 = 1", Truth::Unknown),
        ("n / 0.0 > 1e308", Truth::True),
        ("big + 1 < 0", Truth::True),
        ("-9223372036854775808 / -1 < 0", Truth::True),
        ("9007199254740993 = 9007199254740992.0", Truth::True),
        ("9007199254740993 = 9007199254740992", Truth::False),
        ("nan = nan", Truth::False),
        ("nan <> nan", Truth::True),
        ("NOT nan > 1", Truth::True),
        ("0.0 = -0.0", Truth::True),
        ("2 + 3 * 4 - 6 / 2 = 11", Truth::True),
        ("(2 + 3) * 4 = 20", Truth::True),
        ("10 - 4 - 3 = 3", Truth::True),
        ("-n = -3 AND - -n = 3", Truth::True),
        ("n-1 = 2", Truth::True),
        ("0x10 = 16 AND 010 = 8 AND 3L = 3 AND 2.5f = 2.5", Truth::True),
        // NOT binds less strongly than comparisons, AND more strongly than OR.
        ("NOT n = 4", Truth::True),
        ("n = 3 OR n = 4 AND n = 5", Truth::True),
        ("(n = 3 OR n = 4) AND n = 5", Truth::False),
        ("NOT n = 4 AND n = 3", Truth::True),
        ("n BETWEEN 1 AND 3 AND fresh", Truth::True),
        ("n NOT BETWEEN 1 AND 2", Truth::True),
        ("4 BETWEEN n AND n + 1", Truth::True),
        ("TRUE OR missing", Truth::True),
        ("FALSE", Truth::False),
        ("", Truth::True),
        (" \t\r\n\u{c}", Truth::True),
    ];
    for (text, expected) in cases {
        assert_eq!(selector(text).evaluate(&message), expected, "{text}");
        assert_eq!(selector(text).matches(&message), expected == Truth::True, "{text}");
    }
}

#[test]
fn like_and_in_compare_texts() {
    let of = |text: &'static str, value: &'static str| {
        selector(text).matches(&message(&[("s", Value::Text(value))]))
    };
    assert!(of("s LIKE '12%3'", "12993") && !of("s LIKE '12%3'", "1234"));
    assert!(of("s LIKE 'l_se'", "lose") && !of("s LIKE 'l_se'", "loose"));
    assert!(of("s LIKE '\\_%' ESCAPE '\\'", "_foo") && !of("s LIKE '\\_%' ESCAPE '\\'", "bar"));
    assert!(of("s NOT LIKE '12%3'", "1234") && !of("s NOT LIKE '12%3'", "123"));
    assert!(of("s IN ('UK', 'US', 'France')", "UK") && !of("s IN ('UK', 'US', 'France')", "Peru"));
    assert!(!of("s NOT IN ('UK', 'US')", "UK") && of("s NOT IN ('UK', 'US')", "Peru"));
    assert!(of("s LIKE 'Größe_'", "Größe!"));
}

#[test]
fn random_selectors_mean_what_the_model_says() {
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let expression = random.condition(3);
        let text = expression.to_string();
        let parsed = selector(&text);
        for _ in 0..4 {
            let message = random.message();
            let expected = Model::jms(&message).truth(&expression).expect("JMS stops at nothing");
            let expected =
                expected.map_or(Truth::Unknown, |truth| if truth { Truth::True } else { Truth::False });
            assert_eq!(
                parsed.evaluate(&properties(&message)),
                expected,
                "seed {seed}: {text} of {message:?}"
            );
        }
    }
}

#[test]
fn the_normal_form_is_a_selector_that_means_the_same() {
    for seed in 0..20_000 {
        let text = Random::new(seed).condition(3).to_string();
        let parsed = selector(&text);
        let normal = parsed.to_string();
        assert_eq!(selector(&normal), parsed, "seed {seed}: {text} became {normal}");
        assert_eq!(selector(&normal).to_string(), normal, "seed {seed}: {text}");
    }
}

#[test]
fn the_normal_form_is_short() {
    let cases = [
        ("((price)>10)and(sector='fish')", "price > 10 AND sector = 'fish'"),
        ("a between 1 and 2", "a >= 1 AND a <= 2"),
        ("a not between 1 and 2 or b", "a < 1 OR a > 2 OR b"),
        ("not(a in('b','a','b'))", "a NOT IN ('a', 'b')"),
        ("s not like 'a!%' escape '!'", "s NOT LIKE 'a!%' ESCAPE '!'"),
        ("a is not null", "a IS NOT NULL"),
        ("a-(b-c)=-5", "a - (b - c) = -5"),
        ("a AND (b AND c)", "a AND (b AND c)"),
        ("not(a or b)", "NOT (a OR b)"),
        ("- -a = - -5", "- -a = 5"),
        ("a = 1e9 or a = 7. or a = 010", "a = 1e9 OR a = 7.0 OR a = 8"),
        ("s = 'it''s'", "s = 'it''s'"),
        ("", "TRUE"),
    ];
    for (text, expected) in cases {
        assert_eq!(selector(text).to_string(), expected);
    }
}
