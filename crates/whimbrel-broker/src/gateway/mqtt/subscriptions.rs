//! A client's subscriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::frame::{Recover, Slow, Start};
use whimbrel_pubsub::topic::{Subscribed, TopicFilter};

use super::Gateway;
use super::admission::Admitted;
use super::codec::{Fault, Properties, Qos, Reason, Requested, Retained, Version};
use super::incoming::fault_of;
use super::outgoing::{COVERAGE, Outgoing};
use super::shared::Shared;
use super::state;
use super::stored::Line;
use super::subscription::{Options, Parked, ROOM, Subscription, Wanted, Whose};
use crate::hub::{Attach, Attachment, Client, ClientId, Form, SessionName};
use crate::selection::Selection;
use crate::selector::Selector;

/// The user property of a SUBSCRIBE with a selector.
const SELECTOR: &str = "whimbrel-selector";
/// The user property of a SUBSCRIBE that says how to get what was missed.
const RECOVER: &str = "whimbrel-recover";

/// The subscriptions of one client, by filter.
#[derive(Debug)]
pub(super) struct Subscriptions {
    gateway: Arc<Gateway>,
    admitted: Admitted,
    client: ClientId,
    form: Form,
    /// The client as reports name it.
    known: Arc<Client>,
    by_filter: BTreeMap<String, Subscription>,
    /// Seats in groups, by the texts with which the client subscribed.
    shared: BTreeMap<String, Shared>,
    /// Where the next round begins, so that no subscription waits for others forever.
    turn: Option<String>,
    notify: Arc<Notify>,
    /// Whether some subscription does not want the client's own messages.
    has_no_local: bool,
    /// The session, if it is kept beyond the connection.
    session: Option<SessionName>,
    /// What could not be attached again: it is kept on.
    unattached: Vec<Parked>,
}

