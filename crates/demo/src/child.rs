//! Processes of the demo beside this one, and the folder for their keys.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long a process may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts this program with these arguments. It ends when its standard input ends, or the handle is dropped.
pub(crate) fn start<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
    stdout: Stdio,
    stderr: Stdio,
) -> anyhow::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr)
        // Ctrl-C is for the demo alone: the others stop when their input ends.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start another process")
}

/// Ends this process when its standard input ends, which also happens when the demo dies.
pub(crate) fn end_with_input() {
    std::thread::spawn(|| {
        let (mut input, mut ignored) = (std::io::stdin().lock(), [0; 64]);
        while input.read(&mut ignored).is_ok_and(|length| length > 0) {}
        std::process::exit(0);
    });
}

/// Reads lines until all these words have begun one. Returns the rest of each of these lines.
pub(crate) async fn said_by<const N: usize>(
    who: &str,
    lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>,
    words: [&str; N],
) -> anyhow::Result<[String; N]> {
    let (mut found, mut said) = ([const { None }; N], String::new());
    let reading = async {
        while found.iter().any(Option::is_none) {
            let Some(line) = lines.next_line().await? else { bail!("{who} ended: {said}") };
            for (word, found) in words.iter().zip(&mut found) {
                *found = found.take().or_else(|| line.strip_prefix(word).map(str::to_owned));
            }
            said = line;
        }
        Ok(())
    };
    timeout(PATIENCE, reading).await.with_context(|| format!("{who} does not start"))??;
    Ok(found.map(Option::unwrap_or_default))
}

/// A folder that goes with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("whimbrel-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's care of temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
