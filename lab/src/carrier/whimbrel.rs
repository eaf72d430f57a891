//! Our proxy: two processes of `whimbrel proxy run`, by the code of the program in this one.

use std::sync::Arc;

use anyhow::Context;
use whimbrel_service::key::save_new;

use super::proxy::Proxy;
use super::scratch::{Scratch, text};
use super::{FORWARD, PORT, Place, SOCKS};
use crate::testbed::Testbed;

/// Settings of both ends. By default a peer may open 4,096 flows, and some experiments hold more.
const SETTINGS: &str = "[limits]\nmax_flows_per_peer = 10000\n[transport.session]\nmax_streams = 10000\n";

/// Starts the far proxy and the near one.
pub(super) async fn start(testbed: &Testbed, place: Place) -> anyhow::Result<(Proxy, Proxy)> {
    let program = text(&std::env::current_exe()?)?;
    let files = Arc::new(Scratch::new()?);
    let identity = ::whimbrel::new_identity();
    let (near_key, far_key) = (files.file("near.key"), files.file("far.key"));
    save_new(&near_key, &identity)?;
    let (near_key, far_key) = (text(&near_key)?, text(&far_key)?);
    let (at, listen) = (place.at, format!("{}:{PORT}", place.at));
    let allow = format!("{}={at}:*", identity.public());
    let settings = files.write("proxy.toml", SETTINGS)?;
    let run = [program.as_str(), "proxy", "run", "--config", &settings, "--key"];
    let far = [&run[..], &[&far_key, "--listen", &listen, "--allow", &allow]].concat();
    let (far, key) = Proxy::start_until(testbed, place.far, &far, "listening whimbrel://", &files).await?;
    let (key, _) = key.split_once('@').context("the far proxy printed no key")?;
    let url = format!("whimbrel://{key}@{listen}");
    let forward = place.forwarded.map(|port| format!("{FORWARD}={at}:{port}"));
    let mut near = [&run[..], &[&near_key, "--peer", &url, "--socks", SOCKS]].concat();
    near.extend(forward.iter().flat_map(|forward| ["--forward", forward]));
    let (near, _) = Proxy::start_until(testbed, place.near, &near, "connected to ", &files).await?;
    Ok((near, far))
}

pub(super) fn settings() -> String {
    "`whimbrel proxy run` of this revision at both ends, connections by SOCKS5 (iperf3's by a forward), with its defaults but for limits of \
     10,000 flows and streams"
        .to_owned()
}
