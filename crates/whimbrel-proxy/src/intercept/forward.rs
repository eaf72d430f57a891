//! Fixed forwards: a port of this host leads to a target behind the peer, as with `ssh -L`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

use super::accept::{Accepted, accept};
use super::ingress::Ingress;
use crate::policy::WayIn;
use crate::protocol::Target;

/// A port of this host that leads to a target: `ADDRESS:PORT=HOST:PORT`, or `PORT=HOST:PORT` on loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The address that programs connect to.
    pub listen: SocketAddr,
    /// The target that the peer connects to.
    pub target: Target,
}

/// A text that is no forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a forward: write [ADDRESS:]PORT=HOST:PORT, for example 8080=web.internal:80")]
pub struct InvalidForward(String);

impl FromStr for Forward {
    type Err = InvalidForward;

    fn from_str(text: &str) -> Result<Self, InvalidForward> {
        let parse = || {
            let (listen, target) = text.split_once('=')?;
            let listen = match listen.parse::<u16>() {
                Ok(port) => (Ipv4Addr::LOCALHOST, port).into(),
                Err(_) => listen.parse().ok()?,
            };
            Some(Self { listen, target: target.parse().ok()? })
        };
        parse().ok_or_else(|| InvalidForward(text.chars().take(300).collect()))
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.listen, self.target)
    }
}

impl Ingress {
    /// Serves a forward on this listener. The program's connection is accepted at once, so its first bytes ride with the
    /// opening; it is reset if the far end cannot connect.
    pub async fn serve_forward(self, listener: TcpListener, target: Target) {
        let this = self.by(WayIn::Forward);
        accept(listener, self.places(), self.flows().over(), move |Accepted { tcp, from, .. }| {
            let (this, target) = (this.clone(), target.clone());
            async move { this.carry(&target, from, tcp).await }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read() {
        for (text, shown) in [
            ("8080=web.internal:80", "127.0.0.1:8080=web.internal:80"),
            ("[::1]:53=[2001:db8::1]:53", "[::1]:53=[2001:db8::1]:53"),
        ] {
            assert_eq!(text.parse::<Forward>().unwrap().to_string(), shown);
        }
        for wrong in ["8080", "x:1=a:1", "8080=a", "=a:1"] {
            assert!(wrong.parse::<Forward>().is_err(), "{wrong}");
        }
    }
}
