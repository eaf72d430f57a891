//! Two processes of `whimbrel proxy run` with a bad link between them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use whimbrel::Url;
use whimbrel_service::key::save_new;

use crate::bad_link::Link;

/// How long a proxy may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two proxies. They end when this is dropped.
pub(super) struct Pair {
    link: Link,
    socks: SocketAddr,
    _ends: [Child; 2],
    _folder: Folder,
}

impl Pair {
    /// Starts the far proxy, a link, and the near proxy, which may open these targets. Returns once they are connected.
    pub(super) async fn start(
        targets: &[SocketAddr],
        setting: &'static str,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let identity = whimbrel::new_identity();
        save_new(&folder.file("near.key"), &identity)?;
        let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
        let allow = format!("{}={}", identity.public(), targets.join(","));
        let far = ["--listen", "127.0.0.1:0", "--allow", &allow];
        let mut far = end(&folder.file("far.key"), &far, Stdio::piped(), Stdio::null())?;
        let mut said = BufReader::new(far.stdout.take().context("the far proxy has no output")?).lines();
        let [url] = said_by("the far proxy", &mut said, ["listening "]).await?;
        let url: Url = url.parse()?;
        let link = Link::open(SocketAddr::new(url.host.parse()?, url.port), setting, seed)?;
        let key = url.key.context("the far proxy has no key")?;
        let peer = format!("whimbrel://{key}@{}", link.address());
        let near = ["--socks", "127.0.0.1:0", "--peer", &peer];
        let mut near = end(&folder.file("near.key"), &near, Stdio::null(), Stdio::piped())?;
        let mut said = BufReader::new(near.stderr.take().context("the near proxy has no output")?).lines();
        let [socks, _] = said_by("the near proxy", &mut said, ["SOCKS5 on ", "connected to "]).await?;
        // What else it says is read, so that it never waits for a reader.
        tokio::spawn(async move { while matches!(said.next_line().await, Ok(Some(_))) {} });
        Ok(Self { link, socks: socks.parse()?, _ends: [near, far], _folder: folder })
    }

    /// Returns the link between the two.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the near proxy's address for programs that speak SOCKS5.
    pub(super) fn socks(&self) -> SocketAddr {
        self.socks
    }
}

fn end(key: &Path, options: &[&str], stdout: Stdio, stderr: Stdio) -> anyhow::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["end", "run", "--key"])
        .arg(key)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr)
        // Ctrl-C is for the demo alone: a proxy stops when its input ends.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a proxy")
}

/// Reads lines until all these words have begun one. Returns the rest of each of these lines.
async fn said_by<const N: usize>(
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

/// A folder for the keys, which goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("whimbrel-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's care of temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
