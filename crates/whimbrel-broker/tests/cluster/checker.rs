//! The checker: it knows every publish, looks into every buffer, and judges all that a subscription is told.

use std::time::Duration;

use whimbrel_broker::buffer::{Newness, Picks, PolicySettings, Size};
use whimbrel_broker::roaming::{Recover, Slow};
use whimbrel_pubsub::coverage::{Count, Cover, Delivery, Fate, Outstanding, Range, Told};

use super::bus::Bus;
use super::node::Node;
use super::scenario::Scenario;
use super::subscriber::{Attachment, How, Subscriber};
use super::taste::Taste;
use super::truth::{Name, Truth, Truths};

/// The checker's view of a run.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) nodes: &'a [Node],
    pub(crate) bus: &'a Bus,
    pub(crate) truths: &'a Truths,
    pub(crate) now: Duration,
}

type Fates = Vec<(Name, How)>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// How many messages a count may say: those certainly wanted, and those whose lifetime may have ended before they were overwritten.
#[derive(Default, Debug)]
struct Bounds {
    least: u64,
    most: u64,
}

impl Bounds {
    fn add(&mut self, expired: bool) {
        self.most += 1;
        self.least += u64::from(!expired);
    }

    fn check(&self, count: Count, what: &str) -> Result<(), String> {
        let fits = count.number >= self.least && (!count.exact || count.number <= self.most);
        ensure(fits, || format!("{what}: told {count}, there are {} to {}", self.least, self.most))
    }
}

/// One subscription's part of the view.
struct Judge<'a> {
    view: View<'a>,
    node: &'a Node,
    taste: &'a Taste,
    at: &'a Attachment,
}

/// Judges what a broker tells a subscription, as it tells it. Returns what that settles.
pub(crate) fn told(view: View<'_>, subscriber: &mut Subscriber, told: &Told) -> Result<Fates, String> {
    let at = subscriber.attached.as_ref().unwrap();
    let judge = Judge { view, node: &view.nodes[at.node], taste: &subscriber.taste, at };
    let fates = match told {
        Told::Outstanding(outstanding) => judge.outstanding(*outstanding).map(|()| Vec::new()),
        Told::Delivery(delivery) => judge.delivery(delivery),
        Told::Covers(cover) => judge.cover(*cover, None),
        Told::Fate { cover, fate, count, closed } => judge.fate(*cover, *fate, *count, *closed),
        Told::Recovered(_) | Told::UnknownOrigin(_) => Ok(Vec::new()),
    }
    .map_err(|why| format!("{why}\n  in {told:?}\n  at broker {}", at.node))?;
    if let Told::Fate { cover, fate: Fate::Unknown, closed: false, .. } = told {
        subscriber.unknown.extend(view.truths.of(cover.origin, cover.range).map(|(name, _)| name));
    }
    let at = subscriber.attached.as_mut().unwrap();
    at.settled.extend(fates.iter().copied());
    if let Told::Delivery(delivery) = told
        && !delivery.retained
    {
        let highest = at.delivered.entry(delivery.stamp.origin).or_default();
        *highest = delivery.stamp.sequence.max(*highest);
    }
    Ok(fates)
}

