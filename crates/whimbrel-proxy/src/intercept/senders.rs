//! The programs that send datagrams, by the address that they send from. Anybody behind an interface can send from any port, and
//! from the addresses of neighbours, so they are bounded: one host does not take the places of others.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use tokio::sync::mpsc;

/// The programs, each with a queue to what serves it. `T` is what waits in it.
#[derive(Debug)]
pub(super) struct Senders<T> {
    all: HashMap<SocketAddr, mpsc::Sender<T>>,
    /// The number of programs of each host.
    hosts: HashMap<IpAddr, usize>,
    most: usize,
    most_of_host: usize,
}

impl<T> Senders<T> {
    /// So far none.
    pub(super) fn new(most: usize, most_of_host: usize) -> Self {
        Self { all: HashMap::new(), hosts: HashMap::new(), most, most_of_host }
    }

    /// Returns the queue of a program. `begin` makes one that is served, if it is new. None: there are too many.
    pub(super) fn of(
        &mut self,
        program: SocketAddr,
        begin: impl FnOnce() -> mpsc::Sender<T>,
    ) -> Option<&mpsc::Sender<T>> {
        if self.all.get(&program).is_none_or(mpsc::Sender::is_closed) {
            let of_host = self.hosts.get(&program.ip()).copied().unwrap_or_default();
            if self.all.len() >= self.most || of_host >= self.most_of_host {
                return None;
            }
            if self.all.insert(program, begin()).is_none() {
                self.hosts.insert(program.ip(), of_host + 1);
            }
        }
        self.all.get(&program)
    }

    /// Forgets those that are served no more.
    pub(super) fn forget_closed(&mut self) {
        let Self { all, hosts, .. } = self;
        all.retain(|program, queue| {
            if !queue.is_closed() {
                return true;
            }
            if let Some(of_host) = hosts.get_mut(&program.ip()) {
                *of_host -= 1;
                if *of_host == 0 {
                    hosts.remove(&program.ip());
                }
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_one_host_does_not_take_the_places_of_others() {
        let mut senders: Senders<()> = Senders::new(10, 4);
        let mut served = Vec::new();
        let mut begun = |senders: &mut Senders<()>, host: u8| {
            let of_host = (1..=100).filter(|port| {
                let begin = || {
                    let (queue, serving) = mpsc::channel(1);
                    served.push(serving);
                    queue
                };
                senders.of(([10, 0, 0, host], *port).into(), begin).is_some()
            });
            of_host.count()
        };
        assert_eq!([1, 2, 3].map(|host| begun(&mut senders, host)), [4, 4, 2]);
        assert_eq!(begun(&mut senders, 1), 4, "those that are known stay known");
        drop(served);
        senders.forget_closed();
        assert_eq!((senders.all.len(), senders.hosts.len()), (0, 0));
        let (queue, _serving) = mpsc::channel(1);
        assert!(senders.of(([10, 0, 0, 9], 1).into(), || queue).is_some());
    }
}
