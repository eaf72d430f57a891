//! Selectors that are refused, with the place and the reason.

use whimbrel_broker::selector::{
    MAX_DEPTH, MAX_GAPPED, MAX_SELECTOR_LEN, MAX_STACK, Selector, SelectorError, SelectorFault,
};

use proptest::prelude::*;

use crate::random::Random;

fn refused(text: &str) -> SelectorError {
    match Selector::parse(text) {
        Err(error) => error,
        Ok(selector) => panic!("{text} became {selector}"),
    }
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let cases = [
        ("price >", "column 8: expected a property, a number, a string or (, found the end"),
        ("price > AND", "column 9: expected a property, a number, a string or (, found AND"),
        ("price 10", "column 7: expected an operator, AND, OR or the end, found 10"),
        ("(a = 1", "column 7: expected an operator, AND, OR or ), found the end"),
        ("a = 1)", "column 6: expected an operator, AND, OR or the end, found )"),
        ("a BETWEEN 1 OR 2", "column 13: expected AND and the upper end of BETWEEN, found OR"),
        ("a NOT 5", "column 7: expected BETWEEN, IN or LIKE, found 5"),
        ("a IN ()", "column 7: expected a string, found )"),
        ("a IN ('b' 'c')", "column 11: expected , or ), found 'c'"),
        ("a IN (1)", "column 7: expected a string, found 1"),
        ("a LIKE b", "column 8: expected a pattern in single quotes, found b"),
        ("a IS 5", "column 6: expected NULL, found 5"),
        ("a != 1", "column 3: '!' is not understood: write <> for 'not equal'"),
        ("a == 1", "column 4: expected a property, a number, a string or (, found ="),
        ("a = \"b\"", "column 5: '\"' is not understood: strings stand in single quotes (')"),
        ("a.b = 1", "column 2: '.' is not understood: names of properties have no dot"),
        ("a % 2 = 1", "column 3: '%' is not understood: there is no remainder"),
        ("a = 'b", "column 5: the string has no closing quote ('); inside it, write '' for one"),
        ("a = 08", "column 5: this is not a number"),
        ("a = 9223372036854775808", "column 5: the number is too large"),
        ("a = -(9223372036854775808)", "column 7: the number is too large"),
        ("a = 1e999", "column 5: the number is too large"),
        ("a = 1e-999", "column 5: the number is too close to zero"),
        ("a = NULL", "column 5: nothing equals NULL: write IS NULL or IS NOT NULL"),
        ("a > 'b'", "column 5: strings and booleans are compared with = and <> only"),
        ("TRUE < a", "column 1: strings and booleans are compared with = and <> only"),
        ("(a > 1) = TRUE", "column 1: a condition cannot be compared: use AND, OR and NOT"),
        ("a = b = c", "column 7: a comparison is a condition; it cannot be compared again"),
        ("1 < a < 5", "column 7: a comparison is a condition; it cannot be compared again"),
        ("'a' + 1 = 2", "column 1: only numbers can be calculated with"),
        ("a + (b = 1) = 2", "column 5: only numbers can be calculated with"),
        ("-'a' = 2", "column 2: only numbers have a sign"),
        ("5", "column 1: a number is not a condition: compare it with something"),
        ("a + 1 AND b", "column 1: a number is not a condition: compare it with something"),
        ("b OR 'a'", "column 6: a string is not a condition: compare it with something"),
        ("'abc' LIKE 'a%'", "column 1: LIKE asks for a property"),
        ("'a' IN ('a')", "column 1: IN asks for a property"),
        ("5 IS NULL", "column 1: IS NULL asks for a property"),
        ("'a' BETWEEN 1 AND 2", "column 1: BETWEEN compares numbers"),
        (
            "a LIKE 'x!y' ESCAPE '!'",
            "column 8: the escape character stands before 'y'; it escapes %, _ and itself only",
        ),
        ("a LIKE 'x!' ESCAPE '!'", "column 8: the pattern ends with its escape character"),
        ("a LIKE 'x' ESCAPE 'ab'", "column 19: ESCAPE needs one character, as in ESCAPE '!'"),
        ("a LIKE 'x' ESCAPE ''", "column 19: ESCAPE needs one character, as in ESCAPE '!'"),
        ("größe = 'ä' AND ?", "column 17: '?' is not understood"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text).to_string(), format!("selector, {expected}"), "{text}");
    }
    let error = refused("a = 1\n  AND b =");
    assert_eq!((error.line(), error.column(), error.position()), (2, 10, 15));
    let expected = "selector, line 2, column 10: expected a property, a number, a string or (, found the end";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_hostile_depth_is_refused() {
    let nested =
        |open: &str, close: &str, many: usize| format!("{}a{}", open.repeat(many), close.repeat(many));
    for (open, close) in [("(", ")"), ("NOT ", ""), ("(NOT ", ")")] {
        let many = if open == "(NOT " { MAX_DEPTH / 2 } else { MAX_DEPTH };
        assert!(Selector::parse(&nested(open, close, many)).is_ok(), "{open}");
        assert_eq!(*refused(&nested(open, close, many + 1)).fault(), SelectorFault::TooDeep, "{open}");
        assert_eq!(
            *refused(&nested(open, close, MAX_SELECTOR_LEN / 8)).fault(),
            SelectorFault::TooDeep,
            "{open}"
        );
    }
    let sum = |many: usize| format!("{}a{} = 1", "1+(".repeat(many), ")".repeat(many));
    assert!(Selector::parse(&sum(MAX_STACK - 1)).is_ok());
    assert_eq!(*refused(&sum(MAX_STACK)).fault(), SelectorFault::TooDeep);
    assert_eq!(*refused(&format!("{}1 = a", "-".repeat(MAX_DEPTH + 1))).fault(), SelectorFault::TooDeep);
}

