//! `whimbrel key`: makes and shows keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use whimbrel_service::key::{default_key_file, load, save_new, save_new_psk, save_new_with_folders};

use crate::output::print_line;

const EXAMPLES: &str = "\
Examples:
  Make a key in the default file and print its public half, to give to others:
    whimbrel key new
  A key for a server, in a file of its own:
    whimbrel key new --out server.key
    whimbrel perf serve --key server.key
  Print the public key again:
    whimbrel key show server.key
  Make a secret for both ends; copy the file to the other one yourself:
    whimbrel key psk --out shared.psk
    whimbrel cat listen --psk shared.psk";

/// Makes and shows keys, by which peers recognise an endpoint.
///
/// The secret key stays in its file, which only its owner can read. The public key has 43 characters; others write it in front of the host:
/// whimbrel://KEY@HOST:PORT. The default file is $XDG_CONFIG_HOME/whimbrel/key or ~/.config/whimbrel/key.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct KeyCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Makes a new key and prints its public half. An existing key is never overwritten.
    New {
        /// Write the secret key to this file, in a folder that exists [default: ~/.config/whimbrel/key].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Prints the public half of a key.
    Show {
        /// The key file [default: ~/.config/whimbrel/key].
        file: Option<PathBuf>,
    },
    /// Makes a pre-shared key for --psk. Both ends need it, beside keys of their own. An existing one is never overwritten.
    Psk {
        /// Write the pre-shared key to this file.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

impl KeyCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The file exists already, is missing, or holds no key.
    pub fn run(self) -> anyhow::Result<()> {
        let place = |file: Option<PathBuf>| file.map_or_else(default_key_file, Ok);
        let identity = match self.verb {
            Verb::New { out } => {
                let identity = whimbrel::new_identity();
                match out {
                    Some(file) => save_new(&file, &identity)?,
                    None => save_new_with_folders(&default_key_file()?, &identity)?,
                }
                identity
            }
            Verb::Show { file } => load(&place(file)?)?,
            Verb::Psk { out } => return Ok(save_new_psk(&out)?),
        };
        print_line(format_args!("{}", identity.public()))
    }
}
