//! Figures of scale on loopback: many idle connections and streams, many handshakes, a flood of SYNs, a peer that
//! floods.
//!
//! The server is a process of its own, pinned to the second core; all others share the first. What the server takes is
//! read from `/proc`, so that its clients' share is not counted.

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
#[command(about = "Idle connections, handshakes a second, floods", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Memory and processor time that idle connections cost the server
    Idle(idle::Idle),
    /// Memory that idle byte streams of one session take at both ends
    Streams(streams::Streams),
    /// What a second receive loop costs, and how the load is spread
    Loops(loops::Loops),
    /// Handshakes a second
    Handshakes(handshakes::Handshakes),
    /// What a flood of SYNs costs a connection, and the server's memory
    Flood(flood::Flood),
    /// Round trips of quiet peers beside one that sends as fast as it can
    FloodPeer(flood_peer::FloodPeer),
    /// The server; started by this program itself.
    #[command(hide = true)]
    Serve(server::Serve),
    /// Connects and holds; started by this program itself.
    #[command(hide = true)]
    Clients(clients::Clients),
    /// Sends SYNs; started by this program itself.
    #[command(hide = true)]
    Syns(flood::Syns),
    /// Sends as fast as it can; started by this program itself.
    #[command(hide = true)]
    Flooder(flooder::Flooder),
}

/// Where the server runs, and where the others do.
const SERVER_CORE: usize = 1;
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
    // By number, not from the list of usable ones: a child is born onto its parent's core, and its list holds that alone.
    if !core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
        eprintln!(
            "core {core} cannot be had: the server shares a core with its clients, and figures mean little"
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
