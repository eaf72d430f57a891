//! A decided run, which can be looked at, shortened and replayed.

use std::time::Duration;

use whimbrel_proto::TransportConfig;

use super::dice::Dice;
use super::draft::Draft;
use super::operation::{Finale, Operation};
use super::settings::settings;

/// The number of operations of a run by seed.
pub const OPERATIONS: usize = 200;

/// A run of operations before it is played.
#[derive(Clone, Debug)]
pub struct Script {
    /// The seed of the world's random events: losses and keys.
    pub seed: u64,
    /// The settings of both ends.
    pub settings: TransportConfig,
    /// The initial link in both directions.
    pub link: String,
    /// Messages that the client sends before it is connected.
    pub early: Vec<Draft>,
    /// How long after it began to connect the client's NAT gives it another address.
    pub rebind: Option<Duration>,
    /// The operations in their order.
    pub operations: Vec<Operation>,
    /// The way in which it ends.
    pub finale: Finale,
}

impl Script {
    /// Draws a script in a world of this seed.
    pub fn draw(dice: &mut dyn Dice, seed: u64) -> Self {
        dice.part("begin");
        let settings = settings(dice);
        let link = format!("rate=10mbit,delay={}ms,loss={}%", dice.between(1, 100), dice.below(15));
        let early =
            (0..dice.below(4)).map(|_| Operation::draw(dice)).filter_map(|operation| match operation {
                Operation::Send { draft, .. } => Some(draft),
                _ => None,
            });
        let early = early.collect();
        let rebind = dice.chance(10).then(|| Duration::from_millis(dice.below(600).into()));
        let mut operations = Vec::new();
        while operations.len() < OPERATIONS && dice.part("operation") {
            operations.push(Operation::draw(dice));
        }
        dice.part("finale");
        let finale = Finale::draw(dice);
        Self { seed, settings, link, early, rebind, operations, finale }
    }

    /// Describes each part in a line, in their order.
    pub(super) fn describe(&self) -> Vec<String> {
        let Self { settings, link, early, rebind, operations, finale, .. } = self;
        let begin = format!("{link}; early {early:?}; rebind {rebind:?}; {settings:?}");
        let operations = operations.iter().map(|operation| format!("{operation:?}"));
        std::iter::once(begin).chain(operations).chain([format!("{finale:?}")]).collect()
    }
}
