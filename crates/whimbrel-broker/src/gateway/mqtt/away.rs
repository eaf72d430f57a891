//! Sessions and Wills of clients that are away.

use std::collections::BTreeMap;
use std::time::Instant;

use whimbrel_pubsub::message::Message;

use super::kept::Kept;
use super::ranking::{Name, Ranking};

/// The most sessions that are kept for clients that are away, beside those on disk, which the store limits.
pub(super) const MOST_KEPT: usize = 10_000;
/// The most bytes of memory of all of them, roughly.
pub(super) const MOST_KEPT_BYTES: usize = 256 << 20;

/// The state that is left of a client that went.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Its session, and how long it is kept.
    pub(super) session: Option<(Kept, Instant)>,
    /// Its Will, and when it is published.
    pub(super) will: Option<(Message, Instant)>,
    /// Whether a former session is over, and has to be ended on disk.
    pub(super) is_over: bool,
}

/// The state that is left of all clients that are away.
#[derive(Debug)]
pub(super) struct AllAway {
    away: BTreeMap<Name, Away>,
    bytes: usize,
    most_bytes: usize,
    /// Sessions that nothing but this memory has.
    in_memory: Ranking,
    /// Sessions that are on disk, as far as they take memory, too.
    on_disk: Ranking,
    /// Wills for which there was no room until their time. They are due, with their users.
    due: Vec<(Option<String>, Message)>,
}

impl Default for AllAway {
    fn default() -> Self {
        let (in_memory, on_disk) = (Ranking::default(), Ranking::default());
        let (away, due) = (BTreeMap::new(), Vec::new());
        Self { away, bytes: 0, most_bytes: MOST_KEPT_BYTES, in_memory, on_disk, due }
    }
}

impl AllAway {
    /// Takes what is left of a client.
    pub(super) fn take(&mut self, name: &Name) -> Option<Away> {
        let away = self.away.remove(name)?;
        self.bytes = self.bytes.saturating_sub(away.bytes());
        if let Some((ranking, ends)) = self.place_of(&away) {
            ranking.remove(name, ends, away.bytes());
        }
        Some(away)
    }

    /// Keeps what is left of a client. Others may have to go for it.
    pub(super) fn put(&mut self, name: Name, away: Away) {
        self.take(&name);
        self.insert(name, away);
        self.make_room();
    }

    /// Forgets sessions whose time is over. Returns the Wills that are due with their users, and the names of the sessions that have to be ended on disk.
    pub(super) fn tick(&mut self, now: Instant) -> (Vec<(Option<String>, Message)>, Vec<Name>) {
        let due = self.away.iter().filter(|(_, away)| away.is_due(now));
        let due: Vec<Name> = due.map(|(name, _)| name.clone()).collect();
        let (mut wills, mut over) = (std::mem::take(&mut self.due), Vec::new());
        for name in due {
            let Some(mut away) = self.take(&name) else { continue };
            if let Some((kept, _)) = away.session.take_if(|(_, until)| *until <= now)
                && kept.is_stored
            {
                over.push(name.clone());
            }
            if away.will.as_ref().is_some_and(|(_, at)| *at <= now || away.session.is_none()) {
                wills.extend(away.will.take().map(|(message, _)| (name.0.clone(), message)));
            }
            self.insert(name, away);
        }
        (wills, over)
    }

    /// Gives up the Wills whose time has not come. Returns how many.
    pub(super) fn take_wills(&mut self) -> usize {
        let with_will = self.away.iter().filter(|(_, away)| away.will.is_some());
        let names: Vec<Name> = with_will.map(|(name, _)| name.clone()).collect();
        for name in &names {
            let Some(away) = self.take(name) else { continue };
            self.insert(name.clone(), Away { will: None, ..away });
        }
        names.len() + std::mem::take(&mut self.due).len()
    }

