//! `whimbrel proxy cleanup`: what killed proxies left in the kernel.

use clap::Args;
use whimbrel_proxy::intercept::{Leftovers, cleanup};

use crate::output::print_line;

/// Removes what killed proxies left in the kernel: rules and routes for interception.
///
/// It leaves alone running proxies and what other programs have made. The next proxy that intercepts cleans up, too, when
/// it starts.
#[derive(Args, Clone, Debug)]
pub(super) struct CleanupCommand {
    /// Remove kill switches, too. The traffic that they reject then continues without a proxy.
    #[arg(long)]
    all: bool,
}

impl CleanupCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Leftovers { removed, running, kill_switches_removed, kill_switches_left } = cleanup(self.all)?;
        let proxies =
            |count: usize| if count == 1 { "1 proxy".to_owned() } else { format!("{count} proxies") };
        let mut said = match removed {
            0 => "no killed proxy left rules or routes".to_owned(),
            _ => format!("removed rules and routes of {}", proxies(removed)),
        };
        if kill_switches_removed > 0 {
            said = format!("{said}; removed the kill switch of {}", proxies(kill_switches_removed));
        }
        if kill_switches_left > 0 {
            let left = proxies(kill_switches_left);
            said = format!("{said}; the kill switch of {left} still rejects traffic, until you add --all");
        }
        if running > 0 {
            said = format!("{said}; left alone what runs: {}", proxies(running));
        }
        print_line(format_args!("{said}"))
    }
}
