//! Reading the configuration again while the command runs.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel::{Endpoint, ListenConfig};

use super::file::{Settings, collect};
use super::sources::Sources;
use crate::process::Misused;
use crate::shown::plural;

/// The settings that can change while the endpoint runs.
const LIVE: [&str; 2] = ["listen.allow", "listen.deny"];

/// A running command's settings, and where to read them again.
pub(crate) struct Reload {
    sources: Sources,
    running: Settings,
    endpoint: Endpoint,
}

impl Reload {
    /// The command runs with the settings `running`, which were read from `sources`.
    pub(crate) fn new(sources: Sources, running: Settings, endpoint: &Endpoint) -> Self {
        Self { sources, running, endpoint: endpoint.clone() }
    }

    /// Reads the file again and applies what can change. Returns what has changed and what needs a restart.
    ///
    /// # Errors
    /// The command has no file, or the file has a mistake. Nothing has changed then.
    pub(crate) fn reload(&mut self) -> Result<String, String> {
        if self.sources.file().is_none() {
            return Err(
                "this command has no configuration to read again: start it with --config FILE".to_owned()
            );
        }
        let new = self.sources.read().map_err(|Misused(why)| why)?;
        let mut said: Vec<String> = self.admit(&new.listen.config).into_iter().collect();
        let restart = changed(&self.running, &new)?;
        if !restart.is_empty() {
            said.push(format!("a restart is needed for {}", restart.join(", ")));
        }
        Ok(if said.is_empty() { "nothing has changed".to_owned() } else { said.join("; ") })
    }

    /// Applies the lists of keys. Returns what has changed, if anything has.
    fn admit(&mut self, new: &ListenConfig) -> Option<String> {
        let running = &mut self.running.listen.config;
        if (&running.allow, &running.deny) == (&new.allow, &new.deny) {
            return None;
        }
        // The new list lets in what it names, so denied keys are revoked last.
        running.deny.difference(&new.deny).for_each(|key| self.endpoint.allow(*key));
        let not_listed = self.endpoint.set_allow(new.allow.clone());
        let denied: usize = new.deny.iter().map(|key| self.endpoint.revoke(key)).sum();
        (running.allow, running.deny) = (new.allow.clone(), new.deny.clone());
        let allowed = match &new.allow {
            Some(keys) => plural(keys.len() as u64, "key"),
            None => "any key".to_owned(),
        };
        let but = match new.deny.len() {
            0 => String::new(),
            1 => " and 1 is denied".to_owned(),
            denied => format!(" and {denied} are denied"),
        };
        let ended = plural((not_listed + denied) as u64, "session");
        Some(format!("{allowed} may connect now{but}; {ended} ended"))
    }
}

/// Returns the names of the settings that differ, without those that can change while the endpoint runs.
fn changed(running: &Settings, new: &Settings) -> Result<Vec<String>, String> {
    let leaves = |settings: &Settings| {
        let mut leaves = BTreeMap::new();
        let value = serde_json::to_value(settings).map_err(|error| error.to_string())?;
        collect("", value, &mut leaves);
        Ok::<_, String>(leaves)
    };
    let (running, new) = (leaves(running)?, leaves(new)?);
    let names: BTreeSet<&String> = running.keys().chain(new.keys()).collect();
    let differs = |name: &&&String| running.get(**name) != new.get(**name) && !LIVE.contains(&name.as_str());
    Ok(names.iter().filter(differs).map(|name| name.replace("transport.session.", "session.")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named_as_in_the_file() {
        let key = whimbrel::new_identity().public();
        let old = Settings::parse("[transport]\nmax_paths = 2\n[session]\ngap_wait = '1s'\n").unwrap();
        let text = format!(
            "[listen]\nallow = ['{key}']\nmax_per_key = 2\n[transport]\nmax_paths = 2\n[service]\ncontrol = 'x'\n"
        );
        let new = Settings::parse(&text).unwrap();
        assert_eq!(changed(&old, &old), Ok(Vec::new()));
        let wanted = ["listen.max_per_key", "service.control", "session.gap_wait"];
        assert_eq!(changed(&old, &new), Ok(wanted.map(str::to_owned).to_vec()));
    }
}
