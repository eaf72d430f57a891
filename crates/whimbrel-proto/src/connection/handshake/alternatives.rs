//! Further addresses of a server that is being connected to, tried one after another while none has answered (RFC 8305
//! section 5).

use std::net::SocketAddr;
use std::time::Duration;

use crate::Time;

/// The delay from one address to the next.
const AHEAD: Duration = Duration::from_millis(250);
/// The most further addresses of a name that are tried. The rest are ignored.
const MOST: usize = 15;

/// The further addresses, and which of them were tried.
#[derive(Debug)]
pub(in crate::connection) struct Alternatives {
    addresses: Vec<SocketAddr>,
    /// When each of the addresses tried so far was first tried.
    asked: Vec<Time>,
    /// How many of the addresses tried so far must still get the last packet.
    due: usize,
    /// When the next address is tried.
    next: Time,
}

impl Alternatives {
    /// Returns `None` if there are no further addresses.
    pub(in crate::connection) fn new(now: Time, mut addresses: Vec<SocketAddr>) -> Option<Box<Self>> {
        addresses.truncate(MOST);
        let some = !addresses.is_empty();
        some.then(|| Box::new(Self { addresses, asked: Vec::new(), due: 0, next: now + AHEAD }))
    }

    /// Returns the address to send to now, if any.
    pub(in crate::connection) fn poll(&mut self, now: Time) -> Option<SocketAddr> {
        if self.due > 0 {
            self.due -= 1;
            return Some(self.addresses[self.due]);
        }
        let address = *self.addresses.get(self.asked.len()).filter(|_| now >= self.next)?;
        self.asked.push(now);
        self.next = now + AHEAD;
        Some(address)
    }

    /// The packet to the first address was repeated: it is repeated to all further addresses tried so far.
    pub(in crate::connection) fn on_repeated(&mut self) {
        self.due = self.asked.len();
    }

    pub(in crate::connection) fn timeout(&self) -> Time {
        match self.due {
            0 if self.asked.len() < self.addresses.len() => self.next,
            0 => Time::MAX,
            _ => Time::ZERO,
        }
    }

    /// One of these addresses answered and becomes the server's; `first`, which was, takes its place here. Returns when
    /// the address was first tried, `None` if it never was.
    pub(in crate::connection) fn on_answered(
        &mut self,
        address: SocketAddr,
        first: SocketAddr,
    ) -> Option<Time> {
        let at = self.addresses.iter().position(|other| *other == address)?;
        let asked = *self.asked.get(at)?;
        self.addresses[at] = first;
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_another_is_asked_and_all_of_them_again() {
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert!(Alternatives::new(ms(0), Vec::new()).is_none());
        let mut alternatives = Alternatives::new(ms(0), vec![address(1), address(2)]).unwrap();
        alternatives.on_repeated();
        assert_eq!((alternatives.poll(ms(249)), alternatives.timeout()), (None, ms(250)));
        assert_eq!((alternatives.poll(ms(250)), alternatives.poll(ms(250))), (Some(address(1)), None));
        alternatives.on_repeated();
        assert_eq!(alternatives.timeout(), Time::ZERO);
        assert_eq!((alternatives.poll(ms(300)), alternatives.poll(ms(300))), (Some(address(1)), None));
        assert_eq!((alternatives.poll(ms(500)), alternatives.timeout()), (Some(address(2)), Time::MAX));
        alternatives.on_repeated();
        assert_eq!(
            (alternatives.poll(ms(600)), alternatives.poll(ms(600))),
            (Some(address(2)), Some(address(1)))
        );
        assert_eq!(alternatives.on_answered(address(3), address(9)), None);
        assert_eq!(alternatives.on_answered(address(2), address(9)), Some(ms(500)));
        assert_eq!(alternatives.on_answered(address(2), address(9)), None, "it is the first now");
    }
}
