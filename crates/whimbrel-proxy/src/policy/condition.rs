//! Conditions on the state of the network towards a peer: `loss > 10%`, `rate < 200kbit`, `on = wwan*`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use whimbrel::units;

/// The part of its limit by which a figure must be back on the good side before a condition ends.
const MARGIN: f64 = 0.1;

/// The state of the network towards a peer, at one moment. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// The share of packets lost lately on the primary path, 0 to 1.
    pub loss: Option<f64>,
    /// The estimated rate of all paths in use together, bit/s.
    pub rate: Option<f64>,
    /// The smoothed round trip of the primary path.
    pub rtt: Option<Duration>,
    /// The number of paths that work.
    pub paths: usize,
    /// The device of the primary path, such as `wlan0`.
    pub device: Option<String>,
}

/// The figure that a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Figure {
    Loss,
    Rate,
    Rtt,
    Paths,
}

/// On which side of its limit the figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Above,
    Below,
}

/// A condition. See the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Asked);

#[derive(Clone, Debug, PartialEq)]
enum Asked {
    /// The limit is in the figure's own unit: a share, bit/s, seconds, or paths.
    Limit(Figure, Side, f64),
    /// The primary path uses this device, or one whose name begins so if `any_end`.
    Device { name: String, any_end: bool },
}

/// A text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a condition: write `loss > 10%`, `rate < 200kbit`, `rtt > 500ms`, `paths < 2` or `on = wwan*`, where * stands for \
     any end of a device's name"
)]
pub struct InvalidCondition(String);

impl Condition {
    /// Returns whether it holds in this state of the network, if that is known. A condition that `held` before ends only
    /// when the figure is a tenth of its limit beyond it.
    pub fn holds(&self, network: &Network, held: bool) -> Option<bool> {
        match &self.0 {
            Asked::Limit(figure, side, limit) => {
                let now = figure.of(network)?;
                let margin = if held && *figure != Figure::Paths { MARGIN * limit } else { 0.0 };
                Some(match side {
                    Side::Above => now > limit - margin,
                    Side::Below => now < limit + margin,
                })
            }
            Asked::Device { name, any_end } => network.device.as_deref().map(|device| match any_end {
                true => device.starts_with(name.as_str()),
                false => device == name,
            }),
        }
    }
}

impl Condition {
    /// Returns whether it can hold at no time.
    pub(crate) fn is_impossible(&self) -> bool {
        match &self.0 {
            Asked::Limit(Figure::Loss, Side::Above, limit) => *limit >= 1.0,
            Asked::Limit(_, Side::Below, limit) => *limit <= 0.0,
            Asked::Limit(..) | Asked::Device { .. } => false,
        }
    }

    /// Returns whether both can hold at no time together.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Asked::Limit(one, Side::Above, low), Asked::Limit(two, Side::Below, high))
            | (Asked::Limit(one, Side::Below, high), Asked::Limit(two, Side::Above, low)) => {
                // Paths are whole.
                let least = if *one == Figure::Paths { low + 1.0 } else { *low };
                one == two && least >= *high
            }
            (Asked::Device { name: one, any_end: wide }, Asked::Device { name: two, any_end: also_wide }) => {
                let fits = one == two
                    || *wide && two.starts_with(one.as_str())
                    || *also_wide && one.starts_with(two.as_str());
                !fits
            }
            _ => false,
        }
    }
}

impl Figure {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Loss, "loss"), (Self::Rate, "rate"), (Self::Rtt, "rtt"), (Self::Paths, "paths")];

    fn of(self, network: &Network) -> Option<f64> {
        match self {
            Self::Loss => network.loss,
            Self::Rate => network.rate,
            Self::Rtt => network.rtt.map(|rtt| rtt.as_secs_f64()),
            Self::Paths => Some(network.paths as f64),
        }
    }

    fn parse(self, text: &str) -> Option<f64> {
        match self {
            Self::Loss => units::probability(text).ok(),
            Self::Rate => units::rate(text).ok().map(|rate| rate as f64),
            Self::Rtt => units::duration(text).ok().map(|rtt| rtt.as_secs_f64()),
            Self::Paths => text.parse::<u16>().ok().map(f64::from),
        }
    }

    fn shown(self, limit: f64) -> String {
        match self {
            Self::Loss => units::percent(limit),
            Self::Rate => units::rate_text(limit as u64),
            Self::Rtt => units::duration_text(Duration::from_secs_f64(limit)),
            Self::Paths => limit.to_string(),
        }
    }
}

