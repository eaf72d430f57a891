//! An emulated link, alone, and with the near end's socket in front of it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;
use whimbrel::{Config, Endpoint, Mocket};
use whimbrel_cli::perf::monotonic_ns;
use whimbrel_link::relay::{Direction, Relay, RelayConfig};

use crate::cargo::kind;
use crate::far_end::FarEnd;
use crate::report::Report;

/// How long a graceful close may take, including the delivery of everything outstanding.
const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// The payload's share of an IP packet of 1,500 bytes, after all headers and tags.
const PAYLOAD_SHARE: f64 = 1437.0 / 1500.0;

/// A link. Both directions have the same settings.
pub(crate) struct Link {
    relay: Relay,
    setting: &'static str,
}

/// A link with a client of its own.
pub(crate) struct BadLink {
    link: Link,
    endpoint: Endpoint,
    url: String,
}

/// A connection through a bad link.
pub(crate) struct Lane {
    pub(crate) link: BadLink,
    pub(crate) mocket: Mocket,
    name: String,
    /// When connecting began.
    pub(crate) start_ns: u64,
}

impl Link {
    /// Opens a link to an address, with a `setting` as for `whimbrel link`: `rate=4mbit, delay=25ms, loss=5%`.
    pub(crate) fn open(to: SocketAddr, setting: &'static str, seed: u64) -> anyhow::Result<Self> {
        let mut config = RelayConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)), to);
        config.up = setting.parse()?;
        config.down = config.up.clone();
        config.seed = seed;
        let relay = Relay::spawn(config).context("cannot open the emulated link")?;
        Ok(Self { relay, setting })
    }

    /// Returns the address of its near end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.relay.local_addr()
    }

    /// Cuts the link: from now on nothing gets through.
    pub(crate) fn cut(&self) -> anyhow::Result<()> {
        self.set("loss=100%")
    }

    /// Restores the link as it was before the cut.
    pub(crate) fn mend(&self) -> anyhow::Result<()> {
        self.set("")
    }

    fn set(&self, beside: &str) -> anyhow::Result<()> {
        let setting = format!("{}, {beside}", self.setting);
        for direction in [Direction::Up, Direction::Down] {
            self.relay.control().reconfigure(direction, setting.parse()?);
        }
        Ok(())
    }
}

impl BadLink {
    /// Opens a link to the far end: see [`Link::open`].
    pub(crate) async fn open(far: &FarEnd, setting: &'static str, seed: u64) -> anyhow::Result<Self> {
        let url = far.url();
        let to = SocketAddr::new(url.host.parse()?, url.port);
        let link = Link::open(to, setting, seed)?;
        let key = url.key.context("the far end has no key")?;
        let url = format!("whimbrel://{key}@{}", link.address());
        let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
        Ok(Self { link, endpoint, url })
    }

    /// Connects, and tells the far end the name of this connection.
    pub(crate) async fn connect(self, lane: &str) -> anyhow::Result<Lane> {
        let start_ns = monotonic_ns();
        let mocket = self.endpoint.connect(&self.url).await?;
        mocket.sender().ppid(kind::OPENING).build().send(lane.to_owned()).await?;
        Ok(Lane { link: self, mocket, name: lane.to_owned(), start_ns })
    }

    /// Cuts the link: see [`Link::cut`].
    pub(crate) fn cut(&self) -> anyhow::Result<()> {
        self.link.cut()
    }

    /// Restores the link: see [`Link::mend`].
    pub(crate) fn mend(&self) -> anyhow::Result<()> {
        self.link.mend()
    }

    /// Changes the port from which the far end sees us, as when a NAT has forgotten its mapping.
    pub(crate) fn rebind(&self) {
        self.link.relay.control().rebind();
    }
}

impl Lane {
    /// Closes gracefully, which waits until everything sent is delivered or given up. Returns what the far end
    /// received.
    pub(crate) async fn finish(self, far: &FarEnd) -> anyhow::Result<Report> {
        let closing = self.mocket.close(0, "");
        timeout(CLOSE_WITHIN, closing).await.context("the connection does not close")?;
        // The link stays until the far end also knows that the connection is over.
        let report = far.report(&self.name).await?;
        self.link.link.relay.stop()?;
        Ok(report)
    }
}

/// Returns the highest payload rate, in bits per second, of a link with this rate and share of loss.
pub(crate) fn limit_bps(rate_bps: f64, loss: f64) -> f64 {
    rate_bps * (1.0 - loss) * PAYLOAD_SHARE
}
