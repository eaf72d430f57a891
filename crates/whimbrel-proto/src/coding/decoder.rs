//! The receiver's window: the source symbols that came, and equations over those that did not.

use std::collections::{BTreeMap, VecDeque};

use super::field;
use super::repair::{LONGEST_WINDOW, Repair, coefficient, framed, unframed};

/// So many numbers back from the newest one, symbols are remembered.
const REMEMBERED: u64 = LONGEST_WINDOW + 64;

/// The most equations that are kept.
const MOST_EQUATIONS: usize = 64;

/// The most bytes of symbols, and of the sums of equations, that are kept. With what surrounds them they take less than
/// [`MOST_HELD`].
const MOST_SYMBOL_BYTES: usize = 384 << 10;
const MOST_SUM_BYTES: usize = 96 << 10;

/// The most memory that a decoder takes, bytes.
pub(crate) const MOST_HELD: u64 = 768 << 10;

/// The longest source symbol in framed form: more fits into no packet.
const LONGEST_SYMBOL: usize = 65_535;

/// An equation: the sum of some missing symbols, each times its coefficient.
#[derive(Debug)]
struct Equation {
    /// The coefficients, by number. None of them is zero, and the first is 1.
    terms: BTreeMap<u64, u8>,
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
        let sound = (1..=LONGEST_WINDOW).contains(&count) && sum.len() <= LONGEST_SYMBOL;
        let Some(end) = first.checked_add(count).filter(|_| sound) else { return Vec::new() };
        if !self.reach(end - 1) || first < self.first {
            return Vec::new();
        }
        let mut equation = Equation { terms: BTreeMap::new(), sum: sum.clone() };
        for number in first..end {
            let coefficient = coefficient(key, number);
            match self.known(number) {
                Some(symbol) => field::add(&mut equation.sum, coefficient, symbol),
                None => _ = equation.terms.insert(number, coefficient),
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
        self.equations
            .retain(|equation| equation.terms.first_key_value().is_some_and(|(least, _)| *least >= first));
    }

    fn known(&self, number: u64) -> Option<&Vec<u8>> {
        self.known.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Notes a symbol, and takes it out of the equations.
    fn learn(&mut self, number: u64, symbol: Vec<u8>) {
        let mut changed = Vec::new();
        for at in (0..self.equations.len()).rev() {
            if let Some(coefficient) = self.equations[at].terms.remove(&number) {
                field::add(&mut self.equations[at].sum, coefficient, &symbol);
                // It may begin with another term now.
                changed.extend(self.equations.remove(at));
            }
        }
        self.keep(number, symbol);
        changed.into_iter().for_each(|equation| self.insert(equation));
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
        let Some((first, coefficient)) = equation.terms.first_key_value().map(|(first, by)| (*first, *by))
        else {
            return;
        };
        if first < self.first {
            return;
        }
        let Some(inverse) = field::inverse(coefficient) else { return };
        equation.terms.values_mut().for_each(|by| *by = field::multiply(*by, inverse));
        field::scale(&mut equation.sum, inverse);
        for other in &mut self.equations {
            if other.terms.contains_key(&first) {
                other.subtract(&equation);
            }
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
        while let Some(at) = self.equations.iter().position(|equation| equation.terms.len() == 1) {
            let Some(Equation { terms, sum }) = self.equations.remove(at) else { break };
            let Some((number, _)) = terms.first_key_value() else { break };
            // What does not look like a symbol is forgotten: it may come by itself.
            let Some(symbol) = unframed(&sum).map(<[u8]>::to_vec) else { continue };
            self.learn(*number, framed(&symbol));
            recovered.push(Recovered { number: *number, symbol });
        }
        recovered
    }
}

impl Equation {
    /// Subtracts `other` as often as removes its first term here.
    fn subtract(&mut self, other: &Self) {
        let Some(factor) =
            other.terms.first_key_value().and_then(|(first, _)| self.terms.get(first)).copied()
        else {
            return;
        };
        for (number, by) in &other.terms {
            let place = self.terms.entry(*number).or_default();
            *place ^= field::multiply(factor, *by);
            if *place == 0 {
                self.terms.remove(number);
            }
        }
        field::add(&mut self.sum, factor, &other.sum);
    }
}
