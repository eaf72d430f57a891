//! Tests of compression in `whimbrel proxy`: real programs, two proxies, dictionaries, and figures of the status.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use rand::{Rng, SeedableRng};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A record of a position, as programs send it. Numbers differ from record to record.
fn record(at: u64) -> Vec<u8> {
    let noise = |salt: u32| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(salt * 7) % 1_000_000;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><event version=\"2.0\" uid=\"ANDROID-{:06}\" type=\"a-f-G-U-C\" how=\"m-g\" \
         time=\"2026-11-24T02:{:02}:{:02}.{:03}Z\" stale=\"2026-11-24T03:{:02}:00.000Z\"><point lat=\"47.{:06}\" lon=\"8.{:06}\" \
         hae=\"{}.{}\" ce=\"9.9\" le=\"9999999.0\"/><detail><contact callsign=\"TEAM-{}\" endpoint=\"*:-1:stcp\"/>\
         <__group name=\"Cyan\" role=\"Team Member\"/><status battery=\"{}\"/><takv device=\"SM-G991\" platform=\"ATAK\" \
         os=\"31\" version=\"4.8\"/><track speed=\"{}.{}\" course=\"{}.{}\"/></detail></event>\n",
        at % 40, at % 60, noise(1) % 60, noise(2) % 1_000, at % 60, noise(3), noise(4), noise(5) % 900, noise(6) % 10,
        at % 40, noise(7) % 100, noise(8) % 30, noise(1) % 100, noise(2) % 360, noise(3) % 10,
    )
    .into_bytes()
}

/// Makes a dictionary of records that no test sends.
fn train(home: &Home) -> String {
    let (examples, dictionary) = (home.file("records"), home.file("cot.dict"));
    std::fs::write(&examples, (1_000_000..1_000_500).flat_map(record).collect::<Vec<_>>()).unwrap();
    let (examples, dictionary) = (examples.display().to_string(), dictionary.display().to_string());
    let made = whimbrel(home).args(["proxy", "train", &examples, "--out", &dictionary]).output().unwrap();
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success() && said.contains("of 500 records"), "{said}");
    dictionary
}

struct Pair {
    near: Running,
    far: Running,
    socks: SocketAddr,
    /// The control sockets of both.
    controls: [String; 2],
    homes: [Home; 2],
}

/// Starts two proxies. `rule` and `settings` are the near one's, `options` the far one's.
fn pair(name: &str, port: u16, rule: &str, settings: &str, options: &[&str]) -> Pair {
    let homes = [Home::new(&format!("{name}-near")), Home::new(&format!("{name}-far"))];
    assert!(whimbrel(&homes[0]).args(["key", "new"]).output().unwrap().status.success());
    let shown = whimbrel(&homes[0]).args(["key", "show"]).output().unwrap();
    let key = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
    let controls = ["near", "far"].map(|end| homes[0].file(&format!("{end}.sock")).display().to_string());
    let far = Running::listening(
        whimbrel(&homes[1])
            .args(["proxy", "run", "--listen", "127.0.0.1:0", "--control", &controls[1]])
            .args(["--allow", &format!("{key}=127.0.0.1:{port}")])
            .args(options),
    );
    let file = homes[0].file("proxy.toml");
    let text = format!(
        "[in]\nsocks = '127.0.0.1:0'\n[[peer]]\nurl = '{}'\n[service]\ncontrol = '{}'\n[[rule]]\nname = 'small'\n{rule}\n{settings}",
        far.listening, controls[0]
    );
    std::fs::write(&file, text).unwrap();
    let config = file.display().to_string();
    let (near, said) =
        Running::saying(whimbrel(&homes[0]).args(["proxy", "run", "--config", &config]), "connected to ");
    let socks = said.iter().find_map(|line| line.strip_prefix("SOCKS5 on ")).unwrap().parse().unwrap();
    Pair { near, far, socks, controls, homes }
}

