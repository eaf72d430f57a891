//! `cargo xtask mixed` lets today's program and an older one talk to each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};

use crate::process::{cargo, program, root};

/// The first revision whose suspended sessions can still be resumed. Rolling upgrades rely on that.
const OLDEST: &str = "a58db22";

/// Lets today's program talk with an older one.
///
/// The first run builds the older program from the repository's history, in target/mixed. Each pair of programs
/// exchanges messages and a byte stream, and runs a measurement in both directions. The older program also suspends a
/// session, which today's program resumes.
#[derive(clap::Args)]
pub(crate) struct Mixed {
    /// The revision of the older program.
    #[arg(long, value_name = "REVISION", default_value = OLDEST)]
    with: String,
}

impl Mixed {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let old = self.build_old()?;
        let built =
            cargo(&["build", "--quiet", "--package", "whimbrel-cli"]).status().context("cannot run cargo")?;
        ensure!(built.success(), "today's program could not be built");
        let new = root().join("target/debug/whimbrel");
        let folder = root().join("target/mixed/run");
        let mut failed = 0;
        for (name, far, near) in [("old listens", &old, &new), ("new listens", &new, &old)] {
            let pair = || Pair::new(&folder, far, near);
            failed += report(name, "messages", pair()?.cat(&[]));
            failed += report(name, "a byte stream", pair()?.cat(&["--bytes"]));
            failed += report(name, "a measurement", pair()?.perf(&[]));
            failed += report(name, "a measurement in reverse", pair()?.perf(&["--reverse"]));
        }
        for (name, far) in [("old listens", &old), ("new listens", &new)] {
            let what = "old suspends, new resumes";
            failed += report(name, what, Pair::new(&folder, far, &old)?.go_on(&new));
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Returns the path of the older program, and builds it unless it was built before.
    fn build_old(&self) -> anyhow::Result<PathBuf> {
        let folder = root().join("target/mixed").join(&self.with);
        let binary = folder.join("target/debug/whimbrel");
        if binary.exists() {
            return Ok(binary);
        }
        println!("building the program at {}", self.with);
        std::fs::create_dir_all(&folder)?;
        let mut archive = program("git", &["archive", &self.with])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run git")?;
        let source = archive.stdout.take().context("git has no output")?;
        let unpacked = Command::new("tar")
            .arg("-x")
            .current_dir(&folder)
            .stdin(source)
            .status()
            .context("cannot run tar")?;
        ensure!(
            archive.wait()?.success() && unpacked.success(),
            "git does not have the revision {}: fetch the whole history",
            self.with
        );
        let mut build = cargo(&["build", "--quiet", "--package", "whimbrel-cli"]);
        let built = build.current_dir(&folder).env("CARGO_TARGET_DIR", folder.join("target")).status()?;
        ensure!(built.success(), "the program at {} could not be built", self.with);
        Ok(binary)
    }
}

fn report(name: &str, what: &str, how: anyhow::Result<()>) -> u32 {
    match &how {
        Ok(()) => println!("{name}: {what}: good"),
        Err(error) => println!("{name}: {what}: FAILED: {error:#}"),
    }
    how.is_err().into()
}

/// A listening and a connecting program, with a home folder of their own.
struct Pair<'a> {
    home: PathBuf,
    far: &'a Path,
    near: &'a Path,
}

/// A program that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl<'a> Pair<'a> {
    fn new(home: &Path, far: &'a Path, near: &'a Path) -> anyhow::Result<Self> {
        if home.exists() {
            std::fs::remove_dir_all(home)?;
        }
        std::fs::create_dir_all(home)?;
        let pair = Self { home: home.to_owned(), far, near };
        let made = pair.command(near).args(["key", "new"]).stdout(Stdio::null()).status()?;
        ensure!(made.success(), "no key could be made");
        Ok(pair)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_CONFIG_HOME", &self.home).env("HOME", &self.home).stderr(Stdio::null());
        command
    }

    /// Starts the listener. Returns it with its URL.
    fn listen(&self, args: &[&str]) -> anyhow::Result<(Killed, String)> {
        let mut command = self.command(self.far);
        command.args(args).args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // `perf serve` prints the URL to standard output, `cat` to standard error.
        let says: Box<dyn Read> = match args {
            ["perf", ..] => Box::new(child.stdout.take().context("no output")?),
            _ => Box::new(child.stderr.take().context("no output")?),
        };
        let child = Killed(child);
        for line in BufReader::new(says).lines() {
            if let Some(url) = line?.strip_prefix("listening ") {
                return Ok((child, url.trim().to_owned()));
            }
        }
        bail!("the listener has ended without printing its URL")
    }

    /// Lets each end send a line and receive the other's.
    fn cat(&self, how: &[&str]) -> anyhow::Result<()> {
        let (mut far, url) = self.listen(&[&["cat", "listen"], how].concat())?;
        let mut near = self.command(self.near);
        near.args(["cat", "connect", &url]).args(how);
        self.exchange(&mut far, Killed(near.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?), "hello")
    }

    fn exchange(&self, far: &mut Killed, mut near: Killed, says: &str) -> anyhow::Result<()> {
        writeln!(near.0.stdin.take().context("no input")?, "{says}")?;
        writeln!(far.0.stdin.take().context("no input")?, "an answer")?;
        let (mut at_near, mut at_far) = (String::new(), String::new());
        near.0.stdout.take().context("no output")?.read_to_string(&mut at_near)?;
        far.0.stdout.take().context("no output")?.read_to_string(&mut at_far)?;
        ensure!(near.0.wait()?.success() && far.0.wait()?.success(), "a program has failed");
        ensure!(
            at_near == "an answer\n" && at_far.ends_with(&format!("{says}\n")),
            "{at_near:?} and {at_far:?}"
        );
        Ok(())
    }

    fn perf(&self, how: &[&str]) -> anyhow::Result<()> {
        let (_far, url) = self.listen(&["perf", "serve"])?;
        let run = self
            .command(self.near)
            .args(["perf", "run", &url, "--bytes", "1M", "--json"])
            .args(how)
            .output()?;
        ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        Ok(())
    }

    /// Lets the near end suspend its session, which `heir` resumes.
    fn go_on(&self, heir: &Path) -> anyhow::Result<()> {
        let (mut far, url) = self.listen(&["cat", "listen"])?;
        let file = self.home.join("session");
        let mut near = self.command(self.near);
        near.args(["cat", "connect", &url, "--suspend-to"]).arg(&file);
        let mut near = Killed(near.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        writeln!(near.0.stdin.as_mut().context("no input")?, "before")?;
        writeln!(far.0.stdin.as_mut().context("no input")?, "to the first")?;
        let mut line = String::new();
        BufReader::new(near.0.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line == "to the first\n", "{line:?}");
        let left = Command::new("kill").args(["-USR1", &near.0.id().to_string()]).status()?;
        ensure!(left.success() && near.0.wait()?.success(), "the program did not suspend its session");
        let mut second = self.command(heir);
        second.args(["cat", "--resume-from"]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        self.exchange(&mut far, Killed(second.spawn()?), "after")
    }
}
