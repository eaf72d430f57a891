//! A server that sends back what it reads.

use std::net::IpAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::web::listen;
use crate::peer::side;

#[derive(clap::Args)]
pub(crate) struct Echo {
    /// Address to listen at
    #[arg(long)]
    at: IpAddr,
    /// Number of ports to listen on
    #[arg(long, default_value_t = 1)]
    ports: usize,
    /// Congestion controller of the kernel
    #[arg(long)]
    congestion: Option<String>,
}

impl Echo {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("served", async {
            let listen = || listen(self.at, self.congestion.as_deref());
            let listeners: Vec<_> = (0..self.ports).map(|_| listen()).collect::<anyhow::Result<_>>()?;
            let mut places = Vec::new();
            for listener in &listeners {
                places.push(listener.local_addr()?.to_string());
            }
            side::ready(&places.join(","))?;
            let mut all: JoinSet<_> = listeners.into_iter().map(serve).collect();
            tokio::select! {
                Some(served) = all.join_next() => served?,
                () = side::ended() => Ok(()),
            }
        })
    }
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let (mut reader, mut writer) = stream.split();
            // A client that resets its connection is no failure of the server.
            drop(tokio::io::copy(&mut reader, &mut writer).await);
            drop(writer.shutdown().await);
        });
    }
}