    fn insert(&mut self, name: Name, away: Away) {
        if away.session.is_none() && away.will.is_none() {
            return;
        }
        let bytes = away.bytes();
        self.bytes += bytes;
        if let Some((ranking, ends)) = self.place_of(&away) {
            ranking.insert(&name, ends, bytes);
        }
        self.away.insert(name, away);
    }

    /// Where a session is ranked, if it takes memory, and when it ends.
    fn place_of(&mut self, away: &Away) -> Option<(&mut Ranking, Instant)> {
        let (kept, ends) = away.session.as_ref().filter(|_| away.bytes() > 0)?;
        Some((if kept.is_stored { &mut self.on_disk } else { &mut self.in_memory }, *ends))
    }

    /// Makes room. A session on disk was promised, so it stays there, and its memory is given up as at a restart. If its Will is all that is
    /// left in memory, that is due. Others end. Their Wills are published at the next tick.
    fn make_room(&mut self) {
        while let Some(name) = self.next_to_go() {
            let Some(mut away) = self.take(&name) else { return };
            match &mut away.session {
                Some((kept, _)) if kept.is_on_disk_alone => {
                    self.due.extend(away.will.take().map(|(message, _)| (name.0.clone(), message)));
                }
                Some((kept, _)) if kept.is_stored => *kept = Kept::on_disk_alone(),
                session => *session = None,
            }
            self.insert(name, away);
        }
    }

    fn next_to_go(&self) -> Option<Name> {
        let Self { in_memory, on_disk, .. } = self;
        let greedier = if on_disk.most() >= in_memory.most() { on_disk } else { in_memory };
        let for_bytes = if self.bytes > self.most_bytes { greedier.first() } else { None };
        for_bytes.or_else(|| if in_memory.len() > MOST_KEPT { in_memory.first() } else { None })
    }
}

impl Away {
    fn bytes(&self) -> usize {
        let will = self.will.as_ref().map_or(0, |(message, _)| message.encoded().len());
        will + self.session.as_ref().map_or(0, |(kept, _)| kept.bytes())
    }

