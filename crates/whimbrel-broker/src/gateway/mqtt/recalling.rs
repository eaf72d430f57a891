//! A session comes back whose memory was given up.

use std::sync::Arc;

use super::answers::fault_of;
use super::codec::{Fault, Reason};
use super::kept::Kept;
use super::stored;
use super::subscriptions::stops;
use crate::hub::{Hub, SessionName};
use crate::store::FoundSession;

/// Reads a session from disk. It goes on as after a restart. `None`: it is not there any more.
pub(super) async fn recall(hub: &Arc<Hub>, name: SessionName) -> Result<Option<Kept>, Fault> {
    let (of_errand, session) = (Arc::clone(hub), name.clone());
    let found = hub.errand_of_session(&session, move || of_errand.kept_session(&name)).await;
    let found = found.map_err(|_| stops())?.map_err(fault_of)?;
    let Some(FoundSession { session, received, outbound, .. }) = found else { return Ok(None) };
    let why = "the session was kept by a newer version of the broker";
    let lines = stored::decode(&session.state).ok_or_else(|| Fault::new(Reason::UNAVAILABLE, why))?;
    Ok(Some(Kept::of(lines, received, outbound)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::{BrokerId, Publication, PublisherId};

    use super::super::codec::Qos;
    use super::super::kept::Received;
    use super::super::options::Options;
    use super::super::stored::Line;
    use super::*;
    use crate::hub::{BrokerName, ChannelRules, StorePlace};
    use crate::selection::Selection;
    use crate::store::testing::Folder;

    /// What is on disk need not be in memory.
    #[tokio::test]
    async fn a_session_whose_memory_was_given_up_is_found_on_disk() {
        let folder = Folder::new("recall");
        let place = StorePlace { folder: Ok(folder.0.join("store")), ..StorePlace::nowhere() };
        let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(1), name: "here".into() };
        let rules = vec![ChannelRules::all_topics()];
        let hub = Hub::with_store(name, rules, crate::matching::Limits::default(), place);
        let session = SessionName { user: Some("fisher".into()), client: "boat".into() };
        assert!(recall(&hub, session.clone()).await.unwrap().is_none());
        let options =
            Options { qos: Qos::AtLeastOnce, no_local: false, as_published: true, identifier: Some(7) };
        let selection = Selection::new("fish/#".parse().unwrap(), None);
        let line = Line { text: "fish/#".to_owned(), selection, options };
        let state = stored::encode([line]);
        hub.keep_session(&session, (Duration::from_secs(60), None), state).unwrap();
        let publication = Publication { publisher: PublisherId(3), number: 9 };
        hub.note_received(&session, 4, Some(publication));
        let kept = recall(&hub, session.clone()).await.unwrap().unwrap();
        assert!(kept.is_stored && !kept.is_on_disk_alone && kept.bytes() > 0);
        assert_eq!(kept.subscriptions[0].filter(), "fish/#");
        assert_eq!(kept.received, [(4, Received::Perhaps(publication))].into());
        hub.end_session(&session).unwrap();
        assert!(recall(&hub, session).await.unwrap().is_none());
        hub.close_store();
    }
}
