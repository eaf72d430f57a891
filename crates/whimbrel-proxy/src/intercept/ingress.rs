//! The parts that each way in needs: the rules, the peers that flows go to, and the limits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use super::accept::Places;
use super::dns::Answers;
use super::interface::Interfaces;
use super::ruling::Ruling;
use super::tun::Claim;
use crate::News;
use crate::compress::Dictionary;
use crate::policy::{Action, Decision, Dscp, Key, Origin, Protocol, Rule, Rules, WayIn};
use crate::protocol::{Compression, Manner, Opening, Target};
use crate::relay::{
    DirectFlow, FlowRecord, FlowState, Flows, GONE_AFTER, Limits, Opened, Peer, Peers, Refused, Roster,
    Session, SessionContext, Socket, Steering, Unpacked, cap_of,
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
    roster: Roster,
    /// The context of the first peer. It has the parts that all peers share, and logs what concerns no peer.
    context: Arc<SessionContext>,
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
    /// Flows go to the peers of this roster, as `rules` say. None: it has no peer for those of which rules say nothing.
    pub fn new(roster: Roster, rules: Rules, limits: Arc<Limits>, flows: Flows) -> Option<Self> {
        let context = Arc::clone(roster.now().first()?.context());
        let ruling = Ruling::new(Arc::clone(&context.peer), rules);
        let (interfaces, answers, places) = (Interfaces::default(), Answers::default(), Places::new());
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
    pub(super) fn key(&self, protocol: Protocol, target: Target, source: SocketAddr) -> Key {
        let mut origin = self.1.clone();
        if origin.by.is_some_and(WayIn::sees_packets) && self.rules().asks().interface {
            origin.interface = self.0.interfaces.towards(source.ip());
        }
        Key { protocol, target, source, origin }
    }

    /// Sets the rules. What they say of no peer is of the first one that there is now.
    pub fn set_rules(&self, rules: Rules) {
        let first = self.0.roster.now().first().map(|first| Arc::clone(&first.context().peer));
        self.0.ruling.set(first, rules);
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
            let peers = self.0.roster.now();
            for name in self.0.ruling.peers() {
                let Some(peer) = peers.named(&name) else { continue };
                let network = peer.network();
                for (condition, holds) in self.0.ruling.sample(&name, &network, SAMPLE) {
                    let fields = serde_json::json!({ "condition": condition.to_string(), "holds": holds });
                    peer.context().note("condition changed", fields);
                    tell(News::Condition(Arc::clone(&name), condition, holds));
                }
            }
            replaced.retain(|name, _| peers.named(name).is_some());
            for (_, peer) in peers.all() {
                let name = &peer.context().peer;
                let now = peers.standby(peer).map(|standby| Arc::clone(&standby.context().peer));
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

    /// Goes on with a flow that was opened here, in another process. A carried one is of this session, and one that came by a
    /// TUN interface has a claim.
    pub(crate) fn go_on(&self, flow: Unpacked, carried: Option<(&Session, &Peer)>, claim: Option<Claim>) {
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
        let context = Arc::clone(carried.map_or(&self.0.context, |(_, peer)| peer.context()));
        let limits = Arc::clone(&self.0.limits);
        tokio::spawn(async move {
            let (record, _claim) = (flow.record(), claim);
            match flow.run(&limits, steering).await {
                Ok(Some(ended)) => context.note_ended(&record, ended),
                Ok(None) => {}
                Err(refused) => context.note_refused(&record, refused),
            }
        });
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

    /// Waits until flows of a decision go to another peer than this one.
    async fn replaced(&self, decision: &Decision, peer: &Peer) {
        loop {
            let goes_on = self.peer(decision).is_some_and(|now| now.is(peer));
            if !goes_on {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(GONE_AFTER) => {}
                () = peer.gone() => return,
            }
        }
    }

    /// Returns how a decision wants a flow to be sent.
    pub(super) fn manner(&self, decision: &Decision) -> Manner {
        let dictionaries = &self.0.context.dictionaries;
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
        names.find(|name| self.0.context.dictionaries.named(name).is_none())
    }

    /// Returns the name of a peer that these rules name and that is not there.
    pub(crate) fn lacks<'a>(&self, rules: &'a [Rule]) -> Option<&'a str> {
        let (peers, names) = (self.0.roster.now(), rules.iter().filter_map(|rule| rule.peer.as_deref()));
        names.into_iter().find(|name| peers.named(name).is_none())
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
            let deadline = Instant::now() + PATIENCE;
            loop {
                let mut way = self.begin(target, source, first.len()).await?;
                match self.answered(&mut way, &first).await {
                    Some(Ok(address)) => return Ok((way, address)),
                    Some(Err(refused)) => return Err(refused),
                    None if Instant::now() > deadline => return Err(Refused::NoSession),
                    // Its peer or its session is gone, and there is another, or will be.
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
    /// a standby, or its session has ended, and the next is waited for. One that has bytes already stays, since nobody knows who
    /// has them.
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
        let mut ending = reached.clone();
        let moves = async {
            loop {
                reached.lost(GONE_AFTER).await;
                if first.is_empty() && self.0.roster.now().standby(peer).is_some() {
                    return;
                }
                tokio::time::sleep(GONE_AFTER).await;
            }
        };
        tokio::select! {
            biased;
            answer = opened.answer() => match answer {
                Err(Refused::NoSession) if first.is_empty() && ending.is_ending().await => None,
                answer => Some(answer.map(|answer| answer.address)),
            },
            () = moves => None,
        }
    }

    /// Carries the bytes of a program whose connection was accepted already; if the flow is refused, the connection is
    /// reset. The bytes do not wait for the answer, unless another peer may have to answer.
    pub(super) async fn carry(&self, target: &Target, source: SocketAddr, program: impl Into<Socket>) {
        // It is reset when it is closed, unless the flow finishes it.
        let program = program.into();
        let begun = if self.0.roster.now().all().any(|(_, peer)| peer.standby().is_some()) {
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
            let peer = self.peer(&decision);
            let name = match (decision.action, &peer) {
                (Action::Direct, _) => "direct".into(),
                (_, Some(peer)) => Arc::clone(&peer.context().peer),
                (_, None) => "".into(),
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
                    let peer = peer.ok_or(Refused::NoSession)?;
                    let patience = decision.outage.unwrap_or(PATIENCE).min(deadline - Instant::now());
                    let session = tokio::select! {
                        session = peer.session_within(patience) => session,
                        // Its standby has come, or it was taken out of the file.
                        () = self.replaced(&decision, &peer) => continue,
                    };
                    let session = session.ok_or(Refused::NoSession)?;
                    let mut manner = self.manner(&decision);
                    if let Some(compression) = &mut manner.compression {
                        compression.plain = u32::try_from(early).unwrap_or(u32::MAX);
                    }
                    let opening = Opening { target: target.clone(), source: Some(source), manner };
                    let mut reached = session.reached();
                    let opened = match session.open(&opening, running).await {
                        // It has just ended, and another may come.
                        Err(Refused::NoSession) if Instant::now() < deadline && reached.is_ending().await => {
                            continue;
                        }
                        opened => opened?,
                    };
                    let reached = Some(reached);
                    let decision = Box::new(decision);
                    let steering = Steering::Rules { rules, key, decision, is_carried: true, reached };
                    return Ok(Way::Carried(Box::new(opened), steering, peer));
                }
                Action::Direct => {
                    let mark = self.0.context.mark;
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
                    self.0.context.note_ended(&record, ended);
                }
            }
        }
    }

    /// Writes a line about a flow that meets a rule, if the rule says so.
    pub(super) fn log(&self, decision: &Decision, key: &Key) {
        let Some((_, rule)) = decision.rule.as_ref().filter(|_| decision.log) else { return };
        self.0.flows.log(rule);
        let Key { protocol, target, source, origin } = key;
        self.0.context.note(
            "rule matched",
            serde_json::json!({
                "protocol": protocol, "target": target.to_string(), "program": source, "rule": rule,
                "action": decision.action, "by": origin.by, "interface": origin.interface, "dscp": origin.dscp,
            }),
        );
    }

    fn note_refused(&self, target: &Target, source: SocketAddr, why: Refused) {
        self.0.flows.count_refused(why);
        self.0.context.note(
            "flow refused",
            serde_json::json!({
                "protocol": "tcp", "by_peer": false, "target": target.to_string(), "program": source,
                "why": why.to_string(),
            }),
        );
    }
}
