//! Datagrams that the kernel hands over.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use tokio::net::UdpSocket;
use tokio::time::interval;

use super::replies::ReplySockets;
use super::sockets;
use super::tun::Tun;
use crate::intercept::ingress::Ingress;
use crate::intercept::kernel::datagram_refusal;
use crate::intercept::udp_programs::{Outlet, UdpPrograms};

const LARGEST: usize = 65_535;
/// How often idle programs are forgotten.
const LOOK: Duration = Duration::from_secs(5);
/// The pause after an error that will not pass at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The state that the programs of both families share.
#[derive(Debug)]
pub(super) struct Datagrams {
    ingress: Ingress,
    tun: Arc<Tun>,
    replies: Arc<ReplySockets>,
    /// Networks that programs reach without the proxy.
    except: Vec<IpNet>,
}

impl Datagrams {
    /// Datagrams that go where the rules say. Replies go out by `replies`. Programs reach the networks in `except` without the
    /// proxy.
    pub(super) fn new(
        ingress: Ingress,
        tun: Arc<Tun>,
        replies: Arc<ReplySockets>,
        except: Vec<IpNet>,
    ) -> Arc<Self> {
        Arc::new(Self { ingress, tun, replies, except })
    }

    /// Takes the datagrams of one family, for ever.
    pub(super) async fn take(self: Arc<Self>, socket: UdpSocket) {
        let mut programs = UdpPrograms::new(self.ingress.clone(), Arc::clone(&self), self.except.clone());
        let (mut buffer, mut look) = (vec![0; LARGEST], interval(LOOK));
        loop {
            let received = tokio::select! {
                received = receive(&socket, &mut buffer) => received,
                _ = look.tick() => {
                    self.replies.close_idle();
                    programs.expire();
                    continue;
                }
            };
            match received {
                Ok((length, from, target, dscp)) if Some(target) != socket.local_addr().ok() => {
                    programs.take(from, (target, Bytes::copy_from_slice(&buffer[..length]), dscp));
                }
                // Somebody sent to the port itself, or the kernel did not say where it was sent to.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

impl Outlet for Arc<Datagrams> {
    fn reply(&self, payload: &[u8], source: SocketAddr, program: SocketAddr) {
        self.replies.send(payload, source, program);
    }

    fn refuse(&self, program: SocketAddr, target: SocketAddr) {
        if let Some(error) = datagram_refusal(program, target) {
            self.tun.write(&error);
        }
    }
}

async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<sockets::Received> {
    socket.async_io(tokio::io::Interest::READABLE, || sockets::receive(socket, buffer)).await
}