impl Judge<'_> {
    fn is_settled(&self, name: Name) -> bool {
        self.at.settled.contains_key(&name) || self.at.brought.contains(name.0, name.1)
    }

    fn is_expired(&self, name: Name) -> bool {
        self.node.is_expired(name, self.view.now)
    }

    fn is_wanted(&self, truth: &Truth) -> bool {
        self.taste.picks(&truth.message)
    }

    fn is_before(&self, name: Name) -> bool {
        self.at.live && self.at.before.get(&name.0).is_some_and(|highest| name.1 <= *highest)
    }

    /// Nobody has it, and no copy is on its way.
    fn is_lost(&self, name: Name) -> bool {
        !self.view.nodes.iter().any(|node| node.holds(name)) && !self.view.bus.carries(name.0, name.1)
    }

    fn outstanding(&self, told: Outstanding) -> Result<(), String> {
        let (mut held, mut gone) = (0, Bounds::default());
        for (name, truth) in &self.view.truths.by_name {
            if self.is_settled(*name) || !self.is_wanted(truth) {
                continue;
            }
            let received = self.node.channel.has_received(name.0, Range { first: name.1, last: name.1 });
            match self.node.holds(*name) {
                true => held += u64::from(!self.is_expired(*name)),
                false if received => gone.add(self.is_expired(*name) || !self.node.came.contains_key(name)),
                false => {}
            }
        }
        let all =
            matches!(self.at.recover, Recover::First | Recover::Beside) && self.at.slow != Slow::ReplaceByKey;
        ensure(if all { held == told.outstanding } else { held >= told.outstanding }, || {
            format!("{held} are outstanding, told {}", told.outstanding)
        })?;
        gone.check(told.gone, "gone at arrival")
    }

    fn delivery(&self, delivery: &Delivery) -> Result<Fates, String> {
        let stamp = delivery.stamp;
        let name = (stamp.origin, stamp.sequence);
        let truth = self.view.truths.by_name.get(&name).ok_or("nobody published it")?;
        ensure(truth.stamp == stamp && truth.message == delivery.message, || "it was changed".to_owned())?;
        ensure(self.is_wanted(truth), || "it does not match".to_owned())?;
        ensure(!self.is_settled(name), || {
            format!("the subscription had settled it: {:?}", self.at.settled.get(&name))
        })?;
        ensure(!self.is_expired(name), || "its lifetime has ended".to_owned())?;
        ensure(delivery.retained || self.node.holds(name), || "it is not held".to_owned())?;
        let before = self.at.delivered.get(&stamp.origin).copied().unwrap_or(0);
        let in_order = stamp.sequence > before;
        ensure(in_order || delivery.late || delivery.retained, || format!("{before} was delivered before"))?;
        let mut fates = self.cover(delivery.cover, Some(name))?;
        fates.push((name, How::Delivered));
        Ok(fates)
    }

    /// A cover spans only what is settled.
    fn cover(&self, cover: Cover, but: Option<Name>) -> Result<Fates, String> {
        let mut before = Vec::new();
        for (name, truth) in self.view.truths.of(cover.origin, cover.range) {
            if Some(name) == but || !self.is_wanted(truth) || self.is_settled(name) || self.is_expired(name) {
                continue;
            }
            ensure(self.is_before(name), || format!("the cover spans {name:?}, which matches"))?;
            before.push((name, How::Before));
        }
        let highest = self.view.truths.of(cover.origin, Range { first: 1, last: u64::MAX }).last();
        let highest = highest.map_or(0, |(name, _)| name.1);
        ensure(cover.range.last <= highest, || format!("the cover goes beyond {highest}"))?;
        Ok(before)
    }

    fn fate(&self, cover: Cover, fate: Fate, count: Count, closed: bool) -> Result<Fates, String> {
        let all: Vec<_> = self.view.truths.of(cover.origin, cover.range).collect();
        let open: Vec<_> =
            all.iter().filter(|(name, truth)| !self.is_settled(*name) && self.is_wanted(truth)).collect();
        let mut bounds = Bounds::default();
        open.iter()
            .for_each(|(name, _)| bounds.add(self.is_expired(*name) || !self.node.came.contains_key(name)));
        let how = match fate {
            Fate::Gone => {
                self.gone(&all)?;
                bounds.check(count, "gone")?;
                How::Gone
            }
            Fate::Superseded => {
                bounds.check(count, "superseded")?;
                let mut unexpired = open.iter().filter(|(name, _)| !self.is_expired(*name));
                unexpired.try_for_each(|(_, truth)| self.superseded(truth))?;
                How::Superseded
            }
            Fate::Unknown => {
                for (name, _) in &all {
                    ensure(!self.node.came.contains_key(name), || format!("{name:?} came here"))?;
                }
                How::Unknown
            }
        };
        Ok(if closed { open.into_iter().map(|(name, _)| (*name, how)).collect() } else { Vec::new() })
    }

    fn gone(&self, all: &[(Name, &Truth)]) -> Result<(), String> {
        for (name, _) in all {
            ensure(!self.is_settled(*name), || format!("{name:?} was settled before"))?;
            ensure(!self.node.holds(*name), || format!("{name:?} is held"))?;
            let came = self.node.came.contains_key(name);
            ensure(came || self.is_lost(*name), || {
                format!("{name:?} did not come, and another broker may have it")
            })?;
        }
        Ok(())
    }

    fn superseded(&self, truth: &Truth) -> Result<(), String> {
        let by_key = self.at.recover == Recover::NewestPerKey || self.at.slow == Slow::ReplaceByKey;
        let may_pass =
            matches!(self.at.recover, Recover::MaxAge(_)) || matches!(self.at.slow, Slow::DropOldest(_));
        let newness = Newness::of(&truth.stamp, &truth.message);
        let replaced = || {
            self.view.truths.by_name.values().any(|other| {
                other.message.key().is_some()
                    && (other.message.topic(), other.message.key())
                        == (truth.message.topic(), truth.message.key())
                    && self.is_wanted(other)
                    && Newness::of(&other.stamp, &other.message).is_newer_than(&newness)
            })
        };
        ensure(may_pass || by_key && replaced(), || format!("nothing supersedes {:?}", truth.stamp))
    }
}

