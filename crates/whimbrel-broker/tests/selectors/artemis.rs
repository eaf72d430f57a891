//! Selectors beside those of Artemis, another broker. `cargo xtask selectors` fetches its parser and runs this.
//!
//! Artemis must answer as the model does with the deviations of docs/selectors.md, and Whimbrel as the model does
//! without them. Each deviation must be met.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use std::{env, fs};

use whimbrel_broker::selector::{Selector, Truth};

use crate::expression::Expression;
use crate::model::{Deviation, Model, Stop};
use crate::random::{Message, Owned, Random, properties};

/// The classes and archives of Artemis and the oracle, as Java has them.
const CLASSES: &str = "WHIMBREL_ARTEMIS_CLASSES";
const COUNT: &str = "WHIMBREL_ARTEMIS_COUNT";
const SEED: &str = "WHIMBREL_ARTEMIS_SEED";

const MESSAGES: usize = 4;

/// A question to the oracle.
struct Question {
    text: String,
    messages: Vec<Message>,
}

/// The oracle's answer: `None` if the selector is refused, else a letter for each message.
type Answer = Option<Vec<char>>;

fn ask(questions: &[Question]) -> Vec<Answer> {
    let classes =
        env::var(CLASSES).unwrap_or_else(|_| panic!("run `cargo xtask selectors`, which sets {CLASSES}"));
    let folder = env::temp_dir().join(format!("whimbrel-artemis-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("questions"), folder.join("answers"));
    let lines: Vec<_> = questions.iter().map(line).collect();
    fs::write(&input, lines.join("\n")).expect("questions are written");
    let oracle = Command::new("java").args(["-cp", &classes, "Oracle"]).args([&input, &output]).status();
    assert!(oracle.expect("java runs").success(), "the oracle has failed");
    let answers = fs::read_to_string(&output).expect("there are answers");
    fs::remove_dir_all(&folder).expect("the folder is removed");
    let answers: Vec<Answer> =
        answers.lines().map(|line| line.strip_prefix('-').map(|line| line.chars().collect())).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

fn line(question: &Question) -> String {
    let mut line = hex(&question.text);
    for message in &question.messages {
        line.push('\t');
        let values: Vec<_> = message.iter().map(|(name, value)| format!("{name}:{}", typed(value))).collect();
        line.push_str(if values.is_empty() { "-".to_owned() } else { values.join(",") }.as_str());
    }
    line
}

fn typed(value: &Owned) -> String {
    match value {
        Owned::Boolean(value) => format!("b:{value}"),
        Owned::Integer(value) => format!("l:{value}"),
        Owned::Float(value) => format!("d:{}", value.to_bits()),
        Owned::Text(text) => format!("s:{}", hex(text)),
    }
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes everything");
        hex
    })
}

fn letter(truth: Option<bool>) -> char {
    truth.map_or('U', |truth| if truth { 'T' } else { 'F' })
}

fn ours(text: &str, message: &Message) -> char {
    match Selector::parse(text).map(|selector| selector.evaluate(&properties(message))) {
        Ok(Truth::True) => 'T',
        Ok(Truth::False) => 'F',
        Ok(Truth::Unknown) => 'U',
        Err(_) => 'R',
    }
}

fn from_env(name: &str, default: u64) -> u64 {
    env::var(name)
        .ok()
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
#[ignore = "needs Artemis: run `cargo xtask selectors`"]
fn random_selectors_differ_as_the_page_says() {
    let (count, seed) = (from_env(COUNT, 100_000), from_env(SEED, 1));
    println!("{count} selectors from seed {seed}, {MESSAGES} messages each");
    let mut random = Random::new(seed);
    let expressions: Vec<Expression> = (0..count).map(|_| random.condition(3)).collect();
    let question = |expression: &Expression, random: &mut Random| Question {
        text: expression.to_string(),
        messages: (0..MESSAGES).map(|_| random.message()).collect(),
    };
    let questions: Vec<_> = expressions.iter().map(|expression| question(expression, &mut random)).collect();
    let mut met: BTreeMap<Deviation, u64> = BTreeMap::new();
    let (mut refused, mut agreed, mut differed, mut joined) = (0, 0, 0, 0);
    for ((expression, question), answer) in expressions.iter().zip(&questions).zip(ask(&questions)) {
        let text = &question.text;
        let Some(answer) = answer else {
            assert!(is_boolean_left(expression), "Artemis refuses {text}");
            refused += 1;
            continue;
        };
        for (message, theirs) in question.messages.iter().zip(answer) {
            let ours = ours(text, message);
            let jms = Model::jms(message).truth(expression).expect("JMS stops at nothing");
            assert_eq!(ours, letter(jms), "{text} of {message:?}");
            let mut model = Model::artemis(message);
            let expected = match model.truth(expression) {
                Ok(truth) => letter(truth),
                Err(Stop::Throws) => 'E',
                Err(Stop::Joins) => {
                    joined += 1;
                    theirs
                }
            };
            assert_eq!(theirs, expected, "Artemis says otherwise of {text} of {message:?}: {:?}", model.met);
            if ours == theirs {
                agreed += 1;
            } else {
                assert!(!model.met.is_empty(), "no deviation explains {text} of {message:?}");
                differed += 1;
            }
            model.met.sort_unstable();
            model.met.dedup();
            model.met.iter().for_each(|deviation| *met.entry(*deviation).or_default() += 1);
        }
    }
    println!(
        "{agreed} answers agreed, {differed} differed by deviations, {joined} of these after joining texts"
    );
    println!("{refused} selectors were refused for a boolean on the left; deviations met: {met:?}");
    assert_eq!(met.len(), Deviation::ALL.len(), "a deviation was not met");
}

/// E11: Artemis refuses a boolean literal that is compared with a literal of another type on its right.
fn is_boolean_left(expression: &Expression) -> bool {
    match expression {
        Expression::Compared(left, _, right) => {
            let is_other = matches!(
                unsigned(right),
                Expression::Text(_) | Expression::Integer(_) | Expression::Float(_)
            );
            matches!(**left, Expression::Boolean(_)) && is_other
        }
        Expression::Not(what) => is_boolean_left(what),
        Expression::And(left, right) | Expression::Or(left, right) => {
            is_boolean_left(left) || is_boolean_left(right)
        }
        _ => false,
    }
}

/// Artemis forgets a plus.
fn unsigned(expression: &Expression) -> &Expression {
    match expression {
        Expression::Signed('+', number) => unsigned(number),
        _ => expression,
    }
}

/// The page's table of deviations in the language: a selector, and what Whimbrel and Artemis say of a message with
/// a = 1, s = 'a!b', x = 2.5; R is refused.
const CLAIMS: [(&str, char, char); 35] = [
    ("NOT a = 2", 'T', 'F'),
    ("NOT s IS NULL", 'T', 'F'),
    ("", 'T', 'R'),
    ("TRUE = 'a'", 'F', 'R'),
    ("a = 1 = TRUE", 'R', 'T'),
    ("(a = 1) = TRUE", 'R', 'T'),
    ("1 < a < 5", 'R', 'R'),
    ("a % 2 = 1", 'R', 'T'),
    ("\"a\" = 1", 'R', 'T'),
    ("a = 1 -- it's one\n", 'R', 'T'),
    ("a = 1 /* one */", 'R', 'T'),
    ("a--1 = 2\n", 'T', 'F'),
    ("NULL", 'R', 'U'),
    ("a = NULL", 'R', 'R'),
    ("x = 2.5f", 'T', 'R'),
    ("x = 2.5d", 'T', 'R'),
    ("a = 0b1", 'T', 'R'),
    ("a < 1_000", 'T', 'R'),
    ("a < 0x10 AND a < 010 AND a < 3L", 'T', 'T'),
    ("a = 08", 'R', 'R'),
    ("a = 9223372036854775808", 'R', 'F'),
    ("a > -9223372036854775808", 'T', 'T'),
    ("a < 1e400", 'R', 'T'),
    ("a > 1e-400", 'R', 'T'),
    ("xpath IS NULL", 'T', 'R'),
    ("größe IS NULL", 'T', 'R'),
    ("s LIKE 'a!b' ESCAPE '!'", 'R', 'T'),
    ("s LIKE 'a!b!' ESCAPE '!'", 'R', 'F'),
    ("'abc' LIKE 'a%'", 'R', 'T'),
    ("-s IS NULL", 'R', 'T'),
    ("'a' + 1 = 'a1'", 'R', 'T'),
    ("a > 'b'", 'R', 'R'),
    ("a != 2", 'R', 'R'),
    ("s || 'a' = 'b'", 'R', 'R'),
    ("convert_string_expressions:a = '1'", 'R', 'T'),
];

#[test]
fn the_page_lists_where_the_languages_differ() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/selectors.md"));
    let page = page.expect("the page is there");
    for (text, ours, theirs) in CLAIMS {
        let (shown, answers) = (format!("`{}`", text.trim_end()), format!("| {ours} | {theirs} |"));
        let is_listed = page.lines().any(|line| line.contains(&shown) && line.contains(&answers));
        // E11 and the empty text are elsewhere on the page.
        assert!(ours == theirs || is_listed || ["", "TRUE = 'a'"].contains(&text), "{text}");
    }
}

#[test]
#[ignore = "needs Artemis: run `cargo xtask selectors`"]
fn the_language_differs_as_the_page_says() {
    let message: Message =
        vec![("a", Owned::Integer(1)), ("s", Owned::Text("a!b".to_owned())), ("x", Owned::Float(2.5))];
    let question = |text: &str| Question { text: text.to_owned(), messages: vec![message.clone()] };
    let answers = ask(&CLAIMS.map(|(text, ..)| question(text)));
    let mut wrong = Vec::new();
    for ((text, expected, theirs), answer) in CLAIMS.into_iter().zip(answers) {
        let answer = answer.map_or('R', |letters| letters[0]);
        let ours = ours(text, &message);
        if (ours, answer) != (expected, theirs) {
            wrong.push(format!(
                "{text}: Whimbrel says {ours}, not {expected}; Artemis {answer}, not {theirs}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs Artemis: run `cargo xtask selectors`"]
fn damaged_selectors_that_are_taken_are_taken_by_artemis() {
    let pieces = [
        "(",
        ")",
        " AND ",
        " OR ",
        "=",
        "<>",
        " < ",
        "- ",
        "+",
        "*",
        ",",
        " LIKE ",
        " IN ",
        " IS ",
        " NULL ",
        " BETWEEN ",
        " TRUE ",
        " a ",
        " 1 ",
        " 'x' ",
    ];
    let (count, seed) = (from_env(COUNT, 100_000), from_env(SEED, 1));
    let mut random = Random::new(!seed);
    let mut questions = Vec::new();
    for _ in 0..count {
        let mut text: Vec<char> = random.condition(2).to_string().chars().collect();
        let at = random.below(text.len() + 1);
        let end = (at + random.below(4)).min(text.len());
        let with = if random.chance(70) { random.one(&pieces) } else { "" };
        text.splice(at..end, with.chars());
        let text: String = text.into_iter().collect();
        if !differs_by_the_page(&text) {
            questions.push(Question { text, messages: Vec::new() });
        }
    }
    let (mut taken, mut both_refused, mut only_theirs) = (0, 0, 0);
    for (question, answer) in questions.iter().zip(ask(&questions)) {
        match (Selector::parse(&question.text), answer) {
            (Ok(_), Some(_)) => taken += 1,
            (Ok(_), None) => panic!("Artemis refuses {}", question.text),
            (Err(_), None) => both_refused += 1,
            (Err(_), Some(_)) => only_theirs += 1,
        }
    }
    println!(
        "{taken} damaged selectors were taken by both, {both_refused} by none, {only_theirs} only by Artemis"
    );
    assert!(taken > 1000 && both_refused > 1000);
}

/// Returns whether a text has something that Artemis refuses by the page, or reads otherwise.
fn differs_by_the_page(text: &str) -> bool {
    let is_suffixed = |pair: &[u8]| pair[0].is_ascii_digit() && matches!(pair[1], b'f' | b'd' | b'b' | b'_');
    let is_booleans = ["TRUE", "FALSE"].into_iter().any(|word| {
        text.match_indices(word)
            .any(|(at, _)| text[at + word.len()..].trim_start().starts_with(['=', '<', ')']))
    });
    let not_before = text.match_indices("NOT").any(|(at, _)| {
        let after = text[at + 3..].trim_start();
        !["NULL", "IN", "LIKE", "BETWEEN"].into_iter().any(|word| after.starts_with(word))
    });
    text.trim().is_empty()
        || text.as_bytes().windows(2).any(is_suffixed)
        || is_booleans
        || not_before
        || text.contains("--")
}
