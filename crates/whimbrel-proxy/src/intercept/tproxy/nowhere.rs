//! The error that stands in for interception on other systems.

use super::error::TproxyError;
use super::settings::TproxySettings;
use crate::intercept::Ingress;

/// Interception, which there is on Linux only.
#[derive(Debug)]
pub enum Interception {}

/// See [`cleanup`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// See [`cleanup`].
    pub removed: usize,
    /// See [`cleanup`].
    pub running: usize,
    /// See [`cleanup`].
    pub kill_switches_removed: usize,
    /// See [`cleanup`].
    pub kill_switches_left: usize,
}

impl Interception {
    /// Begins nothing.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &TproxySettings) -> Result<Self, TproxyError> {
        Err(TproxyError::NotLinux)
    }

    /// Serves nothing.
    pub fn serve(&mut self, _: Ingress, _: impl Fn(&'static str)) -> std::future::Ready<()> {
        match *self {}
    }
}

/// Takes away what killed instances left: there are none.
///
/// # Errors
/// Always.
pub fn cleanup(_: bool) -> Result<Leftovers, TproxyError> {
    Err(TproxyError::NotLinux)
}
