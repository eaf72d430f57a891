//! Tests of `whimbrel link` as a program.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for a packet to arrive.
const SILENCE: Duration = Duration::from_millis(300);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> SocketAddr {
    socket.recv_from(&mut [0; 2000]).unwrap().1
}

#[test]
fn the_program_says_where_it_listens_and_in_the_end_what_it_did() {
    let server = socket();
    let mut program = Command::new(env!("CARGO_BIN_EXE_whimbrel"))
        .args(["link", "--to", &server.local_addr().unwrap().to_string(), "--down-loss", "100%", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    let addr: SocketAddr = first.strip_prefix("listening ").unwrap().trim().parse().unwrap();
    let client = socket();
    client.send_to(b"?", addr).unwrap();
    server.send_to(b"!", receive(&server)).unwrap();
    client.set_read_timeout(Some(SILENCE)).unwrap();
    assert!(client.recv_from(&mut [0; 2000]).is_err());
    let killed = Command::new("kill").args(["-TERM", &program.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(program.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&report["up"]["delivered"], &report["down"]["loss_drops"]), (&1.into(), &1.into()));
}

#[test]
fn mistakes_are_one_sentence_that_says_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_whimbrel"))
        .args(["link", "--to", "127.0.0.1:9", "--rate", "fast"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("for example 4mbit"));
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().to_string();
    for (address, hint) in
        [(&busy[..], "another program has that port"), ("192.0.2.1:7000", "does not have the address")]
    {
        let link = ["link", "--listen", address, "--to", "127.0.0.1:9"];
        let output = Command::new(env!("CARGO_BIN_EXE_whimbrel")).args(link).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(hint), "{errors}");
    }
}
