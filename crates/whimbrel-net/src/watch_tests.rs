//! Tests in a network namespace of their own, whose links come and go. They need root and are skipped otherwise.

#![cfg(target_os = "linux")]

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use super::*;

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn usable() -> Vec<IpAddr> {
    let addresses = host_addresses().unwrap();
    addresses.into_iter().filter(|address| address.usable).map(|address| address.ip).collect()
}

/// Waits for changes until these are the usable addresses.
async fn until(watch: &mut AddressWatch, wanted: &[&str]) {
    let wanted: Vec<IpAddr> = wanted.iter().map(|ip| ip.parse().unwrap()).collect();
    let seen = timeout(Duration::from_secs(10), async {
        while usable() != wanted {
            watch.changed().await;
        }
    });
    assert!(seen.await.is_ok(), "{:?} in place of {wanted:?}", host_addresses());
}

#[allow(unsafe_code, reason = "no safe crate of ours changes namespaces")]
fn leave_for_a_new_namespace() -> bool {
    // SAFETY: it moves only this thread to an empty network.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Runs a test on its own thread in its own network.
fn in_a_network<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send) {
    let ran = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let left = leave_for_a_new_namespace();
            if left {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(test());
            }
            left
        });
        run.join().unwrap()
    });
    if !ran {
        whimbrel_testing::skipped("only root gets a network of its own");
    }
}

async fn come_and_go(mut watch: AddressWatch) {
    assert!(usable().is_empty());
    ip("link add wired type veth peer name plug");
    ip("address add 10.7.0.1/24 dev wired");
    ip("link set wired up");
    assert!(usable().is_empty(), "without carrier");
    ip("link set plug up");
    until(&mut watch, &["10.7.0.1"]).await;
    ip("address add fd07::1/64 dev wired nodad");
    until(&mut watch, &["10.7.0.1", "fd07::1"]).await;
    ip("address change fd07::1/64 dev wired nodad preferred_lft 0");
    until(&mut watch, &["10.7.0.1"]).await;
    ip("address add 169.254.1.1/16 dev wired");
    ip("address add 10.7.0.2/24 dev wired");
    until(&mut watch, &["10.7.0.1", "10.7.0.2"]).await;
    ip("address delete 10.7.0.1/24 dev wired");
    ip("link set plug down");
    until(&mut watch, &[]).await;
}

#[test]
fn addresses_and_carriers_come_and_go() {
    in_a_network(|| async { come_and_go(AddressWatch::new()).await });
}

#[test]
fn where_the_system_does_not_tell_it_is_asked() {
    in_a_network(|| async { come_and_go(AddressWatch::polling()).await });
}

#[test]
fn a_change_is_told_at_once_and_a_quiet_network_is_quiet() {
    in_a_network(|| async {
        let mut watch = AddressWatch::new();
        let quiet = timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(quiet.is_err(), "nothing has changed");
        ip("link set lo up");
        let told = timeout(Duration::from_millis(500), watch.changed()).await;
        assert!(told.is_ok(), "a link came up");
        for number in 0..20 {
            ip(&format!("route add 10.{number}.0.0/16 dev lo"));
        }
        timeout(Duration::from_millis(500), watch.changed()).await.unwrap();
    });
}
