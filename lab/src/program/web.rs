//! A web server that serves as many bytes as a path says: `/BYTES`, or `/cot/BYTES` for an XML document.

use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::cot;
use crate::peer::side;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// Bytes written at a time.
const BLOCK: usize = 65_536;

#[derive(clap::Args)]
pub(crate) struct Web {
    /// Address to listen at, on any port
    #[arg(long)]
    at: IpAddr,
    /// Congestion controller of the kernel
    #[arg(long)]
    congestion: Option<String>,
}

impl Web {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("served", async {
            let listener = listen(self.at, self.congestion.as_deref())?;
            side::ready(&listener.local_addr()?.to_string())?;
            tokio::select! {
                served = serve(listener) => served,
                () = side::ended() => Ok(()),
            }
        })
    }
}

/// Listens on any port of an address.
pub(super) fn listen(at: IpAddr, congestion: Option<&str>) -> anyhow::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(SocketAddr::new(at, 0)), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(congestion) = congestion {
        // Connections that it accepts inherit it.
        socket.set_tcp_congestion(congestion.as_bytes())?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(at, 0).into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into())?)
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that gives up is no failure of the server.
        tokio::spawn(async move { drop(answer(stream).await) });
    }
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    let request = lines.next_line().await?.context("no request")?;
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).context("no path")?;
    let path = path.trim_start_matches('/');
    let document = path.strip_prefix("cot/").and_then(|bytes| bytes.parse().ok()).map(cot::document);
    let length = document.as_ref().map(Vec::len).or_else(|| path.parse().ok());
    let Some(mut left) = length else {
        return Ok(writer
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .await?);
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\nConnection: close\r\n\r\n");
    if let Some(document) = document {
        // One write, as a server of files does it.
        writer.write_all(&[head.into_bytes(), document].concat()).await?;
        return Ok(writer.shutdown().await?);
    }
    writer.write_all(head.as_bytes()).await?;
    let block = [b'x'; BLOCK];
    while left > 0 {
        let some = left.min(BLOCK);
        writer.write_all(&block[..some]).await?;
        left -= some;
    }
    Ok(writer.shutdown().await?)
}
