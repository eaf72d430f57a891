//! Tests of `whimbrel cat` with two processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use tokio::io::AsyncWriteExt;
use whimbrel::{CloseReason, Config, Endpoint, Event, Mocket, new_identity};

fn listen(home: &Home, arguments: &[&str]) -> Running {
    Running::noting(whimbrel(home).args(["cat", "listen", "--listen", "127.0.0.1:0"]).args(arguments))
}

/// Feeds both ends and returns what each wrote, after both ended without an error.
fn exchange(home: &Home, arguments: &[&str], near: &[u8], far: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut listener = listen(home, arguments);
    let url = listener.listening.clone();
    let mut client = Running::started(whimbrel(home).args(["cat", "connect", &url]).args(arguments));
    let feeds = [(client.stdin(), near.to_vec()), (listener.stdin(), far.to_vec())]
        .map(|(mut pipe, bytes)| std::thread::spawn(move || pipe.write_all(&bytes).unwrap()));
    feeds.into_iter().for_each(|feed| feed.join().unwrap());
    let (client, listener) = (client.end(), listener.end());
    assert_eq!((client.0, listener.0), (Some(0), Some(0)), "{} {}", client.2, listener.2);
    (client.1, listener.1)
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn lines_cross_both_ways() {
    let home = Home::new("cat-lines");
    let many: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
    let (near, far) = exchange(&home, &[], many.as_bytes(), b"one\n\nlast");
    assert_eq!(near, b"one\n\nlast\n");
    assert!(far == many.as_bytes());
}

#[test]
fn other_services_deliver_on_a_good_path_too() {
    let home = Home::new("cat-services");
    for service in ["ru", "us", "uu"] {
        let how = ["--service", service, "--tag", "7", "--priority", "200", "--lifetime", "30s"];
        let (near, far) = exchange(&home, &how, b"ping\n", b"pong\n");
        assert_eq!((&near[..], &far[..]), (&b"pong\n"[..], &b"ping\n"[..]), "{service}");
    }
}

#[test]
fn bytes_cross_exactly() {
    let home = Home::new("cat-bytes");
    let (up, down) = (noise(20_000_000), noise(3_000_001));
    for how in [&["--bytes"][..], &["--message-size", "50k"]] {
        let (near, far) = exchange(&home, how, &up, &down);
        assert!(near == down && far == up, "{how:?}: {} {}", near.len(), far.len());
    }
    let (near, far) = exchange(&home, &["--bytes"], b"", b"");
    assert_eq!((near, far), (vec![], vec![]));
}

#[test]
fn ctrl_c_tells_the_peer() {
    let home = Home::new("cat-interrupt");
    let mut listener = listen(&home, &[]);
    let url = listener.listening.clone();
    let mut far = listener.stdin();
    far.write_all(b"listening now\n").unwrap();
    // Once the line has arrived, both are connected. The input stays open.
    let mut command = whimbrel(&home);
    let client = Running::listening(command.args(["cat", "connect", &url]).stdin(Stdio::piped()));
    client.signal("-INT");
    assert_eq!(client.end().0, Some(130));
    let (code, _, errors) = listener.end();
    assert!(
        code == Some(1)
            && errors.contains("the peer ended early (interrupted): some data may not have arrived"),
        "{errors}"
    );
}

#[test]
fn sigterm_ends_it_as_shells_expect_and_tells_the_peer() {
    let home = Home::new("cat-terminated");
    let mut listener = listen(&home, &[]);
    let url = listener.listening.clone();
    listener.stdin().write_all(b"listening now\n").unwrap();
    let mut command = whimbrel(&home);
    let client = Running::listening(command.args(["cat", "connect", &url]).stdin(Stdio::piped()));
    client.signal("-TERM");
    assert_eq!(client.end().0, Some(143));
    assert_eq!(listener.end().0, Some(1));
}

#[test]
fn bytes_at_one_end_only_is_said_at_both() {
    let home = Home::new("cat-kinds");
    for (near, far) in [(&["--bytes"][..], &[][..]), (&[], &["--bytes"])] {
        let mut listener = listen(&home, far);
        let url = listener.listening.clone();
        let mut client = Running::started(whimbrel(&home).args(["cat", "connect", &url]).args(near));
        // Neither end sends anything.
        let _silent = (listener.stdin(), client.stdin());
        for (code, _, errors) in [client.end(), listener.end()] {
            assert!(code == Some(1) && errors.contains("--bytes at both ends or at neither"), "{errors}");
        }
    }
}

#[test]
fn who_comes_second_is_turned_away_and_the_first_goes_on() {
    let home = Home::new("cat-second");
    let mut listener = listen(&home, &[]);
    let url = listener.listening.clone();
    let mut far = listener.stdin();
    far.write_all(b"for the first\n").unwrap();
    let mut command = whimbrel(&home);
    command.args(["cat", "connect", &url]).stdin(Stdio::piped());
    // Its first line stands in for `listening`: the first client is connected.
    let mut first = Running::listening(&mut command);
    let mut second = Running::started(whimbrel(&home).args(["cat", "connect", &url]));
    let _silent = second.stdin();
    let (code, output, errors) = second.end();
    assert!(code == Some(1) && output.is_empty() && errors.contains("already has a peer"), "{errors}");
    first.stdin().write_all(b"from the first\n").unwrap();
    drop(far);
    let (first, listener) = (first.end(), listener.end());
    assert_eq!((first.0, listener.0), (Some(0), Some(0)), "{} {}", first.2, listener.2);
    assert_eq!(listener.1, b"from the first\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_the_peer_do_not_steer_the_terminal() {
    let home = Home::new("cat-words");
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let client = Running::started(whimbrel(&home).args(["cat", "connect", &url]));
    let mocket = server.accept().await.unwrap();
    mocket.abort(1, "\x1b]0;owned\x07\u{9b}2J\u{202e}");
    let (code, _, errors) = tokio::task::spawn_blocking(move || client.end()).await.unwrap();
    assert!(code == Some(1) && errors.contains(r"\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}"), "{errors}");
    assert!(!errors.trim_end().contains(|c: char| c.is_control()), "{}", errors.escape_debug());
}

#[test]
fn a_peer_out_of_reach_is_told_without_a_terminal_too() {
    let home = Home::new("cat-killed");
    let mut listener = listen(&home, &[]);
    let url = listener.listening.clone();
    let mut client = whimbrel(&home);
    client.args(["cat", "connect", &url]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    listener.stdin().write_all(b"listening now\n").unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    listener.signal("-KILL");
    assert_eq!(listener.end().0, None);
    let killed = Instant::now();
    writeln!(client.stdin.as_mut().unwrap(), "is anybody there?").unwrap();
    let mut said = String::new();
    let mut errors = BufReader::new(client.stderr.take().unwrap());
    while !said.contains("the peer is out of reach") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(killed.elapsed() < Duration::from_secs(25), "{:?}", killed.elapsed());
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let home = Home::new("cat-pipe");
    let script = r#""$0" key new | true; "$0" completions bash | head -c 1 >/dev/null; "$0" --help | true"#;
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_whimbrel")])
        .env("XDG_CONFIG_HOME", &home.0)
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}

#[test]
fn nobody_there_is_said() {
    let home = Home::new("cat-nobody");
    let key = whimbrel::new_identity().public();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("whimbrel://{key}@{nobody}");
    assert!(whimbrel(&home).args(["key", "new"]).status().unwrap().success());
    let own = whimbrel(&home).args(["key", "show"]).output().unwrap().stdout;
    let own = String::from_utf8(own).unwrap();
    for command in [&["cat", "connect"][..], &["perf", "run"]] {
        let output = whimbrel(&home).args(command).args([&url, "--wait", "300ms"]).output().unwrap();
        for hint in [&format!("no answer from {nobody} within 0.3 s"), "--allow", own.trim()] {
            assert_fails(&output, hint);
        }
    }
    let other_family = ["cat", "connect", &url, "--bind", "[::1]:0", "--wait", "600"];
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        assert_fails(
            &whimbrel(&home).args(other_family).output().unwrap(),
            "no address in the family of [::1]",
        );
    }
    let leaving = ["cat", "connect", &url, "--suspend-to", "/nowhere/session"];
    assert_fails(&whimbrel(&home).args(leaving).output().unwrap(), "a folder that is there");
    let unknown = format!("whimbrel://{key}@nowhere.invalid:1");
    assert_fails(&whimbrel(&home).args(["cat", "connect", &unknown]).output().unwrap(), "nowhere.invalid");
}

#[test]
fn a_pre_shared_key_is_asked_for_beside_the_others() {
    let home = Home::new("cat-psk");
    let file = home.file("psk");
    let secret = file.to_str().unwrap();
    assert!(whimbrel(&home).args(["key", "psk", "--out", secret]).status().unwrap().success());
    let (near, far) = exchange(&home, &["--psk", secret], b"ping\n", b"pong\n");
    assert_eq!((&near[..], &far[..]), (&b"pong\n"[..], &b"ping\n"[..]));

    let mut listener = listen(&home, &["--psk", secret]);
    let url = listener.listening.clone();
    let stranger = whimbrel(&home).args(["cat", "connect", &url]).stdin(Stdio::null()).output().unwrap();
    assert_fails(&stranger, "pre-shared");
    let mut command = whimbrel(&home);
    command.env("WHIMBREL_PSK", std::fs::read_to_string(&file).unwrap());
    let mut friend = Running::started(command.args(["cat", "connect", &url]));
    friend.stdin().write_all(b"from the environment\n").unwrap();
    drop(listener.stdin());
    let (friend, listener) = (friend.end(), listener.end());
    assert_eq!((friend.0, listener.0), (Some(0), Some(0)), "{} {}", friend.2, listener.2);
    assert_eq!(listener.1, b"from the environment\n");
}

/// A listener of the library, and its URL.
async fn server() -> (Endpoint, String) {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    (server, url)
}

/// Sends until the peer stops reading.
async fn stuff(mocket: &Mocket, bytes: bool) {
    let mut events = mocket.subscribe();
    let sending = async {
        let piece = vec![b'-'; 50_000];
        if bytes {
            let mut stream = mocket.open_stream().await.unwrap();
            while stream.write_all(&piece).await.is_ok() {}
        } else {
            while mocket.send(piece.clone()).await.is_ok() {}
        }
    };
    let blocked = async { while !matches!(events.recv().await.unwrap(), Event::SendBlocked(_)) {} };
    tokio::select! {
        () = sending => panic!("it ended"),
        () = blocked => {}
    }
}

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the child's end; a child that does not end is killed.
fn code_of(mut child: Child) -> Option<i32> {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait().unwrap().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_nobody_reads_does_not_keep_it_from_ending() {
    let home = Home::new("cat-unread");
    for (signal, code, how) in
        [("-INT", 130, None), ("-TERM", 143, Some("--bytes")), ("-INT", 130, Some("--runtime=current"))]
    {
        let (server, url) = server().await;
        let mut command = whimbrel(&home);
        command.args(["cat", "connect", &url]).args(how).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn().unwrap();
        let (_silent, _unread) = (client.stdin.take(), client.stdout.take());
        let mocket = server.accept().await.unwrap();
        stuff(&mocket, how == Some("--bytes")).await;
        let killed = std::process::Command::new("kill").args([signal, &client.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let closed = tokio::time::timeout(PATIENCE, mocket.closed()).await;
        assert_eq!(tokio::task::spawn_blocking(|| code_of(client)).await.unwrap(), Some(code), "{how:?}");
        assert!(
            matches!(&closed, Ok(CloseReason::Aborted(_, said)) if said.text.raw() == "interrupted"),
            "{closed:?}"
        );
    }
}

#[test]
fn an_input_has_not_arrived_before_the_other_end_has_written_it() {
    let home = Home::new("cat-unwritten");
    for how in [None, Some("--bytes")] {
        let mut command = whimbrel(&home);
        command.args(["cat", "listen", "--listen", "127.0.0.1:0"]).args(how);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut listener = command.spawn().unwrap();
        let mut errors = BufReader::new(listener.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0);
        }
        let url = line["listening ".len()..].trim();
        let mut client = Running::started(whimbrel(&home).args(["cat", "connect", url]).args(how));
        // More than a pipe holds, but less than the two ends buffer.
        let text = "0123456789abcde\n".repeat(12_500);
        client.stdin().write_all(text.as_bytes()).unwrap();
        // The first byte has arrived, and the rest is stuck.
        let mut output = BufReader::with_capacity(1, listener.stdout.take().unwrap());
        assert_eq!(output.fill_buf().unwrap(), b"0");
        let killed = std::process::Command::new("kill").args(["-INT", &listener.id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert_eq!(code_of(listener), Some(130));
        let (code, _, errors) = client.end();
        assert!(code == Some(1) && errors.contains("some data may not have arrived"), "{errors}");
    }
}

#[test]
fn a_reader_that_goes_away_is_told_to_the_peer() {
    let home = Home::new("cat-reader");
    let mut command = whimbrel(&home);
    let mut listener = listen(&home, &[]);
    let url = listener.listening.clone();
    command.args(["cat", "connect", &url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut reader = command.spawn().unwrap();
    let mut far = listener.stdin();
    far.write_all(b"read\n").unwrap();
    let mut output = BufReader::new(reader.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    drop(output);
    far.write_all(b"not read\n").unwrap();
    // Its input stays open.
    let _silent = reader.stdin.take();
    assert_eq!(code_of(reader), Some(0), "it had enough");
    let (code, _, errors) = listener.end();
    assert!(code == Some(1) && errors.contains("nobody reads its output any more"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_the_library_ends_in_order_by_a_polite_close() {
    let home = Home::new("cat-polite");
    let end = |client: Running| tokio::task::spawn_blocking(move || client.end());
    for code in [0, 7] {
        let (server, url) = server().await;
        let mut client = Running::started(whimbrel(&home).args(["cat", "connect", &url]));
        let _open = client.stdin();
        let mocket = server.accept().await.unwrap();
        mocket.send("all there is").await.unwrap();
        mocket.close(code, "bye").await;
        let (ended, output, errors) = end(client).await.unwrap();
        assert_eq!(output, b"all there is\n");
        match code {
            0 => assert_eq!(ended, Some(0), "{errors}"),
            _ => assert!(ended == Some(1) && errors.contains("the peer closed: bye (code 7)"), "{errors}"),
        }
    }
    // The server closes before all input that was read is delivered.
    let (server, url) = server().await;
    let mut client = Running::started(whimbrel(&home).args(["cat", "connect", &url]));
    let mut input = client.stdin();
    input.write_all(b"a line\nand the beginning").unwrap();
    let mocket = server.accept().await.unwrap();
    mocket.recv().await.unwrap();
    mocket.close(0, "").await;
    let (ended, _, errors) = end(client).await.unwrap();
    assert!(ended == Some(1) && errors.contains("some data may not have arrived"), "{errors}");
}

#[test]
fn a_start_that_fails_says_what_to_do_and_leaves_no_file() {
    let home = Home::new("cat-busy");
    assert!(whimbrel(&home).args(["key", "new"]).status().unwrap().success());
    let files = || {
        let entries = std::fs::read_dir(home.file("whimbrel")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().to_string();
    for (address, hint) in [
        (&busy[..], "another program has that port"),
        ("192.0.2.1:4433", "does not have the address 192.0.2.1"),
    ] {
        let output = whimbrel(&home).args(["cat", "listen", "--listen", address]).output().unwrap();
        assert_fails(&output, hint);
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
        assert_eq!(files(), before, "{address}");
    }
    // The first listener holds the salt alone; a second one reports only the busy port.
    drop(taken);
    let first = Running::noting(whimbrel(&home).args(["cat", "listen", "--listen", &busy]));
    let with_salt = files();
    assert_eq!(with_salt.len(), before.len() + 1);
    let output = whimbrel(&home).args(["cat", "listen", "--listen", &busy]).output().unwrap();
    assert_fails(&output, "another program has that port");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    assert_eq!(files(), with_salt);
    drop(first);
}

#[test]
fn a_tag_that_is_too_large_is_a_mistake_on_the_command_line() {
    let home = Home::new("cat-tag");
    let url = format!("whimbrel://{}@127.0.0.1:9", new_identity().public());
    let output =
        whimbrel(&home).args(["cat", "connect", &url, "--tag", "4611686018427387904"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_fails(&output, "from 0 to 4611686018427387903");
}
