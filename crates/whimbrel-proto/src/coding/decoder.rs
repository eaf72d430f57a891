//! The receiver's window: the source symbols that came, and equations over those that did not.

use std::collections::VecDeque;

use super::field;
use super::repair::{LONGEST_SYMBOL, LONGEST_WINDOW, Repair, coefficient, framed, unframed};

/// So many numbers back from the newest one, symbols are remembered.
const REMEMBERED: u64 = LONGEST_WINDOW + 64;
/// The places of an equation's terms. Numbers in the window differ in their remainders.
const PLACES: usize = REMEMBERED as usize;

/// The most equations that are kept.
const MOST_EQUATIONS: usize = 64;

/// The most bytes of symbols, and of the sums of equations, that are kept. With what surrounds them they take less than
/// [`MOST_HELD`].
const MOST_SYMBOL_BYTES: usize = 384 << 10;
const MOST_SUM_BYTES: usize = 96 << 10;

/// The most memory that a decoder takes, bytes.
pub(crate) const MOST_HELD: u64 = 768 << 10;

/// An equation: the sum of some missing symbols, each times its coefficient.
#[derive(Debug)]
struct Equation {
    /// The least number that has a term. Its coefficient is 1.
    pivot: u64,
    /// The coefficients, each at the remainder of its number. A peer can make all of them count, so adding two equations
    /// must not take long.
    terms: Box<[u8; PLACES]>,
    sum: Vec<u8>,
}

/// A source symbol that was recovered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) number: u64,
    pub(crate) symbol: Vec<u8>,
}

/// The window.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The symbols from `first` on, in framed form, if they came or were recovered.
    known: VecDeque<Option<Vec<u8>>>,
    /// Their bytes.
    bytes: usize,
    first: u64,
    /// In echelon form: no equation has the first term of another.
    equations: VecDeque<Equation>,
}

impl Decoder {
    /// Takes a source symbol that came. Returns those that can be recovered by it.
    pub(crate) fn on_symbol(&mut self, number: u64, symbol: &[u8]) -> Vec<Recovered> {
        if symbol.len() + 2 > LONGEST_SYMBOL || !self.reach(number) || self.known(number).is_some() {
            return Vec::new();
        }
        self.learn(number, framed(symbol));
        self.solve()
    }

    /// Takes a repair symbol. Returns the source symbols that can be recovered by it.
    pub(crate) fn on_repair(&mut self, repair: &Repair) -> Vec<Recovered> {
        let Repair { first, count, key, ref sum } = *repair;
        let Some(end) = first.checked_add(count).filter(|_| repair.is_sound()) else { return Vec::new() };
        if !self.reach(end - 1) || first < self.first {
            return Vec::new();
        }
        let mut equation = Equation { pivot: first, terms: Box::new([0; PLACES]), sum: sum.clone() };
        for number in first..end {
            let coefficient = coefficient(key, number);
            match self.known(number) {
                Some(symbol) => field::add(&mut equation.sum, coefficient, symbol),
                None => equation.terms[place(number)] = coefficient,
            }
        }
        self.insert(equation);
        self.solve()
    }

    /// Makes room for this number. Returns false if it is too old.
    fn reach(&mut self, number: u64) -> bool {
        if number < self.first {
            return false;
        }
        if number - self.first >= 2 * REMEMBERED {
            // A jump: nothing that is known is near it.
            (self.first, self.known, self.bytes) = (number - REMEMBERED + 1, VecDeque::new(), 0);
        }
        while number - self.first >= REMEMBERED {
            self.forget_first();
        }
        let length = (number - self.first) as usize + 1;
        if self.known.len() < length {
            self.known.resize(length, None);
        }
        self.drop_old_equations();
        true
    }

    fn forget_first(&mut self) {
        self.bytes -= self.known.pop_front().flatten().map_or(0, |symbol| symbol.len());
        self.first += 1;
    }

    fn drop_old_equations(&mut self) {
        let first = self.first;
        self.equations.retain(|equation| equation.pivot >= first);
    }

