//! Running `ip` and `nft`.

use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};

use super::error::KernelError;

/// A program of the system that is needed.
#[derive(Clone, Copy, Debug)]
pub(in crate::intercept) enum Tool {
    /// iproute2's.
    Ip,
    /// nftables'.
    Nft,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Nft => "nft",
        }
    }

    /// Starts it with pipes to everything.
    pub(in crate::intercept) fn start(self, arguments: &[&str]) -> Result<Child, KernelError> {
        let mut command = Command::new(self.name());
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Its messages are read.
        command.env("LC_ALL", "C").spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let package = if matches!(self, Self::Ip) { "iproute2" } else { "nftables" };
                KernelError::NoProgram { program: self.name(), package }
            }
            _ => KernelError::System { what: self.name(), error },
        })
    }

    /// Runs it to its end with this input. Returns what it printed.
    pub(in crate::intercept) fn run(self, arguments: &str, input: &str) -> Result<String, KernelError> {
        let words: Vec<_> = arguments.split(' ').collect();
        let mut child = self.start(&words)?;
        if let Some(mut stdin) = child.stdin.take() {
            // If it has ended, it says why.
            stdin.write_all(input.as_bytes()).ok();
        }
        let Output { status, stdout, stderr } =
            child.wait_with_output().map_err(KernelError::system("waiting for a program failed"))?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let what = format!("{} {arguments}", self.name());
        Err(KernelError::Failed { what, why: first_line(&String::from_utf8_lossy(&stderr)) })
    }
}

/// The first line of what a program said. What follows repeats its input.
pub(in crate::intercept) fn first_line(said: &str) -> String {
    said.lines().next().unwrap_or("it does not say why").chars().take(300).collect()
}
