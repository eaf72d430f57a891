//! A relay between a client and a server that records the packets in a capture file.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A relay for one client, over IPv4.
pub(crate) struct Relay {
    address: SocketAddr,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts to forward packets between its own address and `server`.
    pub(crate) async fn start(server: SocketAddr, capture: &Path) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        far.connect(server).await.unwrap();
        let address = near.local_addr().unwrap();
        let mut capture = Capture::new(capture);
        let stop = Arc::new(Notify::new());
        let stopping = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
            let mut client = None;
            loop {
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut up) => {
                        client = Some(from);
                        capture.packet(from, address, &up[..length]);
                        far.send(&up[..length]).await.ok();
                    }
                    Ok(length) = far.recv(&mut down) => {
                        let Some(client) = client else { continue };
                        capture.packet(address, client, &down[..length]);
                        near.send_to(&down[..length], client).await.ok();
                    }
                    () = stopping.notified() => break,
                }
            }
        });
        Self { address, stop, task }
    }

    /// Returns the address that the client connects to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the relay. The capture is then complete.
    pub(crate) async fn finish(self) {
        self.stop.notify_one();
        self.task.await.unwrap();
    }
}

/// A pcap file of raw IP packets.
struct Capture(File);

const RAW_IP: u32 = 101;

impl Capture {
    fn new(path: &Path) -> Self {
        let mut file = File::create(path).unwrap();
        for field in [0xa1b2_c3d4, 0x0002_0004u32.rotate_left(16), 0, 0, 65_535, RAW_IP] {
            file.write_all(&u32::to_le_bytes(field)).unwrap();
        }
        Self(file)
    }

    fn packet(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("IPv4 only") };
        let length = payload.len() as u32 + 28;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut record = Vec::new();
        for field in [now.as_secs() as u32, now.subsec_micros(), length, length] {
            record.extend_from_slice(&field.to_le_bytes());
        }
        record.extend_from_slice(&[0x45, 0]);
        record.extend_from_slice(&(length as u16).to_be_bytes());
        record.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0]);
        let ports = |address: &SocketAddrV4| address.port().to_be_bytes();
        record.extend_from_slice(&from.ip().octets());
        record.extend_from_slice(&to.ip().octets());
        record.extend_from_slice(&ports(&from));
        record.extend_from_slice(&ports(&to));
        record.extend_from_slice(&(length as u16 - 20).to_be_bytes());
        record.extend_from_slice(&[0, 0]);
        record.extend_from_slice(payload);
        self.0.write_all(&record).unwrap();
    }
}
