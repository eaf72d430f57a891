//! Programs that know nothing of the transport, for experiments with the proxy: servers, and clients that may go through
//! SOCKS5. Fetching is left to curl, and bulk to iperf3.

pub(crate) mod cot;
mod echo;
mod exchange;
mod source;
mod watch;
mod web;

use std::net::SocketAddr;

use clap::Subcommand;
use fast_socks5::client::{Config, Socks5Stream};
use tokio::net::TcpStream;

pub(crate) use exchange::{Exchanged, Load};
pub(crate) use source::Stream;
pub(crate) use watch::Watched;

/// A program of an experiment with the proxy
#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Serves as many bytes as the path of a request says, over HTTP
    Web(web::Web),
    /// Sends back what it reads
    Echo(echo::Echo),
    /// Sends XML records to a receiver, as a stream or as datagrams
    Cot(cot::Cot),
    /// Receives XML records
    CotSink(cot::CotSink),
    /// Sends streams of datagrams to whoever asks
    Source(source::Source),
    /// Asks for streams of datagrams, and says what arrived
    Watch(watch::Watch),
    /// Exchanges bytes with an echo server over many connections
    Exchange(exchange::Exchange),
}

impl Run {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.program {
            Program::Web(web) => web.run(),
            Program::Echo(echo) => echo.run(),
            Program::Cot(cot) => cot.run(),
            Program::CotSink(sink) => sink.run(),
            Program::Source(source) => source.run(),
            Program::Watch(watch) => watch.run(),
            Program::Exchange(exchange) => exchange.run(),
        }
    }
}

/// Connects, through SOCKS5 if there is a proxy.
async fn connect(to: SocketAddr, socks: Option<SocketAddr>) -> anyhow::Result<TcpStream> {
    let stream = match socks {
        None => TcpStream::connect(to).await?,
        Some(socks) => {
            let (host, port) = (to.ip().to_string(), to.port());
            Socks5Stream::connect(socks, host, port, Config::default()).await?.get_socket()
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}
