//! TLS 1.3 over kernel TCP, by rustls. It shows what it costs to set up a secured connection.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use socket2::Protocol;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::side::{ready, receive, send};
use super::{Peer, Work, byte_stream, certificate, tcp, version};
use crate::job::{Figures, Job, Sent};

/// TLS over TCP with one of the kernel's congestion controllers.
pub(super) struct Tls {
    pub(super) name: &'static str,
    pub(super) congestion: &'static str,
}

impl Peer for Tls {
    fn name(&self) -> &'static str {
        self.name
    }

    fn settings(&self) -> String {
        format!(
            "TLS 1.3 by rustls {} (aws-lc-rs; {}) over TCP of Linux {} with {}: {}",
            version::of_crate("rustls"),
            certificate::SETTINGS,
            tcp::kernel(),
            self.congestion,
            tcp::SETTINGS
        )
    }

    fn missing(&self) -> Option<String> {
        tcp::missing(Protocol::TCP, self.congestion)
    }

    fn can(&self, _: &Job) -> bool {
        true
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
        Box::pin(async move {
            let (key, certificate) = certificate::new()?;
            let config = ServerConfig::builder_with_protocol_versions(&[&TLS13]).with_no_client_auth();
            let config = config.with_single_cert(vec![certificate.clone()], key.into())?;
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let listener = tcp::listen(Protocol::TCP, self.congestion, at[0])?;
            ready(&certificate::word(listener.local_addr()?, &certificate))?;
            receive(job, async |tally| {
                let mut stream = acceptor.accept(listener.accept().await?.0).await?;
                byte_stream::receive(&mut stream, tally).await
            })
            .await
        })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
        Box::pin(send(async move |sent| {
            let (to, roots) = certificate::split(to)?;
            let config =
                ClientConfig::builder_with_protocol_versions(&[&TLS13]).with_root_certificates(roots);
            let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
            let stream = tcp::connect(Protocol::TCP, self.congestion, job, from[0], &to.to_string()).await?;
            let mut stream = connector.connect(certificate::NAME.try_into()?, stream).await?;
            byte_stream::send(job, &mut stream, sent).await?;
            byte_stream::until_gone(&mut stream).await;
            Ok(())
        }))
    }
}
