//! The objects of an instance in the kernel beside its sockets: the table, rules and routes, and the kill switch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::error::TproxyError;
use super::routes;
use super::ruleset::Ruleset;
use super::table::Table;
use crate::intercept::kernel::{Instance, KernelError, Names, Tool, remove_routes};

/// The pause before a table is made again that somebody took away.
const PAUSE: Duration = Duration::from_secs(1);

/// The objects of an instance in the kernel. Dropping this takes them away, if they are this process's.
#[derive(Debug)]
pub(super) struct TproxyKernel(Mutex<TproxyObjects>);

#[derive(Debug)]
struct TproxyObjects {
    instance: Instance,
    table: Option<Table>,
    /// The settings that the table is made from. None: another process has made it, perhaps of another version.
    ruleset: Option<Ruleset>,
    has_kill_switch: bool,
    is_ours: bool,
}

impl TproxyKernel {
    /// Makes it all. The TUN is there already. What was made is taken back if something fails.
    pub(super) fn create(instance: Instance, ruleset: Ruleset) -> Result<Self, TproxyError> {
        let (names, has_ipv6) = (instance.names, ruleset.has_ipv6);
        let state =
            TproxyObjects { instance, table: None, ruleset: None, has_kill_switch: false, is_ours: true };
        let this = Self(Mutex::new(state));
        routes::create(names, has_ipv6)?;
        let mut state = this.lock();
        state.set_kill_switch(&ruleset)?;
        state.table = Some(Table::create(&ruleset)?);
        state.ruleset = Some(ruleset);
        drop(state);
        Ok(this)
    }

    /// Takes over the objects that another process has made. They stay until [`TproxyKernel::own`].
    pub(super) fn of(instance: Instance, table: Option<Table>, has_kill_switch: bool) -> Self {
        Self(Mutex::new(TproxyObjects { instance, table, ruleset: None, has_kill_switch, is_ours: false }))
    }

    /// Sets whether it all goes with this process.
    pub(super) fn own(&self, is_ours: bool) {
        let mut state = self.lock();
        state.is_ours = is_ours;
        state.table.iter_mut().for_each(|table| table.own(is_ours));
    }

    /// Takes it all away, if it is this process's.
    pub(super) fn end(&self) {
        self.lock().end();
    }

    /// The names of the instance.
    pub(super) fn names(&self) -> Names {
        self.lock().instance.names
    }

    /// Returns whether there is a kill switch.
    pub(super) fn has_kill_switch(&self) -> bool {
        self.lock().has_kill_switch
    }

    /// Hands out the instance and the table.
    pub(super) fn with<T>(&self, take: impl FnOnce(&Instance, Option<&Table>) -> T) -> T {
        let state = self.lock();
        take(&state.instance, state.table.as_ref())
    }

    /// Puts rules in place of those that are there, all at once, as they are wanted at that moment. Blocks.
    pub(super) fn change(&self, wanted: impl FnOnce(Names) -> Ruleset) -> Result<(), TproxyError> {
        let mut state = self.lock();
        // Whoever asks last has the last word, whatever order they come in.
        let ruleset = wanted(state.instance.names);
        if !state.is_ours || state.ruleset.as_ref() == Some(&ruleset) {
            return Ok(());
        }
        // The switch first: whatever is intercepted from now on is never in the clear.
        state.set_kill_switch(&ruleset)?;
        // A table that is made again has them, too.
        state.ruleset = Some(ruleset.clone());
        match &mut state.table {
            Some(table) => table.change(&ruleset),
            None => Ok(()),
        }
    }

    /// Makes the table again whenever it is lost, which nobody does by accident.
    pub(super) async fn guard(self: Arc<Self>, tell: impl Fn(&'static str)) {
        loop {
            let gone = self.lock().table.as_ref().map(Table::gone);
            match gone {
                Some(Ok(gone)) => gone.wait().await,
                Some(Err(_)) => return,
                None => {}
            }
            tell("the process `nft` was ended, so nothing is intercepted; trying again");
            loop {
                tokio::time::sleep(PAUSE).await;
                let this = Arc::clone(&self);
                if let Ok(Ok(())) = spawn_blocking(move || this.lock().create_again()).await {
                    break;
                }
            }
            tell("traffic is intercepted again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, TproxyObjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TproxyObjects {
    fn create_again(&mut self) -> Result<(), TproxyError> {
        let Some(ruleset) = self.ruleset.as_ref().filter(|_| self.is_ours) else {
            return Err(KernelError::NoRights.into());
        };
        drop(self.table.take());
        self.table = Some(Table::create(ruleset)?);
        Ok(())
    }

    fn set_kill_switch(&mut self, ruleset: &Ruleset) -> Result<(), TproxyError> {
        if ruleset.settings.kill_switch {
            // It takes the place of one that is there.
            Tool::Nft.run("-f -", &ruleset.kill_switch())?;
            self.has_kill_switch = true;
        } else if self.has_kill_switch {
            self.remove_kill_switch()?;
        }
        Ok(())
    }

    fn remove_kill_switch(&mut self) -> Result<(), TproxyError> {
        let name = self.instance.names.kill_switch();
        Tool::Nft.run(&format!("delete table inet {name}"), "")?;
        self.has_kill_switch = false;
        Ok(())
    }

    fn end(&mut self) {
        if !std::mem::take(&mut self.is_ours) {
            return;
        }
        // In this order: nothing is handed over to what is gone.
        drop(self.table.take());
        remove_routes(self.instance.names.tables());
        if self.has_kill_switch {
            // If it fails, `cleanup --all` takes it away.
            drop(self.remove_kill_switch());
        }
    }
}

impl Drop for TproxyObjects {
    fn drop(&mut self) {
        self.end();
    }
}
