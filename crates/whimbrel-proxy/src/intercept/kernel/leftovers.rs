//! The rules, routes and kill switches that killed instances leave behind.

use std::collections::BTreeSet;

use super::error::KernelError;
use super::instance::Instance;
use super::names::{MOST_INSTANCES, Names};
use super::program::Tool;
use super::rights::check_rights;
use super::routes;

/// The leftovers that [`cleanup`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The killed instances whose rules and routes it took away.
    pub removed: usize,
    /// The instances that run. Nothing of theirs was touched.
    pub running: usize,
    /// The kill switches of killed instances that it took away.
    pub kill_switches_removed: usize,
    /// The kill switches of killed instances that stay.
    pub kill_switches_left: usize,
}

/// Takes away what killed instances left, and with `all` their kill switches, too. What others made stays as it is.
///
/// # Errors
/// The process has no right to, or `ip` is missing.
pub fn cleanup(all: bool) -> Result<Leftovers, KernelError> {
    check_rights()?;
    let tables = routes::tables()?;
    let mut found = Leftovers::default();
    for number in 0..MOST_INSTANCES {
        // Marks play no part here.
        match Instance::claim_number(number, 0)? {
            None => found.running += 1,
            Some(instance) => remove_of(instance.names, &tables, all, &mut found)?,
        }
    }
    Ok(found)
}

fn remove_of(
    names: Names,
    tables: &BTreeSet<u32>,
    all: bool,
    found: &mut Leftovers,
) -> Result<(), KernelError> {
    let has_any = |of: [u32; 2]| of.iter().any(|table| tables.contains(table));
    if has_any(names.tables()) {
        routes::remove(names.tables());
        found.removed += 1;
    }
    let kill_switch = names.kill_switch();
    // Without `nft` there is none of that kind.
    let by_nft = Tool::Nft.run(&format!("list table inet {kill_switch}"), "").is_ok();
    let by_routes = has_any(names.kill_tables());
    let switches = usize::from(by_nft) + usize::from(by_routes);
    if !all {
        found.kill_switches_left += switches;
        return Ok(());
    }
    if by_routes {
        routes::remove(names.kill_tables());
    }
    if by_nft {
        Tool::Nft.run(&format!("delete table inet {kill_switch}"), "")?;
    }
    found.kill_switches_removed += switches;
    Ok(())
}

/// Takes away the rules and routes of all instances that were killed.
pub(in crate::intercept) fn remove_dead() -> Result<(), KernelError> {
    let tables = routes::tables()?;
    for number in 0..MOST_INSTANCES {
        let names = Names::new(number, 0);
        if !names.tables().iter().any(|table| tables.contains(table)) {
            continue;
        }
        // It is held while its leftovers are taken away, so that nobody becomes it meanwhile.
        if let Some(_instance) = Instance::claim_number(number, 0)? {
            routes::remove(names.tables());
        }
    }
    Ok(())
}
