//! `cargo xtask test` runs all checks. Its last line has the counts of the tests.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Context;

use crate::counts::Counts;
use crate::process::{cargo, root};
use crate::times::Times;
use crate::{lab, packages, tools};

/// The number of seeds for the test of random operations. Each seed runs 200 operations.
const RANDOM_SEEDS: &str = "10000";

/// The suites of planted faults. The whole workspace is selected, since each selection has features of its own, with
/// which all that it depends on would be compiled again.
const PLANTED: [&str; 6] = [
    "--features",
    "whimbrel-sim/mutants,whimbrel-soak/mutants,whimbrel-broker/mutants",
    "--test",
    "mutants",
    "--test",
    "fuzz_smoke",
];

/// Runs every check: format, lints, packages, tests, documentation, licences.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Build cargo-deny if it is missing. In CI and as root this is the default.
    #[arg(long)]
    install: bool,
    /// Run only the tests whose names contain this, and no other checks.
    filter: Option<String>,
}

/// The results so far.
#[derive(Default)]
struct Tally {
    counts: Counts,
    failed: Vec<&'static str>,
    skipped: Vec<(String, String)>,
    times: Times,
}

impl Test {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut tally = Tally::default();
        match &self.filter {
            Some(filter) => tally.tests("tests", &["--workspace", filter])?,
            None => self.everything(&mut tally)?,
        }
        Ok(tally.conclude())
    }

    fn everything(&self, tally: &mut Tally) -> anyhow::Result<()> {
        tally.check("format", cargo(&["fmt", "--all", "--check"]))?;
        let benches = ["fmt", "--manifest-path", "benches/Cargo.toml", "--check"];
        if root().join(benches[2]).exists() {
            tally.check("format of the benches", cargo(&benches))?;
        }
        // They are only checked, since building them would take longer than all tests.
        tally.check("benches", only_checked(benches[2]))?;
        match tools::cpp_compiler() {
            Ok(()) => tally.check("fuzz targets", fuzz_targets())?,
            Err(reason) => tally.skip("fuzz targets", reason),
        }
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        tally.check("lints", cargo(&clippy))?;
        let mut clippy = cargo(&["clippy", "--workspace", "--quiet", "--lib", "--bin", "soak"]);
        clippy.args(PLANTED).args(["--", "-D", "warnings"]);
        tally.check("lints of planted faults", clippy)?;
        tally.packages()?;
        tally.check("the library without features", library_with(None))?;
        for feature in packages::LIBRARY_FEATURES {
            tally.check("the library with a single feature", library_with(Some(feature)))?;
        }
        // One of the tests needs tshark, too. The dissector's own step reports if it is missing.
        let tshark = tools::tshark();
        // Without nftables, the tests that need it say so.
        drop(tools::nftables());
        // So do those that need brokers of others.
        tools::brokers();
        tally.tests("tests", &["--workspace"])?;
        // If the checkers miss planted faults, a passed test means nothing.
        tally.tests("planted faults", &[&["--workspace"][..], &PLANTED].concat())?;
        match tools::cryptography() {
            Ok(()) => {
                let mut vectors = Command::new("python3");
                vectors.arg("docs/vectors/verify.py").current_dir(root());
                tally.check("test vectors", vectors)?;
            }
            Err(reason) => tally.skip("test vectors, checked by a second implementation", reason),
        }
        match tshark {
            Ok(()) => {
                let mut dissector = Command::new("python3");
                dissector.arg("tools/wireshark/test.py").current_dir(root());
                tally.check("packet dissector", dissector)?;
            }
            Err(reason) => tally.skip("packet dissector", reason),
        }
        match tools::no_links() {
            None => self.lab(tally)?,
            Some(reason) => tally.skip("laboratory", reason),
        }
        let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        tally.check("documentation", doc)?;
        self.dependencies(tally)
    }

    /// Checks the dependencies: licences, bans, sources, advisories.
    fn dependencies(&self, tally: &mut Tally) -> anyhow::Result<()> {
        if let Err(reason) = tools::cargo_deny(self.install) {
            tally.skip("licences, bans, sources, advisories", reason);
            return Ok(());
        }
        let deny = ["deny", "--log-level", "error", "check", "licenses", "bans", "sources"];
        tally.check("licences, bans, sources", cargo(&deny))?;
        match tools::advisories() {
            Ok(()) => {
                let deny = ["deny", "--log-level", "error", "check", "--disable-fetch", "advisories"];
                tally.check("advisories", cargo(&deny))
            }
            Err(reason) => {
                tally.skip("advisories", reason);
                Ok(())
            }
        }
    }

    /// Runs the laboratory's own tests, and one flow each of TCP and of Whimbrel over one of its links. No process may
    /// outlive them.
    fn lab(&self, tally: &mut Tally) -> anyhow::Result<()> {
        tools::sctp();
        tools::rattan();
        tally.check(
            "format of the laboratory",
            cargo(&["fmt", "--manifest-path", lab::MANIFEST, "--check"]),
        )?;
        let clippy =
            ["clippy", "--manifest-path", lab::MANIFEST, "--all-targets", "--quiet", "--", "-D", "warnings"];
        tally.check("lints of the laboratory", cargo(&clippy))?;
        tally.tests("laboratory", &["--manifest-path", lab::MANIFEST])?;
        let laboratory = lab::tested();
        let before = lab::traces(&laboratory)?;
        for peer in ["tcp-cubic", "whimbrel"] {
            let mut flow = Command::new(&laboratory);
            flow.current_dir(root()).args(["try", peer, r#"{"load":"transfer","bytes":200000}"#]);
            flow.args(["--link", "rate=4mbit,delay=25ms,loss=1%", "--time", "15"]);
            tally.check("laboratory: a flow", flow)?;
        }
        let mut left = lab::traces(&laboratory)?;
        left.retain(|trace| !before.contains(trace));
        if !left.is_empty() {
            println!("   left by the laboratory: {}", left.join(", "));
            tally.failed.push("laboratory: nothing outlives it");
        }
        Ok(())
    }
}

impl Tally {
    /// Runs a step that passes or fails as a whole.
    fn check(&mut self, name: &'static str, mut command: Command) -> anyhow::Result<()> {
        announce(name);
        let start = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        self.done(name, status.success(), start);
        Ok(())
    }

    /// Checks the packages as they would be published.
    fn packages(&mut self) -> anyhow::Result<()> {
        let name = "packages";
        announce(name);
        let start = Instant::now();
        let faults = packages::faults()?;
        for fault in &faults {
            println!("   {fault}");
        }
        self.done(name, faults.is_empty(), start);
        Ok(())
    }

    /// Runs `cargo test` and counts its tests.
    fn tests(&mut self, name: &'static str, arguments: &[&str]) -> anyhow::Result<()> {
        announce(name);
        let start = Instant::now();
        let mut command = cargo(&["test", "--no-fail-fast"]);
        command.env("WHIMBREL_SEEDS", RANDOM_SEEDS);
        // Cargo names the suites on its standard error.
        let (output, both) = io::pipe()?;
        command.args(arguments).stdout(both.try_clone()?).stderr(both);
        let mut tests = command.spawn().context("cannot run cargo test")?;
        // It holds the pipe's other end.
        drop(command);
        self.count(output)?;
        self.done(name, tests.wait()?.success(), start);
        Ok(())
    }

    fn done(&mut self, name: &'static str, success: bool, start: Instant) {
        let took = start.elapsed();
        println!("   {name}: {} in {:.1} s", if success { "good" } else { "FAILED" }, took.as_secs_f64());
        self.times.step(name, took);
        if !success {
            self.failed.push(name);
        }
    }

    fn skip(&mut self, name: &str, reason: String) {
        self.skipped.push((name.to_owned(), reason));
    }

    /// Adds up the suites, and prints the test runner's output without the tests that passed.
    fn count(&mut self, output: impl Read) -> anyhow::Result<()> {
        // The runner counts a skipped test as passed. One test may report several skipped parts.
        let mut taken_for_passed = BTreeSet::new();
        for line in BufReader::new(output).lines() {
            let line = line?;
            self.times.line(&line);
            if let Some(suite) = Counts::from_line(&line) {
                self.counts += suite;
            }
            if let Some((test, reason)) = skipped(&line) {
                taken_for_passed.insert(test.to_owned());
                self.skip(test, reason.to_owned());
            } else if !line.is_empty() && !line.ends_with("... ok") && !line.starts_with("running ") {
                println!("   {line}");
            }
        }
        self.counts.passed = self.counts.passed.saturating_sub(taken_for_passed.len() as u64);
        Ok(())
    }

    fn conclude(mut self) -> ExitCode {
        print!("\n{}\n", self.times);
        for (name, reason) in &self.skipped {
            println!("skipped: {name}: {reason}");
        }
        for name in &self.failed {
            println!("FAILED: {name}");
        }
        self.counts.skipped += self.skipped.len() as u64;
        if self.counts.failed == 0 {
            // Otherwise a failed step outside the tests would read as success.
            self.counts.failed = self.failed.len() as u64;
        }
        println!("{}", self.counts);
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Returns a command that checks whether a separate workspace compiles.
fn only_checked(manifest: &str) -> Command {
    cargo(&["check", "--manifest-path", manifest, "--all-targets", "--quiet"])
}

/// Returns a command that checks the library with one feature alone, or with none. The workspace as a whole always
/// has all of them.
fn library_with(feature: Option<&str>) -> Command {
    let mut command = cargo(&["clippy", "--package", "whimbrel", "--no-default-features", "--quiet"]);
    command.args(feature.into_iter().flat_map(|feature| ["--features", feature]));
    command.args(["--", "-D", "warnings"]);
    command
}

/// Returns a command that builds all fuzz targets. It omits the instrumentation of a fuzzer's build, so it can reuse
/// what the workspace has compiled already.
fn fuzz_targets() -> Command {
    cargo(&["build", "--profile", "test", "--manifest-path", "fuzz/Cargo.toml", "--bins", "--quiet"])
}

fn announce(name: &str) {
    println!("── {name}");
}

/// Reads the test and the reason from the line of a skipped test, `skipped: TEST: WHY`. With a single thread, the test
/// runner has already begun the line.
fn skipped(line: &str) -> Option<(&str, &str)> {
    let said = line.rsplit(" ... ").next()?;
    said.strip_prefix("skipped: ")?.split_once(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_added_up() {
        let output = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n\
                      test result: ok. 2 passed; 0 failed; 3 ignored; 0 measured\n";
        let mut tally = Tally::default();
        tally.count(output.as_bytes()).unwrap();
        assert_eq!(tally.counts, Counts { passed: 3, failed: 0, skipped: 3 });
    }

    #[test]
    fn a_test_that_says_it_was_skipped_has_not_passed() {
        let output = "running 3 tests\nskipped: apart::a: it takes root\nskipped: apart::a: so does this\n\
                      test apart::a ... ok\n\
                      test b ... skipped: b: it takes root\nok\ntest c ... ok\n\n\
                      test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured\n";
        let mut tally = Tally::default();
        tally.count(output.as_bytes()).unwrap();
        let said = |test: &str, why: &str| (test.to_owned(), why.to_owned());
        let (a, also, b) =
            (said("apart::a", "it takes root"), said("apart::a", "so does this"), said("b", "it takes root"));
        assert_eq!(tally.skipped, [a, also, b]);
        assert_eq!(tally.counts.passed, 1);
    }
}
