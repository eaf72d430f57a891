//! Expressions as trees, and how they are written.

use std::fmt;

/// A selector, or a part of one.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Name(&'static str),
    Integer(u64),
    Float(f64),
    Text(String),
    Boolean(bool),
    /// `+` or `-` and a number.
    Signed(char, Box<Self>),
    /// `+`, `-`, `*` or `/` between numbers.
    Calculated(Box<Self>, char, Box<Self>),
    Compared(Box<Self>, &'static str, Box<Self>),
    /// With NOT, if `true`, as in all of these.
    Between(Box<Self>, bool, Box<Self>, Box<Self>),
    In(&'static str, bool, Vec<String>),
    Like(&'static str, bool, String, Option<char>),
    IsNull(&'static str, bool),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

impl Expression {
    /// How strongly it holds together, where 0 is the weakest.
    fn bond(&self) -> u8 {
        match self {
            Self::Or(..) => 0,
            Self::And(..) => 1,
            Self::Not(_) => 2,
            Self::Compared(..) | Self::Between(..) | Self::In(..) | Self::Like(..) | Self::IsNull(..) => 3,
            Self::Calculated(_, '+' | '-', _) => 4,
            Self::Calculated(..) => 5,
            Self::Signed(..) => 6,
            Self::Name(_) | Self::Integer(_) | Self::Float(_) | Self::Text(_) | Self::Boolean(_) => 7,
        }
    }

    /// The expression, in parentheses if it holds together less strongly than asked for.
    fn inside(&self, f: &mut fmt::Formatter<'_>, least: u8) -> fmt::Result {
        if self.bond() < least { write!(f, "({self})") } else { write!(f, "{self}") }
    }
}

pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn not(not: bool) -> &'static str {
    if not { "NOT " } else { "" }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "{}", quoted(text)),
            Self::Boolean(value) => write!(f, "{}", if *value { "TRUE" } else { "FALSE" }),
            Self::Signed(sign, number) => {
                write!(f, "{sign}")?;
                // Two signs in a row begin a comment in some languages.
                number.inside(f, 7)
            }
            Self::Calculated(left, sign, right) => {
                left.inside(f, self.bond())?;
                write!(f, " {sign} ")?;
                right.inside(f, self.bond() + 1)
            }
            Self::Compared(left, sign, right) => {
                left.inside(f, 4)?;
                write!(f, " {sign} ")?;
                right.inside(f, 4)
            }
            Self::Between(what, is_not, low, high) => {
                what.inside(f, 4)?;
                write!(f, " {}BETWEEN ", not(*is_not))?;
                low.inside(f, 4)?;
                write!(f, " AND ")?;
                high.inside(f, 4)
            }
            Self::In(name, is_not, texts) => {
                let list: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                write!(f, "{name} {}IN ({})", not(*is_not), list.join(", "))
            }
            Self::Like(name, is_not, pattern, escape) => {
                write!(f, "{name} {}LIKE {}", not(*is_not), quoted(pattern))?;
                escape.map_or(Ok(()), |escape| write!(f, " ESCAPE {}", quoted(&escape.to_string())))
            }
            Self::IsNull(name, is_not) => write!(f, "{name} IS {}NULL", not(*is_not)),
            // Artemis lets NOT bind more strongly than comparisons.
            Self::Not(what) => {
                write!(f, "NOT ")?;
                what.inside(f, 7)
            }
            Self::And(left, right) => {
                left.inside(f, 1)?;
                write!(f, " AND ")?;
                right.inside(f, 2)
            }
            Self::Or(left, right) => {
                left.inside(f, 0)?;
                write!(f, " OR ")?;
                right.inside(f, 1)
            }
        }
    }
}
