//! An attacker on the path of a run.

use std::cell::RefCell;
use std::rc::Rc;

use super::attacker::{Attacker, Packet, moved};
use super::run::Run;
use super::special::Attack;

impl Run {
    /// Puts an attacker on the path, from the first packet on.
    pub(super) fn watch(&mut self) {
        let attacker = Rc::new(RefCell::new(Attacker::default()));
        self.attacker = Some(Rc::clone(&attacker));
        self.sibling = self.pair.world.add_sibling();
        self.pair.world.set_tap(Box::new(move |now, from, to, bytes| {
            attacker.borrow_mut().see(now, Packet { sent: now, from, to, bytes: bytes.clone() })
        }));
    }

    pub(super) fn attack(&mut self, attack: &Attack) {
        let (now, Some(attacker)) = (self.pair.now(), self.attacker.clone()) else { return };
        self.coverage.special(attack.special());
        let mut attacker = attacker.borrow_mut();
        match *attack {
            Attack::Replay { view, back, count, elsewhere } => {
                let past = attacker.past(view, back, count);
                drop(attacker);
                for packet in past {
                    self.inject(&moved(packet, elsewhere));
                }
            }
            Attack::Hold { view, every, time, later, elsewhere } => {
                attacker.hold((view, later, elsewhere), every, now + time);
            }
            Attack::Stray { every, time, only } => {
                attacker.stray(only, every, now + time);
            }
        }
    }

    /// Delivers held packets that are due, and strays to the wrong server.
    pub(super) fn let_go(&mut self) {
        let (now, Some(attacker)) = (self.pair.now(), self.attacker.clone()) else { return };
        let due = attacker.borrow_mut().due(now);
        for packet in due {
            self.inject(&packet);
        }
        let strays = attacker.borrow_mut().take_strays();
        for Packet { from, to, bytes, .. } in strays {
            self.pair.world.misdeliver(self.sibling, from, to, &bytes);
        }
    }

    /// Stops all interference.
    pub(super) fn calm(&mut self) {
        if let Some(attacker) = &self.attacker {
            attacker.borrow_mut().calm();
        }
        self.let_go();
    }

    fn inject(&mut self, packet: &Packet) {
        self.model.on_held(self.pair.now().since(packet.sent));
        self.pair.world.inject(packet.from, packet.to, &packet.bytes);
    }
}
