//! The settings of interception by TPROXY.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::text::as_text;

/// Where TCP connections and datagrams of others are handed to the proxy.
const PORT: u16 = 7893;
/// The first of the firewall marks: "WH" above 16 bits.
const MARK: u32 = 0x5748_0000;
/// The longest name of an interface (IFNAMSIZ less its end).
const LONGEST_NAME: usize = 15;

/// Interception by TPROXY, on Linux: TCP connections and datagrams that hosts behind `interfaces` send through this
/// host, and with `output` those of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TproxySettings {
    /// The interfaces whose hosts are served.
    pub interfaces: Vec<String>,
    /// Whether the traffic of this host's own programs is intercepted, too. Default false.
    pub output: bool,
    /// Networks to which traffic goes on as without a proxy.
    #[serde(with = "as_text::networks")]
    pub except: Vec<IpNet>,
    /// Whether what would be intercepted is rejected while no proxy runs. Default false.
    pub kill_switch: bool,
    /// The port on loopback, TCP and UDP, at which the kernel hands traffic over. Default 7893.
    pub port: u16,
    /// The first of 256 firewall marks that only this proxy uses. Default 0x57480000.
    pub mark: u32,
}

/// A mistake in these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TproxyMistake {
    /// Nothing is named to intercept.
    #[error("[in.tproxy] intercepts nothing: name `interfaces`, or set `output = true`")]
    Nothing,
    /// No interface can be called so.
    #[error(
        "[in.tproxy] interfaces: `{0}` is not the name of an interface with other hosts behind it: `ip link` lists the names"
    )]
    Interface(String),
    /// Marks would run into others.
    #[error(
        "[in.tproxy] mark: {0:#x} is not the first of 256 marks: its last byte must be 0, and the others must not"
    )]
    Mark(u32),
    /// The port must be known to the kernel's rules.
    #[error("[in.tproxy] port: it must not be 0")]
    Port,
}

impl TproxyMistake {
    /// Returns the setting at fault.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self::Nothing | Self::Interface(_) => "interfaces",
            Self::Mark(_) => "mark",
            Self::Port => "port",
        }
    }
}

impl Default for TproxySettings {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            output: false,
            except: Vec::new(),
            kill_switch: false,
            port: PORT,
            mark: MARK,
        }
    }
}

impl TproxySettings {
    /// Checks what no single line shows.
    ///
    /// # Errors
    /// See [`TproxyMistake`].
    pub fn check(&self) -> Result<(), TproxyMistake> {
        if self.interfaces.is_empty() && !self.output {
            return Err(TproxyMistake::Nothing);
        }
        if let Some(wrong) = self.interfaces.iter().find(|name| !is_interface(name)) {
            return Err(TproxyMistake::Interface(wrong.chars().take(100).collect()));
        }
        if self.mark & 0xff != 0 || self.mark == 0 {
            return Err(TproxyMistake::Mark(self.mark));
        }
        if self.port == 0 { Err(TproxyMistake::Port) } else { Ok(()) }
    }
}

/// Whether hosts can be behind an interface of this name. It also is safe to write into nft's rules.
fn is_interface(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) && name != "lo"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let good = TproxySettings { interfaces: vec!["br-lan.7".into()], ..Default::default() };
        good.check().unwrap();
        TproxySettings { output: true, ..Default::default() }.check().unwrap();
        for (wrong, part) in [
            (TproxySettings::default(), "intercepts nothing"),
            (TproxySettings { interfaces: vec!["lo".into()], ..good.clone() }, "`lo` is not the name"),
            (TproxySettings { interfaces: vec!["a\" accept".into()], ..good.clone() }, "is not the name"),
            (TproxySettings { interfaces: vec!["a".repeat(16)], ..good.clone() }, "is not the name"),
            (TproxySettings { mark: 0x101, ..good.clone() }, "0x101"),
            (TproxySettings { port: 0, ..good }, "must not be 0"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
