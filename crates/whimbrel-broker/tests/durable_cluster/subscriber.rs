//! A durable subscriber that roams with a state of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use whimbrel_broker::buffer::All;
use whimbrel_broker::durable::{Begin, Next, Reader};
use whimbrel_broker::store::Position;
use whimbrel_pubsub::coverage::{ChannelCoverage, Fate, Told};

use super::node::{Name, Node};

pub(crate) struct Subscriber {
    /// Its place among the subscriptions.
    pub(crate) at: usize,
    pub(crate) generation: u64,
    /// All that it was told, which it saves at once.
    pub(crate) state: ChannelCoverage,
    pub(crate) got: BTreeSet<Name>,
    pub(crate) attached: Option<(usize, Reader)>,
}

impl Subscriber {
    pub(crate) fn new(at: usize) -> Self {
        let (state, got) = (ChannelCoverage::default(), BTreeSet::new());
        Self { at, generation: 0, state, got, attached: None }
    }

    /// Begins to read at a node, which keeps it.
    pub(crate) fn attach(&mut self, node: &mut Node) {
        self.generation += 1;
        let kept = node.disk.subscriptions[self.at].as_mut().unwrap();
        kept.life.generation = kept.life.generation.max(self.generation);
        node.attached[self.at] = Some(self.generation);
        let acknowledged = kept.coverage.clone();
        let (picks, claimed, until) = (Arc::new(All), self.state.clone(), node.end());
        let first = Position(node.disk.removed as u64);
        let reader = Reader::new(Begin { picks, is_whole: true, acknowledged, claimed, first, until });
        self.attached = Some((node.id, reader));
    }

    /// Reads some, and acknowledges if it should. Fails if it is told something twice, or that something is gone.
    pub(crate) fn read(&mut self, node: &mut Node, budget: usize, acknowledges: bool) -> Result<(), String> {
        let Some((_, reader)) = &mut self.attached else { return Ok(()) };
        for _ in 0..budget {
            match reader.next(2) {
                Next::Told(Told::Delivery(delivery)) => {
                    let name = (delivery.stamp.origin, delivery.stamp.sequence);
                    let is_known = self.state.contains(name.0, name.1);
                    self.state.insert(name.0, delivery.cover.range).map_err(|error| error.to_string())?;
                    if is_known || !self.got.insert(name) {
                        return Err(format!("{name:?} came twice to subscriber {}", self.at));
                    }
                }
                Next::Told(Told::Covers(cover)) => {
                    self.state.insert(cover.origin, cover.range).ok();
                }
                Next::Told(Told::Fate { cover, fate: Fate::Gone, .. }) => {
                    return Err(format!("{cover:?} is told as gone"));
                }
                Next::Told(_) => {}
                Next::Hungry(position) if position < node.end() => drop(reader.feed(node.read(position, 5))),
                Next::Hungry(_) | Next::Full => break,
            }
        }
        if acknowledges {
            let new = reader.acknowledge(&self.state).map_err(|error| error.to_string())?;
            let kept = node.disk.subscriptions[self.at].as_mut().unwrap();
            new.into_iter().for_each(|(origin, range)| {
                kept.coverage.insert(origin, range).ok();
            });
        }
        Ok(())
    }
}
