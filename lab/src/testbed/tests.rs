//! Tests with real packets between real namespaces. Without root they are skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use whimbrel_net::{BareSocket, EcnCodepoint, SocketOptions, Transmit};

use super::*;

fn plan(text: &str) -> LinkPlan {
    let config: LinkConfig = text.parse().unwrap();
    LinkPlan { up: config.clone(), down: config }
}

fn testbed(links: &[&str]) -> Option<Testbed> {
    if let Some(missing) = missing() {
        whimbrel_testing::skipped(&missing.to_string());
        return None;
    }
    let links: Vec<_> = links.iter().map(|text| plan(text)).collect();
    Some(Testbed::new(&links, 7).unwrap())
}

async fn output(testbed: &Testbed, side: Side, line: &str) -> String {
    let mut words = line.split(' ').map(str::to_owned);
    let program = words.next().unwrap();
    let child = testbed.spawn(side, &program, &words.collect::<Vec<_>>(), Stdio::piped()).unwrap();
    let output =
        tokio::time::timeout(Duration::from_secs(20), child.wait_with_output()).await.unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Starts an echo server on one host. Returns a socket on the other host that is connected to it.
fn echo(testbed: &Testbed, to: &'static str) -> UdpSocket {
    let server = testbed.server.within(move || UdpSocket::bind((to, 7)).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            server.send_to(&buffer[..length], from).unwrap();
        }
    });
    let any = if to.contains(':') { "::" } else { "0.0.0.0" };
    let client = testbed.caller.within(move || UdpSocket::bind((any, 0)).unwrap()).unwrap();
    client.connect((to, 7)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    client
}

fn round_trip(socket: &UdpSocket) -> Option<Duration> {
    let start = Instant::now();
    socket.send(b"there and back").unwrap();
    let length = socket.recv(&mut [0; 1500]).ok()?;
    assert_eq!(length, 14);
    Some(start.elapsed())
}

#[test]
fn a_round_trip_takes_what_was_set() {
    let Some(testbed) = testbed(&["delay=25ms"]) else { return };
    for to in ["10.77.0.2", "fd77::2"] {
        let socket = echo(&testbed, to);
        // It may not be shorter. How much longer it is depends on how busy the machine is.
        let shortest = (0..10).map(|_| round_trip(&socket).unwrap()).min().unwrap();
        assert!((Duration::from_millis(50)..Duration::from_millis(70)).contains(&shortest), "{shortest:?}");
    }
    let report = testbed.report(0);
    assert_eq!((report.up.delivered, report.down.delivered), (20, 20), "nothing else is on the wire");
    assert!(report.late.quantile(0.5) < Duration::from_millis(1), "{:?}", report.late);
}

fn has_rattan() -> bool {
    rattan::missing().inspect(|missing| whimbrel_testing::skipped(missing)).is_none()
}

#[tokio::test]
async fn a_link_by_rattan_is_like_one_of_ours_to_who_is_in_the_hosts() {
    if testbed(&[""]).is_none() || !has_rattan() {
        return;
    }
    let testbed = Testbed::by_rattan(&plan("rate=10mbit, delay=25ms"), 1).await.unwrap();
    assert_eq!(testbed.addresses(Side::Server), [Side::Server.address(0)]);
    let socket = echo(&testbed, "10.77.0.2");
    let shortest = (0..10).map(|_| round_trip(&socket).unwrap()).min().unwrap();
    assert!((Duration::from_millis(50)..Duration::from_millis(70)).contains(&shortest), "{shortest:?}");
    assert_eq!(socket.local_addr().unwrap().ip(), Side::Caller.address(0));
    assert!(
        !Path::new("/run/netns").exists() || !names("/run/netns").any(|name| name.starts_with("ns-left"))
    );
    let lost = Testbed::by_rattan(&plan("loss=100%"), 1).await.unwrap();
    let socket = echo(&lost, "10.77.0.2");
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(round_trip(&socket), None);
}

