//! The interface that leads to a program. What comes from elsewhere under its address is dropped, so it is the interface on
//! which its packets arrive.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use whimbrel_net::{host_addresses, source_for};

/// How long an answer is remembered, and the most answers. The kernel is asked for each further program.
const REMEMBERED: Duration = Duration::from_secs(2);
const MOST: usize = 4_096;

/// The interface of programs of this host.
const LOOPBACK: &str = "lo";

type KnownInterface = (Option<Box<str>>, Instant);

/// The interfaces that lead to programs, as far as somebody has asked lately.
#[derive(Debug, Default)]
pub(super) struct ProgramInterfaces(Mutex<HashMap<IpAddr, KnownInterface>>);

impl ProgramInterfaces {
    /// Returns the interface that leads to this address. `None`: nobody knows.
    pub(super) fn towards(&self, program: IpAddr) -> Option<Box<str>> {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((interface, at)) = known.get(&program)
            && now.duration_since(*at) < REMEMBERED
        {
            return interface.clone();
        }
        if known.len() >= MOST {
            known.clear();
        }
        let interface = interface_towards(program);
        known.insert(program, (interface.clone(), now));
        interface
    }
}

fn interface_towards(program: IpAddr) -> Option<Box<str>> {
    let program = program.to_canonical();
    let addresses = host_addresses().ok()?;
    if program.is_loopback() || addresses.iter().any(|address| address.ip == program) {
        return Some(LOOPBACK.into());
    }
    // No packet is sent: the port means nothing.
    let from = source_for((program, 9).into()).ok()?;
    addresses.into_iter().find(|address| address.ip == from).map(|address| address.device.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_this_host_come_by_loopback() {
        let interfaces = ProgramInterfaces::default();
        assert_eq!(interfaces.towards("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!(interfaces.towards("::ffff:127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        for address in host_addresses().unwrap() {
            assert_eq!(interfaces.towards(address.ip).as_deref(), Some("lo"), "{address:?}");
        }
        for number in 0..10_000_u32 {
            interfaces.0.lock().unwrap().insert(IpAddr::V4((number + 1).into()), (None, Instant::now()));
            if number % 1_000 == 0 {
                interfaces.towards(IpAddr::V4((0x0a00_0000 + number).into()));
            }
        }
        interfaces.towards("127.0.0.2".parse().unwrap());
        assert!(interfaces.0.lock().unwrap().len() <= MOST);
    }
}
