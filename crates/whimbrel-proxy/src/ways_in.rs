//! A proxy that lets programs in.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::intercept::Ingress;
use crate::intercept::tproxy::{Interception, TproxyError, TproxySettings};
use crate::intercept::tun::TunError;
use crate::intercepting::{blocking, missing};
use crate::news::News;
use crate::policy::{Protocol, Rules};
use crate::proxy::{Proxy, StartError};
use crate::settings::Settings;
use crate::settings_error::SettingsError;
use crate::upgrade::Parcel;

impl Proxy {
    /// Lets programs in, once the proxy goes on.
    pub(crate) async fn let_in(
        &mut self,
        settings: &Settings,
        parcel: &Parcel,
        tell: &(impl Fn(News) + Clone + Send + Sync + 'static),
    ) -> Result<(), StartError> {
        let handed = &parcel.listeners;
        if parcel.interception.is_some() && settings.ways_in.tproxy.is_none() {
            return Err(TproxyError::Without.into());
        }
        if parcel.tun.is_some() && settings.ways_in.tun.is_none() {
            return Err(TunError::Without.into());
        }
        let rules = Rules::new(settings.rules.clone()).map_err(SettingsError::from)?;
        let (peers, limits) = (self.peers.clone(), Arc::clone(&self.common.limits));
        let Some(ingress) = Ingress::new(peers, rules, limits, self.common.flows.clone()) else {
            return Ok(());
        };
        self.ingress = Some(ingress.clone());
        let (watching, tell_condition) = (ingress.clone(), tell.clone());
        self.sessions.spawn(watching.watch_network(tell_condition));
        let ways = &settings.ways_in;
        if let Some(address) = ways.socks {
            let listener = self.listen(address, "SOCKS5", handed, tell).await?;
            self.run(ingress.clone().serve_socks(listener, ways.users.clone()));
        }
        if let Some(address) = ways.connect {
            let listener = self.listen(address, "HTTP CONNECT", handed, tell).await?;
            self.run(ingress.clone().serve_connect(listener));
        }
        for forward in &ways.forward {
            let listener = self.listen(forward.listen, "a forward", handed, tell).await?;
            self.run(ingress.clone().serve_forward(listener, forward.target.clone()));
        }
        let behind_tproxy = ways.tproxy.iter().flat_map(|tproxy| missing(&tproxy.interfaces));
        let behind_tun = ways.tun.iter().flat_map(|tun| missing(&tun.interfaces));
        behind_tproxy.chain(behind_tun).for_each(|name| tell(News::NoInterface(name.clone())));
        match (&ways.tun, &parcel.tun) {
            (Some(settings), Some(running)) => running.keeps(settings)?,
            (Some(settings), None) => self.intercept_by_tun(settings).await?,
            (None, _) => {}
        }
        match (&ways.tproxy, &parcel.interception) {
            (Some(settings), Some(running)) => Ok(running.keeps(settings)?),
            (Some(settings), None) => self.intercept(settings).await,
            (None, _) => Ok(()),
        }
    }

    async fn intercept(&mut self, settings: &TproxySettings) -> Result<(), StartError> {
        let (settings, rules) = (settings.clone(), self.settings.rules.clone());
        let interception = blocking(move || Interception::start(&settings, &rules)).await?;
        (self.tell.0)(News::Interception("traffic is intercepted"));
        self.serve_intercepted(&interception)?;
        self.interception = Some(interception);
        Ok(())
    }

    pub(crate) fn serve_intercepted(&mut self, interception: &Interception) -> Result<(), TproxyError> {
        let (Some(settings), Some(ingress)) = (&self.settings.ways_in.tproxy, &self.ingress) else {
            return Ok(());
        };
        let tell = self.tell.clone();
        let tell = move |what| (tell.0)(News::Interception(what));
        let serving = interception.serve(settings, ingress.clone(), tell)?;
        self.run(serving);
        Ok(())
    }

    /// Listens for programs. An address on which the former process has listened is taken over.
    async fn listen(
        &mut self,
        address: SocketAddr,
        what: &'static str,
        handed: &[(String, OwnedFd)],
        tell: &impl Fn(News),
    ) -> Result<TcpListener, StartError> {
        let failed = |error| StartError::Bind { address, error };
        let name = format!("{what} {address}");
        // Two forwards may ask for any port.
        let before = self.listeners.iter().filter(|(known, _)| *known == name).count();
        let bound = match handed.iter().filter(|(known, _)| *known == name).nth(before) {
            Some((_, file)) => std::net::TcpListener::from(file.try_clone().map_err(failed)?),
            None => TcpListener::bind(address).await.and_then(TcpListener::into_std).map_err(failed)?,
        };
        self.listeners.push((name, bound.try_clone().map_err(failed)?));
        let listener = TcpListener::from_std(bound).map_err(failed)?;
        if let Ok(address) = listener.local_addr() {
            self.common.own.add(Protocol::Tcp, address);
        }
        // The port may have been 0.
        tell(News::Serves(what, listener.local_addr().unwrap_or(address)));
        Ok(listener)
    }
}
