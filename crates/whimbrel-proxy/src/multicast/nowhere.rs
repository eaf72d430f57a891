//! On other systems, multicast is an error.

use std::future::Ready;
use std::net::SocketAddr;
use std::sync::Arc;

use whimbrel_pubsub::client::Client;

use super::settings::{MulticastError, MulticastSettings};
use crate::protocol::{Announcement, ProxyInstance};
use crate::sockets::Mark;

/// Multicast, which there is on Linux only.
#[derive(Debug)]
pub(crate) enum Multicast {}

impl Multicast {
    pub(crate) fn new(_: &MulticastSettings, _: Mark) -> Result<Arc<Self>, MulticastError> {
        Err(MulticastError::NotLinux)
    }

    pub(crate) fn carry(
        self: &Arc<Self>,
        _: impl Fn(&[String], &Announcement, &[u8]),
    ) -> Result<Ready<()>, MulticastError> {
        match **self {}
    }

    pub(crate) fn disseminate(self: &Arc<Self>, _: Client, _: impl Fn(String)) -> Option<Ready<()>> {
        match **self {}
    }

    pub(crate) fn is(&self, _: ProxyInstance) -> bool {
        match *self {}
    }

    pub(crate) fn send_on(&self, _: ProxyInstance, _: SocketAddr, _: SocketAddr, _: &[u8]) {
        match *self {}
    }
}
