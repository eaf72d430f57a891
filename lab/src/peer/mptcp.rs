//! Settings of the kernel's multipath TCP beyond those of TCP.

use std::net::IpAddr;

use anyhow::{Context, ensure};
use tokio::process::Command;

use super::tcp;

/// Describes MPTCP and its settings for the report.
pub(super) fn settings(congestion: &str) -> String {
    format!(
        "MPTCP of Linux {} with {congestion} on each subflow, the kernel's path manager and scheduler; where there are several links \
         the server signals its further addresses and the caller opens a subflow to each; {}",
        tcp::kernel(),
        tcp::SETTINGS
    )
}

/// Tells the kernel's path manager this host's further addresses.
pub(super) async fn use_several(addresses: &[IpAddr], role: &str) -> anyhow::Result<()> {
    if let [_, further @ ..] = addresses
        && !further.is_empty()
    {
        ip("limits set subflow 8 add_addr_accepted 8").await?;
        for address in further {
            ip(&format!("endpoint add {address} {role}")).await?;
        }
    }
    Ok(())
}

async fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip").arg("mptcp").args(arguments.split(' ')).output().await;
    let output = output.context("MPTCP over several links needs `ip`: install iproute2")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Another flow on the same host may have added it already.
    ensure!(output.status.success() || said.contains("exists"), "ip mptcp {arguments}: {}", said.trim());
    Ok(())
}
