//! The request that begins a WebSocket, and its answer: RFC 6455, section 4.2.

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64ct::{Base64, Encoding};

/// The most lines of a request.
const MOST_HEADERS: usize = 64;
/// The subprotocol of MQTT.
const SUBPROTOCOL: &str = "mqtt";
/// The constant of RFC 6455, section 1.3.
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Where MQTT is on a web server's port, and which pages may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocket {
    /// The path, such as `/mqtt`.
    pub path: String,
    /// The origins of pages that may connect, such as `https://app.example`. `*` is any.
    pub origins: Vec<String>,
}

/// An answer that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: &'static str,
    /// A header line beside the usual ones, with its end.
    header: &'static str,
    why: String,
}

/// A request as far as it matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    is_get: bool,
    path: String,
    host: String,
    origin: Option<String>,
    upgrades: bool,
    version: String,
    key: Option<String>,
    subprotocols: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, header, why } = self;
        let length = why.len() + 1;
        write!(
            f,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n{header}\r\n{why}\n"
        )
    }
}

fn refuse(status: &'static str, why: impl Into<String>) -> Refusal {
    Refusal { status, header: "", why: why.into() }
}

pub(super) fn too_long() -> Refusal {
    refuse("431 Request Header Fields Too Large", "the request has more than 8 KiB")
}

impl Request {
    pub(super) fn read(head: &[u8]) -> Result<Self, Refusal> {
        let malformed = || refuse("400 Bad Request", "this is not an HTTP/1.1 request");
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        let status = parsed.parse(head).map_err(|_| malformed())?;
        if !status.is_complete() || parsed.version != Some(1) {
            return Err(malformed());
        }
        let target = parsed.path.unwrap_or_default();
        let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
        let mut request = Self { is_get: parsed.method == Some("GET"), path, ..Self::default() };
        let (mut has_upgrade, mut has_connection) = (false, false);
        for header in parsed.headers.iter() {
            let value = str::from_utf8(header.value).unwrap_or_default().trim();
            let words = || value.split(',').map(str::trim);
            match header.name.to_ascii_lowercase().as_str() {
                "host" => request.host = value.to_owned(),
                "origin" => request.origin = Some(value.to_owned()),
                "upgrade" => has_upgrade |= words().any(|word| word.eq_ignore_ascii_case("websocket")),
                "connection" => has_connection |= words().any(|word| word.eq_ignore_ascii_case("upgrade")),
                "sec-websocket-version" => request.version = value.to_owned(),
                "sec-websocket-key" => request.key = Some(value.to_owned()),
                "sec-websocket-protocol" => request.subprotocols.extend(words().map(str::to_owned)),
                _ => {}
            }
        }
        request.upgrades = has_upgrade && has_connection;
        Ok(request)
    }
}

impl WebSocket {
    /// The answer to a request.
    pub(super) fn answer(
        &self,
        request: &Request,
        is_secure: bool,
        needs_origin: bool,
    ) -> Result<String, Refusal> {
        if request.path != self.path {
            return Err(refuse("404 Not Found", format!("MQTT is at the path {}", self.path)));
        }
        if !request.is_get {
            return Err(Refusal {
                header: "Allow: GET\r\n",
                ..refuse("405 Method Not Allowed", "a WebSocket begins with GET")
            });
        }
        if !request.upgrades || request.version != "13" {
            return Err(Refusal {
                header: "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
                ..refuse(
                    "426 Upgrade Required",
                    "this is MQTT over WebSocket, version 13: connect with an MQTT client",
                )
            });
        }
        let key = request.key.as_deref().filter(|key| key.len() == 24 && key.is_ascii());
        let Some(key) = key else {
            return Err(refuse("400 Bad Request", "there is no Sec-WebSocket-Key of 16 bytes"));
        };
        if !request.subprotocols.iter().any(|one| one == SUBPROTOCOL) {
            return Err(refuse("400 Bad Request", "write the subprotocol: Sec-WebSocket-Protocol: mqtt"));
        }
        if needs_origin && !self.is_permitted(request, is_secure) {
            let origin = request.origin.as_deref().unwrap_or_default();
            let why = format!("pages of {origin} may not connect: list it in `origins` of [mqtt.websocket]");
            return Err(refuse("403 Forbidden", why));
        }
        let accept = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{SUFFIX}").as_bytes());
        Ok(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\
             Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n",
            Base64::encode_string(accept.as_ref())
        ))
    }

    /// Whether the page that connects, if it is one, may. A browser takes a page of any server to this broker, with the rights that its user
    /// has here without a password.
    fn is_permitted(&self, request: &Request, is_secure: bool) -> bool {
        let Some(origin) = &request.origin else { return true };
        if self.origins.iter().any(|permitted| permitted == "*" || permitted.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let same = origin.split_once("://").is_some_and(|(_, host)| host.eq_ignore_ascii_case(&request.host));
        // A stranger's name may be made to lead here. It has no certificate, though.
        same && (is_secure || is_local_name(&request.host))
    }
}