impl FromStr for Condition {
    type Err = InvalidCondition;

    fn from_str(text: &str) -> Result<Self, InvalidCondition> {
        let parse = || {
            let at = text.find(['<', '>', '='])?;
            let (name, rest) = text.split_at(at);
            let (name, value) = (name.trim(), rest[1..].trim());
            if name == "on" && rest.starts_with('=') && !value.is_empty() {
                let (name, any_end) = value.strip_suffix('*').map_or((value, false), |begin| (begin, true));
                return Some(Self(Asked::Device { name: name.to_owned(), any_end }));
            }
            let side = if rest.starts_with('>') { Side::Above } else { Side::Below };
            let (figure, _) = *Figure::ALL.iter().find(|(_, known)| *known == name)?;
            (!rest.starts_with('=')).then_some(())?;
            Some(Self(Asked::Limit(figure, side, figure.parse(value)?)))
        };
        parse().ok_or_else(|| InvalidCondition(text.chars().take(300).collect()))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Asked::Limit(figure, side, limit) => {
                let name = Figure::ALL.iter().find(|(known, _)| known == figure).map_or("", |(_, name)| name);
                let side = if *side == Side::Above { '>' } else { '<' };
                write!(f, "{name} {side} {}", figure.shown(*limit))
            }
            Asked::Device { name, any_end } => {
                write!(f, "on = {name}{}", if *any_end { "*" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Condition {
        text.parse().unwrap()
    }

    #[test]
    fn conditions_are_read_as_they_are_shown() {
        for text in ["loss > 10%", "rate < 200kbit", "rtt > 500ms", "paths < 2", "on = wwan*", "on = eth0"] {
            assert_eq!(condition(text).to_string(), text);
        }
        assert_eq!(condition("loss>2.5%"), condition("  loss  >  2.5% "));
        for wrong in ["loss", "loss = 10%", "loss > 10", "on = ", "rate > fast", "speed > 1", "", "on > eth0"]
        {
            assert!(wrong.parse::<Condition>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions_that_never_hold_are_known() {
        for (one, other, excluded) in [
            ("loss > 10%", "loss < 10%", true),
            ("loss < 5%", "loss > 10%", true),
            ("loss > 5%", "loss < 10%", false),
            ("loss > 5%", "rtt < 1ms", false),
            ("loss > 5%", "loss > 10%", false),
            ("paths > 1", "paths < 2", true),
            ("paths > 0", "paths < 2", false),
            ("on = wlan0", "on = wwan0", true),
            ("on = wlan*", "on = wwan0", true),
            ("on = wlan*", "on = wlan0", false),
            ("on = w*", "on = wlan*", false),
        ] {
            assert_eq!(condition(one).excludes(&condition(other)), excluded, "{one}, {other}");
            assert_eq!(condition(other).excludes(&condition(one)), excluded, "{other}, {one}");
        }
        for (text, impossible) in
            [("paths < 0", true), ("loss > 100%", true), ("rtt < 0ms", true), ("loss > 99%", false)]
        {
            assert_eq!(condition(text).is_impossible(), impossible, "{text}");
        }
    }

    #[test]
    fn a_condition_ends_a_tenth_beyond_its_limit() {
        let lossy = |loss| Network { loss: Some(loss), ..Network::default() };
        let loss = condition("loss > 10%");
        assert_eq!(loss.holds(&Network::default(), true), None);
        for (now, held, holds) in
            [(0.11, false, true), (0.1, false, false), (0.095, true, true), (0.085, true, false)]
        {
            assert_eq!(loss.holds(&lossy(now), held), Some(holds), "{now} {held}");
        }
        let rate = condition("rate < 200kbit");
        let rated = |rate: f64| Network { rate: Some(rate), ..Network::default() };
        for (kbit, held, holds) in
            [(199.0, false, true), (210.0, false, false), (210.0, true, true), (225.0, true, false)]
        {
            assert_eq!(rate.holds(&rated(kbit * 1_000.0), held), Some(holds), "{kbit} {held}");
        }
        let on = |device: &str| Network { device: Some(device.to_owned()), ..Network::default() };
        assert_eq!(condition("on = wwan*").holds(&on("wwan0"), false), Some(true));
        assert_eq!(condition("on = wwan").holds(&on("wwan0"), false), Some(false));
        assert_eq!(condition("paths < 1").holds(&Network::default(), false), Some(true));
    }
}
