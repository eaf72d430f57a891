//! The error that stands in for interception on other systems.

use super::error::TproxyError;
use super::parts::InterceptionParts;
use super::settings::TproxySettings;
use crate::intercept::ingress::Ingress;
use crate::policy::Rule;

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
    pub fn start(_: &TproxySettings, _: &[Rule]) -> Result<Self, TproxyError> {
        Err(TproxyError::NotLinux)
    }

    /// Takes nothing over.
    pub(crate) fn of(_: InterceptionParts) -> Result<Self, TproxyError> {
        Err(TproxyError::NotLinux)
    }

    pub(crate) fn parts(&self) -> std::io::Result<InterceptionParts> {
        match *self {}
    }

    pub(crate) fn own(&self, _: bool) {
        match *self {}
    }

    pub(crate) fn keeps(&self, _: &TproxySettings) -> Result<(), TproxyError> {
        match *self {}
    }

    pub(crate) fn follow(&self, _: &TproxySettings, _: &Ingress, _: impl Fn(&'static str)) {
        match *self {}
    }

    /// Serves nothing.
    ///
    /// # Errors
    /// Never.
    pub fn serve(
        &self,
        _: &TproxySettings,
        _: Ingress,
        _: impl Fn(&'static str),
    ) -> Result<std::future::Ready<()>, TproxyError> {
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
