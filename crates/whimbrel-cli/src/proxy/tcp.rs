//! Listening for peers over TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use anyhow::Context;
use whimbrel::{DEFAULT_PORT, PublicKey, Url};
use whimbrel_service::{Notice, bind_advice};

use crate::output::note;

/// Listens, by default on all addresses. Returns the URL to connect to without what carries it.
pub(super) fn listen(address: Option<SocketAddr>, key: PublicKey) -> anyhow::Result<(TcpListener, Url)> {
    let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let wanted = match address {
        Some(address) => vec![address],
        // A machine may lack IPv6.
        None => any.map(|ip| SocketAddr::new(ip, DEFAULT_PORT)).into(),
    };
    let failed = |error: &std::io::Error| {
        let advice = bind_advice(wanted[0], error).unwrap_or_else(|| error.to_string());
        format!("cannot listen on {} for peers over TCP: {advice}", wanted[0])
    };
    let listener = TcpListener::bind(&wanted[..]).map_err(|error| anyhow::anyhow!(failed(&error)))?;
    listener.set_nonblocking(true)?;
    let mut address = listener.local_addr().context("cannot find the address that it listens on")?;
    if address.ip().is_unspecified() {
        let is_ipv4 = address.is_ipv4();
        address.set_ip(if is_ipv4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        note(Notice::AllAddresses);
    }
    Ok((listener, Url { key: Some(key), host: address.ip().to_string(), port: address.port() }))
}
