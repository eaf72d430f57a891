//! Runs the real program as a child process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with its own home folder.
pub(crate) fn whimbrel(home: &Home) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whimbrel"));
    command.env("XDG_CONFIG_HOME", &home.0).env("HOME", &home.0);
    command
}

/// A folder that is deleted after the test.
pub(crate) struct Home(pub(crate) PathBuf);

impl Home {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A running program whose output is read continuously; killed with the test.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<String>>,
    /// The rest of its line `listening …`.
    pub(crate) listening: String,
}

impl Running {
    /// Starts it and waits until it listens, as announced on standard output.
    pub(crate) fn listening(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        output.read_line(&mut first).unwrap();
        let errors = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || read_text(errors));
        let stdout = std::thread::spawn(move || read_all(output));
        let listening = first.strip_prefix("listening ").unwrap_or_default().trim().to_owned();
        Self { child, stdout: Some(stdout), stderr: Some(stderr), listening }
    }

    /// Starts it and waits until it listens, as announced on standard error.
    pub(crate) fn noting(command: &mut Command) -> Self {
        Self::saying(command, "listening ").0
    }

    /// Starts it and waits for a line on standard error that begins so, whose rest becomes `listening`. Returns the
    /// lines before it, too.
    pub(crate) fn saying(command: &mut Command, begin: &str) -> (Self, Vec<String>) {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut listening, mut before) = (String::new(), Vec::new());
        while listening.is_empty() {
            let mut line = String::new();
            assert_ne!(
                errors.read_line(&mut line).unwrap(),
                0,
                "it ended before it said `{begin}`: {before:?}"
            );
            listening = line.strip_prefix(begin).unwrap_or_default().trim().to_owned();
            before.push(line.trim().to_owned());
        }
        let stderr = std::thread::spawn(move || read_text(errors));
        let output = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || read_all(output));
        (Self { child, stdout: Some(stdout), stderr: Some(stderr), listening }, before)
    }

    /// Starts it without waiting for anything.
    pub(crate) fn started(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let stdout = std::thread::spawn(move || read_all(output));
        let stderr = std::thread::spawn(move || read_text(errors));
        Self { child, stdout: Some(stdout), stderr: Some(stderr), listening: String::new() }
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. Returns exit code, standard output and standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<u8>, String) {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(start.elapsed() < PATIENCE, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let stdout = self.stdout.take().unwrap().join().unwrap();
        (status.code(), stdout, self.stderr.take().unwrap().join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    drop(from.read_to_end(&mut bytes));
    bytes
}

fn read_text(from: impl Read) -> String {
    String::from_utf8_lossy(&read_all(from)).into_owned()
}

/// Asserts that the program failed with a sentence and without a panic.
pub(crate) fn assert_fails(output: &Output, hint: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(hint) && !text.contains("panicked"), "{text}");
}

/// Ports of this host that no program has, and that the system gives to none that asks for any: what starts later finds its own free.
pub(crate) fn free_ports(number: usize) -> Vec<u16> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    // Below the range of ports that Linux gives by itself. Suites that run at once begin elsewhere.
    let nth = || NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let port = || (10_000 + (std::process::id().wrapping_mul(97).wrapping_add(nth())) % 20_000) as u16;
    let is_free = |port: &u16| {
        std::net::UdpSocket::bind(("127.0.0.1", *port)).is_ok()
            && std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()
    };
    std::iter::repeat_with(port).filter(is_free).take(number).collect()
}
