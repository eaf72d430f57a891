//! Reduces a run that failed to the shortest one found that fails in the same way.

use super::tape::{Part, Tape};

/// The result of a reduction.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The shortest run found.
    pub tape: Tape,
    /// How it fails.
    pub complaint: String,
    /// The number of runs tried.
    pub runs: u32,
}

/// A failure message without the parts that differ from run to run. Failures of the same class count as the same
/// fault.
pub fn class(complaint: &str) -> String {
    let line = complaint.lines().next().unwrap_or_default();
    let end = line.find(['{', '[']).unwrap_or(line.len());
    let mut class = String::new();
    for letter in line[..end].chars().take(120) {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if !(letter == '#' && class.ends_with('#')) {
            class.push(letter);
        }
    }
    class.trim_end().to_owned()
}

/// Leaves out parts and lowers decisions as long as the failure is of the same class. `more` is asked before each
/// run.
pub fn reduce(tape: &Tape, complaint: &str, more: &mut dyn FnMut() -> bool) -> Reduced {
    let best = Reduced { tape: tape.tidy(), complaint: complaint.to_owned(), runs: 0 };
    let mut search = Search { size: size(&best.tape), class: class(complaint), best, more };
    loop {
        let before = search.size;
        search.leave_out();
        search.simplify();
        if search.size == before || !(search.more)() {
            return search.best;
        }
    }
}

/// The order of sizes: fewer parts, then a shorter description, then lower decisions.
type Size = (usize, usize, u64);

fn size(tape: &Tape) -> Size {
    let words = tape.describe().iter().map(String::len).sum();
    let draws = tape.parts.iter().flat_map(|part| &part.draws).map(|draw| u64::from(*draw)).sum();
    (tape.len(), words, draws)
}

struct Search<'a> {
    best: Reduced,
    size: Size,
    class: String,
    more: &'a mut dyn FnMut() -> bool,
}

impl Search<'_> {
    /// Tries the change on the best run, and keeps the result if it is smaller and fails in the same way.
    fn attempt(&mut self, change: impl FnOnce(&mut Vec<Part>)) -> bool {
        let mut tape = self.best.tape.clone();
        change(&mut tape.parts);
        let tape = tape.tidy();
        let size = size(&tape);
        if size >= self.size || !(self.more)() {
            return false;
        }
        self.best.runs += 1;
        let Err(complaint) = tape.run() else { return false };
        if class(&complaint) != self.class {
            return false;
        }
        (self.best.tape, self.best.complaint, self.size) = (tape, complaint, size);
        true
    }

    /// Tries to leave out half of the parts, then fewer and fewer, down to single ones; the last first.
    fn leave_out(&mut self) {
        let mut count = self.best.tape.len().div_ceil(2);
        while count > 0 {
            let mut end = self.best.tape.parts.len();
            while end > 0 {
                let begin = end.saturating_sub(count);
                self.attempt(|parts| {
                    let mut at = 0;
                    parts.retain(|part| {
                        at += 1;
                        !((begin..end).contains(&(at - 1)) && part.is_optional())
                    });
                });
                end = begin;
            }
            count /= 2;
        }
    }

    fn simplify(&mut self) {
        for part in (0..self.best.tape.parts.len()).rev() {
            // Zeros mostly mean "no" where there is a choice.
            self.attempt(|parts| parts[part].draws.clear());
            let mut at = 0;
            while at < self.best.tape.parts[part].draws.len() {
                self.lower(part, at);
                at += 1;
            }
        }
    }

    fn lower(&mut self, part: usize, at: usize) {
        for simple in [0, 99] {
            if self.attempt(|parts| parts[part].draws[at] = simple) {
                return;
            }
        }
        let draw = |search: &Self| search.best.tape.parts[part].draws.get(at).copied().unwrap_or_default();
        while self.attempt(|parts| parts[part].draws[at] /= 2) {}
        while draw(self) > 0 && self.attempt(|parts| parts[part].draws[at] -= 1) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_a_class_differ_in_numbers_and_states() {
        let one = class("message 17 came after 12, which was sent later: Sent { from: Client }");
        assert_eq!(one, class("message 3 came after 4, which was sent later: Sent { from: Server }"));
        assert_ne!(one, class("message 3 was lost: Sent { from: Server }"));
        assert_eq!(class("assertion failed\n left: 1"), "assertion failed");
    }
}
