//! A rival: shadowsocks-libev, which carries each connection over a TCP connection of its own.

use std::process::{Command, Stdio};
use std::sync::Arc;

use super::proxy::Proxy;
use super::scratch::Scratch;
use super::{PORT, Place, SOCKS};
use crate::testbed::Testbed;

const PASSWORD: &str = "laboratory";
const METHOD: &str = "aes-256-gcm";

/// Starts the far proxy and the near one. It forwards no port.
pub(super) fn start(testbed: &Testbed, place: Place) -> anyhow::Result<(Proxy, Proxy)> {
    let files = Arc::new(Scratch::new()?);
    let (at, port) = (place.at.to_string(), PORT.to_string());
    let (socks, socks_port) = SOCKS.split_once(':').unwrap_or((SOCKS, "1080"));
    let common = ["-s", &at, "-p", &port, "-k", PASSWORD, "-m", METHOD, "--no-delay"];
    let far = [&["ss-server"][..], &common].concat();
    let near = [&["ss-local"][..], &common, &["-b", socks, "-l", socks_port]].concat();
    let far = Proxy::start(testbed, place.far, &far, &files)?;
    Ok((Proxy::start(testbed, place.near, &near, &files)?, far))
}

/// Returns why it cannot be used here, and what to do. `None` if it can.
pub(super) fn missing() -> Option<String> {
    let what_to_do = "run `apt-get install shadowsocks-libev` as root";
    version().is_none().then(|| format!("shadowsocks-libev is not installed: {what_to_do}"))
}

pub(super) fn settings() -> String {
    let version = version().unwrap_or_else(|| "shadowsocks-libev".to_owned());
    format!(
        "{version} (GPL-3.0 or later) at both ends with {METHOD}, connections by SOCKS5, CUBIC between them"
    )
}

fn version() -> Option<String> {
    let output = Command::new("ss-server").arg("-h").stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    said.lines().map(str::trim).find(|line| line.starts_with("shadowsocks-libev ")).map(str::to_owned)
}
