//! Multipath TCP of the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, ensure};
use socket2::Protocol;
use tokio::process::Command;

use super::side::{ready, receive, send};
use super::{Peer, Side, byte_stream, tcp};
use crate::job::{Figures, Job, Sent};

/// MPTCP, with one of the kernel's congestion controllers on each subflow.
pub(super) struct Mptcp {
    pub(super) name: &'static str,
    pub(super) congestion: &'static str,
}

impl Peer for Mptcp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn settings(&self) -> String {
        format!(
            "MPTCP of Linux {} with {} on each subflow, the kernel's path manager and scheduler; where there are several links \
             the server signals its further addresses and the caller opens a subflow to each; {}",
            tcp::kernel(),
            self.congestion,
            tcp::SETTINGS
        )
    }

    fn missing(&self) -> Option<String> {
        tcp::missing(Protocol::MPTCP, self.congestion)
    }

    fn can(&self, _: &Job) -> bool {
        true
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Side<'a, Figures> {
        Box::pin(async move {
            use_several(at, "signal").await?;
            // Subflows are to find it at each of the addresses.
            let all =
                if at[0].is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            let listener = tcp::listen(Protocol::MPTCP, self.congestion, all)?;
            ready(&SocketAddr::new(at[0], listener.local_addr()?.port()).to_string())?;
            receive(job, async |record| {
                let (mut stream, _) = listener.accept().await?;
                byte_stream::receive(&mut stream, record).await
            })
            .await
        })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Side<'a, Sent> {
        Box::pin(send(async move |sent| {
            use_several(from, "subflow fullmesh").await?;
            let mut stream = tcp::connect(Protocol::MPTCP, self.congestion, job, from[0], to).await?;
            byte_stream::send(job, &mut stream, sent).await?;
            byte_stream::until_gone(&mut stream).await;
            Ok(())
        }))
    }
}

/// Tells the kernel's path manager of this host's further addresses.
async fn use_several(addresses: &[IpAddr], role: &str) -> anyhow::Result<()> {
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
    // Flows that share a host may have done it already.
    ensure!(output.status.success() || said.contains("exists"), "ip mptcp {arguments}: {}", said.trim());
    Ok(())
}