    fn is_due(&self, now: Instant) -> bool {
        let is_over = self.session.as_ref().is_none_or(|(_, until)| *until <= now);
        is_over || self.will.as_ref().is_some_and(|(_, at)| *at <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::kept::Received;
    use super::*;

    fn name(user: Option<&str>, client: usize) -> Name {
        (user.map(str::to_owned), client.to_string())
    }

    fn session(is_stored: bool, received: u16, ends: Instant) -> Away {
        let received = (0..received).map(|id| (id, Received::InMemory)).collect();
        let kept = Kept { is_stored, received, ..Kept::default() };
        Away { session: Some((kept, ends)), ..Away::default() }
    }

    fn is_on_disk_alone(all: &AllAway, name: &Name) -> bool {
        all.away[name].session.as_ref().unwrap().0.is_on_disk_alone
    }

    #[test]
    fn sessions_are_bounded_and_users_keep_theirs() {
        let (mut all, now) = (AllAway::default(), Instant::now());
        let after = |seconds: usize| now + Duration::from_secs(seconds as u64);
        let fisher = name(Some("fisher"), 0);
        all.put(fisher.clone(), session(false, 0, after(1)));
        (0..=MOST_KEPT).for_each(|client| all.put(name(None, client), session(false, 0, after(client + 1))));
        assert_eq!(all.away.len(), MOST_KEPT);
        assert!(all.away.contains_key(&fisher), "another's flood does not reach it");
        let has = |client| all.away.contains_key(&name(None, client));
        assert!(!has(0) && !has(1) && has(2));
        assert!(all.tick(after(MOST_KEPT + 1)).1.is_empty());
        assert_eq!((all.away.len(), all.bytes, all.in_memory.len()), (0, 0, 0));
    }

    /// A restart would otherwise end sessions that CONNACK had promised.
    #[test]
    fn regression_sessions_on_disk_take_no_place_of_those_in_memory() {
        let (mut all, until) = (AllAway::default(), Instant::now() + Duration::from_secs(60));
        (0..=MOST_KEPT).for_each(|client| all.put(name(Some("stored"), client), session(true, 0, until)));
        all.put(name(None, 1), session(false, 0, until));
        assert_eq!((all.away.len(), all.on_disk.len()), (MOST_KEPT + 2, MOST_KEPT + 1));
    }

    /// With one look at all sessions for each that comes, this would take minutes.
    #[test]
    fn regression_what_is_too_much_for_memory_ends_no_session_on_disk() {
        let now = Instant::now();
        let mut all = AllAway { most_bytes: 1 << 20, ..AllAway::default() };
        let after = |seconds: usize| now + Duration::from_secs(seconds as u64);
        let modest = name(Some("modest"), 0);
        all.put(modest.clone(), session(false, 0, after(1)));
        for client in 0..50_000 {
            all.put(name(None, client), session(true, 3, after(client)));
            assert!(all.bytes <= 1 << 20);
        }
        assert_eq!(all.away.len(), 50_001, "each is there");
        assert!(all.away[&modest].session.is_some(), "and a modest one in memory, too");
        assert!(is_on_disk_alone(&all, &name(None, 0)) && !is_on_disk_alone(&all, &name(None, 49_999)));
        // In memory alone, those of the greediest end.
        (0..100).for_each(|client| all.put(name(Some("greedy"), client), session(false, 1_000, after(9))));
        assert!(all.away.contains_key(&modest) && !all.away.contains_key(&name(Some("greedy"), 0)));
        assert!(all.bytes <= 1 << 20 && all.away.len() > 50_000);
        let (_, over) = all.tick(after(1_000_000));
        assert_eq!(
            (over.len(), all.bytes, all.away.len()),
            (50_000, 0, 0),
            "they are ended when their time is over"
        );
        assert_eq!((all.in_memory.len(), all.on_disk.len()), (0, 0));
    }

    /// They stayed in memory, whatever they took.
    #[test]
    fn regression_wills_of_sessions_on_disk_take_no_more_memory_than_sessions() {
        let now = Instant::now();
        let mut all = AllAway { most_bytes: 1 << 20, ..AllAway::default() };
        let until = now + Duration::from_secs(1_000);
        let will = |bytes: usize| {
            let draft = whimbrel_pubsub::message::Draft {
                topic: "t",
                payload: &vec![0; bytes],
                ..Default::default()
            };
            Some((draft.finish().unwrap(), until))
        };
        let modest = name(Some("modest"), 0);
        all.put(modest.clone(), Away { will: will(1_000), ..session(true, 0, until) });
        for client in 0..100 {
            all.put(name(None, client), Away { will: will(100_000), ..session(true, 0, until) });
            assert!(all.bytes <= 1 << 20, "{client}: {}", all.bytes);
        }
        assert_eq!(all.tick(now).0.len(), 90, "they are published early");
        assert!(all.away[&modest].will.is_some(), "but not those of others");
        assert_eq!((all.away.len(), all.take_wills()), (101, 11), "and no session ends");
    }

    #[test]
    fn a_will_waits_for_its_time_or_the_end_of_its_session() {
        let (mut all, now) = (AllAway::default(), Instant::now());
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let will = whimbrel_pubsub::message::Draft { topic: "t", ..Default::default() }.finish().unwrap();
        for (client, (at, ends)) in [(1, 9), (9, 2)].into_iter().enumerate() {
            let away = session(false, 0, after(ends));
            all.put(name(None, client), Away { will: Some((will.clone(), after(at))), ..away });
        }
        assert_eq!([0, 1, 2, 3].map(|seconds| all.tick(after(seconds)).0.len()), [0, 1, 1, 0]);
        assert_eq!(all.away.len(), 1);
        assert!(all.take(&name(None, 0)).is_some() && all.bytes == 0);
    }
}
