//! MQTT over TLS and WebSocket, with the clients that people use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod mqtt;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{Home, whimbrel};
use mqtt::broker::{Broker, has, node_with_mqtt, python_with_paho};
use mqtt::certificates::Authority;
use mqtt::{packet, text};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

/// Files for TLS in the folder of a broker, and the lines that name them.
const TLS: &str = "[mqtt.tls]\naddress = '127.0.0.1:0'\ncertificate = 'server.pem'\nkey = 'server.key'\n";

/// Writes certificates of the authority `ca`, for the server and for a client.
fn certificates(home: &Home) -> Authority {
    let authority = Authority::new(&home.0, "ca");
    authority.sign("server", "server", &["localhost", "127.0.0.1"]);
    authority.sign("boat", "boat.example", &[]);
    authority
}

fn start(name: &str, config: &str, number: usize) -> Broker {
    let home = Home::new(name);
    certificates(&home);
    let control = format!("[service]\ncontrol = '{}'\n", home.file("broker.sock").display());
    std::fs::write(home.file("broker.toml"), format!("{config}{control}")).unwrap();
    Broker::run(home, &[], number)
}

/// How clients of a test do TLS.
fn tls(folder: &Path, certificate: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap().with_root_certificates(roots);
    Arc::new(match certificate {
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    })
}

/// A connection by TLS, on which a CONNECT of MQTT 5 was sent.
struct Secure(StreamOwned<ClientConnection, TcpStream>);

impl Secure {
    fn connect(port: u16, config: &Arc<ClientConfig>) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let connection = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
        let mut secure = Self(StreamOwned::new(connection, stream));
        secure.send(&packet(0x10, &[text("MQTT"), vec![5, 2, 0, 60, 0], text("")].concat()));
        secure
    }

    fn send(&mut self, bytes: &[u8]) {
        // The broker may have closed already.
        drop(self.0.write_all(bytes));
    }

    /// The reason of the CONNACK; `None` if TLS fails.
    fn connack(&mut self) -> Option<u8> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).ok()?;
        assert_eq!(head[0], 0x20);
        let mut rest = vec![0; usize::from(head[1]) - 2];
        self.0.read_exact(&mut rest).ok()?;
        Some(head[3])
    }

    /// The reason of the DISCONNECT at the end.
    fn goodbye(&mut self) -> Option<u8> {
        let mut rest = Vec::new();
        drop(self.0.read_to_end(&mut rest));
        (rest.first() == Some(&0xe0)).then(|| rest[2])
    }

    fn answers(&mut self) -> bool {
        self.send(&[0xc0, 0]);
        let mut pong = [0; 2];
        self.0.read_exact(&mut pong).is_ok() && pong == [0xd0, 0]
    }
}

const PERMITTED: &str = "publish = ['boats/#']\nsubscribe = ['boats/#']\n";

fn config_of_boat() -> String {
    let tls = format!("{TLS}client_ca = 'ca.pem'\n");
    format!("{tls}[[mqtt.user]]\nname = 'boat'\ncertificate = 'boat.example'\n{PERMITTED}")
}

