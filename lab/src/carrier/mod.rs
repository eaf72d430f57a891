//! Proxies in pairs, between programs that know nothing of them. `direct` peers have none.

mod proxy;
mod scratch;
mod shadowsocks;
mod sing_box;
mod whimbrel;

use std::net::{IpAddr, SocketAddr};

use anyhow::bail;

use self::proxy::Proxy;
use self::whimbrel::Pair;
pub(crate) use self::whimbrel::Wish;
use crate::machine::PeerNote;
use crate::testbed::{Side, Testbed};

/// Name of our proxy in tables.
pub(crate) const OURS: &str = "whimbrel-proxy";
/// Name of our proxy with its session over one TCP connection.
pub(crate) const OURS_TCP: &str = "whimbrel-proxy-tcp";
/// Name of shadowsocks-libev.
pub(crate) const SHADOWSOCKS: &str = "shadowsocks";
/// Name of sing-box with hysteria2.
pub(crate) const HYSTERIA: &str = "hysteria2";

/// The proxies, or the plain link, that carry the programs' connections.
pub(crate) enum Carrier {
    /// Nothing: the programs connect to their server.
    Nothing,
    Ours(Box<Pair>),
    Other(Box<[Proxy; 2]>),
}

/// Where a pair of proxies runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Host of the near proxy, which the programs connect to.
    pub(crate) near: Side,
    /// Host of the far proxy, where the servers are.
    pub(crate) far: Side,
    /// Address of the far proxy and of the servers.
    pub(crate) at: IpAddr,
    /// Port of the server behind [`FORWARD`], if there is one.
    pub(crate) forwarded: Option<u16>,
}

/// Address of the near proxy for programs that speak SOCKS5.
const SOCKS: &str = "127.0.0.1:1080";
/// Address of the near proxy for programs that do not.
const FORWARD: &str = "127.0.0.1:1081";
/// Port of the far proxy.
const PORT: u16 = 4433;

impl Carrier {
    /// Starts the proxies of a peer. They may not listen yet: see [`crate::program::Load::Reach`]. A peer without
    /// proxies has none.
    pub(crate) async fn start(testbed: &Testbed, peer: &str, place: Place) -> anyhow::Result<Self> {
        if let Some(wish) = Wish::of(peer) {
            return Self::start_ours(testbed, &wish, place).await;
        }
        let (near, far) = match peer {
            HYSTERIA => sing_box::start(testbed, place)?,
            SHADOWSOCKS => shadowsocks::start(testbed, place)?,
            direct if congestion(direct).is_some() => return Ok(Self::Nothing),
            other => bail!("there is no proxy {other}"),
        };
        Ok(Self::Other(Box::new([near, far])))
    }

    /// Starts our proxies.
    pub(crate) async fn start_ours(testbed: &Testbed, wish: &Wish, place: Place) -> anyhow::Result<Self> {
        Ok(Self::Ours(Box::new(whimbrel::start(testbed, wish, place).await?)))
    }

    /// Changes a rule of our near proxy while it runs.
    pub(crate) async fn reload(&self, number: usize) -> anyhow::Result<()> {
        match self {
            Self::Ours(pair) => pair.reload(number).await,
            Self::Nothing | Self::Other(..) => bail!("only our proxy is reloaded"),
        }
    }

    /// Has a new process take over from one of our proxies, in turns.
    pub(crate) async fn upgrade(&mut self, testbed: &Testbed, number: usize) -> anyhow::Result<()> {
        match self {
            Self::Ours(pair) => pair.upgrade(testbed, number).await,
            Self::Nothing | Self::Other(..) => bail!("only our proxy is upgraded"),
        }
    }

    /// Returns the address for programs that speak SOCKS5. `None` if they connect to their server.
    pub(crate) fn socks(&self) -> Option<&'static str> {
        (!matches!(self, Self::Nothing)).then_some(SOCKS)
    }

    /// Returns the address that stands for `server`, which is that of the place's forwarded port.
    pub(crate) fn forward(&self, server: SocketAddr) -> anyhow::Result<SocketAddr> {
        if self.socks().is_some() { Ok(FORWARD.parse()?) } else { Ok(server) }
    }

    /// Returns the processor time of both proxies so far, in seconds.
    pub(crate) fn processor_time(&self) -> anyhow::Result<f64> {
        self.proxies().map(Proxy::processor_time).sum()
    }

    /// Returns the most memory that one of the proxies has had, in bytes.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        self.proxies().try_fold(0, |most, proxy| Ok(proxy.peak_memory()?.max(most)))
    }

    /// Adds the last lines that the proxies printed to an error, since they may say why.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let said: Vec<_> = self.proxies().flat_map(Proxy::last_lines).collect();
        if said.is_empty() { error } else { error.context(said.join("; ")) }
    }

    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        let both = match self {
            Self::Nothing => None,
            Self::Ours(pair) => Some([&pair.near, &pair.far]),
            Self::Other(pair) => Some([&pair[0], &pair[1]]),
        };
        both.into_iter().flatten()
    }
}

/// Returns the congestion controller of a peer without proxies: `cubic` of `tcp-cubic`.
pub(crate) fn congestion(peer: &str) -> Option<&str> {
    peer.strip_prefix("tcp-")
}

/// Describes the pairs of proxies, in the order of tables.
pub(crate) fn notes() -> [PeerNote; 4] {
    [
        PeerNote { name: OURS.to_owned(), settings: whimbrel::settings(), missing: None },
        PeerNote {
            name: OURS_TCP.to_owned(),
            settings: "the same with `connector = \"tcp\"`: its session is one TCP connection, with CUBIC"
                .to_owned(),
            missing: None,
        },
        PeerNote {
            name: SHADOWSOCKS.to_owned(),
            settings: shadowsocks::settings(),
            missing: shadowsocks::missing(),
        },
        PeerNote { name: HYSTERIA.to_owned(), settings: sing_box::settings(), missing: sing_box::missing() },
    ]
}
