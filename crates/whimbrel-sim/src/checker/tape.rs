//! The decisions of a run, kept part by part. A run that failed is shortened by leaving out parts and lowering
//! decisions.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::complaint::complaint;
use super::coverage::Coverage;
use super::dice::{Dice, FromBytes, Seeded};
use super::moving::{self, MoveScript};
use super::run::run;
use super::script::Script;

/// The seed of the world in which a fuzzer's input is run.
pub const INPUT_SEED: u64 = 1;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Random operations on both ends: [`run`].
    Operations,
    /// A session that moves between hosts: [`super::run_move`].
    Moves,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Operations, Self::Moves];

    /// The name of the kind in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Moves => "moves",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| format!("no kind of run is called {name}: there are operations and moves"))
    }
}

/// A part of a run, with the decisions drawn for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) draws: Vec<u32>,
}

impl Part {
    /// Returns whether a run can do without the part.
    pub(super) fn is_optional(&self) -> bool {
        ["operation", "before", "away", "after"].contains(&self.name.as_str())
    }
}

/// All decisions of a run. [`Display`] writes what [`FromStr`] reads: a line for each part, with its meaning as a
/// comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tape {
    /// The kind of the run.
    pub kind: Kind,
    /// The seed of the world's random events: losses and keys.
    pub seed: u64,
    pub(super) parts: Vec<Part>,
}

impl Tape {
    /// Records the decisions of a seed.
    pub fn of_seed(kind: Kind, seed: u64) -> Self {
        Self { kind, seed, parts: Vec::new() }.recorded(&mut Seeded::new(seed))
    }

    /// Records the decisions of a fuzzer's input, as the target `operations` runs it.
    pub fn of_input(input: &[u8]) -> Self {
        Self { kind: Kind::Operations, seed: INPUT_SEED, parts: Vec::new() }
            .recorded(&mut FromBytes::new(input))
    }

    /// Keeps only the decisions that are used, each within its limits.
    pub(super) fn tidy(&self) -> Self {
        self.recorded(&mut self.player())
    }

    fn recorded(&self, dice: &mut dyn Dice) -> Self {
        let mut recorder = Recorder { dice, parts: Vec::new() };
        match self.kind {
            Kind::Operations => drop(Script::draw(&mut recorder, self.seed)),
            Kind::Moves => drop(MoveScript::draw(&mut recorder, self.seed)),
        }
        Self { parts: recorder.parts, ..*self }
    }

    fn player(&self) -> Player<'_> {
        Player { rest: &self.parts, draws: [].iter() }
    }

    /// Runs the tape.
    ///
    /// # Errors
    /// The failure that the checker or the system reported.
    pub fn run(&self) -> Result<Coverage, String> {
        complaint(|| match self.kind {
            Kind::Operations => run(&mut self.player(), self.seed),
            Kind::Moves => {
                moving::play(MoveScript::draw(&mut self.player(), self.seed));
                Coverage::default()
            }
        })
    }

    /// Describes what each part means.
    pub(super) fn describe(&self) -> Vec<String> {
        match self.kind {
            Kind::Operations => Script::draw(&mut self.player(), self.seed).describe(),
            Kind::Moves => MoveScript::draw(&mut self.player(), self.seed).describe(),
        }
    }

    /// The number of operations or rounds of messages.
    pub fn len(&self) -> usize {
        self.parts.iter().filter(|part| part.is_optional()).count()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Display for Tape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "kind {}\nseed {}", self.kind.name(), self.seed)?;
        for (part, meaning) in self.parts.iter().zip(self.describe()) {
            let draws: Vec<String> = part.draws.iter().map(u32::to_string).collect();
            writeln!(out, "{} {}  # {meaning}", part.name, draws.join(" "))?;
        }
        Ok(())
    }
}

impl FromStr for Tape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut tape = Self { kind: Kind::Operations, seed: 0, parts: Vec::new() };
        for line in text.lines() {
            let line = line.split_once('#').map_or(line, |(line, _)| line);
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let number = |word: &str| word.parse().map_err(|_| format!("{word} is no number: {line}"));
            match name {
                "kind" => tape.kind = words.next().unwrap_or_default().parse()?,
                "seed" => tape.seed = number(words.next().unwrap_or_default())?,
                _ => {
                    let draws = words.map(|word| number(word).map(|draw| draw as u32));
                    tape.parts.push(Part { name: name.into(), draws: draws.collect::<Result<_, _>>()? });
                }
            }
        }
        Ok(tape)
    }
}

/// Records the decisions of other dice.
struct Recorder<'a> {
    dice: &'a mut dyn Dice,
    parts: Vec<Part>,
}

impl Dice for Recorder<'_> {
    fn below(&mut self, n: u32) -> u32 {
        let draw = self.dice.below(n);
        if let Some(part) = self.parts.last_mut() {
            part.draws.push(draw);
        }
        draw
    }

    fn part(&mut self, name: &'static str) -> bool {
        let there = self.dice.part(name);
        if there {
            self.parts.push(Part { name: name.into(), draws: Vec::new() });
        }
        there
    }
}

/// Repeats the decisions of a tape; zeros beyond its end.
struct Player<'a> {
    rest: &'a [Part],
    draws: std::slice::Iter<'a, u32>,
}

impl Dice for Player<'_> {
    fn below(&mut self, n: u32) -> u32 {
        self.draws.next().map_or(0, |draw| (*draw).min(n - 1))
    }

    fn part(&mut self, name: &'static str) -> bool {
        self.draws = [].iter();
        let Some((part, rest)) = self.rest.split_first().filter(|(part, _)| part.name == name) else {
            return false;
        };
        self.draws = part.draws.iter();
        self.rest = rest;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_plays_what_its_seed_does_and_is_read_as_it_is_written() {
        for kind in Kind::ALL {
            let tape = Tape::of_seed(kind, 7);
            assert_eq!(tape.tidy(), tape);
            assert_eq!(tape.to_string().parse(), Ok(tape.clone()));
            assert_eq!(tape.describe().len(), tape.parts.len());
        }
        let of_seed = super::super::run_seed(7).unwrap();
        assert_eq!(Tape::of_seed(Kind::Operations, 7).run(), Ok(of_seed));
    }

    #[test]
    fn what_is_no_tape_is_refused_by_name() {
        assert!("kind dance".parse::<Tape>().unwrap_err().contains("dance"));
        assert!("operation 1 two".parse::<Tape>().unwrap_err().contains("two"));
    }
}
