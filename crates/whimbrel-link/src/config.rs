//! The settings of a link, in a form that people write.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use whimbrel_proto::Time;

use super::bottleneck::bytes_in;
use super::{Hold, Loss, Outage, Policer, Rate, Span};
use crate::units::{self, ParseError};

/// The settings of one direction of a link. The default is a perfect wire.
///
/// The text form is `name=value` pairs separated by commas, in which every name is a field's:
///
/// ```
/// let weak: whimbrel_link::LinkConfig = "rate=4mbit, delay=25ms, queue=100ms, loss=5%".parse()?;
/// assert_eq!(weak.rate, Some(whimbrel_link::Rate::Constant(4_000_000)));
/// # Ok::<(), whimbrel_link::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LinkConfig {
    /// The rate in bits per second of IP bytes. Default: none, which is infinitely fast, so nothing ever queues.
    pub rate: Option<Rate>,
    /// The one-way propagation delay. Default: 0.
    pub delay: Duration,
    /// The delay varies uniformly by up to this much in either direction; packets stay in order. Default: 0. The
    /// delay never falls below zero.
    pub jitter: Duration,
    /// How much may wait before the bottleneck. Default: 100 ms.
    pub queue: QueueLimit,
    /// Loss after the bottleneck. Default: none.
    pub loss: Loss,
    /// When the link is down. Default: never.
    pub outage: Outage,
    /// The probability that a packet is held back and overtaken, 0 to 1. Default: 0.
    pub reorder: f64,
    /// How long such a packet is held back. Default: 10 ms.
    pub reorder_by: Span,
    /// When the link holds back what would arrive. Default: never.
    pub hold: Option<Hold>,
    /// The policer, which drops packets before the bottleneck that exceed its rate. Default: none.
    pub police: Option<Policer>,
    /// The probability that a packet arrives twice, 0 to 1. Default: 0.
    pub duplicate: f64,
    /// The probability that a byte of a packet's payload is changed, 0 to 1. Default: 0.
    pub corrupt: f64,
    /// The largest IP packet in bytes. Default: none, so any size passes.
    pub mtu: Option<usize>,
    /// ECN-capable packets that wait longer than this are marked. Default: none, so no packet is marked.
    pub ecn_mark: Option<Duration>,
    /// The header bytes around a payload on the wire. Default: 28, for IPv4 and UDP.
    pub overhead: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue: QueueLimit::default(),
            loss: Loss::None,
            outage: Outage::Never,
            reorder: 0.0,
            reorder_by: Span::exactly(Duration::from_millis(10)),
            hold: None,
            police: None,
            duplicate: 0.0,
            corrupt: 0.0,
            mtu: None,
            ecn_mark: None,
            overhead: 28,
        }
    }
}

whimbrel_proto::setters!(LinkConfig {
    rate: Option<Rate>,
    delay: Duration,
    jitter: Duration,
    queue: QueueLimit,
    loss: Loss,
    outage: Outage,
    reorder: f64,
    reorder_by: Span,
    hold: Option<Hold>,
    police: Option<Policer>,
    duplicate: f64,
    corrupt: f64,
    mtu: Option<usize>,
    ecn_mark: Option<Duration>,
    overhead: usize,
});

impl LinkConfig {
    /// Sets one field by its name, from text. `none` unsets a field for which zero would mean something else.
    ///
    /// # Errors
    /// The name or the value is invalid; the message shows a valid one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ParseError> {
        let none = value.trim().eq_ignore_ascii_case("none");
        match name.trim() {
            "rate" => self.rate = (!none).then(|| value.parse()).transpose()?,
            "delay" => self.delay = units::duration(value)?,
            "jitter" => self.jitter = units::duration(value)?,
            "queue" => self.queue = value.parse()?,
            "loss" => self.loss = value.parse()?,
            "outage" => self.outage = value.parse()?,
            "reorder" => self.reorder = units::probability(value)?,
            "reorder_by" => self.reorder_by = value.parse()?,
            "hold" => self.hold = (!none).then(|| value.parse()).transpose()?,
            "police" => self.police = (!none).then(|| value.parse()).transpose()?,
            "duplicate" => self.duplicate = units::probability(value)?,
            "corrupt" => self.corrupt = units::probability(value)?,
            "mtu" => self.mtu = (!none).then(|| units::size(value)).transpose()?,
            "ecn_mark" => self.ecn_mark = (!none).then(|| units::duration(value)).transpose()?,
            "overhead" => self.overhead = units::size(value)?,
            other => {
                return Err(ParseError::plain(format!(
                    "`{other}` is not a setting of a link: there are rate, delay, jitter, queue, loss, outage, \
                     reorder, reorder_by, hold, police, duplicate, corrupt, mtu, ecn_mark, overhead"
                )));
            }
        }
        Ok(())
    }
}

impl FromStr for LinkConfig {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut config = Self::default();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| ParseError::new("link setting", pair, "name=value, for example rate=4mbit"))?;
            config.set(name, value)?;
        }
        Ok(config)
    }
}

