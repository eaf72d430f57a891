//! A client's subscriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::frame::RefusalCode;
use whimbrel_pubsub::topic::{Subscribed, TopicFilter};

use super::admission::Admitted;
use super::answers::fault_of;
use super::codec::{Fault, Reason, Version};
use super::core::Gateway;
use super::outgoing::{Outgoing, ROOM};
use super::parked::Parked;
use super::shared::Shared;
use super::stored::Line;
use super::subscription::{Subscription, Whose};
use crate::hub::{Client, ClientId, Form, SessionName};

/// The subscriptions of one client, by filter.
#[derive(Debug)]
pub(super) struct Subscriptions {
    pub(super) gateway: Arc<Gateway>,
    pub(super) admitted: Admitted,
    pub(super) client: ClientId,
    pub(super) form: Form,
    /// The client as reports name it.
    pub(super) known: Arc<Client>,
    /// Boxed: a map has room for several in a row, and most clients have one.
    pub(super) by_filter: BTreeMap<String, Box<Subscription>>,
    /// Seats in groups, by the texts with which the client subscribed.
    pub(super) shared: BTreeMap<String, Shared>,
    /// Where the next round begins, so that no subscription waits for others forever.
    turn: Option<String>,
    pub(super) notify: Arc<Notify>,
    /// Whether some subscription does not want the client's own messages.
    has_no_local: bool,
    /// The session, if it is kept beyond the connection.
    pub(super) session: Option<SessionName>,
    /// Subscriptions that could not be attached again: they are kept on.
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
            let why = "the broker's settings no longer allow you to connect";
            return Err(Fault::new(Reason::NOT_AUTHORIZED, why));
        }
        let shared = self.shared.values().map(Shared::filter);
        let mut filters = self.by_filter.values().map(|subscription| subscription.filter()).chain(shared);
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
                Ok(subscription) => drop(self.by_filter.insert(filter, Box::new(subscription))),
                // What the disk has is not given up for its trouble.
                Err(refusal) if refusal.code == RefusalCode::Unavailable => {
                    self.unattached.push(parked);
                    outcome = Err(Fault::new(Reason::UNAVAILABLE, refusal.reason));
                }
                // A limit, or a channel that is not there any more.
                Err(_) => {}
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
        let attached = self.by_filter.into_values().map(|subscription| subscription.park());
        (attached.chain(self.unattached).collect(), shared.collect())
    }

    /// The subscriptions as they are kept on disk.
    pub(super) fn lines(&self) -> Vec<Line> {
        let attached = self.by_filter.values().filter_map(|subscription| subscription.line());
        let unattached = self.unattached.iter().filter_map(Parked::line);
        let shared = self.shared.iter().map(|(text, shared)| shared.line(text));
        attached.chain(unattached).chain(shared).collect()
    }

    /// Whether one of them is on disk.
    pub(super) fn are_durable(&self) -> bool {
        self.by_filter.values().any(|subscription| subscription.is_durable())
    }

    /// Ends a subscription's part on disk, if it has one.
    pub(super) async fn end_on_disk(&self, filter: &str) -> Result<(), Fault> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        let (hub, filter, of_errand) = (&self.gateway.hub, filter.to_owned(), session.clone());
        let errand = Arc::clone(hub);
        let ended = hub.errand_of_session(&session, move || errand.end_of_session(&of_errand, &filter)).await;
        ended.map_err(|_| stops())?.map_err(fault_of)
    }

    /// Whether messages have to carry the name of their publisher.
    pub(super) fn has_no_local(&self) -> bool {
        self.has_no_local
    }

    pub(super) fn look_for_no_local(&mut self) {
        self.has_no_local = self.by_filter.values().any(|subscription| subscription.options.no_local);
    }

    /// Ends subscriptions. Returns the answer for each filter.
    ///
    /// # Errors
    /// One is on disk, and cannot be ended there now.
    pub(super) async fn unsubscribe(&mut self, filters: &[&str]) -> Result<Vec<Reason>, Fault> {
        let mut reasons = Vec::with_capacity(filters.len());
        for filter in filters {
            if self.by_filter.get(*filter).is_some_and(|subscription| subscription.is_durable()) {
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
            let (behind, before) = (self.by_filter.range(from.clone()..), self.by_filter.range(..from));
            let ready = behind.chain(before).filter(|(_, subscription)| subscription.is_ready());
            ready.map(|(key, _)| key.clone()).collect()
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
        if outgoing.has_former() && self.by_filter.values().all(|subscription| subscription.is_through()) {
            outgoing.release_former();
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

pub(super) fn stops() -> Fault {
    Fault::new(Reason::SHUTTING_DOWN, "the broker stops")
}

pub(super) fn not_permitted(filter: &TopicFilter) -> Fault {
    Fault::new(Reason::NOT_AUTHORIZED, format!("you may not subscribe to `{filter}`"))
}
