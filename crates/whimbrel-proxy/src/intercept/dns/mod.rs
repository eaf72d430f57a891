//! Questions for names (DNS) that the near end answers by itself, from what the same server answered before.

mod cache;
mod message;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cache::{Askers, Cache};
use message::{DnsAnswer, Query};

use crate::policy::Decision;
use crate::protocol::Target;

/// The port of DNS.
pub(super) const PORT: u16 = 53;
/// How long an answer may take, and the most questions of a program that wait for one. Answers to others are not kept.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_OPEN: usize = 128;

/// The answers that all programs share. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Arc<Mutex<Cache>>);

/// The questions of a program that are open.
#[derive(Debug, Default)]
pub(super) struct Questions(HashMap<([u8; 2], Target), (Askers, Query, Instant)>);

impl Questions {
    /// Takes a datagram of the program to a server. Returns the answer, if it is known. Otherwise it is to be sent on.
    pub(super) fn ask(
        &mut self,
        answers: &Answers,
        (decision, peer): (&Decision, &Arc<str>),
        server: &Target,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let query = Query::read(payload)?;
        let rule = decision.rule.as_ref().map(|(_, name)| name.as_str().into());
        let (asked, now) = (Askers { rule, peer: Arc::clone(peer), server: server.clone() }, Instant::now());
        if let Some(answer) = answers.lock().answer(&asked, &query, now) {
            return Some(answer);
        }
        if self.0.len() >= MOST_OPEN {
            self.0.retain(|_, (_, _, since)| now.duration_since(*since) < PATIENCE);
        }
        if self.0.len() < MOST_OPEN {
            self.0.insert((query.id, server.clone()), (asked, query, now));
        }
        None
    }

    /// A reply goes to the program. If it answers an open question, it is kept for others. The first one that does counts.
    pub(super) fn on_reply(
        &mut self,
        answers: &Answers,
        (server, peer): (&Target, &Arc<str>),
        payload: &[u8],
    ) {
        if self.0.is_empty() || payload.len() < 2 {
            return;
        }
        let place = ([payload[0], payload[1]], server.clone());
        let Some((asked, query, since)) = self.0.get(&place) else { return };
        if asked.peer != *peer || since.elapsed() > PATIENCE {
            return;
        }
        if let Some(answer) = DnsAnswer::read(payload, query) {
            answers.lock().keep(asked.clone(), query, answer, Instant::now());
            self.0.remove(&place);
        }
    }
}

impl Answers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::message::tests::{answer, query};
    use super::*;

    #[test]
    fn only_the_answer_to_an_open_question_is_kept() {
        let (answers, mut program, mut other) =
            (Answers::default(), Questions::default(), Questions::default());
        let (far, near): (Arc<str>, Arc<str>) = ("far".into(), "near".into());
        let server: Target = "192.0.2.1:53".parse().unwrap();
        let elsewhere: Target = "192.0.2.2:53".parse().unwrap();
        let decision = Decision::default();
        let ask = |questions: &mut Questions, id| {
            questions.ask(&answers, (&decision, &far), &server, &query(id, "a.org"))
        };
        assert_eq!(ask(&mut program, 1), None);
        for (from, peer, payload) in [
            (&elsewhere, &far, answer(1, "a.org", 60, 66)),
            (&server, &near, answer(1, "a.org", 60, 66)),
            (&server, &far, answer(2, "a.org", 60, 66)),
            (&server, &far, answer(1, "b.org", 60, 66)),
        ] {
            program.on_reply(&answers, (from, peer), &payload);
            other.on_reply(&answers, (from, peer), &payload);
            assert_eq!(ask(&mut other, 9), None, "{from} {peer}");
        }
        program.on_reply(&answers, (&server, &far), &answer(1, "a.org", 60, 7));
        assert_eq!(ask(&mut other, 9).unwrap(), answer(9, "a.org", 60, 7));
        // Another answer comes too late.
        program.on_reply(&answers, (&server, &far), &answer(1, "a.org", 60, 66));
        assert_eq!(ask(&mut program, 3).unwrap(), answer(3, "a.org", 60, 7));
    }

    #[test]
    fn a_program_that_only_asks_takes_little() {
        let (answers, mut program) = (Answers::default(), Questions::default());
        let far: Arc<str> = "far".into();
        let server: Target = "192.0.2.1:53".parse().unwrap();
        for id in 0..5_000 {
            program.ask(&answers, (&Decision::default(), &far), &server, &query(id, "a.org"));
        }
        assert_eq!(program.0.len(), MOST_OPEN);
    }
}
