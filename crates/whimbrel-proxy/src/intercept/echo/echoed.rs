//! The table of recent pings, without sockets: only those who have pinged a target get a reply from it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::icmp::Ping;

/// The most pairs of a `ping` and its target, and the most of one host. Requests of further ones are lost.
const MOST: usize = 4_096;
const MOST_OF_HOST: usize = 512;
/// How long after a request something may come back.
const WAIT: Duration = Duration::from_secs(15);

/// A program, its target, and its identifier.
type PingKey = (IpAddr, IpAddr, u16);

/// The recent pings.
#[derive(Debug, Default)]
pub(super) struct Echoed {
    all: HashMap<PingKey, Instant>,
    hosts: HashMap<IpAddr, usize>,
}

fn pair(ping: Ping) -> PingKey {
    (ping.program, ping.target, ping.id.id)
}

impl Echoed {
    /// Takes a request. Returns whether it may go on.
    pub(super) fn ask(&mut self, ping: Ping, now: Instant) -> bool {
        if let Some(asked) = self.all.get_mut(&pair(ping)) {
            *asked = now;
            return true;
        }
        let of_host = self.hosts.get(&ping.program).copied().unwrap_or_default();
        if self.all.len() >= MOST || of_host >= MOST_OF_HOST {
            return false;
        }
        self.hosts.insert(ping.program, of_host + 1);
        self.all.insert(pair(ping), now);
        true
    }

    /// Returns whether a request may still be answered.
    pub(super) fn is_asked(&self, ping: Ping, now: Instant) -> bool {
        self.all.get(&pair(ping)).is_some_and(|asked| now.duration_since(*asked) <= WAIT)
    }

    /// Forgets what may not be answered any more.
    pub(super) fn expire(&mut self, now: Instant) {
        let Self { all, hosts } = self;
        all.retain(|(program, ..), asked| {
            let stays = now.duration_since(*asked) <= WAIT;
            if let Some(count) = hosts.get_mut(program).filter(|_| !stays) {
                *count -= 1;
            }
            stays
        });
        hosts.retain(|_, count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::EchoId;

    fn ping(host: u8, id: u16) -> Ping {
        let program = [10, 0, 0, host].into();
        Ping { program, target: [192, 0, 2, 1].into(), id: EchoId { id, sequence: 1 } }
    }

    #[test]
    fn who_has_not_asked_gets_no_answer_and_one_host_does_not_take_all() {
        let (mut asked, now) = (Echoed::default(), Instant::now());
        assert!(asked.ask(ping(1, 1), now) && asked.ask(ping(1, 1), now));
        assert!(asked.is_asked(ping(1, 1), now) && !asked.is_asked(ping(1, 2), now));
        assert_eq!((0..u16::MAX).filter(|id| asked.ask(ping(2, *id), now)).count(), MOST_OF_HOST);
        assert!(asked.ask(ping(3, 1), now));
        let later = now + WAIT + Duration::from_millis(1);
        assert!(!asked.is_asked(ping(1, 1), later));
        asked.expire(later);
        assert_eq!((asked.all.len(), asked.hosts.len()), (0, 0));
    }
}
