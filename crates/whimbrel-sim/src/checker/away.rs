//! Absences.

use std::time::Duration;

use whimbrel_proto::SuspendMode;

use super::dice::Dice;
use crate::pair::End;

/// An absence, from the first end's leaving until the session continues.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Away {
    /// One end is away for a while. With `crash` its process ends; with `unheard` the other end is not told. The NAT
    /// of the end in `rebind` gives it another address meanwhile.
    One { end: End, mode: SuspendMode, time: Duration, crash: bool, unheard: bool, rebind: Option<End> },
    /// Both ends suspend within `apart` of each other.
    Both { apart: Duration, time: Duration, crash: bool, rebind: Option<End> },
    /// All networks are dark for so long that both ends give the connection up. With `rebind` the client has another
    /// address afterwards.
    Outage { time: Duration, rebind: bool },
}

impl Away {
    pub(super) fn draw(dice: &mut dyn Dice, end: End) -> Self {
        let time = Duration::from_millis(dice.between(0, 5_000).into());
        let crash = dice.chance(50);
        let rebind = dice.chance(30).then(|| if dice.chance(50) { End::Client } else { End::Server });
        match dice.below(10) {
            0..6 => {
                let mode = if dice.chance(30) { SuspendMode::Flush } else { SuspendMode::Snapshot };
                Self::One { end, mode, time, crash, unheard: dice.chance(25), rebind }
            }
            6..8 => Self::Both { apart: Duration::from_millis(dice.below(200).into()), time, crash, rebind },
            _ => Self::Outage { time, rebind: rebind.is_some() },
        }
    }
}
