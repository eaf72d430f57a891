//! Measures scale on loopback: many idle connections and streams, many handshakes, a flood of SYNs, a peer that floods.
//!
//! The server is a process of its own, pinned to the second core. All other processes share the first. The server's
//! memory and processor time are read from `/proc`, so its clients are not counted.

#[path = "../../certificate.rs"]
mod certificate;
mod clients;
mod flood;
mod flood_peer;
mod flooder;
mod handshakes;
mod idle;
mod loops;
mod others;
mod process;
mod server;
mod streams;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures idle connections, handshakes a second, and floods", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measures the memory and processor time that idle connections cost the server
    Idle(idle::Idle),
    /// Measures the memory that idle byte streams of one session take at both ends
    Streams(streams::Streams),
    /// Measures the cost of a second receive loop, and how the load is spread
    Loops(loops::Loops),
    /// Measures handshakes a second
    Handshakes(handshakes::Handshakes),
    /// Measures the effect of a flood of SYNs on a connection and on the server's memory
    Flood(flood::Flood),
    /// Measures the round trips of quiet peers while another peer sends as fast as it can
    FloodPeer(flood_peer::FloodPeer),
    /// Runs the server. This program starts it itself.
    #[command(hide = true)]
    Serve(server::Serve),
    /// Opens connections and holds them. This program starts it itself.
    #[command(hide = true)]
    Clients(clients::Clients),
    /// Sends SYNs. This program starts it itself.
    #[command(hide = true)]
    Syns(flood::Syns),
    /// Sends as fast as it can. This program starts it itself.
    #[command(hide = true)]
    Flooder(flooder::Flooder),
}

/// The core of the server.
const SERVER_CORE: usize = 1;
/// The core of all other processes.
const CLIENT_CORE: usize = 0;

fn main() -> anyhow::Result<()> {
    let what = Cli::parse().what;
    if matches!(what, What::Loops(_)) || matches!(&what, What::Serve(serve) if serve.loops > 0) {
        // Both sides use both cores.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        return match what {
            What::Loops(loops) => runtime.block_on(loops.run()),
            What::Serve(serve) => runtime.block_on(serve.run()),
            _ => Ok(()),
        };
    }
    let core = if matches!(what, What::Serve(_)) { SERVER_CORE } else { CLIENT_CORE };
    // The core is given by its number. A child inherits its parent's core, so its list of usable cores has only that
    // one.
    if !core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
        eprintln!(
            "core {core} is not available: the server shares a core with its clients, so the figures mean little"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match what {
        What::Idle(idle) => runtime.block_on(idle.run()),
        What::Streams(streams) => runtime.block_on(streams.run()),
        What::Loops(loops) => runtime.block_on(loops.run()),
        What::Handshakes(handshakes) => runtime.block_on(handshakes.run()),
        What::Flood(flood) => runtime.block_on(flood.run()),
        What::FloodPeer(flood) => runtime.block_on(flood.run()),
        What::Flooder(flooder) => runtime.block_on(flooder.run()),
        What::Serve(serve) => runtime.block_on(serve.run()),
        What::Clients(clients) => runtime.block_on(clients.run()),
        What::Syns(syns) => syns.run(),
    }
}
