//! A broker, a publisher or a subscriber, as a process of its own.

use clap::{Args, Subcommand};
use whimbrel_cli::broker::BrokerCommand;
use whimbrel_cli::pubsub::{PubCommand, SubCommand};

use crate::child::end_with_input;

/// Runs one of the program's commands by its code.
#[derive(Args)]
pub(crate) struct Member {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Broker(Box<BrokerCommand>),
    Pub(Box<PubCommand>),
    Sub(Box<SubCommand>),
}

impl Member {
    /// Runs it. All but the publisher, which publishes the lines of its input, end with their input.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Pub(command) => command.run(),
            Command::Broker(command) => {
                end_with_input();
                command.run()
            }
            Command::Sub(command) => {
                end_with_input();
                command.run()
            }
        }
    }
}
