//! Tests of `whimbrel perf` with two processes. The assertions hold on a machine of any speed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};
use serde_json::Value;
use whimbrel::{CloseReason, Config, Endpoint};

/// Longer than anything that takes a second takes on a slow machine. The listener waits for 30 s.
const LONG: Duration = Duration::from_secs(25);

fn serve(home: &Home, arguments: &[&str]) -> Running {
    Running::listening(whimbrel(home).args(["perf", "serve", "--listen", "127.0.0.1:0"]).args(arguments))
}

/// Runs a measurement and returns its document, after checking that all required fields are there.
fn run(home: &Home, url: &str, arguments: &[&str]) -> Value {
    let output = whimbrel(home).args(["perf", "run", url, "--json"]).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for number in [
        "seconds",
        "bytes",
        "goodput_bps",
        "messages",
        "messages_per_s",
        "longest_gap_ms",
        "lost",
        "duplicated",
        "out_of_order",
        "expired",
        "replaced",
        "retransmitted",
        "wire_bytes_sent",
        "rtt_us",
        "loss",
        "cpu_s",
    ] {
        assert!(document[number].is_number(), "{number}: {document}");
    }
    assert!(document["paths"].as_array().is_some_and(|paths| paths.len() == 1), "{document}");
    for number in ["wire_bytes_sent", "rtt_us", "loss"] {
        assert!(document["paths"][0][number].is_number(), "{number}: {document}");
    }
    assert_eq!((&document["complete"], &document["error"]), (&true.into(), &Value::Null));
    assert_eq!((&document["duplicated"], &document["out_of_order"]), (&0.into(), &0.into()), "{document}");
    document
}

/// The fields that the first table below a heading of the page lists.
fn described(heading: &str) -> BTreeSet<String> {
    const PAGE: &str = include_str!("../../../docs/perf.md");
    let below = PAGE.split_once(&format!("# {heading}\n")).expect("a heading").1;
    let section = below.lines().take_while(|line| !line.starts_with('#'));
    let rows = section.filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split_once('`').expect("a name").0.to_owned()).collect()
}

