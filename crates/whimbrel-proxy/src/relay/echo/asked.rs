//! Echo requests that wait for their replies, as a table without sockets. The sockets of a session have one identifier;
//! a number in its sequence tells whose reply one is.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::protocol::{EchoId, Manner};

/// The most requests of a session that wait for a reply. Further ones are lost.
const MOST: usize = 1_024;
/// How long a reply is waited for.
const WAIT: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EchoRequest {
    /// The program, without its identifier.
    pub(super) program: SocketAddr,
    pub(super) target: IpAddr,
    /// The marks by which the program knows it.
    pub(super) id: EchoId,
    /// How what comes back is sent.
    pub(super) manner: Manner,
}

/// Requests that wait.
#[derive(Debug, Default)]
pub(super) struct Asked {
    next: u16,
    all: HashMap<u16, (EchoRequest, Instant)>,
}

impl Asked {
    /// Adds a request. Returns its number at this end. `None`: too many wait.
    pub(super) fn ask(&mut self, request: EchoRequest, now: Instant) -> Option<u16> {
        if self.all.len() >= MOST {
            self.expire(now);
        }
        if self.all.len() >= MOST {
            return None;
        }
        // There are far more numbers than requests.
        while self.all.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.all.insert(number, (request, now));
        Some(number)
    }

    /// A reply to a number has come from an address. Returns its request, if it can be that.
    pub(super) fn answer(&mut self, number: u16, from: IpAddr, now: Instant) -> Option<EchoRequest> {
        let (request, since) = self.all.get(&number)?;
        if request.target != from || now.duration_since(*since) > WAIT {
            return None;
        }
        self.all.remove(&number).map(|(request, _)| request)
    }

    /// Forgets requests that nobody answers.
    pub(super) fn expire(&mut self, now: Instant) {
        self.all.retain(|_, (_, since)| now.duration_since(*since) <= WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str) -> EchoRequest {
        let id = EchoId { id: 7, sequence: 1 };
        let program = ([10, 0, 0, 1], 0).into();
        EchoRequest { program, target: target.parse().unwrap(), id, manner: Manner::default() }
    }

    #[test]
    fn a_reply_belongs_to_one_request_and_comes_from_its_target() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        let one = asked.ask(request("192.0.2.1"), now).unwrap();
        let two = asked.ask(request("192.0.2.2"), now).unwrap();
        assert_eq!(asked.answer(one, "192.0.2.2".parse().unwrap(), now), None, "somebody else's");
        assert_eq!(asked.answer(one, "192.0.2.1".parse().unwrap(), now), Some(request("192.0.2.1")));
        assert_eq!(asked.answer(one, "192.0.2.1".parse().unwrap(), now), None, "only once");
        let late = now + WAIT + Duration::from_millis(1);
        assert_eq!(asked.answer(two, "192.0.2.2".parse().unwrap(), late), None);
    }

    #[test]
    fn only_so_many_wait() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        let taken = (0..70_000).filter(|_| asked.ask(request("192.0.2.1"), now).is_some()).count();
        assert_eq!(taken, MOST);
        let later = now + WAIT + Duration::from_millis(1);
        assert!(asked.ask(request("192.0.2.1"), later).is_some());
        assert_eq!(asked.all.len(), 1);
    }
}
