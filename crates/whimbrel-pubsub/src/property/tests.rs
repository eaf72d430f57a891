use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn properties(pairs: &[(&str, Value<'_>)]) -> Properties {
    Properties::new(pairs.iter().copied()).expect("properties")
}

fn fault(outcome: Result<Properties, PropertyError>) -> PropertyFault {
    outcome.expect_err("they are refused").fault()
}

#[test]
fn values_are_found_by_name() {
    let some = properties(&[
        ("sector", "fish".into()),
        ("price", 12.5.into()),
        ("n", 3.into()),
        ("new", true.into()),
    ]);
    assert_eq!(some.property("sector"), Some(Value::Text("fish")));
    assert_eq!(some.property("price"), Some(Value::Float(12.5)));
    assert_eq!(some.property("n"), Some(Value::Integer(3)));
    assert_eq!(some.property("new"), Some(Value::Boolean(true)));
    assert_eq!(some.property("N"), None);
    let names: Vec<_> = some.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["n", "new", "price", "sector"]);
}

#[test]
fn the_order_of_giving_does_not_matter() {
    let one = properties(&[("a", 1.into()), ("b", 2.into())]);
    assert_eq!(one, properties(&[("b", 2.into()), ("a", 1.into())]));
}

#[test]
fn names_that_no_selector_could_write_are_refused_with_the_reason() {
    let refused = [
        ("", NameFault::Empty),
        ("a-b", NameFault::Part('-')),
        ("a.b", NameFault::Part('.')),
        ("a b", NameFault::Part(' ')),
        ("1st", NameFault::Start('1')),
        ("\u{0}", NameFault::Start('\u{0}')),
        ("like", NameFault::Word("LIKE")),
        ("Null", NameFault::Word("NULL")),
        ("JMSType", NameFault::Reserved),
    ];
    for (name, expected) in refused {
        assert_eq!(check_name(name), Err(expected), "{name}");
        assert_eq!(fault(Properties::new([(name, 1.into())])), PropertyFault::Name(expected));
    }
    for name in ["a", "_1", "$", "Größe", "jms", "notes", "x".repeat(MAX_NAME_LEN).as_str()] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    let error = Properties::new([("a-b", 1.into())]).expect_err("it is refused");
    let expected = "property \"a-b\": the name has '-'; names consist of letters, 0 to 9, _ and $";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn number_and_size_are_limited() {
    let names: Vec<String> = (0..=MAX_PROPERTIES).map(|n| format!("p{n:03}")).collect();
    let pairs = |many: usize| names[..many].iter().map(|name| (name.as_str(), Value::Boolean(true)));
    assert!(Properties::new(pairs(MAX_PROPERTIES)).is_ok());
    assert_eq!(fault(Properties::new(pairs(MAX_PROPERTIES + 1))), PropertyFault::TooMany);
    // The name, its length, the type and the length take 5 bytes.
    let longest = "x".repeat(MAX_PROPERTIES_LEN - 5);
    let full = properties(&[("a", longest.as_str().into())]);
    assert_eq!(full.as_bytes().len(), MAX_PROPERTIES_LEN);
    assert_eq!(Properties::from_bytes(full.as_bytes().clone()).as_ref(), Ok(&full));
    let beyond = format!("{longest}x");
    assert_eq!(fault(Properties::new([("a", beyond.as_str().into())])), PropertyFault::TooLong);
    let huge = "x".repeat(1 << 20);
    assert_eq!(fault(Properties::new([("a", huge.as_str().into())])), PropertyFault::TooLong);
}

#[test]
fn one_value_is_written_in_one_way() {
    let one = properties(&[("a", 1.into())]);
    assert_eq!(&one.as_bytes()[..], b"\x01a\x11\x01");
    for bytes in
        [&b"\x01a\x12\x00\x01"[..], b"\x01a\x11\x00", b"\x01a\x30\x80\x01x", b"\x01a\x02", b"\x01a", b"\x05a"]
    {
        let outcome = Properties::from_bytes(Bytes::copy_from_slice(bytes));
        assert!(matches!(fault(outcome), PropertyFault::Malformed(0)), "{bytes:?}");
    }
    assert_eq!(
        fault(Properties::from_bytes(Bytes::from_static(b"\x01b\x01\x01a\x01"))),
        PropertyFault::Malformed(3)
    );
    assert_eq!(
        fault(Properties::from_bytes(Bytes::from_static(b"\x01a\x01\x01a\x01"))),
        PropertyFault::Twice
    );
    assert_eq!(
        fault(Properties::from_bytes(Bytes::from_static(b"\x01a\x30\x01\xff"))),
        PropertyFault::Malformed(0)
    );
}

/// A value that owns what it has.
#[derive(Clone, Debug)]
enum Owned {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Boolean(value) => (*value).into(),
            Self::Integer(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::Text(value) => value.as_str().into(),
            Self::Bytes(value) => value.as_slice().into(),
        }
    }
}

fn values() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<bool>().prop_map(Owned::Boolean),
        any::<i64>().prop_map(Owned::Integer),
        (any::<i64>(), 0..64_u32).prop_map(|(value, shift)| Owned::Integer(value >> shift)),
        prop_oneof![-1e9..1e9, Just(f64::INFINITY), Just(-0.0)].prop_map(Owned::Float),
        ".{0,200}".prop_map(Owned::Text),
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(Owned::Bytes),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(pairs in proptest::collection::btree_map("[a-z_$][a-zé0-9]{0,9}x", values(), 0..12)) {
        let given: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.value())).collect();
        let written = properties(&given);
        let read = Properties::from_bytes(written.as_bytes().clone()).expect("what we write we read");
        let found: Vec<_> = read.iter().collect();
        prop_assert_eq!(&found, &given);
        for (name, value) in given {
            prop_assert_eq!(read.property(name), Some(value));
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        check_bytes(&bytes)?;
    }

    #[test]
    fn damaged_properties_are_taken_or_refused(
        pairs in proptest::collection::btree_map("[a-c]{1,3}x", values(), 1..4),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let written = properties(&pairs.iter().map(|(name, value)| (name.as_str(), value.value())).collect::<Vec<_>>());
        let mut damaged = written.as_bytes().to_vec();
        let at = at.index(damaged.len());
        damaged[at] = with;
        check_bytes(&damaged)?;
    }
}

/// Bytes that are accepted are what is written for what they mean.
fn check_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(read) = Properties::from_bytes(Bytes::copy_from_slice(bytes)) else { return Ok(()) };
    let mut rest = bytes;
    let mut count = 0;
    while super::wire::read(&mut rest).is_some() {
        count += 1;
    }
    prop_assert_eq!(read.iter().count(), count);
    prop_assert_eq!(Properties::new(read.iter()), Ok(read));
    Ok(())
}
