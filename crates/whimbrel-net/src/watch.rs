//! Reports changes of this host's addresses, links or routes.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::{HostAddress, host_addresses};

/// The least time between the first two reports: a new address and its route come together.
const FIRST_APART: Duration = Duration::from_millis(10);
/// The least time between two reports once there have been many: a router learns thousands of routes in a second.
const APART: Duration = Duration::from_millis(100);
/// How often the addresses are checked where the system does not report changes.
const POLL: Duration = Duration::from_secs(3);

/// Reports when this host's addresses, links or routes changed: by netlink on Linux, elsewhere by checking the
/// addresses every 3 s.
///
/// It reports only that something changed: look at [`host_addresses`].
pub struct AddressWatch {
    source: Source,
    pace: Pace,
}

impl std::fmt::Debug for AddressWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddressWatch").finish_non_exhaustive()
    }
}

/// Paces reports. The first is immediate, since somebody may be waiting for it; later ones become rarer while they
/// follow closely.
#[derive(Default)]
struct Pace {
    last: Option<Instant>,
    apart: Duration,
}

impl Pace {
    /// When a change noticed at `now` may be reported.
    fn due(&self, now: Instant) -> Instant {
        self.last.map_or(now, |last| now.max(last + self.apart))
    }

    fn on_told(&mut self, now: Instant) {
        let follows = self.last.is_some_and(|last| now.duration_since(last) <= 2 * self.apart);
        self.apart = if follows { (2 * self.apart).min(APART) } else { FIRST_APART };
        self.last = Some(now);
    }
}

enum Source {
    #[cfg(target_os = "linux")]
    Netlink(netlink::Listener),
    Poll(Vec<HostAddress>),
}

impl AddressWatch {
    /// Creates a watch for changes from now on.
    ///
    /// # Panics
    /// If called outside a tokio runtime with I/O and time enabled.
    #[allow(clippy::new_without_default, reason = "it listens from the moment it is made")]
    pub fn new() -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(listener) = netlink::Listener::new() {
            return Self { source: Source::Netlink(listener), pace: Pace::default() };
        }
        Self::polling()
    }

    /// Creates a watch that checks the addresses periodically.
    pub(crate) fn polling() -> Self {
        Self { source: Source::Poll(host_addresses().unwrap_or_default()), pace: Pace::default() }
    }

    /// Waits for the next change. The first is reported at once, the next 10 ms later at the earliest, and so on up
    /// to 100 ms. Cancel-safe.
    pub async fn changed(&mut self) {
        match &mut self.source {
            #[cfg(target_os = "linux")]
            Source::Netlink(listener) => {
                listener.readable().await;
                sleep_until(self.pace.due(Instant::now())).await;
                listener.drain();
            }
            Source::Poll(known) => loop {
                sleep(POLL).await;
                let now = host_addresses().unwrap_or_default();
                if now != *known {
                    *known = now;
                    break;
                }
            },
        }
        self.pace.on_told(Instant::now());
    }
}

#[cfg(target_os = "linux")]
mod netlink {
    use std::io;
    use std::mem::MaybeUninit;

    use socket2::{Domain, Protocol, SockAddr, Socket, Type};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// The netlink groups of links, addresses and routes (`linux/rtnetlink.h`).
    const GROUPS: i32 = libc::RTMGRP_LINK
        | libc::RTMGRP_IPV4_IFADDR
        | libc::RTMGRP_IPV6_IFADDR
        | libc::RTMGRP_IPV4_ROUTE
        | libc::RTMGRP_IPV6_ROUTE;

    /// A socket on which the kernel reports changes. The reports are not parsed: listing the addresses again is
    /// simpler and misses nothing.
    pub(super) struct Listener(AsyncFd<Socket>);

    impl Listener {
        pub(super) fn new() -> io::Result<Self> {
            let protocol = Protocol::from(libc::NETLINK_ROUTE);
            let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))?;
            socket.set_nonblocking(true)?;
            socket.bind(&address()?)?;
            #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
            // SAFETY: the socket owns its descriptor and is owned here, so the descriptor stays open as long as
            // needed.
            Ok(Self(unsafe { AsyncFd::register(socket) }?))
        }

        pub(super) async fn readable(&self) {
            if self.0.readable().await.is_err() {
                // The runtime is shutting down, so there will be no further report.
                std::future::pending::<()>().await;
            }
        }

        /// Discards the reports up to now. An overflow counts as a change, too.
        pub(super) fn drain(&self) {
            let mut buffer = [MaybeUninit::uninit(); 8192];
            loop {
                match self.0.try_io(Interest::READABLE, |socket| socket.recv(&mut buffer)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    _ => {}
                }
            }
        }
    }

    #[allow(unsafe_code, reason = "this kind of address is known to the C library only")]
    fn address() -> io::Result<SockAddr> {
        let init = |storage: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
            // SAFETY: the storage is zeroed, and large enough and aligned for any address of the system.
            unsafe {
                let address = &mut *storage.cast::<libc::sockaddr_nl>();
                address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
                address.nl_groups = GROUPS as u32;
                *length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            }
            Ok(())
        };
        // SAFETY: the address and its length are set above.
        Ok(unsafe { SockAddr::try_init(init) }?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_news_is_told_at_once_and_a_flood_ten_times_a_second() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut told = Vec::new();
        let mut now = start;
        while now < start + Duration::from_secs(1) {
            if pace.due(now) == now {
                told.push(now.duration_since(start).as_millis());
                pace.on_told(now);
            }
            now += Duration::from_millis(1);
        }
        assert_eq!(told[..7], [0, 10, 30, 70, 150, 250, 350]);
        now += Duration::from_millis(300);
        assert_eq!(pace.due(now), now, "news after a pause");
        pace.on_told(now);
        assert_eq!(pace.due(now), now + FIRST_APART);
    }
}