impl Subscriptions {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        admitted: Admitted,
        (client, known): (ClientId, Arc<Client>),
        version: Version,
        session: Option<SessionName>,
    ) -> Self {
        // No native form has so large a number.
        let form = Form(u64::MAX - version as u64);
        Self {
            gateway,
            admitted,
            client,
            form,
            known,
            by_filter: BTreeMap::new(),
            shared: BTreeMap::new(),
            turn: None,
            notify: Arc::default(),
            has_no_local: false,
            session,
            unattached: Vec::new(),
        }
    }

    /// Looks whether the client may still be here, with all its subscriptions.
    pub(super) fn judge(&self) -> Result<(), Fault> {
        if !self.admitted.is_still() {
            let why = "the broker's settings do not let you in any more";
            return Err(Fault::new(Reason::NOT_AUTHORIZED, why));
        }
        let shared = self.shared.values().map(Shared::filter);
        let mut filters = self.by_filter.values().map(Subscription::filter).chain(shared);
        match filters.find(|filter| !self.admitted.may_subscribe(filter)) {
            Some(filter) => Err(not_permitted(filter)),
            None => Ok(()),
        }
    }

    /// Whoever waits for it is woken when there may be something to read.
    pub(super) fn notify(&self) -> Arc<Notify> {
        Arc::clone(&self.notify)
    }

    /// Attaches again what was kept. A subscription that is not permitted any more is left out.
    ///
    /// # Errors
    /// A subscription cannot be attached now. It is kept on.
    pub(super) async fn resume(
        &mut self,
        parked: Vec<Parked>,
        shared: BTreeMap<String, Shared>,
    ) -> Result<(), Fault> {
        self.shared = shared;
        self.shared.retain(|_, shared| self.admitted.may_subscribe(shared.filter()));
        self.shared.values_mut().for_each(|shared| shared.resume(&self.notify));
        let hub = Arc::clone(&self.gateway.hub);
        let mut outcome = Ok(());
        for parked in parked {
            let filter = parked.filter().to_owned();
            if !self.admitted.may_subscribe(parked.topic_filter()) {
                if let Err(fault) = self.end_on_disk(&filter).await {
                    self.unattached.push(parked);
                    outcome = Err(fault);
                }
                continue;
            }
            let whose = Whose { client: self.client, known: &self.known, session: self.session.as_ref() };
            match Subscription::resume(&hub, whose, parked.clone(), self.form, &self.notify).await {
                Ok(subscription) => drop(self.by_filter.insert(filter, subscription)),
                Err(refusal) => {
                    self.unattached.push(parked);
                    outcome = Err(Fault::new(Reason::UNAVAILABLE, refusal.reason));
                }
            }
        }
        self.look_for_no_local();
        outcome
    }

    /// Takes seats again that were found on disk. Who may not have one any more has none.
    pub(super) fn join_again(&mut self, lines: Vec<Line>) {
        for Line { text, selection, options } in lines {
            let Ok(Subscribed { group: Some(group), .. }) = Subscribed::parse(&text) else { continue };
            if self.admitted.may_subscribe(selection.filter()) {
                // A group that is full, or served elsewhere now, is left out.
                drop(self.enter_group(text, group.as_str(), selection, options));
            }
        }
    }

    /// Returns the subscriptions as they are kept while the client is away.
    pub(super) fn park(self) -> (Vec<Parked>, BTreeMap<String, Shared>) {
        let shared = self.shared.into_iter().map(|(text, shared)| (text, shared.park()));
        let attached = self.by_filter.into_values().map(Subscription::park);
        (attached.chain(self.unattached).collect(), shared.collect())
    }

    /// The subscriptions as they are kept on disk.
    pub(super) fn lines(&self) -> Vec<Line> {
        let attached = self.by_filter.values().filter_map(Subscription::line);
        let unattached = self.unattached.iter().filter_map(Parked::line);
        let shared = self.shared.iter().map(|(text, shared)| shared.line(text));
        attached.chain(unattached).chain(shared).collect()
    }

    /// Whether one of them is on disk.
    pub(super) fn are_durable(&self) -> bool {
        self.by_filter.values().any(Subscription::is_durable)
    }

    /// Ends a subscription's part on disk, if it has one.
    async fn end_on_disk(&self, filter: &str) -> Result<(), Fault> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        let (hub, filter) = (Arc::clone(&self.gateway.hub), filter.to_owned());
        let ended = tokio::task::spawn_blocking(move || hub.end_of_session(&session, &filter)).await;
        ended.map_err(|_| stops())?.map_err(fault_of)
    }

    /// Whether messages have to carry the name of their publisher.
    pub(super) fn has_no_local(&self) -> bool {
        self.has_no_local
    }

    fn look_for_no_local(&mut self) {
        self.has_no_local = self.by_filter.values().any(|subscription| subscription.options.no_local);
    }

    /// Subscribes. Returns the answer for each filter, and a sentence on the first that is refused.
    pub(super) async fn subscribe(
        &mut self,
        properties: &Properties<'_>,
        filters: &[Requested<'_>],
    ) -> (Vec<Reason>, String) {
        let mut why = String::new();
        let mut reasons = Vec::with_capacity(filters.len());
        for requested in filters {
            let outcome = self.subscribe_one(properties, requested, filters.len() == 1).await;
            reasons.push(outcome.unwrap_or_else(|fault| {
                if why.is_empty() {
                    why = fault.why.into_owned();
                }
                fault.reason
            }));
        }
        self.look_for_no_local();
        (reasons, why)
    }

    async fn subscribe_one(
        &mut self,
        properties: &Properties<'_>,
        requested: &Requested<'_>,
        is_alone: bool,
    ) -> Result<Reason, Fault> {
        let Subscribed { group, filter } = Subscribed::parse(requested.filter)
            .map_err(|error| Fault::new(Reason::FILTER_INVALID, error.to_string()))?;
        if !self.admitted.may_subscribe(&filter) {
            return Err(not_permitted(&filter));
        }
        let key = match group {
            Some(_) => requested.filter.to_owned(),
            None => filter.as_str().to_owned(),
        };
        let most = self.admitted.quota().subscriptions(self.gateway.limits.max_subscriptions);
        let is_new = !self.by_filter.contains_key(&key) && !self.shared.contains_key(&key);
        if is_new && self.by_filter.len() + self.shared.len() >= most {
            return Err(Fault::new(Reason::QUOTA, format!("a client has at most {most} subscriptions")));
        }
        let mistake = |why: String| Fault::new(Reason::IMPLEMENTATION, why);
        let selector = properties.user(SELECTOR).map(|text| Selector::parse(text).map(Arc::new));
        let selector = selector.transpose().map_err(|error| mistake(error.to_string()))?;
        let said = properties.user(COVERAGE);
        if said.is_some() && !is_alone {
            return Err(mistake("with whimbrel-coverage, a packet subscribes to one filter".to_owned()));
        }
        // QoS 2 is not sent: the subscription is told that it gets QoS 1.
        let qos = requested.qos.min(Qos::AtLeastOnce);
        let identifier = properties.subscription;
        let options =
            Options { qos, no_local: requested.no_local, as_published: requested.as_published, identifier };
        if let Some(group) = group {
            if said.is_some() {
                return Err(mistake(
                    "a shared subscription has no whimbrel-coverage: the group has one, here".to_owned(),
                ));
            }
            self.enter_group(key, group.as_str(), Selection::new(filter, selector), options)?;
            return Ok(Reason(qos as u8));
        }
        let former = self.by_filter.get(&key);
        let wanted = Wanted {
            selection: Selection::new(filter, selector),
            options,
            start: match (said, former) {
                (Some(text), _) => self.start(text).map_err(mistake)?,
                (None, Some(former)) => Start::Coverage(former.coverage()),
                (None, None) => Start::Live,
            },
            recover: properties.user(RECOVER).map_or(Ok(Recover::First), recover_of).map_err(mistake)?,
            wants_values: match requested.retained {
                Retained::Always => true,
                Retained::IfNew => former.is_none(),
                Retained::Never => false,
            },
            is_semi_durable: said.is_some(),
        };
        self.enter(key, wanted).await.map(|()| Reason(qos as u8))
    }

    /// Takes a seat in a group, or changes how its messages are sent.
    fn enter_group(
        &mut self,
        text: String,
        group: &str,
        selection: Selection,
        options: Options,
    ) -> Result<(), Fault> {
        if self.shared.get_mut(&text).is_some_and(|former| former.change(&selection, options)) {
            return Ok(());
        }
        let client = (self.client, self.admitted.user_id());
        let shared = Shared::join(&self.gateway.hub, client, group, selection, options, &self.notify);
        self.shared.insert(text, shared.map_err(fault_of)?);
        Ok(())
    }

    /// Attaches a subscription. One with the same filter gives way, and none of its messages is lost.
    async fn enter(&mut self, key: String, wanted: Wanted) -> Result<(), Fault> {
        let hub = Arc::clone(&self.gateway.hub);
        let whose = Whose { client: self.client, known: &self.known, session: self.session.as_ref() };
        let (form, notify) = (self.form, &self.notify);
        let Some(former) = self.by_filter.get(&key) else {
            let subscription =
                Subscription::attach(&hub, whose, wanted, form, notify).await.map_err(fault_of)?;
            self.by_filter.insert(key, subscription);
            return Ok(());
        };
        let goes_on =
            !wanted.is_semi_durable && former.is_of(&wanted.selection) && former.is_kept_as(&wanted.options);
        if !goes_on {
            // On disk it begins anew.
            if former.is_durable() {
                self.end_on_disk(&key).await?;
            }
            let subscription =
                Subscription::attach(&hub, whose, wanted.clone(), form, notify).await.map_err(fault_of)?;
            self.by_filter.insert(key.clone(), subscription);
        }
        let values = wanted
            .wants_values
            .then(|| self.gateway.values(self.client, &wanted.selection, form, &self.notify));
        let values = values.transpose()?;
        if let Some(subscription) = self.by_filter.get_mut(&key) {
            subscription.change(wanted.options, values);
        }
        self.notify.notify_one();
        Ok(())
    }

    fn start(&self, text: &str) -> Result<Start, String> {
        match text {
            "live" => Ok(Start::Live),
            "held" => Ok(Start::Held),
            text => state::parse(text, self.gateway.hub.name().cluster).map(Start::Coverage),
        }
    }

    /// Ends subscriptions. Returns the answer for each filter.
    ///
    /// # Errors
    /// One is on disk, and cannot be ended there now.
    pub(super) async fn unsubscribe(&mut self, filters: &[&str]) -> Result<Vec<Reason>, Fault> {
        let mut reasons = Vec::with_capacity(filters.len());
        for filter in filters {
            if self.by_filter.get(*filter).is_some_and(Subscription::is_durable) {
                self.end_on_disk(filter).await?;
            }
            reasons.push(match (self.by_filter.remove(*filter), self.shared.remove(*filter)) {
                (Some(_), _) | (_, Some(_)) => Reason::SUCCESS,
                _ if Subscribed::parse(filter).is_err() => Reason::FILTER_INVALID,
                _ => Reason::NO_SUBSCRIPTION,
            });
        }
        self.look_for_no_local();
        Ok(reasons)
    }

    /// Reads as far as the client has room. Returns whether there may be more to read at once.
    ///
    /// # Errors
    /// A subscription cannot go on.
    pub(super) async fn read(&mut self, outgoing: &mut Outgoing) -> Result<bool, Fault> {
        let hub = Arc::clone(&self.gateway.hub);
        let from = self.turn.take().unwrap_or_default();
        let keys: Vec<_> = {
            let ready =
                |(key, subscription): (&String, &Subscription)| subscription.is_ready().then(|| key.clone());
            let (behind, before) = (self.by_filter.range(from.clone()..), self.by_filter.range(..from));
            behind.chain(before).filter_map(ready).collect()
        };
        for key in keys {
            let Some(subscription) = self.by_filter.get_mut(&key) else { continue };
            if subscription.may_send(outgoing) {
                subscription.read(&hub, outgoing).await.map_err(fault_of)?;
            } else if self.turn.is_none() {
                // The first that waits is the first to read.
                self.turn = Some(key);
            }
        }
        let wall_ms = hub.clock().now().wall_ms;
        self.shared.values_mut().for_each(|shared| shared.read(wall_ms, outgoing));
        let mut all = self.by_filter.values();
        let has_more = all.any(|subscription| subscription.is_ready() && subscription.may_send(outgoing));
        Ok(has_more || self.shared.values().any(|shared| shared.is_ready(outgoing)))
    }

    /// Has what is covered told without messages.
    pub(super) fn tell_coverage(&mut self, outgoing: &mut Outgoing) {
        for subscription in self.by_filter.values_mut() {
            if outgoing.out.len() < ROOM {
                subscription.tell_coverage(outgoing);
            }
        }
    }
}

impl Gateway {
    /// Reads last values for a subscription that is there already.
    fn values(
        &self,
        client: ClientId,
        selection: &Selection,
        form: Form,
        notify: &Arc<Notify>,
    ) -> Result<Attachment, Fault> {
        let (recover, slow, start) = (Recover::First, Slow::Wait, Start::Live);
        let attach = Attach { selection: selection.clone(), recover, slow, start, state: None, form };
        self.hub.attach_with(client, attach, Arc::clone(notify)).map_err(fault_of)
    }
}

pub(super) fn stops() -> Fault {
    Fault::new(Reason::SHUTTING_DOWN, "the broker stops")
}

fn not_permitted(filter: &TopicFilter) -> Fault {
    Fault::new(Reason::NOT_AUTHORIZED, format!("you may not subscribe to `{filter}`"))
}

fn recover_of(text: &str) -> Result<Recover, String> {
    match text {
        "first" => Ok(Recover::First),
        "beside" => Ok(Recover::Beside),
        "newest-per-key" => Ok(Recover::NewestPerKey),
        _ => Err("whimbrel-recover is first, beside or newest-per-key".to_owned()),
    }
}