fn fields(object: &Value) -> BTreeSet<String> {
    object.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn the_page_describes_the_document_and_paths_have_figures_of_their_own() {
    let home = Home::new("perf-page");
    let server = serve(&home, &[]);
    let document = run(&home, &server.listening, &["--mode", "mixed", "--time", "0.5"]);
    assert_eq!(described("The document"), fields(&document));
    for side in ["paths", "sink_paths"] {
        assert_eq!(described("A path"), fields(&document[side][0]));
    }
    for inner in fields(&document["urgent"]).union(&fields(&document["latency_us"])) {
        let page = include_str!("../../../docs/perf.md");
        assert!(page.contains(&format!("`{inner}`")), "docs/perf.md says nothing of {inner}");
    }
    let [sent, came] = [&document["paths"][0]["bytes_sent"], &document["sink_paths"][0]["bytes_received"]];
    let bytes = document["bytes"].as_u64().unwrap();
    assert!(sent.as_u64() >= Some(bytes) && came.as_u64() >= Some(bytes), "{document}");
    let rate = document["sink_paths"][0]["received_bps"].as_f64().unwrap();
    assert!(rate >= document["goodput_bps"].as_f64().unwrap(), "{document}");
}

fn assert_latency(document: &Value, kind: &str) {
    assert_eq!(document["latency_kind"], kind);
    let at = |place: &str| document["latency_us"][place].as_f64().unwrap();
    let places = ["p50", "p90", "p99", "p999", "max"].map(at);
    assert!(places[0] > 0.0 && places.is_sorted(), "{document}");
}

#[test]
fn a_pre_shared_key_is_taken_by_both_ends() {
    let home = Home::new("perf-psk");
    let secret = home.file("psk");
    assert!(whimbrel(&home).args(["key", "psk", "--out"]).arg(&secret).status().unwrap().success());
    let psk = ["--psk", secret.to_str().unwrap()];
    let server = serve(&home, &psk);
    let document =
        run(&home, &server.listening, &[&psk[..], &["--mode", "messages", "--bytes", "5000"]].concat());
    assert_eq!(document["bytes"], 5000);
}

#[test]
fn each_mode_delivers_all_it_should() {
    let home = Home::new("perf-modes");
    let server = serve(&home, &[]);
    let url = &server.listening;
    for reverse in [false, true] {
        let with = |arguments: &[&str]| {
            let mut all = arguments.to_vec();
            all.extend(reverse.then_some("--reverse"));
            run(&home, url, &all)
        };
        let bulk = with(&["--mode", "bulk", "--bytes", "1000000"]);
        assert_eq!((&bulk["bytes"], &bulk["lost"]), (&1_000_000.into(), &0.into()));
        assert_latency(&bulk, "one-way");
        for service in ["rs", "ru"] {
            let batch = ["--mode", "messages", "--bytes", "500000", "--batch", "64", "--service", service];
            let messages = with(&batch);
            assert_eq!((&messages["messages"], &messages["lost"]), (&10_000.into(), &0.into()), "{messages}");
        }
        let rated = with(&["--mode", "latency", "--rate", "200", "--time", "0.5", "--service", "ru"]);
        assert!(rated["messages"].as_u64().unwrap() >= 50 && rated["lost"] == 0, "{rated}");
        assert_latency(&rated, "one-way");
        let mixed = with(&["--mode", "mixed", "--time", "0.5"]);
        assert!(mixed["urgent"]["messages"].as_u64().unwrap() > 0, "{mixed}");
        let echoed = with(&["--mode", "latency", "--rate", "200", "--time", "0.5", "--own-clock"]);
        assert_latency(&echoed, "half-round-trip");
    }
    let idle = run(&home, url, &["--mode", "latency", "--time", "0.3"]);
    assert_latency(&idle, "one-way");
    assert!(idle["round_trip_us"]["p50"].as_f64() > idle["latency_us"]["p50"].as_f64(), "{idle}");
    let apart = run(&home, url, &["--mode", "latency", "--time", "0.3", "--own-clock"]);
    assert_latency(&apart, "half-round-trip");
    let one_thread = run(&home, url, &["--bytes", "5M", "--runtime", "current", "--congestion", "cubic"]);
    assert_eq!(one_thread["bytes"], 5_000_000);
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn unreliable_messages_are_all_accounted_for() {
    let home = Home::new("perf-unreliable");
    let server = serve(&home, &[]);
    for service in ["us", "uu"] {
        let document =
            run(&home, &server.listening, &["--mode", "messages", "--service", service, "--bytes", "200000"]);
        let [came, lost] = ["messages", "lost"].map(|count| document[count].as_u64().unwrap());
        assert_eq!(came + lost, 4000, "{document}");
    }
    let replaced = ["--mode", "latency", "--rate", "500", "--replace", "--time", "0.5"];
    let document = run(&home, &server.listening, &replaced);
    assert_eq!(document["lost"], 0, "{document}");
}

#[test]
fn a_link_that_loses_costs_time_and_nothing_else() {
    let home = Home::new("perf-lossy");
    let server = serve(&home, &[]);
    let (key, address) = server.listening.split_once('@').unwrap();
    let bad = ["link", "--to", address, "--rate", "20mbit", "--delay", "5ms", "--loss", "5%"];
    let link = Running::listening(whimbrel(&home).args(bad));
    let url = format!("{key}@{}", link.listening);
    for arguments in [&["--bytes", "1000000"][..], &["--bytes", "1000000", "--reverse"]] {
        let bulk = run(&home, &url, arguments);
        assert_eq!((&bulk["bytes"], &bulk["lost"]), (&1_000_000.into(), &0.into()));
        assert!(bulk["loss"].as_f64().unwrap() > 0.0 && bulk["retransmitted"].as_u64() > Some(0), "{bulk}");
        assert!(bulk["wire_bytes_sent"].as_u64() > Some(1_000_000) && bulk["rtt_us"].as_f64() > Some(1e4));
    }
    let timed = run(&home, &url, &["--time", "1"]);
    assert_eq!(timed["seconds"], 1.0);
    assert!(timed["bytes"].as_u64() > Some(0));
    let rated = ["--mode", "latency", "--rate", "100", "--time", "1", "--service", "ru"];
    assert_eq!(run(&home, &url, &rated)["lost"], 0);
}

#[test]
fn figures_hold_after_an_outage() {
    let home = Home::new("perf-outage");
    let server = serve(&home, &[]);
    let (key, address) = server.listening.split_once('@').unwrap();
    let bad = ["link", "--to", address, "--rate", "8mbit", "--delay", "5ms", "--outage", "1s on 2s off"];
    for arguments in [&["--time", "4"][..], &["--bytes", "2M"]] {
        // Whenever the transfer begins, it meets a whole outage.
        let link = Running::listening(whimbrel(&home).args(bad));
        let url = format!("{key}@{}", link.listening);
        let document = run(&home, &url, arguments);
        assert_eq!((&document["complete"], &document["lost"]), (&true.into(), &0.into()), "{document}");
        let number = |name: &str| document[name].as_f64().unwrap();
        assert!(number("longest_gap_ms") >= 800.0, "what the queue held came in the outage: {document}");
        assert!((number("goodput_bps") - number("bytes") * 8.0 / number("seconds")).abs() < 1.0);
        if arguments[0] == "--bytes" {
            assert_eq!(document["bytes"], 2_000_000);
        } else {
            assert_eq!(document["seconds"], 4.0, "the outage counts");
            assert!(number("bytes") < 8e6 / 8.0 * 3.0, "3 s at the link's rate at most: {document}");
        }
    }
}

#[test]
fn people_get_lines_and_a_summary() {
    let home = Home::new("perf-people");
    let server = serve(&home, &[]);
    let output = whimbrel(&home).args(["perf", "run", &server.listening, "--time", "1.5"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("bit/s") && text.contains("longest gap"), "{text}");
    let short = ["perf", "run", &server.listening, "--mode", "messages", "--size", "8", "--bytes", "800"];
    let output = whimbrel(&home).args(short).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("latency unknown: messages of less than 16 bytes"), "{text}");
    let apart = ["perf", "run", &server.listening, "--bytes", "800", "--own-clock"];
    let text = String::from_utf8(whimbrel(&home).args(apart).output().unwrap().stdout).unwrap();
    assert!(text.contains("latency unknown: the two ends share no clock"), "{text}");
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let home = Home::new("perf-wrong");
    let server = serve(&home, &[]);
    let (_, address) = server.listening.split_once('@').unwrap();
    let try_run = |url: &str, arguments: &[&str]| {
        whimbrel(&home).args(["perf", "run", url]).args(arguments).output().unwrap()
    };
    let other = whimbrel::new_identity().public();
    assert_fails(&try_run(&format!("whimbrel://{other}@{address}"), &[]), "the listener's key");
    assert_fails(&try_run("127.0.0.1:1", &[]), "whimbrel://");
    assert_fails(&try_run(&server.listening, &["--key", "/nonexistent/key"]), "whimbrel key new --out");
    assert_fails(&try_run(&format!("whimbrel://{address}"), &[]), "--trust-on-first-use");
    assert_fails(&try_run(&server.listening, &["--replace"]), "add --rate");
    assert_fails(&try_run(&server.listening, &["--mode", "latency", "--reverse"]), "--reverse");
    assert_fails(&try_run(&server.listening, &["--size", "0"]), "--size");
    assert_fails(&try_run(&server.listening, &["--frobnicate"]), "--frobnicate");
    let taken = whimbrel(&home).args(["perf", "serve", "--listen", address]).output().unwrap();
    assert_fails(&taken, "cannot bind");
    // A port that was free a moment ago.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_fails(&try_run(&format!("whimbrel://{other}@{nobody}"), &[]), "no answer");
}

#[test]
fn what_is_no_measurement_is_no_command_line() {
    let home = Home::new("perf-usage");
    let url = format!("whimbrel://{}@127.0.0.1:9", whimbrel::new_identity().public());
    for wrong in [
        &["perf", "run", &url, "--replace"][..],
        &["perf", "run", &url, "--size", "0"],
        &["perf", "run", &url, "--rate", "1e-300"],
        &["perf", "run", &url, "--rate", "nan"],
        &["perf", "run", &url, "--time", "1e300"],
        &["perf", "run", &url, "--lifetime", "18446744073709551615"],
        &["perf", "run", &url, "--congestion", "fixed:1bit"],
        &["perf", "run", &url, "--wait", "1e18"],
        &["perf", "run", &url, "--frobnicate"],
        &["perf", "run", "127.0.0.1:1"],
        &["cat", "connect", &url, "--message-size", "0"],
        &["cat", "connect", &url, "--bind", "127.0.0.1:0", "--path", "127.0.0.1"],
        &["cat", "connect", &url, "--bind", "localhost"],
        &["cat", "listen", "--listen", "4433"],
        &["perf", "serve", "--listen", "nonsense"],
        &["cat"],
    ] {
        let output = whimbrel(&home).args(wrong).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {errors}");
        assert!(output.stdout.is_empty() && !errors.contains("panicked"), "{wrong:?}: {errors}");
    }
}

#[test]
fn a_measurement_that_did_not_begin_has_a_document_too() {
    let home = Home::new("perf-unanswered");
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let key = whimbrel::new_identity().public();
    let url = format!("whimbrel://{key}@{}", nobody.local_addr().unwrap());
    let absent = home.file("absent");
    let absent = absent.to_str().unwrap();
    for (arguments, why) in [
        (&["--wait", "100ms"][..], "no answer"),
        (&["--wait", "100ms", "--reverse"], "no answer"),
        (&["--wait", "100ms", "--mode", "latency"], "no answer"),
        (&["--key", absent], "whimbrel key new --out"),
    ] {
        let output = whimbrel(&home).args(["perf", "run", &url, "--json"]).args(arguments).output().unwrap();
        assert_fails(&output, why);
        let document = assert_cut(&output.stdout, why);
        assert!(document["error"].as_str().unwrap().contains(why), "{document}");
        for unheard in ["messages", "seconds", "lost", "packets_sent", "paths", "sink_paths", "cpu_s"] {
            assert!(document[unheard].is_null(), "{unheard}: {document}");
        }
        assert_eq!(described("The document"), fields(&document));
        // People get the same reason, in one sentence.
        let output = whimbrel(&home).args(["perf", "run", &url]).args(arguments).output().unwrap();
        assert_fails(&output, why);
        assert!(output.stdout.is_empty() && output.stderr.iter().filter(|byte| **byte == b'\n').count() == 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_sink_is_told_from_one() {
    let home = Arc::new(Home::new("perf-no-sink"));
    for load in [&["--mode", "bulk"][..], &["--reverse"], &["--mode", "latency"]] {
        // It listens but never answers.
        let silent =
            Endpoint::bind(Config::listen_as(whimbrel::new_identity()), "127.0.0.1:0").await.unwrap();
        let url = format!("whimbrel://{}@{}", silent.public_key(), silent.local_addr().unwrap());
        let home = home.clone();
        let run = move || {
            let run = ["perf", "run", &url, "--wait", "500ms", "--time", "600"];
            whimbrel(&home).args(run).args(load).output().unwrap()
        };
        let running = tokio::task::spawn_blocking(run);
        let _mocket = silent.accept().await.unwrap();
        assert_fails(&running.await.unwrap(), "does not answer like `whimbrel perf serve`");
    }
}

/// Returns what a stranger sends to a server and what the server answers before it closes, or `None` if it does not
/// close.
async fn said_to(server: &str, words: &[(u32, &str)]) -> (Vec<String>, Option<CloseReason>) {
    let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let mocket = endpoint.connect(server).await.unwrap();
    for (kind, words) in words {
        mocket.sender().ppid(*kind).build().send(words.as_bytes().to_vec()).await.unwrap();
    }
    let mut heard = Vec::new();
    loop {
        match mocket.recv().await {
            Ok(message) => heard.push(String::from_utf8_lossy(&message.payload).into_owned()),
            Err(closed) => return (heard, Some(closed.0)),
        }
        if heard.iter().any(|words| words.contains("report")) {
            return (heard, None);
        }
    }
}

/// The payload protocol identifier of control messages.
const CONTROL: u32 = 1;

fn start(of_plan: &str, clock: &str, times: &str) -> String {
    format!(
        r#"{{"start":{{"version":2,"plan":{{"mode":"messages","service":"rs","size":50,"batch":1,"lifetime_ms":null,
            "replace":false,"bytes":null,{of_plan}}},"clock":{clock},{times}}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_neither_breaks_a_server_nor_learns_the_machine() {
    let home = Home::new("perf-stranger");
    let server = serve(&home, &[]);
    let url = &server.listening;
    let times = r#""connect_ns":0,"elapsed_ns":0"#;
    for (plan, why) in [
        (r#""rate":1e-300,"time_s":1.0,"reverse":true"#, "--rate"),
        (r#""rate":10.0,"time_s":1e300,"reverse":true"#, "--time"),
        (r#""rate":10.0,"time_s":null,"reverse":true"#, "--time"),
    ] {
        let (_, closed) = said_to(url, &[(CONTROL, &start(plan, "null", times))]).await;
        assert!(closed.as_ref().is_some_and(|reason| reason.to_string().contains(why)), "{closed:?}");
    }
    let (_, closed) = said_to(url, &[(CONTROL, r#"{"\u001b]0;owned\u0007":1}"#)]).await;
    assert!(closed.is_some_and(|reason| reason.to_string().contains("something other than `whimbrel perf`")));

    let most = u64::MAX;
    let done = format!(
        r#"{{"done":{{"messages":{most},"urgent_messages":{most},"expired":{most},"replaced":{most},"lost":{most},"retransmitted":0,
            "repeated":0,"cpu_s":0.0,"paths":[],"total":{{"wire_bytes_sent":0,"packets_sent":0,"packets_lost":0}},"finished":true,
            "round_trip_us":null}}}}"#
    );
    let plan = r#""rate":10.0,"time_s":1.0,"reverse":false"#;
    let guessed = format!(r#"{{"nonce":{:?},"hash":{:?}}}"#, [0; 16], [0; 32]);
    let times = format!(r#""connect_ns":{most},"elapsed_ns":{most}"#);
    let (heard, _) = said_to(url, &[(CONTROL, &start(plan, &guessed, &times)), (CONTROL, &done)]).await;
    assert!(heard[0].contains(r#""one_clock":false"#), "{heard:?}");
    if let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        assert!(heard.iter().all(|words| !words.contains(boot.trim())), "{heard:?}");
    }
    server.signal("-TERM");
    let (code, _, errors) = server.end();
    assert!(code == Some(0) && !errors.contains("panicked"), "{errors}");
    assert!(!errors.contains('\x1b') && !errors.contains("owned"), "{}", errors.escape_debug());
}

#[test]
fn a_key_trusted_on_first_use_is_insisted_on() {
    let home = Home::new("perf-trust");
    let [first, second] = ["first", "second"].map(|name| {
        let file = home.file(name);
        assert!(whimbrel(&home).args(["key", "new", "--out"]).arg(&file).status().unwrap().success());
        file.to_str().unwrap().to_owned()
    });
    let server = serve(&home, &["--show-key", "--key", &first]);
    let (_, address) = server.listening.split_once('@').unwrap();
    let address = address.to_owned();
    let url = format!("whimbrel://{address}");
    run(&home, &url, &["--bytes", "1000", "--trust-on-first-use"]);
    run(&home, &url, &["--bytes", "1000"]);
    server.signal("-INT");
    assert_eq!(server.end().0, Some(0));
    let impostor = ["perf", "serve", "--listen", &address, "--show-key", "--key", &second];
    let _impostor = Running::listening(whimbrel(&home).args(impostor));
    let output = whimbrel(&home).args(["perf", "run", &url, "--trust-on-first-use"]).output().unwrap();
    assert_fails(&output, "somebody may be impersonating it");
}

#[test]
fn ctrl_c_ends_a_measurement_and_the_server_goes_on() {
    let home = Home::new("perf-interrupt");
    let server = serve(&home, &[]);
    let mut command = whimbrel(&home);
    command.args(["perf", "run", &server.listening, "--time", "600"]);
    // The first interval line stands in for `listening`: the measurement is running.
    let running = Running::listening(&mut command);
    running.signal("-INT");
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(130));
    assert!(errors.contains("ended early: interrupted"), "{errors}");
    assert!(String::from_utf8_lossy(&output).contains("longest gap"), "the figures so far");
    run(&home, &server.listening, &["--bytes", "1000"]);
}

#[test]
fn ctrl_c_before_anybody_has_answered_is_said() {
    let home = Home::new("perf-interrupt-early");
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("whimbrel://{}@{}", whimbrel::new_identity().public(), nobody.local_addr().unwrap());
    for load in [&["--mode", "bulk"][..], &["--reverse"], &["--mode", "latency"]] {
        let mut command = whimbrel(&home);
        let running = Running::started(command.args(["perf", "run", &url, "--wait", "600"]).args(load));
        // It connects, so it listens for signals.
        nobody.recv_from(&mut [0; 65_536]).unwrap();
        running.signal("-INT");
        let (code, output, errors) = running.end();
        assert_eq!((code, output.len()), (Some(130), 0), "{load:?}: {errors}");
        assert_eq!(errors, "interrupted before the other end had answered\n", "{load:?}");
        nobody.set_nonblocking(true).unwrap();
        while nobody.recv_from(&mut [0; 65_536]).is_ok() {}
        nobody.set_nonblocking(false).unwrap();
    }
}

#[test]
fn sigterm_ends_a_measurement_as_shells_expect() {
    let home = Home::new("perf-terminated");
    let server = serve(&home, &[]);
    let (url, under_way, _) = wire(&server.listening);
    let running = long(&home, &url, &["--mode", "bulk"]);
    under_way.recv().unwrap();
    running.signal("-TERM");
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(143), "{errors}");
    assert!(assert_cut(&output, "interrupted")["error"].is_null());
}

#[test]
fn a_peer_that_never_comes_back_is_given_up_as_soon_as_was_said() {
    let home = Home::new("perf-never");
    for load in [
        &["--bytes", "100T"][..],
        &["--bytes", "100T", "--reverse"],
        &["--time", "1"],
        &["--time", "1", "--reverse"],
    ] {
        let server = serve(&home, &[]);
        let (url, under_way, cut) = wire(&server.listening);
        let mut command = whimbrel(&home);
        command.args(["perf", "run", &url, "--json", "--wait", "200ms"]).args(load);
        let running = Running::started(&mut command);
        under_way.recv().unwrap();
        cut.store(true, Ordering::Relaxed);
        let began = Instant::now();
        let (code, output, errors) = running.end();
        // A second, the time until paths count as dead, and the 200 ms.
        assert!(began.elapsed() < LONG, "{:?} with {load:?}", began.elapsed());
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("the peer is out of reach"), "{errors}");
        let document = assert_cut(&output, "the peer is out of reach");
        let unheard = if load.contains(&"--reverse") { "packets_sent" } else { "sink_paths" };
        assert!(document[unheard].is_null() && document["lost"].is_null(), "{document}");
    }
}

/// Where the peer was, another listens now. It cannot open a packet, so it is like a peer that never comes back.
#[test]
fn a_peer_that_comes_back_with_another_key_is_given_up_as_soon() {
    let home = Home::new("perf-other-key");
    let [first, other] = ["first", "other"].map(|name| {
        let key = home.file(name);
        assert!(whimbrel(&home).args(["key", "new", "--out"]).arg(&key).status().unwrap().success());
        key.to_str().unwrap().to_owned()
    });
    let server = serve(&home, &["--key", &first]);
    let (url, under_way, _) = wire(&server.listening);
    let mut command = whimbrel(&home);
    command.args(["perf", "run", &url, "--json", "--wait", "200ms", "--bytes", "100T"]);
    let running = Running::started(&mut command);
    under_way.recv().unwrap();
    let address = server.listening.split_once('@').unwrap().1.to_owned();
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    let killed = Instant::now();
    let again = ["perf", "serve", "--listen", &address, "--key", &other];
    let other = Running::listening(whimbrel(&home).args(again));
    assert!(other.listening.ends_with(&address), "{}", other.listening);
    let (code, output, errors) = running.end();
    assert!(killed.elapsed() < LONG, "{:?}", killed.elapsed());
    assert_eq!(code, Some(1), "{errors}");
    assert_cut(&output, "the peer is out of reach");
}

/// The number of datagrams in each direction after which a measurement has figures.
const UNDER_WAY: u32 = 100;

/// A relay between a measurement and its server. Returns its address, a signal that the measurement is running, and a
/// switch that cuts the wire.
fn wire(server: &str) -> (String, Receiver<()>, Arc<AtomicBool>) {
    let (key, server) = server.split_once('@').unwrap();
    let server: SocketAddr = server.parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("{key}@{}", socket.local_addr().unwrap());
    let (tell, told) = channel();
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    std::thread::spawn(move || {
        let (mut client, mut up, mut down) = (server, 0, 0);
        let mut datagram = [0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            if from == server {
                down += 1;
            } else {
                client = from;
                up += 1;
            }
            if up.min(down) == UNDER_WAY {
                tell.send(()).ok();
            }
            if is_cut.load(Ordering::Relaxed) {
                continue;
            }
            drop(socket.send_to(&datagram[..length], if from == server { client } else { server }));
        }
    });
    (url, told, cut)
}

/// Starts a measurement that would take ten minutes.
fn long(home: &Home, url: &str, arguments: &[&str]) -> Running {
    Running::started(whimbrel(home).args(["perf", "run", url, "--json", "--time", "600"]).args(arguments))
}

fn assert_cut(output: &[u8], why: &str) -> Value {
    let document: Value = serde_json::from_slice(output).unwrap();
    assert_eq!(document["complete"], false);
    assert!(document["ended"].as_str().unwrap().contains(why), "{document}");
    document
}

#[test]
fn who_stops_a_measurement_gets_the_figures_so_far() {
    let home = Home::new("perf-stopped");
    let server = serve(&home, &[]);
    for load in [
        &["--mode", "bulk"][..],
        &["--mode", "bulk", "--reverse"],
        &["--mode", "messages", "--rate", "2000"],
        &["--mode", "messages", "--rate", "2000", "--reverse"],
        &["--mode", "mixed"],
        &["--mode", "latency"],
    ] {
        let (url, under_way, _) = wire(&server.listening);
        let running = long(&home, &url, load);
        under_way.recv().unwrap();
        running.signal("-INT");
        let (code, output, errors) = running.end();
        assert_eq!(code, Some(130), "{load:?}: {errors}");
        let document = assert_cut(&output, "interrupted");
        let number = |name: &str| document[name].as_f64().unwrap();
        assert!(number("messages") > 0.0 && number("wire_bytes_sent") > 0.0, "{load:?}: {document}");
        assert!(number("seconds") < 600.0, "{load:?}: {document}");
        assert!(
            (number("goodput_bps") - number("bytes") * 8.0 / number("seconds")).abs() < 1.0,
            "{document}"
        );
    }
}

#[test]
fn a_second_ctrl_c_waits_for_nothing() {
    let home = Home::new("perf-stopped-twice");
    let server = serve(&home, &[]);
    for load in [&["--mode", "bulk"][..], &["--mode", "bulk", "--reverse"], &["--mode", "latency"]] {
        let (url, under_way, cut) = wire(&server.listening);
        let mut running = long(&home, &url, load);
        under_way.recv().unwrap();
        // The other end's figures cannot arrive.
        cut.store(true, Ordering::Relaxed);
        while !running.has_ended() {
            running.signal("-INT");
        }
        let (code, output, errors) = running.end();
        assert_eq!((code, output.len()), (Some(130), 0), "{load:?}: {errors}");
    }
}

#[test]
fn a_measurement_whose_peer_goes_has_a_document() {
    let home = Home::new("perf-gone");
    for load in [&["--mode", "bulk"][..], &["--mode", "bulk", "--reverse"], &["--mode", "latency"]] {
        let server = serve(&home, &[]);
        let (url, under_way, _) = wire(&server.listening);
        let running = long(&home, &url, load);
        under_way.recv().unwrap();
        server.signal("-TERM");
        let (code, output, errors) = running.end();
        assert!(code == Some(1) && errors.contains("ended early"), "{load:?}: {errors}");
        assert_cut(&output, "the server was stopped");
    }
}

#[test]
fn the_other_command_at_the_other_end_is_said_at_both_in_one_sentence() {
    let home = Home::new("perf-cat");
    const SENTENCE: &str =
        "one end runs `whimbrel cat` and the other `whimbrel perf`: run the same command at both ends";
    let run = |arguments: &[&str]| {
        let output = whimbrel(&home).args(arguments).stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(SENTENCE) && !errors.contains("line 1 column"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    for how in [&[][..], &["--bytes"]] {
        let server = serve(&home, &[]);
        run(&[&["cat", "connect", &server.listening], how].concat());
        // Its input stays open: it is known before it says anything.
        let idle = Running::started(whimbrel(&home).args(["cat", "connect", &server.listening]).args(how));
        let (code, output, errors) = idle.end();
        assert!(code == Some(1) && output.is_empty() && errors.contains(SENTENCE), "{errors}");
        for mode in [&["--mode", "bulk"][..], &["--mode", "latency"], &["--reverse"]] {
            let mut listen = whimbrel(&home);
            let listener =
                Running::noting(listen.args(["cat", "listen", "--listen", "127.0.0.1:0"]).args(how));
            run(&[&["perf", "run", &listener.listening], mode].concat());
            let (code, output, errors) = listener.end();
            assert!(code == Some(1) && output.is_empty() && errors.contains(SENTENCE), "{errors}");
        }
    }
}

/// Whichever end notices first, both give the reason. `perf run` used to say that the measurement was over, and `cat`
/// that the peer had ended early.
#[tokio::test(flavor = "multi_thread")]
async fn regression_who_notices_the_other_command_first_says_so_to_the_other_end() {
    let home = Home::new("perf-notices");
    let cat = Endpoint::bind(Config::listen_as(whimbrel::new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", cat.public_key(), cat.local_addr().unwrap());
    let running = Running::started(whimbrel(&home).args(["perf", "run", &url, "--reverse"]));
    let mocket = cat.accept().await.unwrap();
    // The first word of `cat --bytes`, from an end that has not read what the other says.
    mocket.sender().ppid(2).build().send("").await.unwrap();
    let CloseReason::Aborted(_, said) = mocket.closed().await else { panic!("it is told") };
    assert!(
        said.code == 5 && said.text.to_string().contains("run the same command at both ends"),
        "{said:?}"
    );
    let (code, _, errors) = tokio::task::spawn_blocking(|| running.end()).await.unwrap();
    assert!(code == Some(1) && errors.contains("run the same command at both ends"), "{errors}");
}

#[test]
fn lost_messages_and_lost_packets_are_told_apart() {
    let home = Home::new("perf-losses");
    let server = serve(&home, &[]);
    let run = ["perf", "run", &server.listening, "--mode", "messages", "--time", "1.5"];
    let output = whimbrel(&home).args(run).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for figure in ["packets lost lately ", "; messages lost 0, ", ", packets lost "] {
        assert_eq!(shown.matches(figure).count(), 1, "{figure}: {shown}");
    }
}
