//! `whimbrel broker plan`: how large a buffer has to be.

use std::time::Duration;

use clap::Args;
use whimbrel_broker::plan::Plan;

use crate::output::print_line;
use crate::shown::{delay, size};
use crate::units;

/// Computes how large a buffer has to be, so that subscribers who come back miss no more than you accept.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example: 250 messages a second of 200 bytes; subscribers are away for 24 s on average, 7 % of the time:
  whimbrel broker plan --rate 250 --size 200 --absence 24s --away 7% --loss 0.1%"
)]
pub(super) struct PlanCommand {
    /// Messages a second that are published to the partition.
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: f64,
    /// Bytes of a message, with its topic and properties.
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    size: u64,
    /// How long a subscriber is away, on average.
    #[arg(long, value_name = "TIME", value_parser = units::wait)]
    absence: Duration,
    /// The share of time for which a subscriber is away.
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    away: f64,
    /// The share of messages that may be overwritten before a subscriber comes back.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    loss: f64,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= 1e9);
    rate.ok_or_else(|| "write messages a second, for example 250".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|share| share / unit);
    let share = share.filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a share above 0, for example 0.1% or 0.001".to_owned())
}

impl PlanCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Self { rate, size: each, absence, away, loss } = self;
        let plan = Plan { rate, size: each, absence, away, loss };
        print_line(format_args!(
            "messages = {}    # {}, if a message has {each} bytes",
            plan.messages(),
            size(plan.bytes())
        ))?;
        print_line(format_args!("a message stays for {}", delay(plan.reach().as_secs_f64() * 1e6)))?;
        print_line(format_args!(
            "assumed: a steady {rate} messages a second; memoryless absences of {} on average, {} % of the time; policy lrp. With bursts or longer absences, more is lost.",
            delay(absence.as_secs_f64() * 1e6),
            away * 100.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_as_percent_or_as_numbers() {
        assert_eq!(share("0.5%"), Ok(0.005));
        assert_eq!(share("0.25"), Ok(0.25));
        for wrong in ["0", "101%", "-1%", "much", "NaN"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert!(rate("0").is_err() && rate("inf").is_err() && rate("250").is_ok());
    }
}
