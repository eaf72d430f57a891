//! A message before it is sent.

use std::time::Duration;

use whimbrel_proto::Service;

use super::dice::Dice;

/// A message to send, without its payload, which the model makes.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The index of the stream among the open ones, modulo their number.
    pub stream: u32,
    /// Its service.
    pub service: Service,
    /// Its tag.
    pub tag: Option<u64>,
    /// Its priority.
    pub priority: u8,
    /// Its lifetime.
    pub lifetime: Option<Duration>,
    /// The length of the payload in bytes.
    pub length: usize,
    /// Whether its outcome is wanted.
    pub tracked: bool,
    /// Whether the reader must confirm it.
    pub confirm: bool,
    /// Whether it carries its number as PPID.
    pub ppid: bool,
}

impl Draft {
    /// A message with default properties.
    pub fn plain(length: usize) -> Self {
        Self {
            stream: 0,
            service: Service::ReliableUnsequenced,
            tag: None,
            priority: 100,
            lifetime: None,
            length,
            tracked: true,
            confirm: false,
            ppid: false,
        }
    }

    pub(super) fn draw(dice: &mut dyn Dice) -> Self {
        let length = length(dice);
        Self {
            stream: if dice.chance(60) { 0 } else { dice.below(4) },
            service: Service::ALL[dice.below(4) as usize],
            tag: dice.chance(40).then(|| tag(dice)),
            priority: if dice.chance(60) { 100 } else { dice.below(256) as u8 },
            lifetime: dice.chance(25).then(|| Duration::from_millis(dice.between(0, 800).into())),
            length,
            tracked: dice.chance(70),
            confirm: dice.chance(10),
            // A payload too short for a number needs the number in the PPID.
            ppid: length < 8 || dice.chance(10),
        }
    }
}

/// Draws one of a few tags.
pub(super) fn tag(dice: &mut dyn Dice) -> u64 {
    dice.below(4).into()
}

/// Draws a length in bytes: mostly short.
pub(super) fn length(dice: &mut dyn Dice) -> usize {
    let length = match dice.below(100) {
        0..15 => dice.between(0, 20),
        15..60 => dice.between(8, 300),
        60..80 => dice.between(300, 1_500),
        80..97 => dice.between(1_000, 8_000),
        _ => dice.between(8_000, 65_000),
    };
    length as usize
}
