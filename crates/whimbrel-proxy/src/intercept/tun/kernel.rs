//! The kernel state of an instance beside its interface: rules and routes into it, and the kill switch.
//! Unlike the interface, they stay when the process is killed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::addresses::Addresses;
use super::error::TunError;
use super::routes::{commands, kill_switch};
use super::settings::TunSettings;
use crate::intercept::kernel::{KernelError, Names, Routes, remove_routes};

/// The kernel state of an instance. Dropping it takes that state away, if it is this process's.
#[derive(Debug)]
pub(super) struct TunKernel(Mutex<TunObjects>);

#[derive(Debug)]
struct TunObjects {
    names: Names,
    settings: TunSettings,
    has_ipv6: bool,
    routes: Option<Routes>,
    kill_switch: Option<Routes>,
    is_ours: bool,
}

impl TunKernel {
    /// Makes it all. The interface is there already. What was made is taken back if something fails.
    pub(super) fn create(names: Names, settings: &TunSettings, has_ipv6: bool) -> Result<Self, TunError> {
        let settings = settings.clone();
        let mut state =
            TunObjects { names, settings, has_ipv6, routes: None, kill_switch: None, is_ours: true };
        state.routes = Some(Routes::create(names.tables(), state.commands()?)?);
        state.set_kill_switch()?;
        Ok(Self(Mutex::new(state)))
    }

    /// Returns the state that another process has made by these settings. It is that process's until [`TunKernel::own`].
    pub(super) fn of(names: Names, settings: TunSettings, has_ipv6: bool) -> Result<Self, TunError> {
        let mut state =
            TunObjects { names, settings, has_ipv6, routes: None, kill_switch: None, is_ours: false };
        state.routes = Some(Routes::of(names.tables(), state.commands()?));
        if state.settings.kill_switch {
            state.kill_switch = Some(Routes::of(names.kill_tables(), state.rejected()));
        }
        Ok(Self(Mutex::new(state)))
    }

    /// The settings by which it was made.
    pub(super) fn settings(&self) -> TunSettings {
        self.lock().settings.clone()
    }

    /// Sets whether it goes with this process.
    pub(super) fn own(&self, is_ours: bool) {
        self.lock().is_ours = is_ours;
    }

    /// Takes over other settings. Blocks.
    pub(super) fn change(&self, settings: &TunSettings) -> Result<(), TunError> {
        let mut state = self.lock();
        if !state.is_ours || state.settings == *settings {
            return Ok(());
        }
        let former = std::mem::replace(&mut state.settings, settings.clone());
        let changed = state.follow();
        if changed.is_err() {
            state.settings = former;
        }
        changed
    }

    /// Takes it all away, if it is this process's.
    pub(super) fn end(&self) {
        self.lock().end();
    }

    fn lock(&self) -> MutexGuard<'_, TunObjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TunObjects {
    fn addresses(&self) -> Addresses {
        Addresses::new(&self.settings, self.names.number())
    }

    fn commands(&self) -> Result<Vec<String>, TunError> {
        let commands = commands(self.names, &self.settings, &self.addresses(), self.has_ipv6);
        if commands.is_empty() { Err(TunError::NoFamily) } else { Ok(commands) }
    }

    fn rejected(&self) -> Vec<String> {
        kill_switch(self.names, &self.settings, &self.addresses(), self.has_ipv6)
    }

    fn follow(&mut self) -> Result<(), TunError> {
        let commands = self.commands()?;
        if let Some(routes) = &mut self.routes {
            routes.change(commands)?;
        }
        Ok(self.set_kill_switch()?)
    }

    fn set_kill_switch(&mut self) -> Result<(), KernelError> {
        match (&mut self.kill_switch, self.settings.kill_switch) {
            (None, false) => {}
            (Some(_), false) => self.kill_switch.take().into_iter().for_each(Routes::remove),
            (Some(_), true) => {
                let rejected = self.rejected();
                if let Some(switch) = &mut self.kill_switch {
                    switch.change(rejected)?;
                }
            }
            (None, true) => {
                // One that a killed process has left may reject something else. All goes into the interface by now.
                remove_routes(self.names.kill_tables());
                self.kill_switch = Some(Routes::create(self.names.kill_tables(), self.rejected())?);
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        if !std::mem::take(&mut self.is_ours) {
            return;
        }
        self.routes.take().into_iter().for_each(Routes::remove);
        self.kill_switch.take().into_iter().for_each(Routes::remove);
    }
}

impl Drop for TunObjects {
    fn drop(&mut self) {
        self.end();
    }
}
