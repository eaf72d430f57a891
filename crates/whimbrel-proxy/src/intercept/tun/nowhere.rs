//! On other systems, a TUN interface is an error.

use super::error::TunError;
use super::settings::TunSettings;
use crate::intercept::Ingress;

/// Interception, which there is on Linux only.
#[derive(Debug)]
pub enum TunInterception {}

impl TunInterception {
    /// Begins nothing.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &TunSettings, _: Ingress) -> Result<Self, TunError> {
        Err(TunError::NotLinux)
    }

    /// Serves nothing.
    pub fn serve(&mut self, _: impl Fn(&'static str)) -> std::future::Ready<()> {
        match *self {}
    }
}
