//! Connecting to a target: looked up, checked, then connected to the address that was checked.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::limits::Limits;
use crate::policy::Permits;
use crate::protocol::{Host, Outcome, Target};
use crate::sockets::{Mark, connect_as};

/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 4;

/// Returns the addresses of a target that a peer may open.
pub(super) async fn look_up(target: &Target, permits: &Permits) -> Result<Vec<SocketAddr>, Outcome> {
    // Without a permit for the port, not even the name is looked up.
    if !permits.may_look_up(target.port) {
        return Err(Outcome::Denied);
    }
    addresses(target, |ip| permits.allow(&target.host, ip, target.port)).await
}

/// Returns the addresses of a target that are allowed.
async fn addresses(target: &Target, allowed: impl Fn(IpAddr) -> bool) -> Result<Vec<SocketAddr>, Outcome> {
    let found = match &target.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, target.port)],
        Host::Name(name) => match lookup_host((&**name, target.port)).await {
            Ok(found) => found.collect(),
            Err(_) => return Err(Outcome::NameNotFound),
        },
    };
    if found.is_empty() {
        return Err(Outcome::NameNotFound);
    }
    let allowed: Vec<_> = found.into_iter().filter(|address| allowed(address.ip())).collect();
    if allowed.is_empty() { Err(Outcome::Denied) } else { Ok(allowed) }
}

/// Connects to an address of a target that is allowed, in the name of what `source` says. A name waits for its turn among
/// `look_ups`.
pub(super) async fn connect(
    target: &Target,
    allowed: impl Fn(IpAddr) -> bool,
    source: impl Fn(IpAddr) -> Option<SocketAddr>,
    look_ups: Option<&Semaphore>,
    limits: &Limits,
    mark: Mark,
) -> Result<TcpStream, Outcome> {
    let deadline = Instant::now() + limits.connect_timeout;
    let looked_up = async {
        let _turn = match look_ups {
            Some(look_ups) => look_ups.acquire().await.ok(),
            None => None,
        };
        addresses(target, allowed).await
    };
    let found = timeout_at(deadline, looked_up).await.unwrap_or(Err(Outcome::TimedOut))?;
    let tried = &found[..found.len().min(MOST_TRIED)];
    let mut outcome = Outcome::Failed;
    for (at, address) in tried.iter().enumerate() {
        // Each address gets its share of the time that is left.
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / (tried.len() - at) as u32;
        match timeout_at(now + share, connect_as(source(address.ip()), *address, mark)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => outcome = outcome_of(&error),
            Err(_) => outcome = Outcome::TimedOut,
        }
    }
    Err(outcome)
}

fn outcome_of(error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Outcome::Refused,
        io::ErrorKind::HostUnreachable => Outcome::HostUnreachable,
        io::ErrorKind::NetworkUnreachable => Outcome::NetworkUnreachable,
        io::ErrorKind::TimedOut => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}
