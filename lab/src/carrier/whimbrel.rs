//! Our proxy: two processes of `whimbrel proxy run`, by the code of the program in this one.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, ensure};
use whimbrel_service::key::save_new;
use whimbrel_service::{Request, ask};

use super::proxy::Proxy;
use super::scratch::{Scratch, text};
use super::{FORWARD, OURS, OURS_TCP, PORT, Place, SOCKS};
use crate::program::cot;
use crate::testbed::{Side, Testbed};

/// Settings of both ends. By default a peer may open 4,096 flows, and some experiments hold more.
const SETTINGS: &str = "[limits]\nmax_flows_per_peer = 10000\n[transport.session]\nmax_streams = 10000\n";
/// Records that a dictionary is trained on.
const EXAMPLES: u64 = 2_000;
/// The first of them. What is sent later has lower numbers.
const FIRST_EXAMPLE: u64 = 1 << 40;

/// How our proxy is set up in an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wish {
    /// Whether its session is one TCP connection.
    pub(crate) over_tcp: bool,
    /// As in a rule: `zstd:3`.
    pub(crate) compression: Option<String>,
    /// Whether there is a dictionary.
    pub(crate) dictionary: bool,
    /// Whether small writes and datagrams wait for others.
    pub(crate) gathers: bool,
    /// Whether the traffic of the near host's own programs is intercepted.
    pub(crate) tproxy: bool,
}

impl Wish {
    /// Reads the name of a peer: `whimbrel zstd:3 dictionary`, `over TCP plain`, or one of ours without compression.
    pub(crate) fn of(peer: &str) -> Option<Self> {
        let (over_tcp, rest) = match (peer.strip_prefix("over TCP "), peer.strip_prefix("whimbrel ")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => {
                let over_tcp = peer == OURS_TCP;
                return (over_tcp || peer == OURS).then(|| Self { over_tcp, ..Self::default() });
            }
        };
        let (rest, gathers) = match rest.strip_suffix(" gathered") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (method, dictionary) = match rest.strip_suffix(" dictionary") {
            Some(method) => (method, true),
            None => (rest, false),
        };
        let compression = Some(method.to_owned()).filter(|method| method != "plain");
        Some(Self { over_tcp, compression, dictionary, gathers, tproxy: false })
    }
}

/// A pair that runs, and how its processes were started.
pub(crate) struct Pair {
    pub(super) near: Proxy,
    pub(super) far: Proxy,
    files: Arc<Scratch>,
    /// The command lines: of the near end and of the far one.
    words: [Vec<String>; 2],
    settings: String,
    place: Place,
}

/// Starts the far proxy and the near one.
pub(super) async fn start(testbed: &Testbed, wish: &Wish, place: Place) -> anyhow::Result<Pair> {
    let program = text(&std::env::current_exe()?)?;
    let files = Arc::new(Scratch::new()?);
    let identity = ::whimbrel::new_identity();
    let (near_key, far_key) = (files.file("near.key"), files.file("far.key"));
    save_new(&near_key, &identity)?;
    let (near_key, far_key) = (text(&near_key)?, text(&far_key)?);
    let (at, listen) = (place.at, format!("{}:{PORT}", place.at));
    let allow = format!("{}={at}:*", identity.public());
    let mut settings = SETTINGS.to_owned();
    if wish.dictionary {
        settings.push_str(&format!("[dictionaries]\ncot = '{}'\n", train(&program, &files)?));
    }
    let far_file = files.write("far.toml", &settings)?;
    let interception = if wish.tproxy { "[in.tproxy]\noutput = true\n" } else { "" };
    let settings = format!("{settings}{interception}{}", rule(wish, 100));
    let near_file = files.write("near.toml", &settings)?;
    let run = |file: &str, key: &str, control: &str| {
        let control = text(&files.file(control))?;
        let words = [&program, "proxy", "run", "--config", file, "--control", &control, "--key", key];
        anyhow::Ok(words.map(str::to_owned).to_vec())
    };
    let (scheme, connector) = if wish.over_tcp { ("whimbrel+tcp", "tcp") } else { ("whimbrel", "whimbrel") };
    let mut far_words = run(&far_file, &far_key, "far.sock")?;
    far_words.extend(["--listen", &listen, "--connector", connector, "--allow", &allow].map(str::to_owned));
    let ready = format!("listening {scheme}://");
    let (far, key) = begin(testbed, place.far, &far_words, &ready, &files).await?;
    let (key, _) = key.split_once('@').context("the far proxy printed no key")?;
    let url = format!("{scheme}://{key}@{listen}");
    let mut near_words = run(&near_file, &near_key, "near.sock")?;
    near_words.extend(["--peer", &url, "--socks", SOCKS].map(str::to_owned));
    if let Some(port) = place.forwarded {
        near_words.extend(["--forward".to_owned(), format!("{FORWARD}={at}:{port}")]);
    }
    let (near, _) = begin(testbed, place.near, &near_words, "connected to ", &files).await?;
    Ok(Pair { near, far, files, words: [near_words, far_words], settings, place })
}