fn names(folder: &str) -> impl Iterator<Item = String> {
    fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

#[tokio::test]
async fn a_process_lives_in_its_host_and_ends_with_it() {
    let Some(testbed) = testbed(&["", ""]) else { return };
    let seen = output(&testbed, Side::Server, "ip -brief -4 address").await;
    assert!(seen.contains("10.77.0.2/24") && seen.contains("10.77.1.2/24"), "{seen}");
    let mut child = testbed.spawn(Side::Caller, "sleep", &["60".to_owned()], Stdio::null()).unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    drop(testbed);
    let status = tokio::time::timeout(Duration::from_secs(2), child.wait()).await.unwrap().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
}

#[test]
fn an_interface_goes_down_and_comes_back() {
    let Some(testbed) = testbed(&["", ""]) else { return };
    let first = echo(&testbed, "10.77.0.2");
    first.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(round_trip(&first).is_some());
    testbed.link_down(Side::Caller, 0).unwrap();
    // The socket has the first link's address, from which there is no route now.
    assert!(first.send(b"there and back").is_err() || first.recv(&mut [0; 14]).is_err());
    let other = testbed.caller.within(|| UdpSocket::bind("10.77.1.1:0").unwrap()).unwrap();
    other.connect("10.77.0.2:7").unwrap();
    other.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!(round_trip(&other).is_some(), "over the second link");
    testbed.link_up(Side::Caller, 0).unwrap();
    assert!(round_trip(&first).is_some());
    assert!(testbed.report(1).up.delivered > 0);
}

#[test]
fn an_address_changes_under_way() {
    let Some(testbed) = testbed(&[""]) else { return };
    let socket = echo(&testbed, "10.77.0.2");
    testbed.ip(Side::Caller, "address add 10.77.0.9/24 dev w0\naddress del 10.77.0.1/24 dev w0").unwrap();
    assert!(socket.send(b"from nowhere").is_err() || socket.recv(&mut [0; 14]).is_err());
    let moved = testbed.caller.within(|| UdpSocket::bind("10.77.0.9:0").unwrap()).unwrap();
    moved.connect("10.77.0.2:7").unwrap();
    moved.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!(round_trip(&moved).is_some());
}

#[test]
fn a_link_is_set_anew_under_way() {
    let Some(testbed) = testbed(&["delay=5ms"]) else { return };
    let socket = echo(&testbed, "10.77.0.2");
    assert!(round_trip(&socket).unwrap() < Duration::from_millis(40));
    testbed.reconfigure(0, plan("delay=20ms"));
    assert!(round_trip(&socket).unwrap() >= Duration::from_millis(40));
    testbed.reconfigure(0, plan("loss=100%"));
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(round_trip(&socket), None);
    assert_eq!(testbed.report(0).up.loss_drops, 1);
}

#[test]
fn a_mark_of_congestion_leaves_the_packet_sound() {
    let Some(testbed) = testbed(&["rate=1mbit, queue=none, ecn_mark=1ms"]) else { return };
    let receiver = testbed.server.within(|| UdpSocket::bind("10.77.0.2:7").unwrap()).unwrap();
    let local = "10.77.0.1:0".parse().unwrap();
    let sender =
        testbed.caller.within(move || BareSocket::bind(local, &SocketOptions::default()).unwrap()).unwrap();
    for _ in 0..3 {
        let transmit = Transmit {
            destination: "10.77.0.2:7".parse().unwrap(),
            ecn: Some(EcnCodepoint::Ect0),
            contents: &[1; 1000],
            segment_size: None,
            src_ip: None,
        };
        sender.try_send(&transmit).unwrap();
    }
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!((0..3).all(|_| receiver.recv(&mut [0; 1500]).is_ok()));
    assert_eq!(testbed.report(0).up.ce_marked, 2);
}

/// A testbed in a process of its own, which the test below kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn hold_a_testbed() {
    let testbed = testbed(&[""]).unwrap();
    let child = testbed.spawn(Side::Server, "sleep", &["60".to_owned()], Stdio::null()).unwrap();
    println!("holding {}", child.id().unwrap());
    std::future::pending::<()>().await;
}

/// Like [`hold_a_testbed`], with rattan.
#[tokio::test]
#[ignore = "started by another test"]
async fn hold_a_testbed_by_rattan() {
    let testbed = Testbed::by_rattan(&plan("delay=5ms"), 1).await.unwrap();
    let child = testbed.spawn(Side::Server, "sleep", &["60".to_owned()], Stdio::null()).unwrap();
    println!("holding {}", child.id().unwrap());
    std::future::pending::<()>().await;
}

#[test]
fn nothing_is_left_of_a_runner_that_is_killed_or_interrupted() {
    if testbed(&[""]).is_some() {
        nothing_is_left_of("hold_a_testbed");
    }
}

#[test]
fn nothing_is_left_of_rattan_either() {
    if testbed(&[""]).is_some() && has_rattan() {
        nothing_is_left_of("hold_a_testbed_by_rattan");
    }
}

fn nothing_is_left_of(holder: &str) {
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let mut runner = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("testbed::tests::{holder}"), "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(runner.stdout.take().unwrap()).lines().map_while(Result::ok);
        let held =
            lines.filter_map(|line| line.split_once("holding ")?.1.parse::<u32>().ok()).next().unwrap();
        let namespace = fs::read_link(format!("/proc/{held}/ns/net")).unwrap();
        assert!(lives_in(&namespace));
        let mark = format!("{MARK}={}:", runner.id());
        assert!(bears(&mark));
        sys::signal(runner.id().cast_signed(), signal).unwrap();
        runner.wait().unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while lives_in(&namespace) || bears(&mark) {
            assert!(Instant::now() < end, "signal {signal} has left a process or a namespace");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns whether the environment of any process has this mark.
fn bears(mark: &str) -> bool {
    let environments = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    let bears = |environment: &Vec<u8>| {
        environment.split(|byte| *byte == 0).any(|pair| pair.starts_with(mark.as_bytes()))
    };
    environments.into_iter().any(|environment| bears(&environment))
}

/// Returns whether a thread of any process is in that namespace.
fn lives_in(namespace: &Path) -> bool {
    let tasks = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_dir(entry.path().join("task")).ok());
    tasks
        .flatten()
        .flatten()
        .any(|task| fs::read_link(task.path().join("ns/net")).is_ok_and(|own| own == namespace))
}
