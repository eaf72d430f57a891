//! One of the two proxies, as a process of its own.

use std::io::Read;

use whimbrel_cli::proxy::ProxyCommand;

/// Runs `whimbrel proxy` by the code of that program.
#[derive(clap::Args)]
pub(crate) struct End {
    #[command(flatten)]
    command: ProxyCommand,
}

impl End {
    /// Runs until standard input ends, which also happens when the demo dies.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        std::thread::spawn(|| {
            let (mut input, mut ignored) = (std::io::stdin().lock(), [0; 64]);
            while input.read(&mut ignored).is_ok_and(|length| length > 0) {}
            std::process::exit(0);
        });
        self.command.run()
    }
}
