//! HTTP CONNECT (RFC 9110 section 9.3.6).

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::accept::{Accepted, accept};
use super::ingress::Ingress;
use super::waiting::closed;
use crate::policy::WayIn;
use crate::protocol::{Outcome, Target};
use crate::relay::Refused;

/// The time within which a program must send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a request.
const LONGEST: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// A request for a tunnel.
#[derive(Debug, PartialEq, Eq)]
struct ConnectRequest {
    target: Target,
    /// The bytes that the program sent behind its request.
    first: Bytes,
}

/// Why a request is refused: the status line, and a sentence.
type HttpRefusal = (&'static str, String);

impl Ingress {
    /// Serves HTTP CONNECT on this listener.
    pub async fn serve_connect(self, listener: TcpListener) {
        let this = self.by(WayIn::Connect);
        accept(listener, self.places(), self.flows().over(), move |accepted| {
            let this = this.clone();
            // An error is the program's, which is gone.
            async move { drop(this.serve_request(accepted).await) }
        })
        .await;
    }

    async fn serve_request(&self, accepted: Accepted) -> io::Result<()> {
        let Accepted { mut tcp, from, place } = accepted;
        let Ok(request) = timeout(PATIENCE, read(&mut tcp)).await else { return Ok(()) };
        drop(place);
        let ConnectRequest { target, first } = match request? {
            Ok(request) => request,
            Err(refusal) => return refuse(tcp, &refusal).await,
        };
        match self.open(&target, from, first, closed(&tcp)).await {
            Ok((way, _)) => {
                tcp.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                self.run(way, tcp).await;
                Ok(())
            }
            // Nobody hears an answer.
            Err(Refused::ProgramGone) => Ok(()),
            Err(refused) => refuse(tcp, &(status(refused.outcome()), refused.to_string())).await,
        }
    }
}

fn status(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Denied => "403 Forbidden",
        Outcome::Limit => "503 Service Unavailable",
        Outcome::TimedOut => "504 Gateway Timeout",
        _ => "502 Bad Gateway",
    }
}

async fn refuse(mut tcp: TcpStream, (status, why): &HttpRefusal) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{why}\n",
        why.len() + 1
    );
    tcp.write_all(answer.as_bytes()).await?;
    tcp.shutdown().await
}

/// Reads a request, or what is wrong with it.
async fn read(tcp: &mut TcpStream) -> io::Result<Result<ConnectRequest, HttpRefusal>> {
    let mut bytes = BytesMut::with_capacity(1024);
    loop {
        if tcp.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match parse(&bytes) {
            None if bytes.len() > LONGEST => {
                return Ok(Err((
                    "431 Request Header Fields Too Large",
                    "the request is too long".to_owned(),
                )));
            }
            None => {}
            Some(Err(refusal)) => return Ok(Err(refusal)),
            Some(Ok((target, length))) => {
                return Ok(Ok(ConnectRequest { target, first: bytes.split_off(length).freeze() }));
            }
        }
    }
}

/// Returns the target and the length of the request. `None`: it is not whole yet.
fn parse(bytes: &[u8]) -> Option<Result<(Target, usize), HttpRefusal>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return None,
        Err(error) => {
            return Some(Err(("400 Bad Request", format!("this is not an HTTP/1.1 request: {error}"))));
        }
    };
    if request.method != Some("CONNECT") {
        let why = "this proxy serves CONNECT only: use it for https, or use SOCKS5";
        return Some(Err(("405 Method Not Allowed", why.to_owned())));
    }
    let target = request.path.unwrap_or_default().parse::<Target>();
    Some(target.map(|target| (target, length)).map_err(|error| ("400 Bad Request", error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_apart() {
        let good = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\nfirst";
        let (target, length) = parse(good).unwrap().unwrap();
        assert_eq!((target.to_string().as_str(), &good[length..]), ("example.org:443", &b"first"[..]));
        for cut in 0..length {
            assert!(parse(&good[..cut]).is_none(), "{cut}");
        }
        for (wrong, status) in [
            (&b"GET http://example.org/ HTTP/1.1\r\n\r\n"[..], "405"),
            (b"CONNECT example.org HTTP/1.1\r\n\r\n", "400"),
            (b"\x05\x01\x00", "400"),
            (b"CONNECT a:1 HTTP/3\r\n\r\n", "400"),
        ] {
            let refusal = parse(wrong).unwrap().unwrap_err();
            assert!(refusal.0.starts_with(status), "{refusal:?}");
        }
    }
}
