use std::collections::BTreeMap;

use whimbrel_pubsub::topic::{Level, Topic, TopicFilter};

use super::bucket::Bucket;
use super::slab::Slab;

/// Filters, level by level, with a bucket at the end of each.
#[derive(Debug, Default)]
pub(super) struct Tree {
    root: Node,
    nodes: Slab<Node>,
}

#[derive(Debug, Default)]
struct Node {
    named: BTreeMap<Box<str>, u32>,
    one: Option<u32>,
    /// The bucket of the filter that ends here.
    here: Option<Box<Bucket>>,
    /// The bucket of the filter that goes on with `#`.
    rest: Option<Box<Bucket>>,
}

/// Nodes to be looked at, kept so that their room is used again.
#[derive(Debug, Default)]
pub(super) struct Visits {
    now: Vec<u32>,
    next: Vec<u32>,
}

impl Tree {
    /// The bucket of a filter, if it has one.
    pub(super) fn bucket(&self, filter: &TopicFilter) -> Option<&Bucket> {
        let mut node = &self.root;
        for level in filter.levels() {
            let next = match level {
                Level::Rest => return node.rest.as_deref(),
                Level::One => node.one,
                Level::Named(name) => node.named.get(name).copied(),
            };
            node = self.nodes.at(next?)?;
        }
        node.here.as_deref()
    }

    /// The bucket of a filter, which is made if it has none. [`tidy`](Self::tidy) takes away one that is empty.
    pub(super) fn bucket_mut(&mut self, filter: &TopicFilter) -> Option<&mut Bucket> {
        let mut at = None;
        for level in filter.levels() {
            let node = self.node_mut(at)?;
            let known = match level {
                Level::Rest => return Some(self.node_mut(at)?.rest.get_or_insert_default()),
                Level::One => node.one,
                Level::Named(name) => node.named.get(name).copied(),
            };
            let next = known.unwrap_or_else(|| self.nodes.insert(Node::default()));
            if known.is_none() {
                let node = self.node_mut(at)?;
                match level {
                    Level::Named(name) => drop(node.named.insert(name.into(), next)),
                    _ => node.one = Some(next),
                }
            }
            at = Some(next);
        }
        Some(self.node_mut(at)?.here.get_or_insert_default())
    }

    fn node_mut(&mut self, at: Option<u32>) -> Option<&mut Node> {
        match at {
            None => Some(&mut self.root),
            Some(at) => self.nodes.at_mut(at),
        }
    }

    /// Takes away the bucket of a filter if it is empty, and the nodes that then lead nowhere.
    pub(super) fn tidy(&mut self, filter: &TopicFilter) {
        let mut path = vec![(None, None)];
        for level in filter.levels() {
            let at = path.last().and_then(|(at, _)| *at);
            let Some(node) = self.node_mut(at) else { return };
            let next = match level {
                Level::Rest => {
                    node.rest.take_if(|bucket| bucket.is_empty());
                    break;
                }
                Level::One => node.one,
                Level::Named(name) => node.named.get(name).copied(),
            };
            let Some(next) = next else { return };
            path.push((Some(next), Some(level)));
        }
        let end = path.last().and_then(|(at, _)| *at);
        if let Some(node) = self.node_mut(end) {
            node.here.take_if(|bucket| bucket.is_empty());
        }
        while let (Some((Some(at), Some(level))), Some((before, _))) = (path.pop(), path.last()) {
            if !self.nodes.at(at).is_some_and(Node::is_empty) {
                return;
            }
            self.nodes.remove(at);
            let Some(node) = self.node_mut(*before) else { return };
            match level {
                Level::Named(name) => drop(node.named.remove(name)),
                _ => node.one = None,
            }
        }
    }

    /// Shows the buckets of all filters that match a topic.
    pub(super) fn each<'a>(&'a self, topic: &Topic, visits: &mut Visits, mut see: impl FnMut(&'a Bucket)) {
        visits.now.clear();
        let mut root = Some(&self.root);
        for name in topic.levels() {
            visits.next.clear();
            // Wildcards at the front do not match topics that begin with $.
            if let Some(node) = root.take() {
                let is_open = !topic.is_reserved();
                node.rest.as_deref().filter(|_| is_open).into_iter().for_each(&mut see);
                visits.next.extend(node.named.get(name));
                visits.next.extend(node.one.filter(|_| is_open));
            }
            for node in visits.now.iter().filter_map(|at| self.nodes.at(*at)) {
                node.rest.as_deref().into_iter().for_each(&mut see);
                visits.next.extend(node.named.get(name));
                visits.next.extend(node.one);
            }
            std::mem::swap(&mut visits.now, &mut visits.next);
            if visits.now.is_empty() {
                return;
            }
        }
        for node in visits.now.iter().filter_map(|at| self.nodes.at(*at)) {
            node.rest.as_deref().into_iter().for_each(&mut see);
            node.here.as_deref().into_iter().for_each(&mut see);
        }
    }

    /// The number of nodes, and of entries in buckets.
    pub(super) fn held(&self) -> (usize, usize) {
        let buckets = self.nodes.iter().chain([&self.root]).flat_map(|node| [&node.here, &node.rest]);
        (self.nodes.len(), buckets.flatten().map(|bucket| bucket.len()).sum())
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.one.is_none() && self.here.is_none() && self.rest.is_none()
    }
}
