//! Runs `whimbrel top` in a terminal.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{Home, Running, assert_fails, whimbrel};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program in a terminal of 80 by 24 letters, which `script` of util-linux makes.
struct InTerminal {
    child: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl InTerminal {
    /// None if this host has no `script`.
    fn start(home: &Home, command: &str) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            eprintln!("not run: this host has no `script` (package bsdutils or util-linux)");
            return None;
        }
        let program = whimbrel(home).get_program().to_str().unwrap().to_owned();
        let line = format!("stty rows 24 cols 80; {program} {command}; echo ended with $?; stty -a");
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color").env("HOME", &home.0);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, output) = channel();
        let mut from = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                if send.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keys = child.stdin.take().unwrap();
        Some(Self { child, keys, output, seen: String::new() })
    }

    /// Waits until this has been on the screen since the last time.
    fn shows(&mut self, text: &str) {
        let start = Instant::now();
        while !self.seen.contains(text) {
            assert!(start.elapsed() < PATIENCE, "no `{text}` in {:?}", self.seen);
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(100)) {
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn it_finds_a_broker_shows_it_and_gives_the_terminal_back() {
    let home = Home::new("top");
    let control = home.file("harbour.sock");
    let mut command = whimbrel(&home);
    command.args(["broker", "run", "--listen", "127.0.0.1:0", "--control"]).arg(&control);
    let broker = Running::listening(&mut command);
    let mut subscriber = whimbrel(&home);
    subscriber.args(["sub", "prices/#", "--broker", &broker.listening]);
    let (_subscriber, _) = Running::saying(&mut subscriber, "attached at broker ");
    let Some(mut top) = InTerminal::start(&home, "top") else { return };
    // Another screen, and then what was found without a name.
    top.shows("\x1b[?1049h");
    top.shows("harbour.sock");
    // All is drawn again: what stayed the same would not be written otherwise.
    top.press("3\x0c");
    top.shows("prices/#");
    // Ctrl-C is a key here.
    top.press("\x03");
    top.shows("\x1b[?1049l");
    top.shows("ended with 0");
    // The terminal echoes and takes whole lines again.
    top.shows(" icanon");
    top.shows(" echo ");
}

#[test]
fn a_signal_ends_it_and_gives_the_terminal_back() {
    let home = Home::new("top-signal");
    let Some(mut top) = InTerminal::start(&home, "top /nowhere/x.sock") else { return };
    // Only the beginning of the reason has room.
    top.shows("x.sock");
    let children = format!("/proc/{0}/task/{0}/children", top.child.id());
    let shell = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let process = if children.trim().is_empty() { shell } else { children.trim().to_owned() };
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    top.shows("\x1b[?1049l");
    top.shows("ended with 143");
    top.shows(" icanon");
}

#[test]
fn without_a_terminal_it_names_status() {
    let home = Home::new("top-none");
    let output = whimbrel(&home).arg("top").stdin(Stdio::null()).output().unwrap();
    assert_fails(&output, "whimbrel status CONTROL");
    assert_eq!(output.status.code(), Some(2));
}