async fn begin(
    testbed: &Testbed,
    side: Side,
    words: &[String],
    ready: &str,
    files: &Arc<Scratch>,
) -> anyhow::Result<(Proxy, String)> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Proxy::start_until(testbed, side, &words, ready, files).await
}

/// Returns the rule that all flows follow.
fn rule(wish: &Wish, priority: u8) -> String {
    let mut rule = format!("[[rule]]\nname = 'all'\npriority = {priority}\n");
    if let Some(compression) = &wish.compression {
        rule.push_str(&format!("compression = '{compression}'\n"));
    }
    if wish.gathers {
        rule.push_str(&format!("gather = '{GATHER_MS}ms'\n"));
    }
    if wish.dictionary {
        rule.push_str("dictionary = 'cot'\n");
    }
    rule
}

/// Trains a dictionary, and returns its path.
fn train(program: &str, files: &Scratch) -> anyhow::Result<String> {
    let examples: String = (0..EXAMPLES).map(|at| cot::record(FIRST_EXAMPLE + at)).collect();
    let examples = files.write("examples.xml", &examples)?;
    let dictionary = text(&files.file("cot.dict"))?;
    let words = ["proxy", "train", &examples, "--records", "lines", "--out", &dictionary];
    let trained = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    ensure!(trained.status.success(), "no dictionary: {}", String::from_utf8_lossy(&trained.stderr));
    Ok(dictionary)
}

impl Pair {
    /// Changes the near end's rule, and has it read again.
    pub(super) async fn reload(&self, number: usize) -> anyhow::Result<()> {
        let (rules, _) = self.settings.split_once("[[rule]]").context("there is no rule")?;
        let priority = if number.is_multiple_of(2) { 90 } else { 110 };
        self.files.write("near.toml", &format!("{rules}{}", rule(&Wish::default(), priority)))?;
        let answer = ask(&self.control(0), Request::Reload).await?;
        ensure!(answer.to_string().contains("rules changed"), "reload {number}: {answer}");
        Ok(())
    }

    /// Has a new process take over from one of both ends, in turns.
    pub(super) async fn upgrade(&mut self, testbed: &Testbed, number: usize) -> anyhow::Result<()> {
        let end = number % 2;
        let mut words = self.words[end].clone();
        words.push("--replace".to_owned());
        let side = if end == 0 { self.place.near } else { self.place.far };
        let (heir, _) = begin(testbed, side, &words, "taken over: ", &self.files).await?;
        let former = std::mem::replace(if end == 0 { &mut self.near } else { &mut self.far }, heir);
        former.ended().await
    }

    fn control(&self, end: usize) -> PathBuf {
        self.files.file(["near.sock", "far.sock"][end])
    }
}

pub(super) fn settings() -> String {
    "`whimbrel proxy run` of this revision at both ends, connections by SOCKS5 (iperf3's by a forward), with its defaults but for limits of \
     10,000 flows and streams"
        .to_owned()
}

/// How long a `gathered` pair has small writes and datagrams wait, milliseconds.
pub(crate) const GATHER_MS: u32 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_says_what_it_does() {
        let plain = Wish { over_tcp: true, ..Wish::default() };
        assert_eq!(Wish::of("over TCP plain"), Some(plain.clone()));
        assert_eq!(Wish::of(OURS_TCP), Some(plain));
        assert_eq!(Wish::of(OURS), Some(Wish::default()));
        let wish = Wish { compression: Some("zstd:3".into()), dictionary: true, ..Wish::default() };
        assert_eq!(Wish::of("whimbrel zstd:3 dictionary"), Some(wish));
        assert_eq!(Wish::of("tcp-cubic"), None);
    }
}
