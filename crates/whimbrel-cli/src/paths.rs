//! Options of both ends for which networks are used, and how.

use anyhow::anyhow;
use clap::Args;
use whimbrel::{CostPolicy, LocalPath, Paths, PrimaryRule, Scheduling, TransportConfig};
use whimbrel_service::{AbsentPath, NoPath, local_paths};

use crate::output::note;

/// Options of paths, for both ends.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathOptions {
    /// Use this address of the host, for example `192.0.2.7`, `10.0.0.7,cost=2`, `10.0.0.7,standby` or `192.0.2.7,prefer`. May be repeated.
    /// An address that is absent now is used once it appears. A dearer path carries nothing while a cheaper one works, and a standby path
    /// nothing while any other works. The connection begins on a preferred path. A listener announces only these addresses [default: all
    /// usable ones, as they come and go].
    #[arg(long = "path", value_name = "LOCAL[,cost=N][,prefer|standby]")]
    path: Vec<LocalPath>,
    /// Use one path only.
    #[arg(long, conflicts_with = "path")]
    single_path: bool,
    /// How several paths work together: the best one carries everything (primary), all of them share it (aggregate), or everything goes on
    /// every path (redundant) [default: aggregate].
    #[arg(long, value_name = "primary|aggregate|redundant")]
    scheduler: Option<Scheduling>,
    /// How the cost of a path counts. It does not (ignore); dearer paths wait until cheaper ones fail (cheap-first); or, besides that,
    /// paths that cost more than N carry nothing at all (never-above=N) [default: cheap-first].
    #[arg(long, value_name = "ignore|cheap-first|never-above=N", value_parser = cost_policy)]
    cost_policy: Option<CostPolicy>,
    /// How the primary path is chosen: by loss and round trip (loss-and-rtt), or as the path on which most arrives (most-received)
    /// [default: loss-and-rtt].
    #[arg(long, value_name = "loss-and-rtt|most-received")]
    primary_rule: Option<PrimaryRule>,
    /// Let each path through a shared bottleneck take a share of its own, instead of one share together.
    #[arg(long)]
    uncoupled: bool,
}

impl PathOptions {
    /// Applies the options that were given to connection settings.
    pub(crate) fn configure(&self, config: &mut TransportConfig) {
        config.scheduler = self.scheduler.unwrap_or(config.scheduler);
        config.cost_policy = self.cost_policy.unwrap_or(config.cost_policy);
        config.primary_rule = self.primary_rule.unwrap_or(config.primary_rule);
        config.coupled &= !self.uncoupled;
    }

    /// The networks to use.
    ///
    /// # Errors
    /// This host has none of the addresses now. If only some are absent, a note says so.
    pub(crate) fn paths(&self) -> anyhow::Result<Paths> {
        if self.single_path {
            return Ok(Paths::Single);
        }
        let named = |absent: &AbsentPath| format!("--path {absent}");
        let (paths, absent) = local_paths(&self.path).map_err(|NoPath(absent)| {
            anyhow!("{}; `ip address` lists them", absent.iter().map(named).collect::<Vec<_>>().join("; "))
        })?;
        for absent in &absent {
            note(format_args!("{}: used when it is", named(absent)));
        }
        Ok(paths)
    }
}

/// As the library reads it, but for what only a program can answer.
///
/// # Errors
/// The text is none of them; the message lists them.
fn cost_policy(text: &str) -> Result<CostPolicy, String> {
    match text.parse() {
        Ok(CostPolicy::Ask) => Err(
            "ask is for programs, which answer when a path is there: write cheap-first, or never-above=0 \
             for none that costs anything"
                .to_owned(),
        ),
        Ok(policy) => Ok(policy),
        Err(_) => Err(format!(
            "`{text}` is not a cost policy: write ignore, cheap-first or never-above=N, N a whole number"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn paths_as_people_write_them() {
        let plain = LocalPath::from("192.0.2.7".parse::<IpAddr>().unwrap());
        let local_path = |text: &str| text.parse::<LocalPath>().map_err(|error| error.to_string());
        assert_eq!(local_path("192.0.2.7"), Ok(plain));
        assert_eq!(local_path("192.0.2.7,cost=3,standby"), Ok(LocalPath { cost: 3, standby: true, ..plain }));
        assert_eq!(local_path("192.0.2.7,prefer"), Ok(LocalPath { prefer: true, ..plain }));
        assert_eq!(local_path("[2001:db8::7]").unwrap().address, "2001:db8::7".parse::<IpAddr>().unwrap());
        for (wrong, says) in [
            ("eth0", "192.0.2.7"),
            ("192.0.2.7:4433", "address"),
            ("192.0.2.7,fast", "standby"),
            ("192.0.2.7,cost=much", "whole number"),
            ("192.0.2.7,prefer,standby", "either"),
        ] {
            assert!(local_path(wrong).unwrap_err().contains(says), "{wrong}");
        }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        paths: PathOptions,
    }

    #[test]
    fn options_reach_the_settings() {
        let config = |line: &[&str]| {
            let line: Line = clap::Parser::parse_from([&["whimbrel"], line].concat());
            let mut config = TransportConfig::default();
            line.paths.configure(&mut config);
            (config.scheduler, config.cost_policy, config.primary_rule, config.coupled)
        };
        let plain = TransportConfig::default();
        assert_eq!(config(&[]), (plain.scheduler, plain.cost_policy, plain.primary_rule, plain.coupled));
        let (rule, cost) = (["--primary-rule", "most-received"], ["--cost-policy", "never-above=2"]);
        let all = [&["--scheduler", "primary", "--uncoupled"], &rule[..], &cost].concat();
        let wanted = (Scheduling::Primary, CostPolicy::NeverAbove(2), PrimaryRule::MostReceived, false);
        assert_eq!(config(&all), wanted);
    }

    #[test]
    fn policies_as_people_write_them() {
        assert_eq!(cost_policy("ignore"), Ok(CostPolicy::Ignore));
        assert_eq!(cost_policy("never-above=3"), Ok(CostPolicy::NeverAbove(3)));
        for wrong in ["never-above=", "never-above=-1", "ask", ""] {
            assert!(cost_policy(wrong).unwrap_err().contains("cheap-first"), "{wrong}");
        }
    }
}
