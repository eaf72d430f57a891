//! The parts that each way in needs: the rules, the peers that flows go to, and the limits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::accept::Places;
use super::dns::Answers;
use super::interface::Interfaces;
use super::ruling::Ruling;
use crate::News;
use crate::compress::Dictionary;
use crate::policy::{Action, Decision, Dscp, Key, Origin, Protocol, Rule, Rules, WayIn};
use crate::protocol::{Compression, Manner, Opening, Target};
use crate::relay::{
    DirectFlow, EchoReply, FlowRecord, FlowState, Flows, GONE_AFTER, Limits, Opened, Peer, Refused, Session,
    Socket, Steering, Unpacked, cap_of,
};

/// How long a program waits for an absent peer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the network is looked at for the conditions of rules.
const SAMPLE: Duration = Duration::from_secs(1);

/// Where flows go, and what they may take, with what is known of how they come in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ingress(Arc<Inner>, Origin);

#[derive(Debug)]
struct Inner {
    peers: BTreeMap<Arc<str>, Peer>,
    /// The peer of flows for which no rule names one.
    first: Peer,
    ruling: Ruling,
    interfaces: Interfaces,
    answers: Answers,
    places: Places,
    limits: Arc<Limits>,
    flows: Flows,
}

/// A flow that is open: carried, or not.
#[derive(Debug)]
pub(super) enum Way {
    /// Over a session with this peer.
    Carried(Box<Opened>, Steering, Peer),
    /// By a connection of this proxy.
    Direct(Box<DirectFlow>, Steering),
}

