//! A link of the emulator's from the near end to the far end, and the near end's socket before it.

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

/// How long a polite close may take, everything that still has to be delivered included.
const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// Share of an IP packet of 1,500 bytes that is payload once all headers and seals are paid.
const PAYLOAD_SHARE: f64 = 1437.0 / 1500.0;

/// A link and a client of its own. The same both ways.
pub(crate) struct BadLink {
    relay: Relay,
    setting: &'static str,
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

impl BadLink {
    /// `setting` as of `whimbrel link`: `rate=4mbit, delay=25ms, loss=5%`.
    pub(crate) async fn open(far: &FarEnd, setting: &'static str, seed: u64) -> anyhow::Result<Self> {
        let url = far.url();
        let to = SocketAddr::new(url.host.parse()?, url.port);
        let mut config = RelayConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)), to);
        config.up = setting.parse()?;
        config.down = config.up.clone();
        config.seed = seed;
        let relay = Relay::spawn(config).context("cannot open the emulated link")?;
        let key = url.key.context("the far end has no key")?;
        let url = format!("whimbrel://{key}@{}", relay.local_addr());
        let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
        Ok(Self { relay, setting, endpoint, url })
    }

    /// Connects, and tells the far end what this connection is called.
    pub(crate) async fn connect(self, lane: &str) -> anyhow::Result<Lane> {
        let start_ns = monotonic_ns();
        let mocket = self.endpoint.connect(&self.url).await?;
        mocket.sender().ppid(kind::OPENING).build().send(lane.to_owned()).await?;
        Ok(Lane { link: self, mocket, name: lane.to_owned(), start_ns })
    }

    /// From now on nothing comes through.
    pub(crate) fn cut(&self) -> anyhow::Result<()> {
        self.set("loss=100%")
    }

    /// As before the cut.
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

    /// The far end sees us come from another port from now on, as after a NAT has forgotten us.
    pub(crate) fn rebind(&self) {
        self.relay.control().rebind();
    }
}

impl Lane {
    /// Closes politely, which waits until everything that was sent is delivered or given up; returns what the far end has received.
    pub(crate) async fn finish(self, far: &FarEnd) -> anyhow::Result<Report> {
        let closing = self.mocket.close(0, "");
        timeout(CLOSE_WITHIN, closing).await.context("the connection does not close")?;
        // The link stays until the far end knows, too, that it is over.
        let report = far.report(&self.name).await?;
        self.link.relay.stop()?;
        Ok(report)
    }
}

/// The most payload bits a second that a link with this rate and this share of loss can carry.
pub(crate) fn limit_bps(rate_bps: f64, loss: f64) -> f64 {
    rate_bps * (1.0 - loss) * PAYLOAD_SHARE
}
