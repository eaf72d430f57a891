//! A broker that is killed again and again loses nothing that was acknowledged.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::store::{DurableSubscription, LogSettings, Store, StoreSettings, SubscriptionName};
use whimbrel_pubsub::coverage::Range;

use super::{CHANNEL, Folder, ORIGIN, again, command, entry, sequences};

const FOLDER: &str = "WHIMBREL_STORE_CRASH";
const SEED: &str = "WHIMBREL_STORE_SEED";
const KILLS: u64 = 60;
/// The lag of the subscription's coverage, in messages. Messages that it does not cover stay in the log.
const LAG: u64 = 300;

fn settings() -> StoreSettings {
    let log = LogSettings { segment_bytes: 16 << 10, ..LogSettings::default() };
    StoreSettings { log, ..StoreSettings::default() }
}

fn name() -> SubscriptionName {
    SubscriptionName::new("slow").unwrap()
}

/// Returns the last sequence that the durable subscription covers before its first gap.
fn covered(store: &Store) -> u64 {
    let coverage = store.meta().coverage(&name()).unwrap_or_default();
    coverage.of(CHANNEL).map_or(0, |coverage| coverage.next_gap(ORIGIN) - 1)
}

/// Publishes until it is killed. It tells each number once it is acknowledged.
#[test]
fn publisher() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let store = Store::open(Path::new(&folder), settings()).unwrap();
    let log = store.log(CHANNEL).unwrap();
    let generation = store.meta().subscription(&name()).map_or(1, |former| former.generation + 1);
    let subscription = DurableSubscription {
        name: name(),
        owner: Vec::new(),
        filter: "#".to_owned(),
        selector: None,
        channels: vec![CHANNEL],
        generation,
        born: 0,
    };
    store.meta().subscribe(&subscription).unwrap();
    let mut next = log.held().unwrap().get(&ORIGIN).map_or(0, |held| held.highest()) + 1;
    let mut waiting = VecDeque::new();
    let mut out = std::io::stdout();
    writeln!(out, "\nready").unwrap();
    loop {
        while waiting.len() < 32 {
            waiting.push_back((next, log.append(&entry(next, random.random_range(0..300))).unwrap()));
            next += 1;
        }
        let Some((sequence, ticket)) = waiting.pop_front() else { unreachable!() };
        ticket.wait().unwrap();
        writeln!(out, "ack {sequence}").unwrap();
        if sequence.is_multiple_of(50)
            && let Some(range) = Range::new(1, sequence.saturating_sub(LAG))
        {
            store.meta().cover(&name(), CHANNEL, ORIGIN, range).unwrap();
            store.meta().flush().unwrap();
            let trimmed =
                log.trim(0, |origin, range| store.meta().uncovered(CHANNEL, origin, range)).unwrap();
            assert_eq!(trimmed.uncovered, 0);
        }
    }
}

#[test]
fn whatever_was_acknowledged_before_kill_9_is_there_once_and_in_order() {
    let seed = std::env::var(SEED).map_or(2_026, |seed| seed.parse().unwrap());
    println!("{SEED}={seed}");
    let folder = Folder::new("store-crash");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut last, mut total, mut cut) = (0, 0, 0);
    for kill in 0..KILLS {
        let mut child = command(again("crash::publisher"))
            .env(FOLDER, &folder.0)
            .env(SEED, (seed + kill).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut told = lines.skip_while(|line| line != "ready").skip(1);
        for line in told.by_ref().take(random.random_range(0..400)) {
            last = line.strip_prefix("ack ").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
            total += 1;
        }
        child.kill().unwrap();
        // What it told before it died counts, too, but for a line that was cut.
        let rest: Vec<_> = told.filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).collect();
        let whole = &rest[..rest.len().saturating_sub(1)];
        total += whole.len();
        last = whole.last().copied().unwrap_or(last);
        let ended = child.wait().unwrap();
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&ended),
            Some(9),
            "it ended by itself: {ended}"
        );

        let store = Store::open(&folder.0, settings()).unwrap();
        let log = store.log(CHANNEL).unwrap();
        cut += log.notices().len();
        let found = sequences(&log);
        let first = found.first().copied().unwrap_or(1);
        assert!(
            first <= covered(&store) + 1,
            "{first} is the first, and only {} are covered",
            covered(&store)
        );
        let all: Vec<_> = (first..first + found.len() as u64).collect();
        assert_eq!(found, all, "kill {kill}");
        assert!(found.last().copied().unwrap_or(0) >= last, "kill {kill}: {last} was acknowledged");
    }
    println!("{KILLS} kills, {total} acknowledged, {cut} notices");
    assert!(total > 1_000, "only {total} were acknowledged");
}
