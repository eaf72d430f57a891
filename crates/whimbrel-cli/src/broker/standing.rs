//! Why a broker is not linked with another, as people read it.

use whimbrel::PeerText;
use whimbrel_broker::report::{LinkReport, LinkState};

use crate::shown::delay;

/// Says for how long a broker has not been linked, why, and what comes next.
pub(crate) fn standing(broker: &LinkReport) -> String {
    let away = broker.away_s.map_or_else(String::new, |away| format!(" for {}", delay(away * 1e6)));
    let why = broker.trouble.as_ref().map_or_else(String::new, |why| format!(": {}", PeerText::show(why)));
    format!("not linked{away}{why}{}", next(broker))
}

/// Returns the next step as the end of a sentence.
fn next(broker: &LinkReport) -> String {
    match (broker.state, broker.next_attempt_s) {
        (LinkState::Dialling, _) => "; it is being dialled".to_owned(),
        (LinkState::Waiting, Some(next)) => format!("; the next attempt is in {}", delay(next * 1e6)),
        (LinkState::Awaited, _) => "; it must dial, since its [[peer]] here has no `url`".to_owned(),
        (LinkState::Silent, _) => ": it has not been heard of since".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_not_linked_has_a_reason_and_a_next_attempt() {
        let mut broker = LinkReport {
            state: LinkState::Waiting,
            away_s: Some(12.0),
            next_attempt_s: Some(0.5),
            trouble: Some("no answer from b:1\u{1b}".to_owned()),
            ..LinkReport::default()
        };
        let said = "not linked for 12.00 s: no answer from b:1\\u{1b}; the next attempt is in 500.00 ms";
        assert_eq!(standing(&broker), said);
        broker.state = LinkState::Dialling;
        assert!(standing(&broker).ends_with("; it is being dialled"));
        (broker.state, broker.trouble) = (LinkState::Awaited, None);
        assert_eq!(
            standing(&broker),
            "not linked for 12.00 s; it must dial, since its [[peer]] here has no `url`"
        );
        // An older broker says less.
        assert_eq!(standing(&LinkReport::default()), "not linked");
    }
}