/// Displays the settings that differ from the defaults, in the form that [`FromStr`] reads. A perfect wire displays
/// as nothing.
impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let mut pairs = Vec::new();
        let mut add = |differs: bool, name: &str, value: String| {
            if differs {
                pairs.push(format!("{name}={value}"));
            }
        };
        add(self.rate != default.rate, "rate", self.rate.as_ref().map_or("none".into(), Rate::to_string));
        add(self.delay != default.delay, "delay", format!("{:?}", self.delay));
        add(self.jitter != default.jitter, "jitter", format!("{:?}", self.jitter));
        add(self.queue != default.queue, "queue", self.queue.to_string());
        add(self.loss != default.loss, "loss", self.loss.to_string());
        add(self.outage != default.outage, "outage", self.outage.to_string());
        add(self.reorder != default.reorder, "reorder", units::percent(self.reorder));
        add(self.reorder_by != default.reorder_by, "reorder_by", self.reorder_by.to_string());
        add(self.hold.is_some(), "hold", self.hold.map_or_else(String::new, |hold| hold.to_string()));
        add(
            self.police.is_some(),
            "police",
            self.police.map_or_else(String::new, |policer| policer.to_string()),
        );
        add(self.duplicate != default.duplicate, "duplicate", units::percent(self.duplicate));
        add(self.corrupt != default.corrupt, "corrupt", units::percent(self.corrupt));
        add(self.mtu != default.mtu, "mtu", self.mtu.map_or("none".into(), |mtu| mtu.to_string()));
        add(
            self.ecn_mark != default.ecn_mark,
            "ecn_mark",
            self.ecn_mark.map_or("none".into(), |threshold| format!("{threshold:?}")),
        );
        add(self.overhead != default.overhead, "overhead", self.overhead.to_string());
        f.write_str(&pairs.join(", "))
    }
}

/// How much may wait before the bottleneck; packets beyond it are dropped on arrival (drop-tail). A packet that finds
/// the transmitter idle always gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// No packet waits longer than this. Written `100ms`.
    Time(Duration),
    /// No more bytes than this wait or are being transmitted. Written `64kb`.
    Bytes(usize),
    /// Nothing is ever dropped. Written `none`.
    Unlimited,
}

impl Default for QueueLimit {
    fn default() -> Self {
        Self::Time(Duration::from_millis(100))
    }
}

impl QueueLimit {
    /// Returns whether a packet of `size` that would wait for `wait` from `now` on is admitted.
    pub(crate) fn admits(self, now: Time, wait: Duration, size: usize, rate: Option<&Rate>) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Time(limit) => wait <= limit,
            Self::Bytes(limit) => {
                let waiting = rate.map_or(0, |rate| bytes_in(now, wait, rate));
                waiting == 0 || waiting + size as u128 <= limit as u128
            }
        }
    }
}

impl FromStr for QueueLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.trim().eq_ignore_ascii_case("none") {
            return Ok(Self::Unlimited);
        }
        let time = units::duration(text).map(Self::Time);
        time.or_else(|_| units::size(text).map(Self::Bytes)).map_err(|_| {
            ParseError::new("queue", text, "a time or bytes, for example 100ms, 64kb, or none for no limit")
        })
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(limit) => write!(f, "{limit:?}"),
            Self::Bytes(limit) => write!(f, "{limit}b"),
            Self::Unlimited => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_setting_and_writes_it_back() {
        let text = "rate=4mbit, delay=25ms, jitter=2ms, queue=64000b, loss=5%, outage=at 10s for 5s + at 30s for 1s, \
                    reorder=1%, reorder_by=0ns..3ms, hold=150ms every 1.2s, police=2mbit/32000b, duplicate=0.5%, corrupt=0.1%, mtu=1400, ecn_mark=20ms, overhead=48";
        let config: LinkConfig = text.parse().unwrap();
        assert_eq!(config.queue, QueueLimit::Bytes(64_000));
        assert_eq!(config.to_string(), text);
        assert_eq!(config.to_string().parse(), Ok(config));
    }

    #[test]
    fn the_default_is_empty_text() {
        assert_eq!("".parse(), Ok(LinkConfig::default()));
        assert_eq!(LinkConfig::default().to_string(), "");
    }

    #[test]
    fn losses_and_outages_come_back_as_they_were() {
        for text in ["none", "5%", "ge:950ms/50ms/80%/1%", "clock:2s/150ms/60%/1%"] {
            assert_eq!(text.parse::<Loss>().unwrap().to_string(), text);
        }
        let bursts = Loss::Bursts {
            good: Duration::from_millis(950),
            bad: Duration::from_millis(50),
            loss_bad: 1.0,
            loss_good: 0.0,
        };
        assert_eq!("ge:950ms/50ms".parse(), Ok(bursts));
        for text in ["none", "5s on 2s off", "exp:60s/5s", "at 10s for 5s + at 30s for 1s"] {
            assert_eq!(text.parse::<Outage>().unwrap().to_string(), text);
        }
        assert_eq!("5s/2s".parse::<Outage>(), "5s on 2s off".parse());
        assert_eq!("at10s for5s".parse::<Outage>(), "at 10s for 5s".parse());
    }

    #[test]
    fn errors_show_what_to_write() {
        for (text, hint) in [
            ("rate=fast", "4mbit"),
            ("speed=4mbit", "there are rate, delay"),
            ("rate", "name=value"),
            ("queue=lots", "64kb"),
            ("loss=ge:1s", "ge:950ms/50ms"),
            ("loss=500%", "5%"),
            ("outage=sometimes", "at 10s for 5s"),
            ("outage=0s/2s", "5s on 2s off"),
            ("loss=clock:1s/2s", "clock:2s/150ms"),
            ("hold=2s every 1s", "150ms every 1.2s"),
            ("police=4mbit", "4mbit/32kb"),
        ] {
            let error = text.parse::<LinkConfig>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
