//! Special events beyond normal use: neglect, attackers on the path, packets for the wrong server of a fleet, and NAT
//! rebindings and closes at bad moments.

use std::time::Duration;

use super::dice::Dice;
use crate::pair::End;

/// The names under which special events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Special {
    Stall,
    Abandon,
    Replay,
    Hold,
    Stray,
    RebindEarly,
    RebindAway,
    RebindClosing,
    CloseResuming,
}

impl Special {
    /// All special events.
    pub const ALL: [Self; 9] = [
        Self::Stall,
        Self::Abandon,
        Self::Replay,
        Self::Hold,
        Self::Stray,
        Self::RebindEarly,
        Self::RebindAway,
        Self::RebindClosing,
        Self::CloseResuming,
    ];
}

/// The directions that an attacker sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum View {
    Up,
    Down,
    Both,
}

/// The actions of an attacker without keys.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Attack {
    /// Packets that passed are sent again in their former order, counted back from the newest.
    Replay { view: View, back: u32, count: u32, elsewhere: bool },
    /// For a while, one of `every` packets is held back and arrives `later`.
    Hold { view: View, every: u32, time: Duration, later: Duration, elsewhere: bool },
    /// For a while, one of `every` packets to the server also goes to another server with the same identity, or with
    /// `only` goes just there.
    Stray { every: u32, time: Duration, only: bool },
}

impl Attack {
    /// The name under which it is counted.
    pub fn special(&self) -> Special {
        match self {
            Self::Replay { .. } => Special::Replay,
            Self::Hold { .. } => Special::Hold,
            Self::Stray { .. } => Special::Stray,
        }
    }

    pub(super) fn draw_replay(dice: &mut dyn Dice) -> Self {
        let view = View::draw(dice);
        let back = if dice.chance(50) { dice.below(40) } else { dice.below(400) };
        Self::Replay { view, back, count: dice.between(1, 30), elsewhere: dice.chance(30) }
    }

    pub(super) fn draw_hold(dice: &mut dyn Dice) -> Self {
        Self::Hold {
            view: View::draw(dice),
            every: dice.between(1, 5),
            time: Duration::from_millis(dice.between(20, 1_500).into()),
            later: Duration::from_millis(dice.between(1, 1_000).into()),
            elsewhere: dice.chance(25),
        }
    }

    pub(super) fn draw_stray(dice: &mut dyn Dice) -> Self {
        let time = Duration::from_millis(dice.between(20, 2_000).into());
        Self::Stray { every: dice.between(1, 4), time, only: dice.chance(50) }
    }
}

impl View {
    fn draw(dice: &mut dyn Dice) -> Self {
        [Self::Up, Self::Down, Self::Both][dice.below(3) as usize]
    }

    pub(super) fn sees(self, from: End) -> bool {
        self == Self::Both || (self == Self::Up) == (from == End::Client)
    }
}
