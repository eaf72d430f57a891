//! On other systems, a TUN interface is an error.

use std::net::SocketAddr;

use super::error::TunError;
use super::parts::TunParts;
use super::settings::TunSettings;
use crate::intercept::ingress::Ingress;

/// Interception, which there is on Linux only.
#[derive(Debug)]
pub enum TunInterception {}

/// A connection that came by it.
#[derive(Debug)]
pub(crate) enum Claim {}

impl TunInterception {
    /// Begins nothing.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &TunSettings) -> Result<Self, TunError> {
        Err(TunError::NotLinux)
    }

    /// Takes nothing over.
    pub(crate) fn of(_: TunParts) -> Result<Self, TunError> {
        Err(TunError::NotLinux)
    }

    pub(crate) fn parts(&self) -> std::io::Result<TunParts> {
        match *self {}
    }

    pub(crate) fn own(&self, _: bool) {
        match *self {}
    }

    pub(crate) fn hold(&self) {
        match *self {}
    }

    pub(crate) async fn rest(&mut self) {
        match *self {}
    }

    pub(crate) fn keeps_connections(&self) -> bool {
        match *self {}
    }

    pub(crate) fn claim(&self, _: SocketAddr) -> Option<Claim> {
        match *self {}
    }

    pub(crate) fn keeps(&self, _: &TunSettings) -> Result<(), TunError> {
        match *self {}
    }

    /// Serves nothing.
    ///
    /// # Errors
    /// Never.
    pub fn serve(
        &mut self,
        _: &TunSettings,
        _: Ingress,
        _: impl Fn(&'static str),
    ) -> Result<std::future::Ready<()>, TunError> {
        match *self {}
    }
}