#[test]
fn a_client_is_known_by_its_certificate_and_resumes() {
    let broker = start("mqtt-tls", &config_of_boat(), 1);
    let port = broker.port_of("mqtts://");
    let boat = tls(&broker.home.0, Some("boat"));
    let mut first = Secure::connect(port, &boat);
    assert_eq!(first.connack(), Some(0));
    assert!(first.answers());
    assert_eq!(first.0.conn.handshake_kind(), Some(HandshakeKind::Full));
    let mut second = Secure::connect(port, &boat);
    assert_eq!(second.connack(), Some(0), "the certificate is that of the first session");
    assert_eq!(second.0.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    // Nobody, and somebody whom nobody knows.
    assert_eq!(Secure::connect(port, &tls(&broker.home.0, None)).connack(), Some(0x87));
    let strangers = Home::new("mqtt-tls-strangers");
    std::fs::copy(broker.home.file("ca.pem"), strangers.file("ca.pem")).unwrap();
    Authority::new(&strangers.0, "other").sign("boat", "boat.example", &[]);
    assert_eq!(Secure::connect(port, &tls(&strangers.0, Some("boat"))).connack(), None);
    // What is no TLS at all is closed, and harms nobody.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.write_all(&packet(0x10, &[text("MQTT"), vec![5, 2, 0, 60, 0], text("")].concat())).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    plain.read_to_end(&mut Vec::new()).ok();
    assert!(first.answers() && second.answers());
}

#[test]
fn certificates_are_replaced_while_clients_stay() {
    let broker = start("mqtt-tls-reload", &config_of_boat(), 1);
    let port = broker.port_of("mqtts://");
    let boat = tls(&broker.home.0, Some("boat"));
    let mut before = Secure::connect(port, &boat);
    assert_eq!(before.connack(), Some(0));
    let certificate = |secure: &Secure| secure.0.conn.peer_certificates().unwrap()[0].clone().into_owned();
    // A file with a mistake changes nothing.
    std::fs::write(broker.home.file("server.pem"), "no certificate").unwrap();
    let said = broker.reload();
    assert!(said.contains("there is no certificate in "), "{said}");
    let mut again = Secure::connect(port, &boat);
    assert_eq!((again.connack(), certificate(&again)), (Some(0), certificate(&before)));
    let authority = Authority::new(&broker.home.0, "new");
    authority.sign("server", "server", &["localhost"]);
    let said = broker.reload();
    assert!(said.contains("listed now"), "{said}");
    assert_eq!(Secure::connect(port, &boat).connack(), None, "the authority of the server is not known");
    let known = Home::new("mqtt-tls-known");
    for (from, to) in [("new.pem", "ca.pem"), ("boat.pem", "boat.pem"), ("boat.key", "boat.key")] {
        std::fs::copy(broker.home.file(from), known.file(to)).unwrap();
    }
    assert_eq!(Secure::connect(port, &tls(&known.0, Some("boat"))).connack(), Some(0));
    assert!(before.answers(), "connected clients do not notice");
    // Another authority for clients: those of the former one are sent away.
    std::fs::copy(broker.home.file("new.pem"), broker.home.file("ca.pem")).unwrap();
    broker.reload();
    assert_eq!(before.goodbye(), Some(0x87));
    assert_eq!(Secure::connect(port, &tls(&known.0, Some("boat"))).connack(), None);
}

#[test]
fn files_that_do_not_fit_are_told_with_their_place() {
    let home = Home::new("mqtt-tls-mistakes");
    certificates(&home);
    std::fs::write(home.file("empty.pem"), "").unwrap();
    let says = |key: &str| {
        let config = config_of_boat().replace("'server.key'", &format!("'{key}'"));
        std::fs::write(home.file("broker.toml"), config).unwrap();
        for verb in [&["check"][..], &["run", "--listen", "127.0.0.1:0", "--config"]] {
            let output =
                whimbrel(&home).arg("broker").args(verb).arg(home.file("broker.toml")).output().unwrap();
            assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("broker.toml:4:7: "), "{said}");
        }
        let output =
            whimbrel(&home).args(["broker", "check"]).arg(home.file("broker.toml")).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let other = says("boat.key");
    assert!(other.contains("boat.key is not the key of the certificate"), "{other}");
    let missing = says("missing.key");
    assert!(missing.contains("cannot read") && missing.contains("missing.key"), "{missing}");
    let empty = says("empty.pem");
    assert!(empty.contains("there is no private key in"), "{empty}");
}

#[test]
fn mosquitto_clients_use_tls() {
    if !has("mosquitto_sub") {
        return;
    }
    let broker = start("mqtt-tls-mosquitto", &config_of_boat(), 1);
    let (port, file) = (broker.port_of("mqtts://").to_string(), |name| broker.home.file(name));
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-h", "localhost", "-p", &port, "-V", "mqttv5", "-q", "1", "-t", "boats/1"]);
        command.arg("--cafile").arg(file("ca.pem")).arg("--cert").arg(file("boat.pem"));
        command.arg("--key").arg(file("boat.key"));
        command
    };
    let publish = |message: &str| {
        let sent = command("mosquitto_pub").args(["-m", message, "-r"]).output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    };
    publish("kept");
    let mut subscriber = command("mosquitto_sub");
    subscriber.args(["-C", "2", "-W", "60"]).stdout(Stdio::piped());
    let mut subscriber = subscriber.spawn().unwrap();
    let mut lines = BufReader::new(subscriber.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "kept");
    // Longer than TLS and sockets hold at once.
    let long = "x".repeat(120_000);
    publish(&long);
    assert_eq!(lines.next().unwrap().unwrap(), long);
    assert!(subscriber.wait().unwrap().success());
}

const BOTH: &str = "[mqtt.websocket]\naddress = '127.0.0.1:0'\ntls_address = '127.0.0.1:0'\n\
                    [other_clients]\npublish = ['#']\nsubscribe = ['#']\n";

fn config_of_websocket() -> String {
    format!("[mqtt]\nanonymous = true\n{}{BOTH}", TLS.replace("address = '127.0.0.1:0'\n", ""))
}

/// Subscribes, publishes a short and a long message, and prints what comes.
const PAHO: &str = r#"
import sys
import paho.mqtt.client as mqtt
port, secure, folder = int(sys.argv[1]), sys.argv[2] == "wss", sys.argv[3]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5, transport="websockets")
if secure:
    client.tls_set(folder + "/ca.pem")