/// Whether a host is an address or `localhost`, which no stranger can make lead elsewhere.
fn is_local_name(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let name = without_port.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "GET /mqtt?a=b HTTP/1.1\r\nHost: server.example\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Protocol: other, mqtt\r\n\r\n";

    fn says(text: &str, origins: &[&str], is_secure: bool) -> String {
        let here = WebSocket {
            path: "/mqtt".to_owned(),
            origins: origins.iter().map(|one| (*one).to_owned()).collect(),
        };
        let request = Request::read(text.as_bytes());
        let answer = request.and_then(|request| here.answer(&request, is_secure, true));
        answer.unwrap_or_else(|refusal| refusal.to_string())
    }

    #[test]
    fn the_example_of_the_standard_is_accepted() {
        let answer = says(GOOD, &[], false);
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    }

    #[test]
    fn what_is_no_such_request_is_answered_as_http() {
        for (from, to, status) in [
            ("/mqtt", "/", "404"),
            ("GET", "POST", "405"),
            ("Upgrade: WebSocket", "Upgrade: h2c", "426"),
            ("Version: 13", "Version: 8", "426"),
            ("dGhlIHNhbXBsZSBub25jZQ==", "short", "400"),
            ("other, mqtt", "mqttv3.1", "400"),
            ("HTTP/1.1", "HTTP/1.0", "400"),
            ("GET /mqtt", "\u{16}\u{3}\u{1}", "400"),
        ] {
            let answer = says(&GOOD.replacen(from, to, 1), &[], false);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{to}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{answer}");
        }
    }

    #[test]
    fn pages_of_strangers_do_not_connect() {
        let with = |origin: &str, host: &str| {
            GOOD.replace("Host: server.example", &format!("Host: {host}\r\nOrigin: {origin}"))
        };
        let is_accepted = |text: &str, origins: &[&str], is_secure| {
            says(text, origins, is_secure).starts_with("HTTP/1.1 101 ")
        };
        let stranger = with("https://evil.example", "127.0.0.1:8083");
        assert!(!is_accepted(&stranger, &[], false) && says(&stranger, &[], false).contains("`origins`"));
        assert!(is_accepted(&stranger, &["https://evil.example"], false));
        assert!(is_accepted(&stranger, &["*"], false));
        for own in ["127.0.0.1:8083", "localhost:8083", "[::1]:8083", "[::1]"] {
            assert!(is_accepted(&with(&format!("http://{own}"), own), &[], false), "{own}");
        }
        let named = with("http://boat.example:8083", "boat.example:8083");
        assert!(!is_accepted(&named, &[], false), "the name may lead anywhere");
        assert!(is_accepted(&named, &[], true));
        assert!(!is_accepted(&with("null", "127.0.0.1"), &[], true));
    }

    proptest! {
        #[test]
        fn any_request_is_answered(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            drop(Request::read(&bytes));
        }
    }
}
