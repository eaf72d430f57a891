//! Finds the rules that may match a flow, without looking at the others.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

use super::pattern::Hosts;
use super::rule::{FlowKey, Rule};
use crate::protocol::Host;

/// Rules by what they ask for. A rule is in each list in which a flow that it matches could look for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    to: Networks,
    from: Networks,
    names: HashMap<Box<str>, Vec<usize>>,
    /// By a suffix that begins with a dot.
    below: HashMap<Box<str>, Vec<usize>>,
    /// For any host, with one port.
    ports: HashMap<u16, Vec<usize>>,
    /// None of the above.
    others: Vec<usize>,
}

/// Rules by network.
#[derive(Clone, Debug, Default)]
struct Networks {
    rules: HashMap<IpNet, Vec<usize>>,
    /// The lengths of the prefixes, of each family.
    lengths: [BTreeSet<u8>; 2],
}

impl Index {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            index.add(at, rule);
        }
        index
    }

    fn add(&mut self, at: usize, rule: &Rule) {
        let is_narrow = |to: &super::Pattern| *to.hosts() != Hosts::Any || to.ports().single().is_some();
        if !rule.to.is_empty() && rule.to.iter().all(is_narrow) {
            for to in &rule.to {
                let list = match to.hosts() {
                    Hosts::Network(network) => self.to.list(*network),
                    Hosts::Name(name) => self.names.entry(name.clone()).or_default(),
                    Hosts::Below(suffix) => self.below.entry(suffix.clone()).or_default(),
                    Hosts::Any => self.ports.entry(to.ports().single().unwrap_or(0)).or_default(),
                };
                push(list, at);
            }
        } else if !rule.from.is_empty() {
            for from in &rule.from {
                push(self.from.list(*from), at);
            }
        } else {
            self.others.push(at);
        }
    }

    /// Returns the first rule that passes, of those that may match a flow.
    pub(super) fn first(&self, key: &FlowKey, passes: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best = None;
        let mut look = |list: &[usize]| {
            let before = best.unwrap_or(usize::MAX);
            if let Some(found) = list.iter().copied().take_while(|at| *at < before).find(|at| passes(*at)) {
                best = Some(found);
            }
        };
        match &key.target.host {
            Host::Ip(ip) => self.to.each(*ip, &mut look),
            Host::Name(name) => {
                self.names.get(&**name).map(Vec::as_slice).into_iter().for_each(&mut look);
                let suffixes = name.match_indices('.').filter_map(|(at, _)| self.below.get(&name[at..]));
                suffixes.map(Vec::as_slice).for_each(&mut look);
            }
        }
        self.from.each(key.source.ip(), &mut look);
        self.ports.get(&key.target.port).map(Vec::as_slice).into_iter().for_each(&mut look);
        look(&self.others);
        best
    }
}

impl Networks {
    fn list(&mut self, network: IpNet) -> &mut Vec<usize> {
        let network = network.trunc();
        self.lengths[family(network.addr())].insert(network.prefix_len());
        self.rules.entry(network).or_default()
    }

    /// Looks at the rules of each network that contains this address.
    fn each(&self, ip: IpAddr, look: &mut impl FnMut(&[usize])) {
        let ip = ip.to_canonical();
        for length in &self.lengths[family(ip)] {
            let network = IpNet::new(ip, *length).ok().map(|network| network.trunc());
            if let Some(rules) = network.and_then(|network| self.rules.get(&network)) {
                look(rules);
            }
        }
    }
}

fn family(ip: IpAddr) -> usize {
    usize::from(ip.is_ipv6())
}

/// A rule may have two patterns for one list.
fn push(list: &mut Vec<usize>, at: usize) {
    if list.last() != Some(&at) {
        list.push(at);
    }
}
