//! Two processes of `whimbrel proxy run` with a bad link between them.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use whimbrel::Url;
use whimbrel_service::key::save_new;

use crate::bad_link::Link;
use crate::child::{self, Folder, said_by};

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
    let arguments = ["end", "run", "--key"].into_iter().map(OsStr::new).chain([key.as_os_str()]);
    child::start(arguments.chain(options.iter().map(OsStr::new)), stdout, stderr)
}
