//! A file that curl fetches, or a client of ours where curl is missing.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::Context;
use aws_lc_rs::digest;
use fast_socks5::client::{Config, Socks5Stream};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use whimbrel_cli::perf::monotonic_ns;

use crate::cargo::hex;

/// The file as it arrived.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The program that fetched it.
    pub(super) client: &'static str,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// The time from the start of the program to the last byte.
    pub(super) seconds: f64,
    pub(super) longest_gap_s: f64,
    /// When bytes arrived.
    pub(super) reads: Vec<u64>,
}

/// The client's output, and the process that it comes from, if it is one.
type Running = (&'static str, Box<dyn AsyncRead + Unpin + Send>, Option<Child>);

/// Serves the file to the first connection, and fetches it through SOCKS5.
pub(super) async fn fetch(
    web: &TcpListener,
    file: &[u8],
    socks: SocketAddr,
    progress: &impl Fn(u64),
) -> anyhow::Result<Fetched> {
    let served = async {
        // A client that gives up is seen by what it received.
        drop(serve(web, file).await);
        Ok(())
    };
    let (at, start_ns) = (web.local_addr()?, monotonic_ns());
    let fetching = async {
        let (client, output, mut process) = match curl(at, socks) {
            Some(running) => running,
            None => own(at, socks).await?,
        };
        let fetched = read(client, output, start_ns, progress).await?;
        if let Some(process) = &mut process {
            let ended = process.wait().await?;
            anyhow::ensure!(ended.success(), "{client} failed: {ended}");
        }
        Ok(fetched)
    };
    let (fetched, ()) = tokio::try_join!(fetching, served)?;
    Ok(fetched)
}

async fn serve(web: &TcpListener, file: &[u8]) -> anyhow::Result<()> {
    let (mut stream, _) = web.accept().await?;
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let length = file.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(file).await?;
    Ok(writer.shutdown().await?)
}

/// Starts curl. `None` if there is none.
fn curl(at: SocketAddr, socks: SocketAddr) -> Option<Running> {
    let mut process = Command::new("curl")
        .args([
            "-q",
            "--silent",
            "--no-buffer",
            "--proxy",
            &format!("socks5h://{socks}"),
            &format!("http://{at}/"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let output = process.stdout.take()?;
    Some(("curl", Box::new(output), Some(process)))
}

/// Asks for the file without curl.
async fn own(at: SocketAddr, socks: SocketAddr) -> anyhow::Result<Running> {
    let socks = Socks5Stream::connect(socks, at.ip().to_string(), at.port(), Config::default()).await?;
    let mut stream: TcpStream = socks.get_socket();
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    while line != "\r\n" {
        line.clear();
        anyhow::ensure!(stream.read_line(&mut line).await? > 0, "the answer has no end of its head");
    }
    Ok(("our own client, since curl is not here", Box::new(stream), None))
}

async fn read(
    client: &'static str,
    mut output: Box<dyn AsyncRead + Unpin + Send>,
    start_ns: u64,
    progress: &impl Fn(u64),
) -> anyhow::Result<Fetched> {
    let (mut digest, mut buffer) = (digest::Context::new(&digest::SHA256), vec![0; 65_536]);
    let (mut bytes, mut reads) = (0, Vec::new());
    loop {
        let length = output.read(&mut buffer).await.context("reading the file")?;
        if length == 0 {
            break;
        }
        bytes += length as u64;
        digest.update(&buffer[..length]);
        reads.push(monotonic_ns());
        progress(bytes);
    }
    let longest = reads.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    let last = reads.last().copied().unwrap_or(start_ns);
    Ok(Fetched {
        client,
        bytes,
        sha256: hex(digest.finish().as_ref()),
        seconds: last.saturating_sub(start_ns) as f64 / 1e9,
        longest_gap_s: longest as f64 / 1e9,
        reads,
    })
}
