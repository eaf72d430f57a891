//! A proxy whose settings change while it runs: its peers and its rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use whimbrel::{Paths, PublicKey};

use crate::news::News;
use crate::peer_settings::PeerSettings;
use crate::policy::Rules;
use crate::proxy::{Proxy, StartError};
use crate::relay::{NO_PEER, Peer, Peers};
use crate::settings::Settings;
use crate::sockets::may_speak;

impl Proxy {
    /// Applies what can change while the proxy runs: its peers, and its rules. Nothing that runs with a peer that stays is
    /// disturbed; the sessions of one that does not, and so its flows, end. Returns what has changed, and what needs a restart.
    pub fn reload(&mut self, new: &Settings) -> String {
        // Finished tasks are forgotten.
        while self.sessions.try_join_next().is_some() {}
        let mut said = Vec::new();
        let gone: BTreeSet<PublicKey> =
            self.settings.keys_of_all().difference(&new.keys_of_all()).copied().collect();
        // Whoever may open less may do so first of all.
        for (key, peer) in self.peers.now().all().filter(|(key, _)| !gone.contains(key)) {
            if let Some(wanted) = new.peer(key) {
                self.permit(peer, wanted, &mut said);
            }
        }
        self.add_peers(new, &gone, &mut said);
        self.reload_rules(new, &mut said);
        // No rule names them any more.
        self.remove_peers(&gone, &mut said);
        self.alter_peers(new, &mut said);
        let restart = self.settings.differences(new);
        if !restart.is_empty() {
            let sections: Vec<_> = restart.iter().map(|section| format!("[{section}]")).collect();
            said.push(format!("a restart is needed for {}", sections.join(", ")));
        }
        if said.is_empty() { "nothing has changed".to_owned() } else { said.join("; ") }
    }

    fn permit(&self, peer: &Peer, wanted: &PeerSettings, said: &mut Vec<String>) {
        let mut permits = wanted.permits();
        if let Some(error) = may_speak().err().filter(|_| permits.speaks()) {
            permits = permits.speaking_for([]);
            said.push(format!(
                "{} does not use `source`: {}",
                peer.context().peer,
                StartError::Source(error)
            ));
        }
        if *peer.context().permits() != permits {
            peer.context().set_permits(permits);
            said.push(format!("{} has new permits", peer.context().peer));
        }
    }

    /// Adds the peers that are new, beside those that are about to go.
    fn add_peers(&mut self, new: &Settings, gone: &BTreeSet<PublicKey>, said: &mut Vec<String>) {
        let now = self.peers.now();
        let mut added = Vec::new();
        for wanted in &new.peers {
            let Ok((key, peer)) = self.common.peer(wanted) else { continue };
            if now.of_key(&key).is_some() {
                continue;
            }
            let name = Arc::clone(&peer.context().peer);
            let has_its_name =
                now.all().any(|(known, peer)| !gone.contains(known) && peer.context().peer == name);
            if has_its_name {
                said.push(format!(
                    "a restart is needed for the peer {key}: another one is still called {name}"
                ));
                continue;
            }
            said.push(format!("{name} is a peer now"));
            self.permit(&peer, wanted, said);
            self.settings.peers.push(wanted.clone());
            added.push((key, peer));
        }
        let (keys, stay): (Vec<_>, Vec<_>) = (
            added.iter().map(|(key, _)| *key).collect(),
            now.all().map(|(key, peer)| (*key, peer.clone())).collect(),
        );
        // Of two with one name, the new one is meant from now on.
        self.set_peers(stay.into_iter().chain(added).collect(), new);
        for key in keys {
            let Some(wanted) = new.peer(&key) else { continue };
            self.let_in_peer(key, wanted);
            self.dial(key, wanted.dials(), false);
        }
    }

    /// Sets who the peers are. Flows for which no rule names a peer go to the first in the file.
    fn set_peers(&self, peers: Vec<(PublicKey, Peer)>, new: &Settings) {
        let is_there = |key: &PublicKey| peers.iter().any(|(known, _)| known == key);
        let first = new.first_key().filter(is_there).or_else(|| self.settings.first_key().filter(is_there));
        self.peers.set(Peers::new(peers, first.as_ref()));
    }

