//! The parts that each way in needs: the rules, the peers that flows go to, and the limits.

mod carrying;
mod opening;
mod watching;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;

pub(super) use self::opening::Way;
use super::accept::Places;
use super::dns::Answers;
use super::interface::ProgramInterfaces;
use super::ruling::Ruling;
use crate::compress::Dictionary;
use crate::policy::{Decision, Dscp, FlowKey, Origin, Protocol, Rule, Rules, WayIn};
use crate::protocol::{Compression, Manner, Target};
use crate::relay::{Flows, Limits, Peer, Peers, Roster, SessionContext, cap_of};

/// The entry of flows: their peers and limits, and their origin. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ingress(Arc<Inner>, Origin);

#[derive(Debug)]
struct Inner {
    roster: Roster,
    /// The context of the first peer. It has the parts that all peers share, and logs what concerns no peer.
    context: Arc<SessionContext>,
    ruling: Ruling,
    interfaces: ProgramInterfaces,
    answers: Answers,
    places: Places,
    limits: Arc<Limits>,
    flows: Flows,
}

impl Ingress {
    /// Flows go to the peers of this roster, as `rules` say. None: it has no peer for those of which rules say nothing.
    pub fn new(roster: Roster, rules: Rules, limits: Arc<Limits>, flows: Flows) -> Option<Self> {
        let context = Arc::clone(roster.now().first()?.context());
        let ruling = Ruling::new(Arc::clone(&context.peer), rules);
        let (interfaces, answers, places) = (ProgramInterfaces::default(), Answers::default(), Places::new());
        let inner = Inner { roster, context, ruling, interfaces, answers, places, limits, flows };
        Some(Self(Arc::new(inner), Origin::default()))
    }

    /// The same for flows that come in by this way.
    pub(super) fn by(&self, way: WayIn) -> Self {
        Self(Arc::clone(&self.0), Origin::by(way))
    }

    /// The same for a flow whose packets have this DSCP, and which comes in by the same way.
    pub(super) fn with_dscp(&self, dscp: Option<Dscp>) -> Self {
        Self(Arc::clone(&self.0), Origin { dscp, ..self.1.clone() })
    }

    /// Returns everything known about how flows come in.
    pub(super) fn origin(&self) -> &Origin {
        &self.1
    }

    /// Returns what a flow is known by. Its interface is that to which its source's route leads.
    pub(super) fn key(&self, protocol: Protocol, target: Target, source: SocketAddr) -> FlowKey {
        let mut origin = self.1.clone();
        if origin.by.is_some_and(WayIn::sees_packets) && self.rules().asks().interface {
            origin.interface = self.0.interfaces.towards(source.ip());
        }
        FlowKey { protocol, target, source, origin }
    }

    /// Sets the rules. What they say of no peer is of the first one that there is now.
    pub fn set_rules(&self, rules: Rules) {
        let first = self.0.roster.now().first().map(|first| Arc::clone(&first.context().peer));
        self.0.ruling.set(first, rules);
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        self.0.ruling.now()
    }

    /// The places of connections that have not yet said where they go.
    pub(super) fn places(&self) -> Places {
        self.0.places.clone()
    }

    /// Returns whether a flow is being opened, or may be any moment.
    pub(crate) fn is_opening(&self) -> bool {
        self.0.places.are_taken()
    }

    /// Follows the peers as they come and go.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only interception carries ICMP echo"))]
    pub(super) fn follow_peers(&self) -> watch::Receiver<Arc<Peers>> {
        self.0.roster.follow()
    }

    /// The answers to questions for names that were heard.
    pub(super) fn answers(&self) -> &Answers {
        &self.0.answers
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(super) fn flows(&self) -> &Flows {
        &self.0.flows
    }

    /// Returns the peer that flows of a decision go to now: the one that it names, or a standby while that cannot be
    /// reached. None: it was taken out of the file.
    pub(super) fn peer(&self, decision: &Decision) -> Option<Peer> {
        let peers = self.0.roster.now();
        let wanted = match &decision.peer {
            Some(name) => peers.named(name),
            None => peers.first(),
        }?;
        Some(peers.standby(wanted).unwrap_or(wanted).clone())
    }

    /// Returns how a decision wants a flow to be sent.
    pub(super) fn manner(&self, decision: &Decision) -> Manner {
        let dictionaries = self.0.context.dictionaries();
        let id = |name: &String| dictionaries.named(name).map(Dictionary::id);
        let dictionary = decision.dictionary.as_ref().and_then(id);
        let compression = decision.compression.map(|method| Compression { method, dictionary, plain: 0 });
        Manner {
            priority: decision.priority,
            lifetime: decision.lifetime,
            compression,
            service: decision.service,
            cap: cap_of(decision),
            gather: decision.gather,
        }
    }

    /// Returns the name of a dictionary that these rules name and that is not there.
    pub(crate) fn lacks_dictionary<'a>(&self, rules: &'a [Rule]) -> Option<&'a str> {
        let mut names = rules.iter().filter_map(|rule| rule.dictionary.as_deref());
        names.find(|name| self.0.context.dictionaries().named(name).is_none())
    }

    /// Returns the name of a peer that these rules name and that is not there.
    pub(crate) fn lacks<'a>(&self, rules: &'a [Rule]) -> Option<&'a str> {
        let (peers, names) = (self.0.roster.now(), rules.iter().filter_map(|rule| rule.peer.as_deref()));
        names.into_iter().find(|name| peers.named(name).is_none())
    }

    /// Writes a line about a flow that meets a rule, if the rule says so.
    pub(super) fn log(&self, decision: &Decision, key: &FlowKey) {
        let Some((_, rule)) = decision.rule.as_ref().filter(|_| decision.log) else { return };
        self.0.flows.log(rule);
        let FlowKey { protocol, target, source, origin } = key;
        self.0.context.note(
            "rule matched",
            serde_json::json!({
                "protocol": protocol, "target": target.to_string(), "program": source, "rule": rule,
                "action": decision.action, "by": origin.by, "interface": origin.interface, "dscp": origin.dscp,
            }),
        );
    }
}
