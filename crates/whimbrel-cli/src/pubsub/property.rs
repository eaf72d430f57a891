//! Properties on the command line.

use std::str::FromStr;

use whimbrel_pubsub::property::{NameFault, Properties, PropertyError, Value, check_name};

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Property {
    name: String,
    value: Given,
}

#[derive(Clone, Debug, PartialEq)]
enum Given {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

/// Why a text is no property.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotProperty {
    #[error("write NAME=VALUE, for example price=4.2 or sector='fish'")]
    NoEquals,
    #[error("{0}")]
    Name(NameFault),
}

impl FromStr for Property {
    type Err = NotProperty;

    fn from_str(text: &str) -> Result<Self, NotProperty> {
        let (name, value) = text.split_once('=').ok_or(NotProperty::NoEquals)?;
        check_name(name).map_err(NotProperty::Name)?;
        Ok(Self { name: name.to_owned(), value: Given::of(value) })
    }
}

impl Given {
    /// Parses a property's value: a number or a truth value if it is written as one, else text.
    /// Quotation marks make it text.
    fn of(text: &str) -> Self {
        let quoted = ['\'', '"'].into_iter().find_map(|mark| text.strip_prefix(mark)?.strip_suffix(mark));
        if let Some(inner) = quoted {
            return Self::Text(inner.to_owned());
        }
        match text {
            "true" => Self::Boolean(true),
            "false" => Self::Boolean(false),
            _ => text.parse().map(Self::Integer).unwrap_or_else(|_| {
                let begins = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
                match text.parse() {
                    Ok(number) if begins => Self::Float(number),
                    _ => Self::Text(text.to_owned()),
                }
            }),
        }
    }
}

/// All of them together.
pub(super) fn properties(all: &[Property]) -> Result<Properties, PropertyError> {
    Properties::new(all.iter().map(|Property { name, value }| {
        let value = match value {
            Given::Boolean(value) => Value::Boolean(*value),
            Given::Integer(value) => Value::Integer(*value),
            Given::Float(value) => Value::Float(*value),
            Given::Text(text) => Value::Text(text),
        };
        (&**name, value)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_as_which_they_are_written() {
        for (text, value) in [
            ("4", Given::Integer(4)),
            ("-4.5", Given::Float(-4.5)),
            ("true", Given::Boolean(true)),
            ("fish", Given::Text("fish".into())),
            ("'4'", Given::Text("4".into())),
            ("inf", Given::Text("inf".into())),
            ("", Given::Text(String::new())),
        ] {
            assert_eq!(format!("a={text}").parse::<Property>().unwrap().value, value, "{text}");
        }
        assert!("price".parse::<Property>().unwrap_err().to_string().contains("NAME=VALUE"));
        assert!("JMSx=1".parse::<Property>().unwrap_err().to_string().contains("reserved"));
    }
}
