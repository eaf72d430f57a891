//! Tells requests that a browser sends for a person from those of another site's page.
//!
//! The page of another site can have a name of its own point to this host, and then its requests count as its own: DNS rebinding. They carry
//! that name, so names that nobody configured are refused. IP addresses cannot be made to point elsewhere.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;

/// The names by which the dashboard may be asked for.
#[derive(Debug)]
pub(super) struct Guard {
    hosts: Vec<String>,
}

impl Guard {
    pub(super) fn new(hosts: Vec<String>) -> Self {
        Self { hosts }
    }

    /// Whether the request names a host that is allowed.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return false };
        let Some(authority) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else {
            return false;
        };
        let host = authority.host();
        let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let is_named = |name: &String| name.eq_ignore_ascii_case(host);
        is_address || host.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(is_named)
    }

    /// Whether the request may be for events: a browser says if another site's page makes it.
    pub(super) fn admits_events(headers: &HeaderMap) -> bool {
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        matches!(site, None | Some(b"same-origin" | b"none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(hosts: &[&str], said: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        said.iter().for_each(|host| {
            headers.append(HOST, host.parse().unwrap());
        });
        Guard::new(hosts.iter().map(|host| (*host).to_owned()).collect()).admits(&headers)
    }

    #[test]
    fn addresses_and_configured_names_are_let_in_and_rebound_names_are_not() {
        for good in
            ["127.0.0.1:9110", "127.0.0.1", "[::1]:9110", "localhost:9110", "LOCALHOST", "192.0.2.7:80"]
        {
            assert!(admits(&[], &[good]), "{good}");
        }
        for wrong in ["evil.example:9110", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b", "@"]
        {
            assert!(!admits(&[], &[wrong]), "{wrong}");
        }
        assert!(admits(&["broker.example"], &["Broker.example:9110"]));
        assert!(!admits(&[], &[]), "no name");
        assert!(!admits(&[], &["localhost", "evil.example"]), "two names");
    }

    #[test]
    fn events_are_for_our_own_page() {
        let admits = |site: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            site.map(|site| headers.append("sec-fetch-site", site.parse().unwrap()));
            Guard::admits_events(&headers)
        };
        assert!(admits(None) && admits(Some("same-origin")) && admits(Some("none")));
        assert!(!admits(Some("cross-site")) && !admits(Some("same-site")));
    }
}
