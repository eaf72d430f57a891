use std::fmt::{self, Write};

use super::Selector;
use super::program::{Calculation, Op};

/// The number of characters up to which a number is easy to read.
const PLAIN: usize = 8;

/// How strongly a piece of text holds together, in ascending order. A weaker one needs parentheses inside a stronger one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bond {
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Product,
    Sign,
    Single,
}

/// A piece of the text, for one value on the stack.
struct Piece {
    text: String,
    bond: Bond,
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stack = Vec::new();
        let mut ops = self.ops.iter().peekable();
        while let Some(op) = ops.next() {
            // NOT is part of the words of these.
            let takes_not = matches!(op, Op::In(_) | Op::Like(_) | Op::Absent);
            let not = takes_not && ops.next_if_eq(&&Op::Not).is_some();
            step(op, not, &mut stack)?;
        }
        f.write_str(&stack.pop().map(|piece| piece.text).unwrap_or_default())
    }
}

fn step(op: &Op, not: bool, stack: &mut Vec<Piece>) -> fmt::Result {
    let piece = match op {
        Op::Load(name) => single(name.to_string()),
        Op::Integer(value) => number(value.to_string()),
        Op::Float(value) => number(float(*value)),
        Op::Text(text) => single(quoted(text)),
        Op::Boolean(value) => single(if *value { "TRUE" } else { "FALSE" }.into()),
        Op::Plus => signed('+', pop(stack)),
        Op::Minus => signed('-', pop(stack)),
        Op::Calculate(how) => {
            let (symbol, bond) = calculation(*how);
            between(stack, symbol, bond, bond)
        }
        Op::Compare(how) => between(stack, how.symbol(), Bond::Comparison, Bond::Sum),
        Op::In(texts) => {
            let list: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
            behind(pop(stack), &format!("{}IN ({})", no(not), list.join(", ")))
        }
        Op::Like(pattern) => {
            let mut words = format!("{}LIKE {}", no(not), quoted(pattern.text()));
            if let Some(escape) = pattern.escape() {
                write!(words, " ESCAPE {}", quoted(escape.encode_utf8(&mut [0; 4])))?;
            }
            behind(pop(stack), &words)
        }
        Op::Absent => behind(pop(stack), if not { "IS NOT NULL" } else { "IS NULL" }),
        Op::Not => Piece { text: format!("NOT {}", inside(pop(stack), Bond::Not)), bond: Bond::Not },
        Op::And => between(stack, "AND", Bond::And, Bond::And),
        Op::Or => between(stack, "OR", Bond::Or, Bond::Or),
        Op::Holds | Op::SkipIfFalse(_) | Op::SkipIfTrue(_) => return Ok(()),
    };
    stack.push(piece);
    Ok(())
}

fn pop(stack: &mut Vec<Piece>) -> Piece {
    stack.pop().unwrap_or_else(|| single(String::new()))
}

fn single(text: String) -> Piece {
    Piece { text, bond: Bond::Single }
}

fn number(text: String) -> Piece {
    let bond = if text.starts_with('-') { Bond::Sign } else { Bond::Single };
    Piece { text, bond }
}

/// A number with a dot, unless it is long and an exponent makes it shorter.
fn float(value: f64) -> String {
    let (plain, scientific) = (format!("{value:?}"), format!("{value:e}"));
    if plain.len() > PLAIN && scientific.len() < plain.len() { scientific } else { plain }
}

/// A second sign is kept apart, so that it begins no comment in other languages.
fn signed(sign: char, operand: Piece) -> Piece {
    let space = if operand.bond == Bond::Sign { " " } else { "" };
    Piece { text: format!("{sign}{space}{}", inside(operand, Bond::Sign)), bond: Bond::Sign }
}

fn calculation(how: Calculation) -> (&'static str, Bond) {
    match how {
        Calculation::Add => ("+", Bond::Sum),
        Calculation::Subtract => ("-", Bond::Sum),
        Calculation::Multiply => ("*", Bond::Product),
        Calculation::Divide => ("/", Bond::Product),
    }
}

/// Two pieces with a word between them. The left one may hold together as strongly as `left`; the right one has to do so more strongly
/// than the whole.
fn between(stack: &mut Vec<Piece>, word: &str, bond: Bond, left: Bond) -> Piece {
    let (right, first) = (pop(stack), pop(stack));
    let is_chain = right.bond <= bond;
    let mut text = inside(first, left);
    text.push(' ');
    text.push_str(word);
    text.push(' ');
    let second = if is_chain { parenthesized(&right.text) } else { right.text };
    text.push_str(&second);
    Piece { text, bond }
}

fn behind(operand: Piece, words: &str) -> Piece {
    Piece { text: format!("{} {words}", inside(operand, Bond::Single)), bond: Bond::Comparison }
}

fn inside(piece: Piece, bond: Bond) -> String {
    if piece.bond < bond { parenthesized(&piece.text) } else { piece.text }
}

fn parenthesized(text: &str) -> String {
    format!("({text})")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn no(not: bool) -> &'static str {
    if not { "NOT " } else { "" }
}