    fn remove_peers(&mut self, gone: &BTreeSet<PublicKey>, said: &mut Vec<String>) {
        let now = self.peers.now();
        let stay = now.all().filter(|(key, _)| !gone.contains(key));
        let first =
            now.all().find(|(_, peer)| now.first().is_some_and(|first| first.is(peer))).map(|(key, _)| key);
        self.peers.set(Peers::new(stay.map(|(key, peer)| (*key, peer.clone())), first));
        for key in gone {
            self.admitted.set(*key, false);
            self.dial(*key, None, false);
            let Some(peer) = now.of_key(key) else { continue };
            peer.context().set_permits(Default::default());
            let sessions = peer.end(NO_PEER);
            // What is suspended or being dialled has no session yet. Whoever listens lets the key in no more, too.
            self.endpoint.revoke(key);
            said.push(format!(
                "{} is no longer a peer and is no longer allowed; its sessions ended: {sessions}",
                peer.context().peer
            ));
        }
        self.settings.peers.retain(|peer| peer.key().is_ok_and(|key| !gone.contains(&key)));
    }

    /// Takes over what is said otherwise of the peers that stay.
    fn alter_peers(&mut self, new: &Settings, said: &mut Vec<String>) {
        let now = self.peers.now();
        let mut altered = Vec::new();
        for wanted in &new.peers {
            let Ok(key) = wanted.key() else { continue };
            let (Some(peer), Some(known)) = (now.of_key(&key), self.settings.peer(&key).cloned()) else {
                continue;
            };
            let name = &peer.context().peer;
            let mut what = Vec::new();
            if known.paths != wanted.paths {
                peer.set_paths(match wanted.paths.is_empty() {
                    true => self.paths.clone(),
                    false => Paths::Only(wanted.paths.clone()),
                });
                what.push("paths");
            }
            if known.standby != wanted.standby {
                peer.set_standby(wanted.standby.as_deref());
                what.push("standby");
            }
            if known.mode != wanted.mode {
                self.let_in_peer(key, wanted);
                what.push("mode");
            }
            if known.url != wanted.url {
                what.push("url");
            }
            if known.dials() != wanted.dials() {
                self.dial(key, wanted.dials(), false);
                for session in peer.sessions() {
                    let peer = peer.clone();
                    self.sessions.spawn(async move { peer.supersede(session).await });
                }
            }
            if !what.is_empty() {
                said.push(format!("{name}: {} changed", what.join(" and ")));
            }
            if known.shown_name(&key) != wanted.shown_name(&key) {
                said.push(format!("a restart is needed for the name of {name}"));
            }
            altered.push(PeerSettings { name: known.name, ..wanted.clone() });
        }
        // Those that could not be added are no peers yet.
        self.settings.peers = altered;
    }

    fn reload_rules(&mut self, new: &Settings, said: &mut Vec<String>) {
        let Some(ingress) = &self.ingress else { return };
        if self.settings.rules == new.rules {
            // They may be about another first peer.
            return ingress.set_rules(Rules::new(new.rules.clone()).unwrap_or_default());
        }
        let lacks = ingress
            .lacks(&new.rules)
            .map(|name| format!("peer {name}"))
            .or_else(|| ingress.lacks_dictionary(&new.rules).map(|name| format!("dictionary {name}")));
        match lacks {
            // Carried to another peer, flows would go where nobody wants them.
            Some(what) => said.push(format!("the rules stay as they were, since the {what} needs a restart")),
            None => {
                // The settings were checked.
                ingress.set_rules(Rules::new(new.rules.clone()).unwrap_or_default());
                if let (Some(running), Some(settings)) = (&self.interception, &self.settings.ways_in.tproxy) {
                    let tell = self.tell.clone();
                    running.follow(settings, ingress, move |what| (tell.0)(News::Interception(what)));
                }
                self.settings.rules.clone_from(&new.rules);
                said.push("rules changed".to_owned());
            }
        }
    }

    /// Lets a peer in, or no more. Sessions that it has go on.
    fn let_in_peer(&self, key: PublicKey, wanted: &PeerSettings) {
        self.admitted.set(key, wanted.may_come());
        // Who was revoked may be dialled again, too. Whether it may come is asked when it does.
        self.endpoint.allow(key);
    }
}
