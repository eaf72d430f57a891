//! Further addresses of a server that is being connected to: asked one after another while none has answered (RFC 8305 5).

use std::net::SocketAddr;
use std::time::Duration;

use crate::Time;

/// From one address to the next.
const AHEAD: Duration = Duration::from_millis(250);
/// A name with more has the rest passed over.
const MOST: usize = 15;

/// See the module.
#[derive(Debug)]
pub(in crate::connection) struct Alternatives {
    addresses: Vec<SocketAddr>,
    /// When each of the first of them was asked first.
    asked: Vec<Time>,
    /// So many of these get the packet that was sent last, too.
    due: usize,
    /// When another is asked.
    next: Time,
}

impl Alternatives {
    /// None if there are none.
    pub(in crate::connection) fn new(now: Time, mut addresses: Vec<SocketAddr>) -> Option<Box<Self>> {
        addresses.truncate(MOST);
        let some = !addresses.is_empty();
        some.then(|| Box::new(Self { addresses, asked: Vec::new(), due: 0, next: now + AHEAD }))
    }

    /// Whom to ask now.
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

    /// The first address is asked again, and so are those of these that have been.
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

    /// One of these answered: it takes the place of `first`, and is told when it was asked.
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
