//! The options of `whimbrel cat` that say how the input is sent.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use whimbrel::{Mocket, Sender, Service, Tag};

use super::input::Cut;
use crate::dial::TransportOptions;
use crate::process::{Misused, RuntimeOptions};
use crate::units;

/// How the input is sent.
#[derive(Args, Clone, Debug)]
pub(super) struct CatOptions {
    /// Carry a byte stream, as TCP does, instead of messages. Both ends need this option.
    #[arg(long, conflicts_with_all = ["message_size", "service", "tag", "lifetime", "priority"])]
    pub(super) bytes: bool,
    /// Send messages of this many bytes instead of lines. What is received is written as it is, without line ends.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    message_size: Option<u64>,
    /// How messages travel: reliable (r) or unreliable (u), sequenced (s) or unsequenced (u).
    #[arg(long, value_name = "rs|ru|us|uu", default_value = "rs")]
    service: Service,
    /// The tag of the messages, a number below 2^62. It names them as a group, and the peer's program sees it.
    #[arg(long, value_name = "N", value_parser = units::tag)]
    tag: Option<u64>,
    /// Priority of the messages, 0 to 255. Higher ones go first.
    #[arg(long, value_name = "N", default_value_t = 100)]
    priority: u8,
    /// Give up messages that are older than this; milliseconds, or a number with a unit.
    #[arg(long, value_name = "MS", value_parser = units::millis)]
    lifetime: Option<Duration>,
    /// On Ctrl-Z or SIGUSR1, write the session to this file and end. `whimbrel cat --resume-from FILE` continues it,
    /// and first sends the input that was read but not sent. Both need the same --key, and --bytes if the first had
    /// it.
    #[arg(long, value_name = "FILE")]
    pub(super) suspend_to: Option<PathBuf>,
    /// A file that contains the passphrase under which suspended sessions are sealed [default: they are not sealed].
    #[arg(long, value_name = "FILE")]
    pub(super) passphrase_file: Option<PathBuf>,
    /// Show every path each second on standard error, and report when paths change. A terminal always gets those reports.
    #[arg(long)]
    pub(super) show_paths: bool,
    #[command(flatten)]
    pub(super) transport: TransportOptions,
    #[command(flatten)]
    pub(super) runtime: RuntimeOptions,
}

impl CatOptions {
    /// Returns the rule that divides the input into messages.
    pub(super) fn cut(&self) -> Cut {
        match self.message_size {
            _ if self.bytes => Cut::Anywhere,
            Some(size) => Cut::Pieces(usize::try_from(size).unwrap_or(usize::MAX)),
            None => Cut::Lines,
        }
    }

    /// Returns a sender with the options of the messages.
    pub(super) fn sender(&self, mocket: &Mocket) -> Sender {
        let mut sender = mocket.sender().service(self.service).priority(self.priority);
        if let Some(tag) = self.tag {
            sender = sender.tag(Tag(tag));
        }
        if let Some(lifetime) = self.lifetime {
            sender = sender.lifetime(lifetime);
        }
        sender.build()
    }

    /// Refuses a length of messages that cannot work.
    pub(super) fn check(&self) -> Result<(), Misused> {
        let wrong = match self.message_size {
            Some(0) => "--message-size 0 would never end: write how many bytes a message has".to_owned(),
            Some(size) if size > 16 << 20 => {
                format!("--message-size {size} is above the 16Mi that a peer accepts")
            }
            _ => return Ok(()),
        };
        Err(Misused(wrong))
    }
}
