//! A rival: [sing-box](https://github.com/SagerNet/sing-box) with hysteria2, which runs over QUIC.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};

use super::proxy::Proxy;
use super::scratch::Scratch;
use super::{FORWARD, PORT, Place, SOCKS};
use crate::testbed::Testbed;

/// Path at which `cargo xtask lab` installs it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/sing-box/bin/sing-box");
const NAME: &str = "localhost";
const PASSWORD: &str = "laboratory";

/// Starts the far proxy and the near one.
pub(super) fn start(testbed: &Testbed, place: Place) -> anyhow::Result<(Proxy, Proxy)> {
    let files = Arc::new(Scratch::new()?);
    let identity = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (certificate, key) = (lines(&identity.cert.pem()), lines(&identity.signing_key.serialize_pem()));
    let far = files.write("far.json", &far(place, &certificate, &key).to_string())?;
    let near = files.write("near.json", &near(place, &certificate).to_string())?;
    let run = |side, file: &str| {
        let words = [PROGRAM, "run", "--disable-color", "-c", file];
        Proxy::start(testbed, side, &words, &files)
    };
    let far = run(place.far, &far)?;
    Ok((run(place.near, &near)?, far))
}

fn far(place: Place, certificate: &[String], key: &[String]) -> Value {
    json!({
        "log": { "level": "error" },
        "inbounds": [{
            "type": "hysteria2",
            "listen": place.at,
            "listen_port": PORT,
            "users": [{ "password": PASSWORD }],
            "tls": { "enabled": true, "server_name": NAME, "certificate": certificate, "key": key },
        }],
        "outbounds": [{ "type": "direct" }],
    })
}

fn near(place: Place, certificate: &[String]) -> Value {
    let (socks, forward) = (listen(SOCKS), listen(FORWARD));
    let mut inbounds = vec![json!({ "type": "socks", "listen": socks.0, "listen_port": socks.1 })];
    if let Some(port) = place.forwarded {
        inbounds.push(json!({
            "type": "direct",
            "listen": forward.0,
            "listen_port": forward.1,
            "network": "tcp",
            "override_address": place.at,
            "override_port": port,
        }));
    }
    json!({
        "log": { "level": "error" },
        "inbounds": inbounds,
        "outbounds": [{
            "type": "hysteria2",
            "server": place.at,
            "server_port": PORT,
            "password": PASSWORD,
            "tls": { "enabled": true, "server_name": NAME, "certificate": certificate },
        }],
    })
}

/// Splits an address that is known to be right.
fn listen(address: &str) -> (&str, u16) {
    let (host, port) = address.split_once(':').unwrap_or((address, "0"));
    (host, port.parse().unwrap_or(0))
}

/// Returns PEM as sing-box wants it, an array of lines.
fn lines(pem: &str) -> Vec<String> {
    pem.lines().map(str::to_owned).collect()
}

/// Returns why it cannot be used here, and what to do. `None` if it can.
pub(super) fn missing() -> Option<String> {
    let what_to_do = "`cargo xtask lab run acm-table1` builds it, if Go is installed, in minutes";
    version().err().map(|_| format!("sing-box is not installed: {what_to_do}"))
}

pub(super) fn settings() -> String {
    let version = version().unwrap_or_else(|_| "sing-box".to_owned());
    format!(
        "{version} (GPL-3.0 or later) at both ends, hysteria2 between them without a given rate, so that it uses its BBR; connections by \
         SOCKS5 (iperf3's by `direct` with another destination); a self-signed certificate"
    )
}

fn version() -> anyhow::Result<String> {
    let output = Command::new(PROGRAM).arg("version").stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{PROGRAM} failed");
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or_default().to_owned())
}