/// Judges a subscription at the end, when everything is healed and read.
pub(crate) fn at_the_end(view: View<'_>, subscriber: &Subscriber) -> Result<(), String> {
    let at = subscriber.attached.as_ref().unwrap();
    let judge = Judge { view, node: &view.nodes[at.node], taste: &subscriber.taste, at };
    for (name, truth) in &view.truths.by_name {
        if !judge.is_wanted(truth)
            || judge.is_settled(*name)
            || judge.is_expired(*name)
            || judge.is_before(*name)
        {
            continue;
        }
        let known = judge.node.channel.log_of(name.0).is_some_and(|(_, log)| log.highest() >= name.1);
        let what = |why: &str| format!("broker {}: {name:?}, published at {:?}, {why}", at.node, truth.at);
        ensure(!judge.node.holds(*name), || what("is held and was not delivered"))?;
        ensure(!known, || what("is known to exist, and its fate is not"))?;
        // What crashed with its broker before anybody heard of it, nobody knows.
        ensure(!view.nodes.iter().any(|node| node.came.contains_key(name)), || {
            what("came to another broker")
        })?;
    }
    Ok(())
}

/// Judges a broker's buffer at the end.
pub(crate) fn buffer(view: View<'_>, node: &Node, scenario: &Scenario) -> Result<(), String> {
    for topic in super::taste::TOPICS {
        let writers = node.came.keys().map(|name| &view.truths.by_name[name]);
        let writers = writers.filter(|truth| truth.message.is_retained() && truth.message.topic() == topic);
        let last = writers
            .map(|truth| Newness::of(&truth.stamp, &truth.message))
            .reduce(|one, other| if other.is_written_after(&one) { other } else { one });
        let kept = node.channel.retained().find(topic.as_bytes());
        let kept = kept.map(|value| *value.newness());
        ensure(kept == last, || format!("{topic} retains {kept:?}, not {last:?}"))?;
    }
    // Expired messages make room for older ones that come late, and so do smaller ones; clocks that jump order messages by themselves.
    if scenario.clock_jumps > 0.0 || scenario.lifetimes > 0.0 {
        return Ok(());
    }
    for (partition, policy) in scenario.policies.iter().enumerate() {
        let Size { bytes, age, follow, .. } = scenario.sizes[partition];
        if matches!(policy, PolicySettings::Lrp) && bytes > 1 << 20 && age.is_none() && follow.is_none() {
            oldest_gave_way(view, node, partition)?;
        }
    }
    Ok(())
}

/// The held are the last published.
fn oldest_gave_way(view: View<'_>, node: &Node, partition: usize) -> Result<(), String> {
    let here = |name: &&Name| {
        let truth = &view.truths.by_name[*name];
        usize::from(truth.stamp.partition.0) == partition
    };
    let published = |name: &Name| view.truths.by_name[name].stamp.published;
    let (held, gone): (Vec<&Name>, Vec<&Name>) =
        node.came.keys().filter(here).partition(|name| node.holds(**name));
    let oldest = held.iter().map(|name| published(name)).min();
    let newest = gone.iter().map(|name| published(name)).max();
    ensure(oldest.is_none() || newest <= oldest, || {
        format!("broker {}, partition {partition}: {newest:?} gave way and {oldest:?} is held", node.id)
    })
}
