use proptest::prelude::*;

use super::limits::SHARE;
use super::*;

fn topic(text: &str) -> Topic {
    Topic::parse(text).expect("a topic")
}

fn filter(text: &str) -> TopicFilter {
    TopicFilter::parse(text).expect("a filter")
}

fn fault<T: std::fmt::Debug>(outcome: Result<T, TopicError>) -> (TopicFault, usize) {
    let error = outcome.expect_err("it is refused");
    (error.fault(), error.position())
}

#[test]
fn filters_match_as_mqtt_says() {
    let cases = [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/tennis/player1/#", "sport/tennis/player10", false),
        ("sport/#", "sport", true),
        ("#", "sport/tennis", true),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+", "/finance", false),
        ("+/tennis/#", "sport/tennis", true),
        ("sport/+/player1", "sport/tennis/player1", true),
        ("ACCOUNTS", "Accounts", false),
        ("Accounts", "Accounts payable", false),
        ("Accounts payable", "Accounts payable", true),
        ("#", "$SYS/broker", false),
        ("+/broker", "$SYS/broker", false),
        ("$SYS/#", "$SYS/broker", true),
        ("$SYS/#", "$SYS", true),
        ("$SYS/+", "$SYS/broker", true),
        ("#", "/", true),
        ("+/+/+", "//", true),
        ("a/$b", "a/$b", true),
        ("a/+", "a/$b", true),
    ];
    for (text, name, expected) in cases {
        assert_eq!(filter(text).matches(&topic(name)), expected, "{text} and {name}");
    }
}

#[test]
fn bad_topics_are_refused_with_the_place() {
    assert_eq!(fault(Topic::parse("")), (TopicFault::Empty, 0));
    assert_eq!(fault(Topic::parse("a/+")), (TopicFault::WildcardInTopic, 2));
    assert_eq!(fault(Topic::parse("a#b")), (TopicFault::WildcardInTopic, 1));
    assert_eq!(fault(Topic::parse("ab\0c")), (TopicFault::Nul, 2));
    assert_eq!(fault(Topic::from_bytes(b"ab\xff")), (TopicFault::NotUtf8, 2));
    // An encoded surrogate is not UTF-8.
    assert_eq!(fault(Topic::from_bytes(b"a\xed\xa0\x80")), (TopicFault::NotUtf8, 1));
    assert_eq!(fault(Topic::parse(&"a".repeat(MAX_TOPIC_LEN + 1))), (TopicFault::TooLong, MAX_TOPIC_LEN));
    assert!(Topic::parse(&"a".repeat(MAX_TOPIC_LEN)).is_ok());
    assert!(Topic::parse(&"/".repeat(MAX_LEVELS - 1)).is_ok());
    assert_eq!(fault(Topic::parse(&"/".repeat(MAX_LEVELS))), (TopicFault::TooManyLevels, MAX_LEVELS));
}

#[test]
fn bad_filters_are_refused_with_the_place() {
    assert_eq!(fault(TopicFilter::parse("")), (TopicFault::Empty, 0));
    assert_eq!(fault(TopicFilter::parse("sport/tennis#")), (TopicFault::WildcardInLevel, 12));
    assert_eq!(fault(TopicFilter::parse("sport/tennis/#/ranking")), (TopicFault::RestNotLast, 13));
    assert_eq!(fault(TopicFilter::parse("sport+")), (TopicFault::WildcardInLevel, 5));
    assert_eq!(fault(TopicFilter::parse("a/++")), (TopicFault::WildcardInLevel, 2));
    assert_eq!(fault(TopicFilter::parse("$share/g/a")), (TopicFault::Shared, 0));
    assert!(TopicFilter::parse("$shared/g/a").is_ok());
}