    fn known(&self, number: u64) -> Option<&Vec<u8>> {
        self.known.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Notes a symbol, and takes it out of the equations.
    fn learn(&mut self, number: u64, symbol: Vec<u8>) {
        let mut headless = None;
        // Sums do not grow so long that all together take more than they may.
        let most = (MOST_SUM_BYTES / symbol.len().max(1)).max(1);
        while self.equations.len() > most {
            self.equations.pop_front();
        }
        for at in (0..self.equations.len()).rev() {
            let equation = &mut self.equations[at];
            let coefficient = std::mem::take(&mut equation.terms[place(number)]);
            if coefficient != 0 {
                field::add(&mut equation.sum, coefficient, &symbol);
                if equation.pivot == number {
                    // No other one has this term.
                    headless = self.equations.remove(at);
                }
            }
        }
        if headless.as_mut().is_some_and(|equation| !equation.find_pivot(self.first)) {
            headless = None;
        }
        self.keep(number, symbol);
        if let Some(equation) = headless.filter(|equation| equation.pivot >= self.first) {
            self.insert(equation);
        }
    }

    /// Remembers a symbol. The oldest are forgotten for it.
    fn keep(&mut self, number: u64, symbol: Vec<u8>) {
        self.bytes += symbol.len();
        if let Some(place) = self.known.get_mut((number - self.first) as usize) {
            *place = Some(symbol);
        }
        if self.bytes > MOST_SYMBOL_BYTES {
            while self.bytes > MOST_SYMBOL_BYTES {
                self.forget_first();
            }
            self.drop_old_equations();
        }
    }

    /// Adds an equation, unless it follows from the others.
    fn insert(&mut self, mut equation: Equation) {
        for other in &self.equations {
            equation.subtract(other);
        }
        if !equation.find_pivot(self.first) {
            return;
        }
        let Some(inverse) = field::inverse(equation.terms[place(equation.pivot)]) else { return };
        field::scale(&mut equation.terms[..], inverse);
        field::scale(&mut equation.sum, inverse);
        while (self.equations.len() + 1) * equation.sum.len() > MOST_SUM_BYTES && !self.equations.is_empty() {
            self.equations.pop_front();
        }
        for other in &mut self.equations {
            other.subtract(&equation);
        }
        self.equations.push_back(equation);
        while self.equations.len() > MOST_EQUATIONS || self.sum_bytes() > MOST_SUM_BYTES {
            self.equations.pop_front();
        }
    }

    fn sum_bytes(&self) -> usize {
        self.equations.iter().map(|equation| equation.sum.len()).sum()
    }

    /// Recovers the symbols that are alone in an equation.
    fn solve(&mut self) -> Vec<Recovered> {
        let mut recovered = Vec::new();
        while let Some(at) = self.equations.iter().position(Equation::is_solved) {
            let Some(Equation { pivot: number, sum, .. }) = self.equations.remove(at) else { break };
            // What does not look like a symbol is forgotten: it may come by itself.
            let Some(symbol) = unframed(&sum).map(<[u8]>::to_vec) else { continue };
            self.learn(number, framed(&symbol));
            recovered.push(Recovered { number, symbol });
        }
        recovered
    }
}

impl Equation {
    /// Subtracts `other` as often as removes the term of its pivot here.
    fn subtract(&mut self, other: &Self) {
        let factor = self.terms[place(other.pivot)];
        if factor != 0 {
            field::add_to(&mut self.terms[..], factor, &other.terms[..]);
            field::add(&mut self.sum, factor, &other.sum);
        }
    }

    /// Finds the least number that has a term, in the window that begins with `first`. Returns false if there is none.
    fn find_pivot(&mut self, first: u64) -> bool {
        let found = (first..first.saturating_add(REMEMBERED)).find(|number| self.terms[place(*number)] != 0);
        self.pivot = found.unwrap_or_default();
        found.is_some()
    }

    fn is_solved(&self) -> bool {
        self.terms.iter().filter(|coefficient| **coefficient != 0).count() == 1
    }
}

fn place(number: u64) -> usize {
    (number % REMEMBERED) as usize
}
