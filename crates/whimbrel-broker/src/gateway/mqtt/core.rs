//! The state that all connections of clients of MQTT share.

use std::sync::Arc;

use whimbrel_pubsub::message::Message;

use super::admission::Admission;
use super::clients::Clients;
use super::entrance::Entrance;
use super::limits::Limits;
use super::wills::Wills;
use crate::hub::Hub;

/// The service for clients of MQTT: the state that all connections share.
#[derive(Debug)]
pub struct Gateway {
    pub(super) hub: Arc<Hub>,
    pub(super) admission: Arc<Admission>,
    pub(super) limits: Limits,
    pub(super) clients: Arc<Clients>,
    pub(super) entrance: Arc<Entrance>,
    pub(super) wills: Wills,
}

impl Gateway {
    /// Publishes a Will that was kept for a while, if its user may still publish it: rules may have changed.
    pub(super) fn publish_will(&self, user: Option<String>, message: Message) {
        if self.admission.may_publish(user.as_ref(), message.topic()).is_ok() {
            self.wills.publish(user, message);
        } else {
            self.wills.refuse(format_args!("its user may not publish to `{}` any more", message.topic()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::{BrokerId, Draft};

    use super::super::admission::{Rules, User};
    use super::*;
    use crate::hub::{BrokerName, ChannelRules};
    use crate::native::Permissions;

    fn rules(users: &[&str]) -> Rules {
        let user = |name: &&str| {
            let permissions =
                Permissions { publish: vec!["boats/#".parse().unwrap()], ..Permissions::default() };
            ((*name).to_owned(), User { password: None, permissions })
        };
        Rules { users: users.iter().map(user).collect::<BTreeMap<_, _>>(), ..Rules::default() }
    }

    /// It was judged when its client left, and not when it was published.
    #[tokio::test]
    async fn regression_a_will_of_a_user_who_is_gone_is_not_published_after_its_delay() {
        let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(1), name: "here".into() };
        let hub = Hub::new(name, vec![ChannelRules::all_topics()], crate::matching::Limits::default());
        let admission = Arc::new(Admission::new(rules(&["fisher"])));
        let gateway = Gateway::new(Arc::clone(&hub), Arc::clone(&admission), Limits::default(), |_| {});
        let will = |topic: &str| {
            let message = Draft { topic, payload: b"lost", ..Draft::default() }.finish().unwrap();
            gateway.publish_will(Some("fisher".to_owned()), message);
            (hub.report()[0].arrived, gateway.wills.counts().refused)
        };
        assert_eq!(will("boats/1"), (1, 0));
        assert_eq!(will("harbour/1"), (1, 1), "the topic is none of its own");
        admission.replace(rules(&[]));
        assert_eq!(will("boats/1"), (1, 2), "the user is gone");
    }
}
