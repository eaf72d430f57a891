//! The settings of interception by a TUN interface.

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::text::as_text;

/// The mark of what the proxy sends by itself: "WH" above 16 bits.
const MARK: u32 = 0x5748_0000;
/// The longest name of an interface (IFNAMSIZ less its end).
const LONGEST_NAME: usize = 15;
/// Networks of which each of 16 instances takes a part: a /24, and a /64.
const WIDEST_V4: u8 = 20;
const WIDEST_V6: u8 = 60;

/// Interception by a TUN interface, on Linux: what programs of this host, and hosts behind `interfaces`, send to `routes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TunSettings {
    /// The networks to which traffic is intercepted.
    #[serde(with = "as_text::networks")]
    pub routes: Vec<IpNet>,
    /// Networks within those to which traffic goes on as without a proxy.
    #[serde(with = "as_text::networks")]
    pub except: Vec<IpNet>,
    /// The interfaces whose hosts are served, too. Default: none.
    pub interfaces: Vec<String>,
    /// Whether the kernel rejects what would be intercepted after the proxy has crashed, or the interface is gone, until the
    /// next stop or `cleanup --all`. Default false.
    pub kill_switch: bool,
    /// Whose TCP answers programs. Default: the kernel's.
    pub stack: Stack,
    /// The firewall mark of what the proxy sends by itself. Whatever has a mark is not intercepted. Default 0x57480000.
    pub mark: u32,
    /// A network on this host's links, of which this host uses addresses for itself. Default 169.254.64.0/20.
    #[serde(with = "as_text")]
    pub own_ipv4: Ipv4Net,
    /// The same for IPv6. Default fd57:4849:4d42::/48.
    #[serde(with = "as_text")]
    pub own_ipv6: Ipv6Net,
}

/// Whose TCP answers programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// The kernel's. It is faster.
    #[default]
    Kernel,
    /// One of this process, where a firewall keeps segments from the kernel's.
    Userspace,
}

/// A mistake in these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunMistake {
    /// No network is named to intercept.
    #[error("[in.tun] intercepts nothing: name networks in `routes`, such as \"10.0.0.0/8\"")]
    Nothing,
    /// A network is to be intercepted and left alone.
    #[error("[in.tun] {0} is in `routes` and in `except`: remove it from one of them")]
    Both(IpNet),
    /// A network is left alone anyway.
    #[error("[in.tun] except: {0} is not within any of `routes`, so it is not intercepted anyway: remove it")]
    NotWithin(IpNet),
    /// No interface can be called so.
    #[error(
        "[in.tun] interfaces: `{0}` is not the name of an interface with other hosts behind it: `ip link` lists the names"
    )]
    Interface(String),
    /// Traffic without a mark is intercepted.
    #[error("[in.tun] mark: it must not be 0, or the proxy would intercept its own packets")]
    Mark,
    /// Its addresses would look as if they led to other hosts.
    #[error(
        "[in.tun] own_ipv4: {0} is not a part of 169.254.0.0/16 with at least 4,096 addresses, such as 169.254.64.0/20"
    )]
    OwnV4(Ipv4Net),
    /// It is too small, or not for private use.
    #[error(
        "[in.tun] own_ipv6: {0} is not a part of fc00::/7 with at most 60 bits, such as fd57:4849:4d42::/48"
    )]
    OwnV6(Ipv6Net),
}

impl TunMistake {
    /// Returns the setting at fault.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self::Nothing => "routes",
            Self::Both(_) | Self::NotWithin(_) => "except",
            Self::Interface(_) => "interfaces",
            Self::Mark => "mark",
            Self::OwnV4(_) => "own_ipv4",
            Self::OwnV6(_) => "own_ipv6",
        }
    }
}

impl Default for TunSettings {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            except: Vec::new(),
            interfaces: Vec::new(),
            kill_switch: false,
            stack: Stack::default(),
            mark: MARK,
            own_ipv4: Ipv4Net::new_assert([169, 254, 64, 0].into(), WIDEST_V4),
            own_ipv6: Ipv6Net::new_assert([0xfd57, 0x4849, 0x4d42, 0, 0, 0, 0, 0].into(), 48),
        }
    }
}

impl TunSettings {
    /// Checks what no single line shows.
    ///
    /// # Errors
    /// See [`TunMistake`].
    pub fn check(&self) -> Result<(), TunMistake> {
        if self.routes.is_empty() {
            return Err(TunMistake::Nothing);
        }
        let routes: BTreeSet<IpNet> = self.routes.iter().map(IpNet::trunc).collect();
        for except in self.except.iter().map(IpNet::trunc) {
            if routes.contains(&except) {
                return Err(TunMistake::Both(except));
            }
            if !routes.iter().any(|route| route.contains(&except)) {
                return Err(TunMistake::NotWithin(except));
            }
        }
        if let Some(wrong) = self.interfaces.iter().find(|name| !is_interface(name)) {
            return Err(TunMistake::Interface(wrong.chars().take(100).collect()));
        }
        if self.mark == 0 {
            return Err(TunMistake::Mark);
        }
        // The transport takes no address of a link for a path to its peer. One through here would lead to itself.
        if !self.own_ipv4.trunc().addr().is_link_local()
            || !(16..=WIDEST_V4).contains(&self.own_ipv4.prefix_len())
        {
            return Err(TunMistake::OwnV4(self.own_ipv4));
        }
        if !self.own_ipv6.trunc().addr().is_unique_local()
            || !(8..=WIDEST_V6).contains(&self.own_ipv6.prefix_len())
        {
            return Err(TunMistake::OwnV6(self.own_ipv6));
        }
        Ok(())
    }
}

/// Whether hosts can be behind an interface of this name.
fn is_interface(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) && name != "lo"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let nets = |all: &[&str]| all.iter().map(|net| net.parse().unwrap()).collect::<Vec<IpNet>>();
        let good = TunSettings { routes: nets(&["10.0.0.0/8", "::/0"]), ..Default::default() };
        good.check().unwrap();
        TunSettings { except: nets(&["10.1.0.0/16", "fd00::/8"]), ..good.clone() }.check().unwrap();
        for (wrong, part) in [
            (TunSettings::default(), "intercepts nothing"),
            (TunSettings { except: nets(&["10.0.0.7/8"]), ..good.clone() }, "10.0.0.0/8 is in `routes` and"),
            (TunSettings { except: nets(&["11.0.0.0/8"]), ..good.clone() }, "11.0.0.0/8 is not within any"),
            (TunSettings { interfaces: vec!["a b".into()], ..good.clone() }, "`a b` is not the name"),
            (TunSettings { mark: 0, ..good.clone() }, "must not be 0"),
            (
                TunSettings { own_ipv4: "10.0.0.0/16".parse().unwrap(), ..good.clone() },
                "own_ipv4: 10.0.0.0/16",
            ),
            (TunSettings { own_ipv4: "169.254.0.0/24".parse().unwrap(), ..good.clone() }, "own_ipv4"),
            (TunSettings { own_ipv6: "2001:db8::/32".parse().unwrap(), ..good }, "own_ipv6"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
