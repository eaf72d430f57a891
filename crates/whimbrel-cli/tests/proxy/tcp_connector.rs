//! A session that one TCP connection carries.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{Home, Running, assert_fails, whimbrel};
use super::programs::{PATIENCE, count, dial, http, read_to_end, serve};

#[test]
fn a_session_over_tcp_is_dialled_again_refuses_an_heir_and_compresses() {
    let homes = [Home::new("proxy-tcp-near"), Home::new("proxy-tcp-far")];
    assert!(whimbrel(&homes[0]).args(["key", "new"]).output().unwrap().status.success());
    let shown = whimbrel(&homes[0]).args(["key", "show"]).output().unwrap();
    let key = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let file = homes[1].file("far.toml");
    let far = |address: &str| {
        let text = format!(
            "[listen]\naddress = '{address}'\nconnector = 'tcp'\n[[peer]]\nkey = '{key}'\nmay_open = ['127.0.0.1:{port}']\n"
        );
        std::fs::write(&file, text).unwrap();
        let far = Running::listening(whimbrel(&homes[1]).args(["proxy", "run", "--config"]).arg(&file));
        if !far.listening.starts_with("whimbrel+tcp://") {
            panic!("the far proxy does not listen over TCP: {:?}", far.end());
        }
        far
    };
    let first = far("127.0.0.1:0");
    let control = homes[0].file("near.sock").display().to_string();
    let near_file = homes[0].file("near.toml");
    let text = format!(
        "[in]\nsocks = '127.0.0.1:0'\n[service]\ncontrol = '{control}'\nmetrics = '127.0.0.1:0'\n[[peer]]\nname = 'far'\nurl = '{}'\n[[rule]]\nname = 'all'\ncompression = 'zstd:3'\n",
        first.listening
    );
    std::fs::write(&near_file, text).unwrap();
    let (near, said) = Running::saying(
        whimbrel(&homes[0]).args(["proxy", "run", "--config"]).arg(&near_file),
        "connected to ",
    );
    let socks = said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap().parse().unwrap();
    let exchange = || {
        let serving = serve(&server, count);
        let mut tcp = dial(socks);
        let head = [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat();
        tcp.write_all(&head).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3], 0);
        tcp.write_all(&b"<event uid='one'/>".repeat(10_000)).unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&tcp), b"180000 bytes");
        serving.join().unwrap();
    };
    let status = || {
        let shown = whimbrel(&homes[0]).args(["status", &control, "--json"]).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&shown.stdout).unwrap()["more"].clone()
    };
    exchange();
    let metrics = said.iter().find_map(|line| line.strip_prefix("metrics on http://")).unwrap();
    let text = http(metrics.trim_end_matches("/metrics").parse().unwrap());
    let link =
        text.lines().find(|line| line.starts_with("whimbrel_proxy_to_peer_link_bytes_total{")).unwrap();
    let link: u64 = link.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(link > 0 && link < 18_000, "180,000 bytes were {link} on the link");
    // Nobody takes over; this one goes on.
    let heir = whimbrel(&homes[0])
        .args(["proxy", "run", "--socks", "127.0.0.1:0", "--control", &control, "--replace", "--peer"])
        .arg(first.listening.replace("whimbrel+tcp", "whimbrel"))
        .output()
        .unwrap();
    assert_fails(&heir, "nothing was taken over");
    exchange();
    // The far end comes again at the same address.
    let address = first.listening.split_once('@').unwrap().1.to_owned();
    first.signal("-KILL");
    drop(first);
    let _second = far(&address);
    let began = Instant::now();
    while status()["peers"][0]["state"] != "connected" {
        assert!(began.elapsed() < PATIENCE, "{}", status());
        thread::sleep(Duration::from_millis(20));
    }
    exchange();
    near.signal("-TERM");
    let (code, _, errors) = near.end();
    assert!(code == Some(0) && errors.contains("a session over TCP cannot be replaced"), "{errors}");
}