impl Ingress {
    /// Flows go to `first`, or to one of `peers` that a rule names.
    pub fn new(
        first: Peer,
        peers: impl IntoIterator<Item = Peer>,
        rules: Rules,
        limits: Arc<Limits>,
        flows: Flows,
    ) -> Self {
        let peers = peers.into_iter().map(|peer| (Arc::clone(&peer.context().peer), peer)).collect();
        let ruling = Ruling::new(Arc::clone(&first.context().peer), rules);
        let (interfaces, answers, places) = (Interfaces::default(), Answers::default(), Places::new());
        let inner = Inner { peers, first, ruling, interfaces, answers, places, limits, flows };
        Self(Arc::new(inner), Origin::default())
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
    pub(super) fn key(&self, protocol: Protocol, target: Target, source: SocketAddr) -> Key {
        let mut origin = self.1.clone();
        if origin.by.is_some_and(WayIn::sees_packets) && self.rules().asks().interface {
            origin.interface = self.0.interfaces.towards(source.ip());
        }
        Key { protocol, target, source, origin }
    }

    /// Sets the rules.
    pub fn set_rules(&self, rules: Rules) {
        self.0.ruling.set(rules);
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        self.0.ruling.now()
    }

    /// Looks at the network for the conditions of rules and for standbys, for ever.
    pub(crate) async fn watch_network(self, tell: impl Fn(News)) {
        let mut ticks = tokio::time::interval(SAMPLE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut replaced: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        loop {
            ticks.tick().await;
            for name in self.0.ruling.peers() {
                let Some(peer) = self.0.peers.get(&name) else { continue };
                let network = peer.network();
                for (condition, holds) in self.0.ruling.sample(&name, &network, SAMPLE) {
                    let fields = serde_json::json!({ "condition": condition.to_string(), "holds": holds });
                    peer.context().note("condition changed", fields);
                    tell(News::Condition(Arc::clone(&name), condition, holds));
                }
            }
            for (name, peer) in &self.0.peers {
                let now = self.standby(peer).map(|standby| Arc::clone(&standby.context().peer));
                let before = match &now {
                    Some(standby) => replaced.insert(Arc::clone(name), Arc::clone(standby)),
                    None => replaced.remove(name),
                };
                if let Some(standby) = now.as_ref().or(before.as_ref()).filter(|_| now != before) {
                    tell(News::Standby(Arc::clone(name), Arc::clone(standby), now.is_some()));
                }
            }
        }
    }

    /// The places of connections that have not yet said where they go.
    pub(super) fn places(&self) -> Places {
        self.0.places.clone()
    }

    /// Returns whether a flow is being opened, or may be any moment.
    pub(crate) fn is_opening(&self) -> bool {
        self.0.places.are_taken()
    }

    /// Goes on with a flow that was opened here, in another process. A carried one is of this session.
    pub(crate) fn go_on(&self, flow: Unpacked, carried: Option<(&Session, &Peer)>) {
        let (target, source) = flow.ends();
        let Ok(target) = target.parse() else { return };
        let source = source.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        let key = Key { protocol: Protocol::Tcp, target, source, origin: flow.record().origin.clone() };
        let mut rules = self.0.ruling.watch();
        // It has yet to hear what they say.
        rules.mark_changed();
        let reached = carried.map(|(session, _)| session.reached());
        let (decision, is_carried) = (Box::default(), carried.is_some());
        let steering = Steering::Rules { rules, key, decision, is_carried, reached };
        let context = Arc::clone(carried.map_or(&self.0.first, |(_, peer)| peer).context());
        let limits = Arc::clone(&self.0.limits);
        tokio::spawn(async move {
            let record = flow.record();
            match flow.run(&limits, steering).await {
                Ok(Some(ended)) => context.note_ended(&record, ended),
                Ok(None) => {}
                Err(refused) => context.note_refused(&record, refused),
            }
        });
    }

    /// Returns a queue of each peer for what belongs to ICMP echo, so that none fills another's.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only TPROXY carries ICMP echo"))]
    pub(super) fn echoes(&self) -> Vec<mpsc::Receiver<EchoReply>> {
        self.0.peers.values().map(|peer| peer.programs().echoes()).collect()
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
    /// reached.
    pub(super) fn peer(&self, decision: &Decision) -> &Peer {
        let named = decision.peer.as_ref().and_then(|name| self.0.peers.get(name.as_str()));
        debug_assert!(decision.peer.is_none() || named.is_some(), "a rule names a peer that is not there");
        let wanted = named.unwrap_or(&self.0.first);
        self.standby(wanted).unwrap_or(wanted)
    }

    /// Waits until flows of a decision go to another peer than this one.
    async fn replaced(&self, decision: &Decision, peer: &Peer) {
        while Arc::ptr_eq(self.peer(decision).context(), peer.context()) {
            tokio::time::sleep(GONE_AFTER).await;
        }
    }

    /// Returns the standby for a peer that cannot be reached. The settings were checked, so it exists.
    fn standby<'a>(&'a self, wanted: &'a Peer) -> Option<&'a Peer> {
        let mut peer = wanted;
        // Each is looked at once, even if they stand by for one another.
        for _ in 0..self.0.peers.len() {
            if peer.is_usable() {
                return (!Arc::ptr_eq(peer.context(), wanted.context())).then_some(peer);
            }
            peer = self.0.peers.get(peer.standby()?)?;
        }
        None
    }

    /// Returns how a decision wants a flow to be sent.
    pub(super) fn manner(&self, decision: &Decision) -> Manner {
        let dictionaries = &self.0.first.context().dictionaries;
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
        names.find(|name| self.0.first.context().dictionaries.named(name).is_none())
    }

    /// Returns the name of a peer that these rules name and that is not there.
    pub(crate) fn lacks<'a>(&self, rules: &'a [Rule]) -> Option<&'a str> {
        let names = rules.iter().filter_map(|rule| rule.peer.as_deref());
        names.into_iter().find(|name| !self.0.peers.contains_key(*name))
    }

    /// Opens a flow as the rules say, and waits for its peer if that is absent. `first` was read from the program
    /// already; it rides with the opening. Waits for the answer, unless the program gives up, which `gone` waits for.
    pub(super) async fn open(
        &self,
        target: &Target,
        source: SocketAddr,
        first: Bytes,
        gone: impl Future<Output = ()>,
    ) -> Result<(Way, Option<SocketAddr>), Refused> {
        let opening = async {
            loop {
                let mut way = self.begin(target, source, first.len()).await?;
                match self.answered(&mut way, &first).await {
                    Some(Ok(address)) => return Ok((way, address)),
                    Some(Err(refused)) => return Err(refused),
                    // Its peer is gone, and there is another.
                    None => {}
                }
            }
        };
        let opened = tokio::select! {
            opened = opening => opened,
            () = gone => Err(Refused::ProgramGone),
        };
        if let Err(refused) = &opened {
            self.note_refused(target, source, *refused);
        }
        opened
    }

    /// Waits for the far end's answer, and returns its address. None: the peer cannot be reached any more, and flows go to
    /// a standby. One that has bytes already stays, since nobody knows who has them.
    async fn answered(&self, way: &mut Way, first: &Bytes) -> Option<Result<Option<SocketAddr>, Refused>> {
        let (opened, peer, mut reached) = match way {
            Way::Direct(flow, _) => {
                let sent = flow.send_early(first.clone()).await;
                return Some(sent.map(|()| flow.local_addr()));
            }
            Way::Carried(opened, Steering::Rules { reached: Some(reached), .. }, peer) => {
                (opened, peer, reached.clone())
            }
            Way::Carried(opened, _, _) => return Some(opened.answer().await.map(|answer| answer.address)),
        };
        // What the far end refuses it says in its answer.
        opened.send_early(first.clone()).await.ok();
        let moves = async {
            loop {
                reached.lost(GONE_AFTER).await;
                if first.is_empty() && self.standby(peer).is_some() {
                    return;
                }
                tokio::time::sleep(GONE_AFTER).await;
            }
        };
        tokio::select! {
            biased;
            answer = opened.answer() => Some(answer.map(|answer| answer.address)),
            () = moves => None,
        }
    }

    /// Carries the bytes of a program whose connection was accepted already; if the flow is refused, the connection is
    /// reset. The bytes do not wait for the answer, unless another peer may have to answer.
    pub(super) async fn carry(&self, target: &Target, source: SocketAddr, program: impl Into<Socket>) {
        // It is reset when it is closed, unless the flow finishes it.
        let program = program.into();
        let begun = if self.0.peers.values().any(|peer| peer.standby().is_some()) {
            self.open(target, source, Bytes::new(), program.was_reset()).await.map(|(way, _)| way)
        } else {
            let begun = tokio::select! {
                begun = self.begin(target, source, 0) => begun,
                () = program.was_reset() => Err(Refused::ProgramGone),
            };
            begun.inspect_err(|refused| self.note_refused(target, source, *refused))
        };
        if let Ok(way) = begun {
            self.run(way, program).await;
        }
    }

    /// Opens a flow as the rules say, once they do not hold it. A carried one has no answer yet.
    /// `early` is the number of bytes that go before it.
    async fn begin(&self, target: &Target, source: SocketAddr, early: usize) -> Result<Way, Refused> {
        let key = self.key(Protocol::Tcp, target.clone(), source);
        let mut rules = self.0.ruling.watch();
        let mut deadline = Instant::now() + PATIENCE;
        loop {
            let decision = rules.borrow_and_update().decide(&key);
            let peer = self.peer(&decision).clone();
            let name = match decision.action {
                Action::Direct => "direct".into(),
                _ => Arc::clone(&peer.context().peer),
            };
            let record = FlowRecord::new(Protocol::Tcp, name)
                .to(target)
                .of(Some(source))
                .from(&key.origin)
                .by_rule(&decision);
            // One that waits counts, too.
            let running = self.0.flows.add(record, self.0.limits.max_flows).ok_or(Refused::Limit)?;
            self.log(&decision, &key);
            match decision.action {
                Action::Carry => {
                    let session = tokio::select! {
                        session = peer.session_within(deadline - Instant::now()) => session,
                        // Its standby has come.
                        () = self.replaced(&decision, &peer) => continue,
                    };
                    let session = session.ok_or(Refused::NoSession)?;
                    let mut manner = self.manner(&decision);
                    if let Some(compression) = &mut manner.compression {
                        compression.plain = u32::try_from(early).unwrap_or(u32::MAX);
                    }
                    let opening = Opening { target: target.clone(), source: Some(source), manner };
                    let reached = Some(session.reached());
                    let opened = session.open(&opening, running).await?;
                    let decision = Box::new(decision);
                    let steering = Steering::Rules { rules, key, decision, is_carried: true, reached };
                    return Ok(Way::Carried(Box::new(opened), steering, peer));
                }
                Action::Direct => {
                    let mark = self.0.first.context().mark;
                    let flow = DirectFlow::open(target, source, running, &self.0.limits, mark).await?;
                    let decision = Box::new(decision);
                    let steering = Steering::Rules { rules, key, decision, is_carried: false, reached: None };
                    return Ok(Way::Direct(Box::new(flow), steering));
                }
                Action::Reject => return Err(Refused::ByRule),
                Action::Drop => {
                    tokio::time::sleep(self.0.limits.connect_timeout).await;
                    return Err(Refused::ByRule);
                }
                Action::Hold => {
                    running.record.set_state(FlowState::Waiting);
                    // The sender lives as long as this.
                    rules.changed().await.ok();
                    deadline = Instant::now() + PATIENCE;
                }
            }
        }
    }

    /// Runs a flow to its end.
    pub(super) async fn run(&self, way: Way, program: impl Into<Socket>) {
        let (limits, program) = (&self.0.limits, program.into());
        match way {
            Way::Carried(opened, steering, peer) => {
                let record = opened.record();
                match opened.run(program, limits, steering).await {
                    Ok(Some(ended)) => peer.context().note_ended(&record, ended),
                    Ok(None) => {}
                    Err(refused) => peer.context().note_refused(&record, refused),
                }
            }
            Way::Direct(flow, steering) => {
                let record = flow.record();
                if let Some(ended) = flow.run(program, limits, steering).await {
                    self.0.first.context().note_ended(&record, ended);
                }
            }
        }
    }

    /// Writes a line about a flow that meets a rule, if the rule says so.
    pub(super) fn log(&self, decision: &Decision, key: &Key) {
        let Some((_, rule)) = decision.rule.as_ref().filter(|_| decision.log) else { return };
        self.0.flows.log(rule);
        let Key { protocol, target, source, origin } = key;
        self.0.first.context().note(
            "rule matched",
            serde_json::json!({
                "protocol": protocol, "target": target.to_string(), "program": source, "rule": rule,
                "action": decision.action, "by": origin.by, "interface": origin.interface, "dscp": origin.dscp,
            }),
        );
    }

    fn note_refused(&self, target: &Target, source: SocketAddr, why: Refused) {
        self.0.flows.count_refused(why);
        self.0.first.context().note(
            "flow refused",
            serde_json::json!({
                "protocol": "tcp", "by_peer": false, "target": target.to_string(), "program": source,
                "why": why.to_string(),
            }),
        );
    }
}
