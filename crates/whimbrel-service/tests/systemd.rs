//! A process of its own notifies systemd.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint};
use whimbrel_service::{Service, ServiceOptions};

/// Several intervals of the watchdog.
const A_WHILE: Duration = Duration::from_millis(600);
/// The watchdog's interval in microseconds, as systemd gives it. It is fed twice as often.
const WATCHDOG_USEC: &str = "200000";

/// Runs in the process that the other test starts. Alone it does nothing.
#[tokio::test]
async fn child() {
    let Some(socket) = std::env::var_os("WHIMBREL_TEST_NOTIFY") else { return };
    let say = |words: &str| UnixDatagram::unbound().unwrap().send_to(words.as_bytes(), &socket).unwrap();
    let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let options = ServiceOptions::new("test");
    let mut service = Service::start(options, &endpoint, || serde_json::Value::Null).await.unwrap();
    timeout(A_WHILE, service.next()).await.unwrap_err();
    say("stuck");
    // The runtime works, but the loop does not.
    sleep(A_WHILE).await;
    say("moved");
    timeout(A_WHILE, service.next()).await.unwrap_err();
    service.reloading();
    service.reloaded();
    service.finish(0, "", A_WHILE).await.unwrap();
    say("end");
}

#[test]
fn systemd_hears_from_the_loop_and_not_from_a_stuck_one() {
    let path = std::env::temp_dir().join(format!("whimbrel-systemd-{}", std::process::id()));
    let notified = UnixDatagram::bind(&path).unwrap();
    notified.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env("WHIMBREL_TEST_NOTIFY", &path)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", WATCHDOG_USEC)
        .env_remove("WATCHDOG_PID")
        .spawn()
        .unwrap();
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "end") {
        let mut buffer = [0; 512];
        let length = notified.recv(&mut buffer).unwrap();
        told.push(String::from_utf8_lossy(&buffer[..length]).trim().to_owned());
    }
    assert!(child.wait().unwrap().success());
    std::fs::remove_file(&path).unwrap();
    let reloading = told.iter().find(|told| told.starts_with("RELOADING=1")).unwrap();
    let when = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(when.parse::<u64>().unwrap() > 0);
    // However often the loop feeds, it does so before and after it is stuck, and not meanwhile.
    let mut order: Vec<&str> =
        told.iter().map(|told| told.split_once('\n').map_or(&**told, |(first, _)| first)).collect();
    order.dedup();
    let fed = "WATCHDOG=1";
    let wanted = ["READY=1", fed, "stuck", "moved", fed, "RELOADING=1", "READY=1", "STOPPING=1", "end"];
    let until_stop: Vec<&str> = order.iter().copied().take_while(|told| *told != "STOPPING=1").collect();
    assert_eq!(until_stop, wanted[..7], "{told:?}");
    assert_eq!((order.iter().filter(|told| **told == "STOPPING=1").count(), order.last()), (1, Some(&"end")));
}
