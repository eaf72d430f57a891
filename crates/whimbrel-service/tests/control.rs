//! Tests of the control socket of a service: who may use it, and what becomes of it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use whimbrel::{Config, Endpoint};
use whimbrel_service::{AskError, Request, Service, ServiceError, ServiceOptions, ask, take_over};

/// Some user who is neither root nor the one who runs the tests.
const STRANGER: u32 = 65_534;

fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("whimbrel-control-{name}-{}", std::process::id()));
    fs::remove_file(&path).ok();
    path
}

async fn service(control: &Path, name: &str) -> Service {
    let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let options = ServiceOptions::new(name).version("2.3.4").control(control);
    Service::start(options, &endpoint, || serde_json::Value::Null).await.unwrap()
}

/// Returns the name of the service that answers.
async fn answering(control: &Path) -> String {
    ask(control, Request::Status).await.unwrap()["service"].as_str().unwrap().to_owned()
}

/// Runs as another user in the process that the next test starts. Alone it does nothing.
#[test]
fn child() {
    let Some(socket) = std::env::var_os("WHIMBREL_TEST_CONTROL") else { return };
    let mut stream = UnixStream::connect(socket).unwrap();
    // The service may have closed the connection already.
    stream.write_all(b"{\"request\":\"stop\"}\n").ok();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok();
    println!("answer: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_is_refused_even_if_the_file_lets_them_connect() {
    let control = place("stranger");
    let mut service = service(&control, "test").await;
    assert_eq!(fs::symlink_metadata(&control).unwrap().mode() & 0o777, 0o600);
    if fs::symlink_metadata(&control).unwrap().uid() != 0 {
        return whimbrel_testing::skipped("only root can act as another user");
    }
    fs::set_permissions(&control, fs::Permissions::from_mode(0o666)).unwrap();
    // The stranger may not be able to reach the folder in which this program was built.
    let program = place("stranger-program");
    // Another process copies it: a child that another test starts meanwhile would inherit the descriptor that is open for
    // writing, and nobody could run the program.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let asked = Command::new(&program)
        .args(["--exact", "child", "--nocapture"])
        .env("WHIMBREL_TEST_CONTROL", &control)
        .current_dir("/")
        .uid(STRANGER)
        .gid(STRANGER)
        .output();
    fs::remove_file(&program).unwrap();
    let asked = String::from_utf8(asked.unwrap().stdout).unwrap();
    assert!(asked.contains("answer: ") && !asked.contains("ok\":"), "{asked}");
    // Nothing stops the service, and it serves its own user.
    assert_eq!(answering(&control).await, "test");
    let stopped = tokio::time::timeout(std::time::Duration::from_millis(50), service.next()).await;
    assert!(stopped.is_err(), "{stopped:?}");
}

#[tokio::test]
async fn a_service_has_its_own_version() {
    let control = place("version");
    let service = service(&control, "test").await;
    assert_eq!(ask(&control, Request::Status).await.unwrap()["version"], "2.3.4");
    assert!(service.metrics().text().contains("whimbrel_service_info{name=\"test\",version=\"2.3.4\"} 1"));
    assert_eq!(ServiceOptions::new("test").version, "", "not that of Whimbrel");
}

#[tokio::test]
async fn regression_a_service_that_ends_leaves_the_socket_of_another_that_started_with_it() {
    let control = place("twins");
    let first = service(&control, "first").await;
    // Two that start at once both find no service that answers, and the second replaces the socket of the first.
    fs::remove_file(&control).unwrap();
    let second = service(&control, "second").await;
    drop(first);
    assert_eq!(answering(&control).await, "second");
    drop(second);
    assert!(!control.exists(), "its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_of_two_services_that_start_at_once_on_one_path_one_is_refused() {
    for round in 0..50 {
        let control = place(&format!("race-{round}"));
        // What a killed process leaves behind.
        drop(UnixListener::bind(&control).unwrap());
        let ready = std::sync::Arc::new(tokio::sync::Barrier::new(2));
        let start = || {
            let (control, ready) = (control.clone(), std::sync::Arc::clone(&ready));
            tokio::spawn(async move {
                let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
                ready.wait().await;
                let options = ServiceOptions::new("test").control(control);
                Service::start(options, &endpoint, || serde_json::Value::Null).await
            })
        };
        let (one, other) = tokio::join!(start(), start());
        let refused = match (one.unwrap(), other.unwrap()) {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
            (Ok(_), Ok(_)) => panic!("both started in round {round}"),
            (Err(one), Err(other)) => panic!("{one}; {other}"),
        };
        assert!(matches!(refused, ServiceError::ControlInUse(_)), "{refused}");
    }
}

/// Serves a socket as another user in the process that the next test starts. Alone it does nothing.
#[test]
fn serving_child() {
    let Some(socket) = std::env::var_os("WHIMBREL_TEST_SERVE") else { return };
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    println!("serving");
    let mut asked = String::new();
    listener.accept().unwrap().0.read_to_string(&mut asked).ok();
    println!("asked: {asked}");
}

#[tokio::test]
async fn regression_nothing_is_taken_over_from_another_user() {
    let control = place("forged");
    let own = fs::File::create(&control).unwrap().metadata().unwrap().uid();
    fs::remove_file(&control).unwrap();
    if own != 0 {
        return eprintln!("skipped: only root can act as another user");
    }
    let program = place("forger-program");
    // Another process copies it: a child that another test starts meanwhile would inherit the descriptor that is open for
    // writing, and nobody could run the program.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let forger = Command::new(&program)
        .args(["--exact", "serving_child", "--nocapture"])
        .env("WHIMBREL_TEST_SERVE", &control)
        .current_dir("/")
        .uid(STRANGER)
        .gid(STRANGER)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let taken = loop {
        match take_over(&control).await {
            Err(AskError::Nobody { .. }) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            taken => break taken,
        }
    };
    let said = forger.wait_with_output().unwrap();
    fs::remove_file(&program).unwrap();
    fs::remove_file(&control).unwrap();
    assert!(matches!(taken, Err(AskError::Forbidden(_))), "{taken:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("asked: \n"), "nothing is asked of it: {said}");
}