impl Pair {
    fn connect(&self, port: u16) -> TcpStream {
        let mut tcp = TcpStream::connect(self.socks).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        tcp.write_all(&[&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat()).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3], 0);
        tcp
    }

    /// The first flow of an end, as its status shows it.
    fn flow(&self, end: usize) -> serde_json::Value {
        let status =
            whimbrel(&self.homes[0]).args(["status", &self.controls[end], "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        status["more"]["flows"]["list"][0].clone()
    }

    fn figure(&self, end: usize, name: &str) -> u64 {
        self.flow(end)[name].as_u64().unwrap()
    }
}

/// Sends records one by one and waits for each, in both directions. Returns the share on the link in percent, of both.
fn exchange(pair: &Pair, listener: &TcpListener, count: u64, compression: Option<&str>) -> [u64; 2] {
    let port = listener.local_addr().unwrap().port();
    let tcp = pair.connect(port);
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server.set_nodelay(true).unwrap();
    let pass = |mut from: &TcpStream, mut to: &TcpStream, sent: Vec<u8>| {
        from.write_all(&sent).unwrap();
        let mut came = vec![0; sent.len()];
        // Nothing more is sent until it is there: each record arrives at once.
        to.read_exact(&mut came).unwrap();
        assert!(came == sent);
        sent.len() as u64
    };
    let (mut to_peer, mut from_peer) = (0, 0);
    for at in 0..count {
        to_peer += pass(&tcp, &server, record(at));
        from_peer += pass(&server, &tcp, record(50_000 + at));
    }
    assert_eq!(pair.figure(0, "to_peer_bytes"), to_peer);
    assert_eq!(pair.flow(0)["compression"].as_str(), compression);
    let of = |name: &str, whole: u64| pair.figure(0, name) * 100 / whole;
    [of("to_peer_link_bytes", to_peer), of("from_peer_link_bytes", from_peer)]
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn settings(dictionary: &str) -> String {
    format!("[dictionaries]\ncot = '{dictionary}'\n")
}

#[test]
fn records_arrive_one_by_one_and_shrink_from_the_first_on() {
    let home = Home::new("compress-dictionary-home");
    let dictionary = train(&home);
    let (listener, port) = listen();
    let rule = "compression = 'zstd:3'\ndictionary = 'cot'";
    let pair = pair("compress-tcp", port, rule, &settings(&dictionary), &["--dictionary", &dictionary]);
    for (count, most) in [(1, 30), (200, 20)] {
        let shares = exchange(&pair, &listener, count, Some("zstd:3"));
        println!("{count} records: {shares:?} % on the link");
        assert!(shares.iter().all(|share| *share <= most), "{count} records: {shares:?}");
        // The flow ends before the next begins.
        let start = Instant::now();
        while !pair.flow(0).is_null() {
            assert!(start.elapsed() < PATIENCE);
        }
    }
    pair.near.signal("-TERM");
    assert_eq!(pair.near.end().0, Some(0));
    pair.far.signal("-TERM");
    assert_eq!(pair.far.end().0, Some(0));
}

#[test]
fn each_method_carries_every_byte_of_what_shrinks_and_what_does_not() {
    for method in ["zlib:1", "xz:1", "zstd:9"] {
        let (listener, port) = listen();
        let rule = format!("compression = '{method}'");
        // The far end has no such dictionary: the flow is compressed without one.
        let pair = pair(&format!("compress-{}", method.replace(':', "-")), port, &rule, "", &[]);
        let mut sent: Vec<u8> = (0..2_000).flat_map(record).collect();
        sent.extend((0..2_000_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8));
        sent.extend((0..2_000).flat_map(record));
        let tcp = pair.connect(port);
        let (server, _) = listener.accept().unwrap();
        let writing = |mut tcp: TcpStream, bytes: Vec<u8>| {
            thread::spawn(move || {
                tcp.write_all(&bytes).unwrap();
                tcp.shutdown(std::net::Shutdown::Write).unwrap();
            })
        };
        let writers = [&tcp, &server].map(|tcp| writing(tcp.try_clone().unwrap(), sent.clone()));
        for mut end in [&server, &tcp] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut came = Vec::new();
            end.read_to_end(&mut came).unwrap();
            assert!(came == sent, "{method}");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
}

#[test]
fn a_far_end_without_the_dictionary_or_without_memory_still_carries() {
    let home = Home::new("compress-lacking-home");
    let dictionary = train(&home);
    let rule = "compression = 'zstd:3'\ndictionary = 'cot'";
    let (listener, port) = listen();
    let lacking = pair("compress-lacking", port, rule, &settings(&dictionary), &[]);
    let shares = exchange(&lacking, &listener, 100, Some("zstd:3"));
    assert!(shares.iter().all(|share| (13..=40).contains(share)), "compressed without it: {shares:?}");
    let file = home.file("far.toml");
    std::fs::write(&file, "[limits]\nmax_compressed_flows = 0\n").unwrap();
    let (listener, port) = listen();
    let config = file.display().to_string();
    let full = pair("compress-full", port, rule, &settings(&dictionary), &["--config", &config]);
    assert_eq!(exchange(&full, &listener, 10, None), [100, 100], "carried as it is");
}

/// How long a datagram may take before it is sent once more.
const AGAIN: Duration = Duration::from_secs(3);

#[test]
fn datagrams_shrink_by_a_dictionary() {
    let home = Home::new("compress-datagrams-home");
    let dictionary = train(&home);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let rule = "compression = 'zstd:3'\ndictionary = 'cot'\nprotocol = 'udp'";
    for has_dictionary in [true, false] {
        let options = ["--dictionary", &dictionary];
        let name = if has_dictionary { "compress-udp" } else { "compress-udp-lacking" };
        let options = if has_dictionary { &options[..] } else { &[] };
        let pair = pair(name, port, rule, &settings(&dictionary), options);
        let mut tcp = TcpStream::connect(pair.socks).unwrap();
        tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).unwrap();
        let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[10], reply[11]])));
        let program = UdpSocket::bind("127.0.0.1:0").unwrap();
        for socket in [&program, &server] {
            socket.set_read_timeout(Some(AGAIN)).unwrap();
        }
        let head = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat();
        let mut buffer = [0; 70_000];
        let mut exchange = |payload: &[u8]| {
            // A datagram that waits for a second on a busy machine is dropped.
            for _ in 0..20 {
                program.send_to(&[&head[..], payload].concat(), relay).unwrap();
                let Ok((length, from)) = server.recv_from(&mut buffer) else { continue };
                assert!(buffer[..length] == *payload);
                server.send_to(payload, from).unwrap();
                let Ok(length) = program.recv(&mut buffer) else { continue };
                assert!(buffer[head.len()..length] == *payload);
                return;
            }
            panic!("no datagram arrives");
        };
        let mut noise = [0; 1_000];
        rand_chacha::ChaCha20Rng::seed_from_u64(7).fill_bytes(&mut noise);
        // Contexts are announced first, in both directions.
        let start = Instant::now();
        let saves = |pair: &Pair, bytes: &str, link: &str| {
            let flow = pair.flow(0);
            flow[link].as_u64() < flow[bytes].as_u64()
        };
        let both = |pair: &Pair| {
            saves(pair, "to_peer_bytes", "to_peer_link_bytes")
                && saves(pair, "from_peer_bytes", "from_peer_link_bytes")
        };
        for at in 0.. {
            exchange(&record(at));
            let is_enough = if has_dictionary { both(&pair) } else { at > 50 };
            if is_enough {
                break;
            }
            assert!(start.elapsed() < PATIENCE);
        }
        let figures = |pair: &Pair| {
            ["to_peer_bytes", "to_peer_link_bytes", "from_peer_bytes", "from_peer_link_bytes"]
                .map(|name| pair.figure(0, name))
        };
        let before = figures(&pair);
        (100..200).for_each(|at| exchange(&record(at)));
        let after = figures(&pair);
        let shares = [0, 2].map(|at| (after[at + 1] - before[at + 1]) * 100 / (after[at] - before[at]));
        println!("dictionary {has_dictionary}: {shares:?} % on the link");
        let expected = if has_dictionary { 5..=20 } else { 100..=100 };
        assert!(shares.iter().all(|share| expected.contains(share)), "{shares:?}");
        exchange(&noise);
        assert_eq!(figures(&pair)[1] - after[1], 1_000, "what does not shrink is sent as it is");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let home = Home::new("compress-mistakes");
    let (file, examples, out) = (home.file("proxy.toml"), home.file("few"), home.file("out.dict"));
    std::fs::write(&examples, "one\ntwo\n").unwrap();
    let path = |path: &Path| path.display().to_string();
    let check = |text: &str| {
        std::fs::write(&file, format!("[listen]\n{text}")).unwrap();
        whimbrel(&home).args(["proxy", "check", &path(&file)]).output().unwrap()
    };
    let missing = check("[dictionaries]\ncot = '/no/such/dict'\n");
    assert_fails(
        &missing,
        "proxy.toml:3:7: cannot use the dictionary `cot`, /no/such/dict: there is no such file",
    );
    let wrong = check(&format!("[dictionaries]\ncot = '{}'\n", path(&examples)));
    assert_fails(&wrong, "it is not a dictionary: make one with `whimbrel proxy train`");
    assert_fails(
        &check("[[rule]]\nname = 'r'\ncompression = 'zstd:99'\n"),
        "proxy.toml:4:15: `zstd:99` is not a compression",
    );
    std::fs::write(&file, "[listen]\n[[rule]]\nname = 'r'\ncompression = 'xz'\n").unwrap();
    let explained = ["proxy", "explain", "--config", &path(&file), "tcp", "a.b:1"];
    let explained = whimbrel(&home).args(explained).output().unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains(", compressed by xz:1: rule 1, `r`"), "{explained}");
    let train =
        |arguments: &[&str]| whimbrel(&home).args(["proxy", "train"]).args(arguments).output().unwrap();
    let (few, out) = (path(&examples), path(&out));
    assert_fails(&train(&[&few, "--out", &out]), "there are only 2 records, which is too few");
    assert_fails(&train(&[&few, "--out", &few]), "would be overwritten");
    // Under another name, too; and what has no end is read as far as it is used.
    let link = home.file("link");
    std::os::unix::fs::symlink(&few, &link).unwrap();
    assert_fails(&train(&[&few, "--out", &link.display().to_string()]), "would be overwritten");
    assert_fails(&train(&["/dev/zero", "--out", &out]), "there are only 0 records");
    assert_fails(&train(&["/no/such/file", "--out", &out]), "/no/such/file");
    assert_fails(&train(&[&few, "--out", &out, "--size", "1"]), "a dictionary cannot have 1 bytes");
    assert!(!Path::new(&out).exists());
    assert_eq!(
        std::fs::read(&examples).map_err(|error| error.kind()),
        Ok::<_, ErrorKind>(b"one\ntwo\n".to_vec())
    );
}