#[test]
fn a_long_chain_is_no_depth() {
    let chain = vec!["a = 1"; 400].join(" OR ");
    let parsed = Selector::parse(&chain).expect("a selector");
    assert!(!parsed.matches(&crate::message(&[("a", 2.into())])));
    assert!(parsed.matches(&crate::message(&[("a", 1.into())])));
    assert_eq!(Selector::parse(&parsed.to_string()).as_ref(), Ok(&parsed));
}

#[test]
fn a_hostile_length_is_refused() {
    let long = |len: usize| format!("a = '{}'", "ü".repeat((len - 6) / 2));
    assert!(Selector::parse(&long(MAX_SELECTOR_LEN)).is_ok());
    let error = refused(&long(MAX_SELECTOR_LEN + 2));
    assert_eq!(
        error.to_string(),
        "selector, column 2051: a selector has at most 4096 bytes, also in its normal form"
    );
    assert_eq!(*refused(&format!("{} = 1", "a".repeat(200))).fault(), SelectorFault::NameTooLong);
    let found = refused(&format!("a = 1 {}", "b".repeat(100))).to_string();
    assert!(found.ends_with("…") && found.len() < 150, "{found}");
}

#[test]
fn the_normal_form_keeps_the_limits() {
    let tight = |terms: usize| vec!["a=b"; terms].join("OR ").replace("bOR", "b OR");
    let at_most =
        (1..900).take_while(|terms| Selector::parse(&tight(*terms)).is_ok()).last().expect("some terms");
    assert!(tight(at_most).len() > MAX_SELECTOR_LEN / 2);
    let normal = Selector::parse(&tight(at_most)).expect("a selector").to_string();
    assert!(Selector::parse(&normal).is_ok() && normal.len() + 9 > MAX_SELECTOR_LEN);
    let deep =
        |many: usize| format!("{}a NOT BETWEEN 1 AND 2 AND b{}", "NOT (".repeat(many), ")".repeat(many));
    for text in [
        deep(MAX_DEPTH / 2 - 1),
        format!("{}a NOT BETWEEN 1 AND 2", "NOT ".repeat(MAX_DEPTH - 1)),
        format!("{}a = 1", "-".repeat(MAX_DEPTH)),
    ] {
        let parsed = Selector::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(Selector::parse(&parsed.to_string()).as_ref(), Ok(&parsed), "{text}");
    }
    assert_eq!(*refused(&deep(MAX_DEPTH / 2)).fault(), SelectorFault::TooDeep);
}

#[test]
fn costly_patterns_are_refused() {
    let like = |many: usize| format!("a LIKE '%_{}%'", "x".repeat(many - 1));
    assert!(Selector::parse(&like(MAX_GAPPED)).is_ok());
    assert_eq!(*refused(&like(MAX_GAPPED + 1)).fault(), SelectorFault::TooCostly);
    let half = like(MAX_GAPPED / 2);
    assert!(Selector::parse(&format!("{half} OR {half}")).is_ok());
    assert_eq!(*refused(&format!("{half} OR {half} OR {}", like(1))).fault(), SelectorFault::TooCostly);
    // At the ends of the pattern there is only one place to compare.
    assert!(Selector::parse(&format!("a LIKE '_{}'", "x".repeat(1000))).is_ok());
}

/// Texts near the language are taken or refused, and what is taken has a normal form.
#[test]
fn damaged_selectors_are_taken_or_refused() {
    let pieces = [
        "(",
        ")",
        "'",
        "''",
        " ",
        "NOT",
        " AND ",
        " OR ",
        "=",
        "<>",
        "<",
        "-",
        "+",
        "*",
        "/",
        ",",
        "LIKE",
        "IN",
        "IS",
        "NULL",
        "BETWEEN",
        "ESCAPE",
        "TRUE",
        "a",
        "9223372036854775808",
        "1e",
        ".5",
        "0x",
        "\u{1F41F}",
        "ß",
        "\0",
        "%",
        "_",
    ];
    let mut taken = 0;
    for seed in 0..30_000 {
        let mut random = Random::new(seed);
        let mut text: Vec<char> = random.condition(2).to_string().chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() + 1);
            let end = (at + random.below(4)).min(text.len());
            let with = if random.chance(70) { random.one(&pieces) } else { "" };
            text.splice(at..end, with.chars());
        }
        let text: String = text.into_iter().collect();
        match Selector::parse(&text) {
            Ok(parsed) => {
                taken += 1;
                let normal = parsed.to_string();
                assert_eq!(
                    Selector::parse(&normal).as_ref(),
                    Ok(&parsed),
                    "seed {seed}: {text} became {normal}"
                );
            }
            Err(error) => assert!(text.is_char_boundary(error.position()), "seed {seed}: {text}: {error:?}"),
        }
    }
    assert!(taken > 1000, "only {taken} were taken");
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in "[ -~é\u{1F41F}\n]{0,40}|\\PC{0,40}") {
        match Selector::parse(&text) {
            Ok(parsed) => {
                let normal = parsed.to_string();
                prop_assert_eq!(Selector::parse(&normal), Ok(parsed));
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.position())),
        }
    }
}
