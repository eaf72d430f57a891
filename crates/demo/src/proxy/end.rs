//! One of the two proxies, as a process of its own.

use whimbrel_cli::proxy::ProxyCommand;

use crate::child::end_with_input;

/// Runs `whimbrel proxy` by the code of that program.
#[derive(clap::Args)]
pub(crate) struct End {
    #[command(flatten)]
    command: ProxyCommand,
}

impl End {
    /// Runs until standard input ends, which also happens when the demo dies.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        end_with_input();
        self.command.run()
    }
}