def on_connect(client, userdata, flags, reason, properties):
    client.subscribe("t", qos=1)
def on_subscribe(client, userdata, id, reasons, properties):
    client.publish("t", "short", qos=1)
    client.publish("t", "x" * 200000, qos=1)
def on_message(client, userdata, message):
    print(len(message.payload), flush=True)
    if len(message.payload) > 5:
        client.disconnect()
client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
client.connect("localhost", port)
client.loop_forever()
"#;

const MQTT_JS: &str = r#"
const [, url, folder] = process.argv;
const options = { protocolVersion: 5, ca: require('fs').readFileSync(folder + '/ca.pem') };
const client = require('mqtt').connect(url, options);
client.on('error', (error) => { console.log(error.message); process.exit(1); });
client.on('message', (topic, payload) => {
  console.log(payload.length);
  if (payload.length > 5) client.end(() => process.exit(0));
});
client.subscribe('t', { qos: 1 }, () => {
  client.publish('t', 'short', { qos: 1 });
  client.publish('t', 'x'.repeat(200000), { qos: 1 });
});
"#;

#[test]
fn clients_in_python_use_websocket() {
    let Some(python) = python_with_paho() else { return };
    let broker = start("mqtt-ws-paho", &config_of_websocket(), 2);
    for scheme in ["ws", "wss"] {
        let port = broker.port_of(&format!("{scheme}://")).to_string();
        let mut command = Command::new(&python);
        let output = command.args(["-c", PAHO, &port, scheme]).arg(&broker.home.0).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5\n200000\n", "{scheme}: {said}");
    }
}

#[test]
fn clients_in_node_use_websocket_and_tls() {
    let Some(modules) = node_with_mqtt() else { return };
    let config = format!("[mqtt]\nanonymous = true\n{TLS}{BOTH}");
    let broker = start("mqtt-ws-node", &config, 3);
    for scheme in ["mqtts", "ws", "wss"] {
        let path = if scheme == "mqtts" { "" } else { "/mqtt" };
        let port = broker.port_of(&format!("{scheme}://"));
        let mut command = Command::new("node");
        command.args(["-e", MQTT_JS, &format!("{scheme}://localhost:{port}{path}")]).current_dir(&modules);
        let output = command.arg(&broker.home.0).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5\n200000\n", "{scheme}: {said}");
    }
}

/// Begins a WebSocket as a page of `origin`, if it is one. Returns the connection, and the head of the answer.
fn upgrade(port: u16, path: &str, subprotocol: &str, origin: Option<&str>) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{origin}\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    (stream, String::from_utf8(head).unwrap())
}

/// A frame of a client, with a mask of zeros.
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | content.len() as u8, 0, 0, 0, 0], content].concat()
}

#[test]
fn packets_span_frames_and_what_is_no_mqtt_is_answered_as_http() {
    let home = Home::new("mqtt-ws-raw");
    let broker = Broker::run(home, &["--mqtt-websocket", "127.0.0.1:0"], 1);
    let port = broker.port_of("ws://");
    let status = |path: &str, subprotocol: &str, origin: Option<&str>| {
        upgrade(port, path, subprotocol, origin).1[9..12].parse::<u16>().unwrap()
    };
    assert_eq!(status("/other", "mqtt", None), 404);
    assert_eq!(status("/mqtt", "chat", None), 400);
    assert_eq!(status("/mqtt", "mqtt", Some("https://evil.example")), 403);
    let (mut stream, head) = upgrade(port, "/mqtt", "mqtt", Some(&format!("http://127.0.0.1:{port}")));
    assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    let connect = packet(0x10, &[text("MQTT"), vec![4, 2, 0, 60], text("raw")].concat());
    let both = [connect, vec![0xc0, 0]].concat();
    // Two packets in three frames of one message, with a ping in between.
    let bytes =
        [frame(0x02, &both[..5]), frame(0x89, b"?"), frame(0x00, &both[5..9]), frame(0x80, &both[9..])];
    stream.write_all(&bytes.concat()).unwrap();
    let (mut data, mut has_pong) = (Vec::new(), false);
    while data.len() < 6 {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let mut content = vec![0; head[1].into()];
        stream.read_exact(&mut content).unwrap();
        match head[0] {
            0x82 => data.extend(content),
            first => has_pong |= (first, content.as_slice()) == (0x8a, b"?"),
        }
    }
    assert_eq!((data.as_slice(), has_pong), (&[0x20, 2, 0, 0, 0xd0, 0][..], true));
    stream.write_all(&frame(0x81, b"text")).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [0x88, 2, 0x03, 0xeb], "1003: MQTT is binary");
}
