//! Clients of MQTT that connect over TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

const HOST: &str = "localhost";
const USER: &str = "churner";
const PASSWORD: &str = "in and out";
/// The source addresses, so that ports in TIME-WAIT do not run out.
const ADDRESSES: usize = 200;
/// How long a connect may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker's certificate and key, in files that are removed when this is dropped.
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn new() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("whimbrel-lab-churn-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
        std::fs::write(folder.join("server.pem"), made.cert.pem())?;
        std::fs::write(folder.join("server.key"), made.signing_key.serialize_pem())?;
        Ok(Self { folder })
    }

    fn certificate(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// The broker's settings.
    pub(super) async fn settings(&self) -> anyhow::Result<String> {
        Ok(format!(
            "[mqtt]\nmax_connections = 20000\n[mqtt.tls]\naddress = '127.0.0.1:0'\ncertificate = '{}'\nkey = '{}'\n\
             [[mqtt.user]]\nname = '{USER}'\npassword = '{}'\npublish = '#'\nsubscribe = '#'\n",
            self.certificate().display(),
            self.folder.join("server.key").display(),
            hashed(PASSWORD).await?,
        ))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Hashes a password as `whimbrel broker password` does.
async fn hashed(password: &str) -> anyhow::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["broker", "password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("no standard input")?.write_all(password.as_bytes()).await?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "a password cannot be hashed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Clients that share the tickets of one program.
pub(super) struct Clients {
    connector: TlsConnector,
    address: SocketAddr,
}

impl Clients {
    pub(super) fn new(files: &Files, address: &str) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_file(files.certificate())?)?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), address: address.parse()? })
    }

    /// Connects, and disconnects.
    pub(super) async fn connect(&self, number: usize) -> anyhow::Result<Option<bool>> {
        timeout(PATIENCE, self.try_connect(number)).await.context("a broker does not answer")?
    }

    async fn try_connect(&self, number: usize) -> anyhow::Result<Option<bool>> {
        let socket = TcpSocket::new_v4()?;
        let source = Ipv4Addr::new(127, 0, 1, 1 + (number % ADDRESSES) as u8);
        socket.bind(SocketAddr::new(source.into(), 0))?;
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut stream = self.connector.connect(ServerName::try_from(HOST)?, stream).await?;
        stream.write_all(&hello(&format!("c{number}"))).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        ensure!(answer[0] == 0x20 && answer[3] == 0, "the broker answers CONNECT with {answer:?}");
        let is_resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
        stream.write_all(&[0xe0, 0]).await?;
        stream.shutdown().await?;
        Ok(Some(is_resumed))
    }
}

/// CONNECT of MQTT 3.1.1 with a user and a password.
fn hello(name: &str) -> Vec<u8> {
    let length = 10 + [name, USER, PASSWORD].iter().map(|text| 2 + text.len()).sum::<usize>();
    let mut out = vec![0x10, length as u8, 0, 4, b'M', b'Q', b'T', b'T', 4, 0xc2, 0, 0];
    for text in [name, USER, PASSWORD] {
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}