#[test]
fn shared_subscriptions_are_taken_apart() {
    let shared = Subscribed::parse("$share/boats/fish/+/#").expect("shared");
    assert_eq!(shared.group.as_ref().map(GroupName::as_str), Some("boats"));
    assert_eq!(shared.filter, filter("fish/+/#"));
    assert_eq!(shared.to_string(), "$share/boats/fish/+/#");
    let alone = Subscribed::parse("fish/#").expect("a filter");
    assert_eq!((alone.group, alone.filter), (None, filter("fish/#")));
    assert_eq!(Subscribed::parse("$share/g//a").expect("shared").filter, filter("/a"));
    assert_eq!(fault(Subscribed::parse("$share")), (TopicFault::NoGroup, 6));
    assert_eq!(fault(Subscribed::parse("$share/")), (TopicFault::NoGroup, 7));
    assert_eq!(fault(Subscribed::parse("$share//a")), (TopicFault::NoGroup, 7));
    assert_eq!(fault(Subscribed::parse("$share/g")), (TopicFault::NoFilter, 8));
    assert_eq!(fault(Subscribed::parse("$share/g/")), (TopicFault::NoFilter, 9));
    assert_eq!(fault(Subscribed::parse("$share/g+/a")), (TopicFault::WildcardInGroup, 8));
    assert_eq!(fault(Subscribed::parse("$share/g/a+")), (TopicFault::WildcardInLevel, 10));
    assert_eq!(fault(Subscribed::parse("$share/g/$share/h/a")), (TopicFault::Shared, 9));
}

#[test]
fn overlapping_filters_have_a_topic_in_common() {
    assert!(filter("a/+").overlaps(&filter("+/b")));
    assert!(filter("a/#").overlaps(&filter("a")));
    assert!(!filter("a/+").overlaps(&filter("a")));
    assert!(!filter("a/b").overlaps(&filter("a/c/#")));
    assert!(!filter("#").overlaps(&filter("$SYS/a")));
    assert!(filter("$SYS/+").overlaps(&filter("$SYS/a/#")));
}

#[test]
fn a_filter_covers_narrower_ones() {
    for (wide, narrow, covers) in [
        ("#", "a/+", true),
        ("#", "$SYS/a", false),
        ("a/#", "a", true),
        ("a/+", "a/b", true),
        ("a/+", "a/#", false),
        ("a/b", "a/+", false),
        ("a/+/c", "a/b/c", true),
        ("a", "a/b", false),
    ] {
        assert_eq!(filter(wide).covers(&filter(narrow)), covers, "{wide} {narrow}");
    }
}

#[test]
fn an_error_says_what_to_do() {
    let error = TopicFilter::parse("fish/cod#").expect_err("it is refused");
    let expected = "the wildcard at byte 8 is not alone in its level: write a/+/b or a/#, not a+ or a#";
    assert_eq!(error.to_string(), expected);
}

fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just(""), Just("$c")], 1..5)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic has a character", |text| !text.is_empty())
}

fn filter_texts() -> impl Strategy<Value = String> {
    let level = prop_oneof![Just("a"), Just("b"), Just("+"), Just("$c")];
    (proptest::collection::vec(level, 0..4), any::<bool>()).prop_map(|(mut levels, rest)| {
        if rest || levels.is_empty() {
            levels.push("#");
        }
        levels.join("/")
    })
}

/// A filter's meaning, written as plainly as it can be.
fn plain_match(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        (["#"], _) | ([], []) => true,
        (["+", filter @ ..], [_, topic @ ..]) => plain_match(filter, topic),
        ([level, filter @ ..], [name, topic @ ..]) => level == name && plain_match(filter, topic),
        _ => false,
    }
}

proptest! {
    #[test]
    fn matching_is_as_plainly_written(filter_text in filter_texts(), name in texts()) {
        let plain_filter: Vec<_> = filter_text.split('/').collect();
        let plain_topic: Vec<_> = name.split('/').collect();
        let hidden = name.starts_with('$') && filter_text.starts_with(['+', '#']);
        let expected = !hidden && plain_match(&plain_filter, &plain_topic);
        prop_assert_eq!(filter(&filter_text).matches(&topic(&name)), expected);
    }

    #[test]
    fn filters_that_match_one_topic_overlap(one in filter_texts(), other in filter_texts(), name in texts()) {
        let (one, other, name) = (filter(&one), filter(&other), topic(&name));
        prop_assert_eq!(one.overlaps(&other), other.overlaps(&one));
        if one.matches(&name) && other.matches(&name) {
            prop_assert!(one.overlaps(&other));
        }
        if one.covers(&other) && other.matches(&name) {
            prop_assert!(one.matches(&name));
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(topic) = Topic::from_bytes(&bytes) {
            prop_assert_eq!(topic.as_str().as_bytes(), &bytes[..]);
            prop_assert!(topic.as_str().starts_with(SHARE) || filter(topic.as_str()).matches(&topic));
        }
        if let Ok(subscribed) = Subscribed::from_bytes(&bytes) {
            prop_assert_eq!(subscribed.to_string().into_bytes(), bytes);
        }
    }
}
