//! `whimbrel status`, `reload` and `stop`: requests to a running command.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use whimbrel_service::{PathReport, Request, SessionReport, SessionState, StatusReport, ask};

use crate::output::print_line;
use crate::process::{Flavour, RuntimeOptions, interrupted};
use crate::shown::{bits, delay, plural, size};

/// The interval between looks with `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// The most sessions shown in text output. JSON output has all of them.
const SHOWN: usize = 50;

/// Shows the status of a running `whimbrel` command, through its control socket.
///
/// The command must have been started with --control PATH, by the same user.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  whimbrel perf serve --control /run/user/1000/perf.sock
  whimbrel status /run/user/1000/perf.sock
  whimbrel status /run/user/1000/perf.sock --json | jq '.sessions | length'")]
pub struct StatusCommand {
    /// The path of its control socket.
    #[arg(value_name = "CONTROL")]
    control: PathBuf,
    /// Show the status again every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Print JSON: one document, or one per line with --watch.
    #[arg(long)]
    json: bool,
}

/// Makes a running `whimbrel` command read its configuration again, through its control socket.
#[derive(Args, Clone, Debug)]
pub struct ReloadCommand {
    /// The path of its control socket.
    #[arg(value_name = "CONTROL")]
    control: PathBuf,
}

/// Stops a running `whimbrel` command gracefully, through its control socket.
#[derive(Args, Clone, Debug)]
pub struct StopCommand {
    /// The path of its control socket.
    #[arg(value_name = "CONTROL")]
    control: PathBuf,
}

impl ReloadCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// No command answers, or the configuration has a mistake.
    pub fn run(self) -> anyhow::Result<()> {
        tell(self.control, Request::Reload)
    }
}

impl StopCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// No command answers.
    pub fn run(self) -> anyhow::Result<()> {
        tell(self.control, Request::Stop)
    }
}

fn tell(control: PathBuf, request: Request) -> anyhow::Result<()> {
    RuntimeOptions { runtime: Some(Flavour::Current) }.block_on(async move {
        match ask(&control, request).await? {
            Value::String(said) => print_line(format_args!("{said}")),
            said => print_line(format_args!("{said}")),
        }
    })
}

impl StatusCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// No command answers.
    pub fn run(self) -> anyhow::Result<()> {
        RuntimeOptions { runtime: Some(Flavour::Current) }.block_on(self.show())
    }

    async fn show(self) -> anyhow::Result<()> {
        let interrupted = interrupted()?;
        tokio::pin!(interrupted);
        loop {
            let status = ask(&self.control, Request::Status).await?;
            if self.json {
                let text = if self.watch {
                    serde_json::to_string(&status)?
                } else {
                    serde_json::to_string_pretty(&status)?
                };
                print_line(format_args!("{text}"))?;
            } else {
                let clear = if self.watch && std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
                let lines = describe(&serde_json::from_value(status)?).join("\n");
                print_line(format_args!("{clear}{lines}"))?;
            }
            if !self.watch {
                return Ok(());
            }
            tokio::select! {
                signal = &mut interrupted => return Err(signal.into()),
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
}

fn describe(status: &StatusReport) -> Vec<String> {
    let StatusReport { service, version, pid, uptime_s, public_key, address, sessions, more } = status;
    let address = address.map_or_else(|| "?".to_owned(), |address| address.to_string());
    let name = format!("{service} {version}");
    let mut lines = vec![
        format!("{}, process {pid}, up {}", name.trim_end(), delay(uptime_s * 1e6)),
        format!("whimbrel://{public_key}@{address}"),
    ];
    if service == "proxy" {
        lines.extend(crate::proxy::describe(more));
    } else if service == "broker" {
        lines.extend(crate::broker::describe(more));
    } else if let Value::Object(more) = more {
        lines.extend(more.iter().map(|(name, value)| format!("{name}: {value}")));
    }
    // Those over TCP are not the endpoint's.
    let is_over_tcp = more["sessions_over_tcp"].as_u64().is_some_and(|count| count > 0);
    if !(sessions.is_empty() && is_over_tcp) {
        lines.push(plural(sessions.len() as u64, "session"));
    }
    for session in sessions.iter().take(SHOWN) {
        lines.push(describe_session(session));
        lines.extend(session.paths.iter().map(describe_path));
    }
    if sessions.len() > SHOWN {
        lines.push(format!("and {} more: --json shows all", sessions.len() - SHOWN));
    }
    lines
}

fn describe_session(session: &SessionReport) -> String {
    let peer = session.peer.map_or_else(|| "somebody".to_owned(), |peer| peer.to_string());
    let state = match session.state {
        SessionState::Connecting => "connecting",
        SessionState::Connected => "connected",
        SessionState::Unreachable => "unreachable",
        _ => "closed",
    };
    format!(
        "  {peer} at {}: {state}, heard {} ago; sent {}, received {}, queued {}, {} unread messages",
        session.address,
        delay(session.silent_s * 1e6),
        size(session.sent_bytes),
        size(session.received_bytes),
        size(session.queue_bytes),
        session.unread_messages
    )
}

fn describe_path(path: &PathReport) -> String {
    let local = path.local.map_or_else(|| "?".to_owned(), |local| local.to_string());
    format!(
        "    path {} {local} - {}: {}{}, rtt {}, lost lately {:.1} %, carries {}, sent {}, received {}",
        path.id,
        path.remote,
        path.state,
        if path.primary { ", primary" } else { "" },
        delay(path.rtt_ms * 1e3),
        path.loss * 100.0,
        if path.rate == 0 { "?".to_owned() } else { bits(path.rate as f64 * 8.0) },
        size(path.sent_bytes),
        size(path.received_bytes)
    )
}
