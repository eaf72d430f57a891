//! A client subscribes.

use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::frame::{Recover, Slow, Start};
use whimbrel_pubsub::topic::Subscribed;

use super::answers::fault_of;
use super::codec::{Fault, Properties, Qos, Reason, Requested, Retained};
use super::core::Gateway;
use super::options::{Options, Wanted};
use super::shared::Shared;
use super::state::{self, COVERAGE};
use super::subscription::{Subscription, Whose};
use super::subscriptions::{Subscriptions, not_permitted};
use crate::hub::{Attach, Attachment, ClientId, Form};
use crate::selection::Selection;
use crate::selector::Selector;

/// The user property of a SUBSCRIBE with a selector.
const SELECTOR: &str = "whimbrel-selector";
/// The user property of a SUBSCRIBE that says how to get what was missed.
const RECOVER: &str = "whimbrel-recover";

impl Subscriptions {
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
        // A member of a group that leaves gives its messages to others, so that they may come twice: the subscription is told that it gets QoS 1.
        let qos = if group.is_some() { requested.qos.min(Qos::AtLeastOnce) } else { requested.qos };
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
    pub(super) fn enter_group(
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
            self.by_filter.insert(key, Box::new(subscription));
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
            self.by_filter.insert(key.clone(), Box::new(subscription));
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

fn recover_of(text: &str) -> Result<Recover, String> {
    match text {
        "first" => Ok(Recover::First),
        "beside" => Ok(Recover::Beside),
        "newest-per-key" => Ok(Recover::NewestPerKey),
        _ => Err("whimbrel-recover is first, beside or newest-per-key".to_owned()),
    }
}
