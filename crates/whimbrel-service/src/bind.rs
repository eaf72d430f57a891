//! Binding an endpoint, with errors that say what to do.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use whimbrel::{BindError, Config, Endpoint};

/// An error from binding an endpoint. Its message says what to do, see [`bind_advice`].
#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.0))]
pub struct BindFailed(pub BindError);

fn describe(error: &BindError) -> String {
    match error {
        BindError::System(address, why) => match bind_advice(*address, why) {
            Some(advice) => format!("cannot bind {address}: {advice}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

/// Binds an endpoint as [`Endpoint::bind`] does, with messages for people who run a program.
///
/// # Errors
/// The system refuses the address, or a file that `config` names cannot be made.
pub async fn bind(config: Config, address: SocketAddr) -> Result<Endpoint, BindFailed> {
    Endpoint::bind(config, address).await.map_err(BindFailed)
}

/// Binds to all addresses of both families, or of IPv4 only on a machine without IPv6.
///
/// # Errors
/// See [`bind`].
pub async fn bind_both_families(config: Config, port: u16) -> Result<Endpoint, BindFailed> {
    match bind(config.clone(), (Ipv6Addr::UNSPECIFIED, port).into()).await {
        Err(BindFailed(BindError::System(_, error))) if error.kind() != ErrorKind::AddrInUse => {
            bind(config, (Ipv4Addr::UNSPECIFIED, port).into()).await
        }
        bound => bound,
    }
}

/// Explains why an address could not be bound, and what to do. `None` if the system's own message is good enough.
pub fn bind_advice(address: SocketAddr, why: &io::Error) -> Option<String> {
    Some(match (why.kind(), address.port()) {
        (ErrorKind::PermissionDenied, 1..1024) => {
            "this user may not have a port below 1024. Choose one above 1023, or give the \
             program such ports with `sudo setcap cap_net_bind_service=+ep \"$(command -v whimbrel)\"`"
                .to_owned()
        }
        (ErrorKind::PermissionDenied, _) => {
            format!("the system does not allow it ({why}). Choose another address or port")
        }
        (ErrorKind::AddrInUse, _) => {
            "another program has that port, perhaps an earlier whimbrel. End that program, or choose \
             another port; port 0 takes any free one"
                .to_owned()
        }
        (ErrorKind::AddrNotAvailable, _) => format!(
            "this host does not have the address {}. `ip address` lists those it has; 0.0.0.0 or [::] stands for all of them",
            address.ip()
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_not_ours_says_what_to_do() {
        for (kind, address, hint) in [
            (ErrorKind::PermissionDenied, "0.0.0.0:80", "one above 1023"),
            (ErrorKind::PermissionDenied, "[::]:80", "cap_net_bind_service"),
            (ErrorKind::PermissionDenied, "0.0.0.0:4433", "Choose another address or port"),
            (ErrorKind::AddrInUse, "0.0.0.0:4433", "port 0 takes any free one"),
            (ErrorKind::AddrNotAvailable, "192.0.2.1:4433", "does not have the address 192.0.2.1."),
        ] {
            let error = BindFailed(BindError::System(address.parse().unwrap(), kind.into())).to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
