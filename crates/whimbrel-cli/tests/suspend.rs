//! Tests of `whimbrel cat` sessions that leave one process and continue in another.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;

use common::{Home, Running, assert_fails, whimbrel};
use whimbrel::{Config, Endpoint, new_identity};

/// More lines than a process prints while it is observed: it prints a few a second.
const MANY: usize = 100;

/// A `cat` whose output is read line by line; killed with the test.
struct Heard {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Heard {
    fn start(command: &mut Command) -> Self {
        Self::start_on(command, Stdio::piped())
    }

    fn start_on(command: &mut Command, stdin: impl Into<Stdio>) -> Self {
        let mut child =
            command.stdin(stdin.into()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdin, stdout, stderr }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// The rest of its output, up to `most` bytes.
    fn writes(&mut self, most: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        (&mut self.stdout).take(most).read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The URL that it listens on.
    fn listens(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line.strip_prefix("listening ")
            .unwrap_or_else(|| panic!("it does not listen: {line}"))
            .trim()
            .to_owned()
    }

    /// Waits until its standard error contains a line with the wanted text.
    fn says(&mut self, wanted: &str) {
        let mut said = String::new();
        while !said.lines().last().is_some_and(|line| line.contains(wanted)) {
            let more = self.stderr.read_line(&mut said).unwrap() > 0;
            assert!(more && said.lines().count() < MANY, "`{wanted}` wanted: {said}");
        }
    }

    fn leave(&self) {
        self.signal("-USR1");
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }

    /// Removes the limit on the length of its files.
    #[cfg(target_os = "linux")]
    fn make_room(&self) {
        let process = self.child.id().to_string();
        let lift = Command::new("prlimit").args(["--pid", &process, "--fsize=unlimited:"]).status();
        assert!(lift.unwrap().success());
    }

    /// Waits until it has left. Its input stays open: an end of input that overtakes the signal would go with the
    /// session, and the peer would rightly expect no more input.
    fn has_left(mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    fn ends_well(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Creates a home with a key that outlives its processes.
fn home(name: &str) -> Home {
    let home = Home::new(name);
    let made = whimbrel(&home).args(["key", "new"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    home
}

fn listen(home: &Home) -> Running {
    Running::noting(whimbrel(home).args(["cat", "listen", "--listen", "127.0.0.1:0"]))
}

#[test]
fn a_session_goes_on_in_another_process() {
    let home = home("suspend-process");
    let (file, secret) = (home.file("session"), home.file("passphrase"));
    std::fs::write(&secret, "between two processes\n").unwrap();
    let how = ["--passphrase-file", secret.to_str().unwrap()];
    // An older session file that others may read, and a folder in the way of the draft.
    std::fs::write(&file, "older").unwrap();
    let in_the_way = home.file("session.part");
    std::fs::create_dir(&in_the_way).unwrap();
    let mut listener = listen(&home);
    let mut far = listener.stdin();

    let mut command = whimbrel(&home);
    command.args(["cat", "connect", &listener.listening, "--suspend-to", file.to_str().unwrap()]).args(how);
    let mut first = Heard::start(&mut command);
    first.send("from the first");
    far.write_all(b"to the first\n").unwrap();
    assert_eq!(first.receive(), "to the first\n");
    first.leave();
    // If the file cannot be written, the session stays where it is.
    first.says("not suspended");
    std::fs::remove_dir(&in_the_way).unwrap();
    first.leave();
    first.has_left();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "for nobody else to read");

    far.write_all(b"to nobody yet\n").unwrap();
    drop(far);
    let mut command = whimbrel(&home);
    let mut second =
        Running::started(command.args(["cat", "--resume-from", file.to_str().unwrap()]).args(how));
    second.stdin().write_all(b"from the second\n").unwrap();
    let (second, listener) = (second.end(), listener.end());
    assert_eq!((second.0, listener.0), (Some(0), Some(0)), "{} {}", second.2, listener.2);
    assert_eq!(String::from_utf8_lossy(&second.1), "to nobody yet\n");
    assert_eq!(String::from_utf8_lossy(&listener.1), "from the first\nfrom the second\n");
    assert!(!file.exists(), "a session is resumed once");
}

#[test]
fn regression_ctrl_c_while_the_peer_is_waited_for_writes_the_session() {
    let home = home("suspend-hurry");
    let file = home.file("session");
    let session = file.to_str().unwrap();
    let mut listener = listen(&home);
    let mut far = listener.stdin();
    far.write_all(b"to the first\n").unwrap();
    let mut first = Heard::start(&mut cat(&home, &["connect", &listener.listening, "--suspend-to", session]));
    assert_eq!(first.receive(), "to the first\n");
    listener.signal("-STOP");
    first.send("from the first");
    first.says("the peer is out of reach");
    first.leave();
    first.says("suspending, waiting up to 10 s for the peer");
    first.signal("-INT");
    first.says("the peer was out of reach");
    first.has_left();

    listener.signal("-CONT");
    far.write_all(b"to nobody yet\n").unwrap();
    drop(far);
    let mut second = Running::started(&mut cat(&home, &["--resume-from", session]));
    drop(second.stdin());
    let (second, listener) = (second.end(), listener.end());
    assert_eq!((second.0, listener.0), (Some(0), Some(0)), "{} {}", second.2, listener.2);
    assert_eq!(String::from_utf8_lossy(&second.1), "to nobody yet\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_that_cannot_be_written_waits_until_it_can() {
    let home = home("suspend-full");
    let file = home.file("session");
    let session = file.to_str().unwrap();
    let mut listener = listen(&home);
    let mut far = listener.stdin();
    far.write_all(b"to the first\n").unwrap();
    // No file may be longer than zero bytes, as on a full disk, until the limit is removed.
    let script = r#"trap "" XFSZ; ulimit -S -f 0; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_whimbrel"), "cat", "connect", &listener.listening]);
    command.args(["--suspend-to", session]).env("XDG_CONFIG_HOME", &home.0);
    let mut first = Heard::start(&mut command);
    assert_eq!(first.receive(), "to the first\n");
    first.leave();
    first.says("the session waits in memory: make room");
    first.make_room();
    first.has_left();

    far.write_all(b"to nobody yet\n").unwrap();
    drop(far);
    let mut second = Running::started(whimbrel(&home).args(["cat", "--resume-from", session]));
    drop(second.stdin());
    let (second, listener) = (second.end(), listener.end());
    assert_eq!((second.0, listener.0), (Some(0), Some(0)), "{} {}", second.2, listener.2);
    assert_eq!(String::from_utf8_lossy(&second.1), "to nobody yet\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_goes_on_by_the_paths_named() {
    let home = home("suspend-paths");
    let file = home.file("session");
    let session = file.to_str().unwrap();
    let mut listen = whimbrel(&home);
    listen.args(["cat", "listen", "--listen", "127.0.0.1:0", "--show-paths"]);
    let mut listener = Running::noting(&mut listen);
    let start =
        |arguments: &[&str]| Heard::start(whimbrel(&home).arg("cat").args(arguments).arg("--show-paths"));
    let to = listener.listening.rsplit('@').next().unwrap().to_owned();
    let leaving = ["--path", "127.0.0.2", "--suspend-to", session];
    let mut first = start(&[&["connect", &listener.listening], &leaving[..]].concat());
    first.says(&format!("path 0 127.0.0.2 - {to}  active, primary"));
    first.leave();
    first.has_left();
    let mut second = start(&["--resume-from", session, "--path", "127.0.0.3", "--path", "127.0.0.4"]);
    for shown in ["path 0 127.0.0.3", "path 2 127.0.0.4"] {
        second.says(&format!("{shown} - {to}  active"));
    }
    drop(listener.stdin());
    second.ends_well();
    let (code, _, said) = listener.end();
    assert_eq!(code, Some(0), "{said}");
    for told in ["the peer has suspended the session", "the peer goes on with the session, from 127.0.0.3"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

fn cat(home: &Home, arguments: &[&str]) -> Command {
    let mut command = whimbrel(home);
    command.arg("cat").args(arguments);
    command
}

/// More lines than everything between two processes holds while nobody reads: windows, queue and pipes.
const LINES: u32 = 300_000;

#[test]
fn what_was_read_ahead_goes_with_the_session() {
    let home = home("suspend-lines");
    let file = home.file("session");
    let session = file.to_str().unwrap();
    let mut listener = Heard::start(&mut cat(&home, &["listen", "--listen", "127.0.0.1:0"]));
    let url = listener.listens();
    drop(listener.stdin.take());

    // Two processes read the same pipe, one after the other.
    let (from, mut into) = std::io::pipe().unwrap();
    let line = |number: u32| format!("{number} of {LINES} lines\n");
    let (half, begun) = std::sync::mpsc::channel();
    let writing = std::thread::spawn(move || {
        for number in 0..LINES {
            into.write_all(line(number).as_bytes()).unwrap();
            if number == 40_000 {
                half.send(()).unwrap();
            }
        }
    });
    let leaving = ["connect", &url, "--suspend-to", session];
    let first = Heard::start_on(&mut cat(&home, &leaving), from.try_clone().unwrap());
    begun.recv().unwrap();
    first.leave();
    first.has_left();
    assert!(!writing.is_finished(), "the rest is for the next");
    let second = Heard::start_on(&mut cat(&home, &["--resume-from", session]), from);
    for number in 0..LINES {
        assert_eq!(listener.receive(), line(number));
    }
    assert!(listener.writes(1).is_empty());
    writing.join().unwrap();
    second.ends_well();
    listener.ends_well();
}

/// Generates pseudo-random bytes.
fn noise(seed: u32) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(6 << 20).collect()
}

/// A pipe that delivers the first half of the bytes, and the second half on request.
fn in_halves(bytes: &[u8]) -> (PipeReader, Sender<()>) {
    let (from, mut into) = std::io::pipe().unwrap();
    let (ask, asked) = std::sync::mpsc::channel();
    let bytes = bytes.to_owned();
    std::thread::spawn(move || {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        into.write_all(first).unwrap();
        asked.recv().unwrap();
        into.write_all(second).unwrap();
    });
    (from, ask)
}

/// Sends a file in each direction. One end leaves in the middle of both and continues in another process.
fn bytes_go_on(name: &str, listener_leaves: bool) {
    let home = home(name);
    let (up, down) = (noise(1), noise(2));
    let ((near, rest_up), (far, rest_down)) = (in_halves(&up), in_halves(&down));
    let file = home.file("session");
    let session = file.to_str().unwrap();
    // Slow enough that data is always in flight.
    let how = ["--bytes", "--suspend-to", session, "--congestion", "fixed:40mbit"];
    let start = |side: &[&str], input: &PipeReader| {
        Heard::start_on(&mut cat(&home, &[side, &how[..]].concat()), input.try_clone().unwrap())
    };
    let mut listener = start(&["listen", "--listen", "127.0.0.1:0"], &far);
    let url = listener.listens();
    let client = start(&["connect", &url], &near);
    let (mut leaver, mut stayer, input, said, heard) = match listener_leaves {
        true => (listener, client, far, down, up),
        false => (client, listener, near, up, down),
    };
    let staying = std::thread::spawn(move || (stayer.writes(u64::MAX), stayer));
    let mut came = leaver.writes(1 << 20);
    leaver.leave();
    came.extend(leaver.writes(u64::MAX));
    leaver.has_left();
    for rest in [rest_up, rest_down] {
        rest.send(()).unwrap();
    }
    // The kind of data must be given again.
    let wrong = cat(&home, &["--resume-from", session]).output().unwrap();
    assert_fails(&wrong, "add --bytes");
    let mut back = Heard::start_on(&mut cat(&home, &["--resume-from", session, "--bytes"]), input);
    came.extend(back.writes(u64::MAX));
    let (arrived, stayer) = staying.join().unwrap();
    assert!(came == heard && arrived == said, "whole and in order");
    back.ends_well();
    stayer.ends_well();
}

#[test]
fn bytes_go_on_from_another_process_of_who_connected() {
    bytes_go_on("suspend-bytes", false);
}

#[test]
fn bytes_go_on_from_another_process_of_who_was_connected_to() {
    bytes_go_on("suspend-bytes-listener", true);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_word_nothing_more_is_read() {
    let home = home("suspend-last-word");
    let file = home.file("session");
    let session = file.to_str().unwrap();
    let endpoint = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr().unwrap());
    let mut first = Heard::start(&mut cat(&home, &["connect", &url, "--suspend-to", session]));
    first.send("last");
    drop(first.stdin.take());
    let far = endpoint.accept().await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, "last");
    let end = far.recv().await.unwrap();
    assert!(end.ppid.is_some() && end.payload.is_empty());
    first.leave();
    first.has_left();
    let mut second = Heard::start(&mut cat(&home, &["--resume-from", session]));
    second.send("too late");
    far.sender().ppid(end.ppid.unwrap()).build().send("").await.unwrap();
    let written = far.recv().await.unwrap();
    assert!(written.payload.is_empty() && written.ppid != end.ppid, "nothing but that our end is written");
    far.sender().ppid(written.ppid.unwrap()).build().send("").await.unwrap();
    // It ends although its input stays open.
    assert!(second.child.wait().unwrap().success());
    assert!(far.recv().await.is_err(), "nothing came after the end");
}

#[test]
fn what_cannot_be_resumed_is_said_with_what_to_do() {
    let home = home("suspend-wrong");
    let place = |name: &str| home.file(name).to_str().unwrap().to_owned();
    let make = |name: &str, bytes: &[u8]| {
        std::fs::write(home.file(name), bytes).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(home.file(name), private).unwrap();
        place(name)
    };
    let phrase = make("phrase", b"between two processes\n");
    let seal = ["--passphrase-file", &phrase];
    let leave = |name: &str, how: &[&str]| {
        let mut listener = listen(&home);
        let file = place(name);
        let leaving = ["connect", &listener.listening, "--suspend-to", &file];
        let mut first = Heard::start(&mut cat(&home, &[&leaving[..], how].concat()));
        listener.stdin().write_all(b"to the first\n").unwrap();
        assert_eq!(first.receive(), "to the first\n");
        first.leave();
        first.has_left();
        std::fs::read(&file).unwrap()
    };
    let (session, sealed) = (leave("session", &[]), leave("sealed", &seal));
    std::fs::create_dir(home.file("folder")).unwrap();
    let other = place("other");
    assert!(whimbrel(&home).args(["key", "new", "--out", &other]).status().unwrap().success());

    let plain: &[&str] = &[];
    for (file, how, hint) in [
        (place("missing"), plain, "there is no session in"),
        (place("folder"), plain, "is a folder"),
        (make("empty", b""), plain, "is empty"),
        (make("junk", b"notes of mine"), plain, "holds no session"),
        (make("junk", b"notes of mine"), &seal, "holds no session"),
        (make("half", &session[..session.len() / 2]), plain, "damaged or cut short"),
        (make("short", &session[..session.len() - 1]), plain, "damaged or cut short"),
        (make("head", &session[..6]), plain, "damaged or cut short"),
        (make("short-seal", &sealed[..sealed.len() - 1]), &seal, "a complete copy of the file"),
        (place("sealed"), plain, "--passphrase-file FILE"),
        (place("session"), &seal, "leave out --passphrase-file"),
        (place("session"), &["--key", &other], "--key FILE"),
    ] {
        let output = cat(&home, &["--resume-from", &file]).args(how).output().unwrap();
        assert_fails(&output, hint);
        assert_fails(&output, &file);
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    }
    assert!(home.file("session").exists() && home.file("sealed").exists(), "what was not resumed stays");
}
