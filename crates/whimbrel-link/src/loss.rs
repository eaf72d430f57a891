//! Random loss: independent, or in bursts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use whimbrel_proto::Time;

use super::{chance, exponential};
use crate::units::{self, ParseError};

/// How packets are lost after the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with this probability, 0 to 1, independently of others. Written `5%` or `0.05`.
    Independent(f64),
    /// Loss comes in bursts (Gilbert 1960, Elliott 1963): the channel is good, then bad, for exponentially
    /// distributed times. Time is continuous, so bursts last as long for a slow sender as for a fast one. Written
    /// `ge:GOOD/BAD[/LOSS-IN-BAD[/LOSS-IN-GOOD]]`, for example `ge:950ms/50ms/80%`.
    Bursts {
        /// The mean length of a good time.
        good: Duration,
        /// The mean length of a bad time.
        bad: Duration,
        /// The loss probability in a bad time, 0 to 1; 1 if not given.
        loss_bad: f64,
        /// The loss probability in a good time, 0 to 1; 0 if not given.
        loss_good: f64,
    },
    /// Bursts by the clock, one at the end of each time of `every`. Written `clock:2s/150ms`, and then the losses inside
    /// (default 100 %) and outside of it (default none): `clock:2s/150ms/60%/1%`.
    Clocked {
        /// The time from one burst to the next.
        every: Duration,
        /// The length of a burst.
        length: Duration,
        /// The probability of loss in a burst.
        loss_bad: f64,
        /// The probability of loss between bursts.
        loss_good: f64,
    },
}

impl Loss {
    /// Returns the share of packets lost over a long time, 0 to 1, for a sender of constant rate.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Independent(probability) => probability,
            Self::Bursts { good, bad, loss_bad, loss_good } => {
                let share = bad.as_secs_f64() / (good + bad).as_secs_f64();
                loss_bad * share + loss_good * (1.0 - share)
            }
            Self::Clocked { every, length, loss_bad, loss_good } => {
                let share = length.as_secs_f64() / every.as_secs_f64();
                loss_bad * share + loss_good * (1.0 - share)
            }
        }
    }
}

impl FromStr for Loss {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        if let Some(bursts) = text.strip_prefix("clock:") {
            return clocked(bursts).ok_or_else(|| {
                ParseError::new(
                    "burst loss",
                    text,
                    "clock:EVERY/LENGTH[/LOSS-IN-BURST], for example clock:2s/150ms",
                )
            });
        }
        let Some(bursts) = text.strip_prefix("ge:") else {
            let probability = units::probability(text)?;
            return Ok(if probability > 0.0 { Self::Independent(probability) } else { Self::None });
        };
        let parts: Vec<_> = bursts.split('/').collect();
        if !(2..=4).contains(&parts.len()) {
            return Err(ParseError::new(
                "burst loss",
                text,
                "ge:GOOD/BAD[/LOSS-IN-BAD], for example ge:950ms/50ms",
            ));
        }
        Ok(Self::Bursts {
            good: units::positive_duration(parts[0])?,
            bad: units::positive_duration(parts[1])?,
            loss_bad: parts.get(2).map_or(Ok(1.0), |part| units::probability(part))?,
            loss_good: parts.get(3).map_or(Ok(0.0), |part| units::probability(part))?,
        })
    }
}

fn clocked(text: &str) -> Option<Loss> {
    let mut parts = text.split('/');
    let mut time = || units::positive_duration(parts.next()?).ok();
    let (every, length) = (time()?, time()?);
    let mut share = |default| parts.next().map_or(Some(default), |part| units::probability(part).ok());
    let (loss_bad, loss_good) = (share(1.0)?, share(0.0)?);
    (parts.next().is_none() && length < every).then_some(Loss::Clocked { every, length, loss_bad, loss_good })
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Independent(probability) => f.write_str(&units::percent(probability)),
            Self::Bursts { good, bad, loss_bad, loss_good } => {
                write!(f, "ge:{good:?}/{bad:?}/{}/{}", units::percent(loss_bad), units::percent(loss_good))
            }
            Self::Clocked { every, length, loss_bad, loss_good } => {
                write!(
                    f,
                    "clock:{every:?}/{length:?}/{}/{}",
                    units::percent(loss_bad),
                    units::percent(loss_good)
                )
            }
        }
    }
}

/// The state of the channel.
#[derive(Debug)]
pub(crate) struct LossState {
    dice: ChaCha8Rng,
    bad: bool,
    /// When the current state of the channel ends; `None` before the first packet.
    until: Option<Time>,
}

impl LossState {
    pub(crate) fn new(dice: ChaCha8Rng) -> Self {
        Self { dice, bad: false, until: None }
    }

    /// Returns whether a packet sent at `now` is lost. `now` must not run backwards.
    pub(crate) fn draw(&mut self, loss: &Loss, now: Time) -> bool {
        match *loss {
            Loss::None => false,
            Loss::Independent(probability) => chance(&mut self.dice, probability),
            Loss::Bursts { good, bad, loss_bad, loss_good } => {
                self.advance(good, bad, now);
                chance(&mut self.dice, if self.bad { loss_bad } else { loss_good })
            }
            Loss::Clocked { every, length, loss_bad, loss_good } => {
                let into = u128::from(now.as_nanos()) % every.as_nanos();
                let is_bad = into >= (every - length).as_nanos();
                chance(&mut self.dice, if is_bad { loss_bad } else { loss_good })
            }
        }
    }

    fn advance(&mut self, good: Duration, bad: Duration, now: Time) {
        let mut until = self.until.unwrap_or_else(|| Time::ZERO + exponential(&mut self.dice, good));
        while until <= now {
            self.bad = !self.bad;
            // With two times of zero, this would never end.
            until +=
                exponential(&mut self.dice, if self.bad { bad } else { good }).max(Duration::from_nanos(1));
        }
        self.until = Some(until);
    }
}
