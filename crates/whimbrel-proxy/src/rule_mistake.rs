//! Conditions and options of a rule that have no effect.

use crate::compress::Method;
use crate::policy::{Action, Dns, Ports, Protocol, Rule, WayIn};
use crate::relay::LONGEST_GATHER;

/// A rule that says something to no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleMistake {
    /// It mixes ports and ICMP, which has none.
    #[error(
        "the rule `{0}` mixes ports and ICMP: with protocol = \"icmp\", and only then, write NETWORK:icmp, such as 10.0.0.0/8:icmp"
    )]
    IcmpPorts(String),
    /// It would not carry datagrams.
    #[error("the rule `{0}` has the action `direct`, which is for TCP only: add protocol = \"tcp\"")]
    DirectDatagrams(String),
    /// It names a dictionary that does not exist.
    #[error(
        "the rule `{0}` names the dictionary `{1}`, which does not exist: write `{1} = \"FILE\"` under [dictionaries]"
    )]
    NoSuchDictionary(String, String),
    /// It has a dictionary for nothing.
    #[error("the rule `{0}` has a dictionary, which only zstd can use: add compression = \"zstd:3\"")]
    DictionaryForNothing(String),
    /// It says how flows are carried that are not.
    #[error("the rule `{0}` has `{1}`, which applies to carried flows only: remove it or the action")]
    CarriesNothing(String, &'static str),
    /// It says something of datagrams, and is for TCP.
    #[error(
        "the rule `{0}` has `{1}`, which is for datagrams, but protocol = \"tcp\": leave one of them out"
    )]
    NoDatagrams(String, &'static str),
    /// It says something of TCP flows, and is for another protocol.
    #[error(
        "the rule `{0}` has `{1}`, which is for TCP flows, but protocol = \"{2}\": leave one of them out"
    )]
    NoFlows(String, &'static str, &'static str),
    /// It resets running flows and lets them run.
    #[error(
        "the rule `{0}` has `existing`, which resets running flows, but an action that lets them run: remove it, or write action = \"reject\", \"drop\" or \"direct\""
    )]
    ExistingGoesOn(String),
    /// Its conditions never hold, or never together.
    #[error("the rule `{0}` can never match: {1}")]
    NeverHolds(String, String),
    /// Bytes would wait for too long.
    #[error("the rule `{0}` has a `gather` that is too long: write at most 500ms")]
    GathersLong(String),
    /// No way in that it names knows what it asks for.
    #[error(
        "the rule `{0}` can never match: it asks for `{1}`, which only tproxy and tun know, but `by` names neither"
    )]
    Unknowable(String, &'static str),
}

impl RuleMistake {
    fn check_icmp(rule: &Rule) -> Result<(), Self> {
        let is_icmp = rule.protocol == Some(Protocol::Icmp);
        match rule.to.iter().any(|to| (to.ports() == Ports::ICMP) != is_icmp) {
            true => Err(Self::IcmpPorts(rule.name.clone())),
            false => Ok(()),
        }
    }

    fn check_conditions(rule: &Rule) -> Result<(), Self> {
        for (at, one) in rule.when.iter().enumerate() {
            let why = match rule.when[..at].iter().find(|other| one.excludes(other)) {
                Some(other) => {
                    format!("`{other}` and `{one}` in `when` never hold together, so leave one out")
                }
                None if one.is_impossible() => {
                    format!("`{one}` in `when` never holds, so write another limit")
                }
                None => continue,
            };
            return Err(Self::NeverHolds(rule.name.clone(), why));
        }
        Ok(())
    }

    /// Returns the name of the rule.
    pub(crate) fn rule(&self) -> &str {
        match self {
            Self::IcmpPorts(rule)
            | Self::DirectDatagrams(rule)
            | Self::NoSuchDictionary(rule, _)
            | Self::DictionaryForNothing(rule)
            | Self::CarriesNothing(rule, _)
            | Self::NoDatagrams(rule, _)
            | Self::NoFlows(rule, ..)
            | Self::ExistingGoesOn(rule)
            | Self::NeverHolds(rule, _)
            | Self::GathersLong(rule)
            | Self::Unknowable(rule, _) => rule,
        }
    }

    /// Returns the setting at fault.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self::IcmpPorts(_) => "to",
            Self::DirectDatagrams(_) => "action",
            Self::NoSuchDictionary(..) | Self::DictionaryForNothing(_) => "dictionary",
            Self::CarriesNothing(_, setting)
            | Self::NoDatagrams(_, setting)
            | Self::NoFlows(_, setting, _)
            | Self::Unknowable(_, setting) => setting,
            Self::ExistingGoesOn(_) => "existing",
            Self::NeverHolds(..) => "when",
            Self::GathersLong(_) => "gather",
        }
    }

    /// Checks a rule. `is_dictionary` says whether there is a dictionary of a name.
    pub(crate) fn check(rule: &Rule, is_dictionary: impl Fn(&str) -> bool) -> Result<(), Self> {
        let name = || rule.name.clone();
        Self::check_icmp(rule)?;
        if rule.action == Action::Direct && rule.protocol != Some(Protocol::Tcp) {
            return Err(Self::DirectDatagrams(name()));
        }
        let for_datagrams = [("service", rule.service.is_some()), ("dns", rule.dns == Dns::Cache)];
        let others = [
            ("cap", rule.cap.is_some()),
            ("compression", rule.compression.is_some()),
            ("gather", rule.gather.is_some()),
            ("hold_bytes", rule.hold_bytes.is_some()),
        ];
        let said = |list: &[(&'static str, bool)]| list.iter().find(|(_, said)| *said).map(|(what, _)| *what);
        let datagrams = said(&for_datagrams);
        if let Some(what) = datagrams.or(said(&others))
            && rule.action != Action::Carry
        {
            return Err(Self::CarriesNothing(name(), what));
        }
        if let (Some(what), Some(Protocol::Tcp)) = (datagrams, rule.protocol) {
            return Err(Self::NoDatagrams(name(), what));
        }
        let for_flows = [
            ("hold_bytes", rule.hold_bytes.is_some()),
            ("outage", rule.outage.is_some()),
            ("accept", rule.accept.is_some()),
        ];
        let other = rule.protocol.filter(|protocol| *protocol != Protocol::Tcp);
        if let (Some(what), Some(protocol)) = (said(&for_flows), other) {
            return Err(Self::NoFlows(name(), what, protocol.name()));
        }
        if rule.existing && matches!(rule.action, Action::Carry | Action::Hold) {
            return Err(Self::ExistingGoesOn(name()));
        }
        Self::check_conditions(rule)?;
        if rule.gather.is_some_and(|gather| gather > LONGEST_GATHER) {
            return Err(Self::GathersLong(name()));
        }
        let asks = [("interface", !rule.interface.is_empty()), ("dscp", !rule.dscp.is_empty())];
        if let Some(what) = said(&asks)
            && !rule.by.is_empty()
            && !rule.by.iter().copied().any(WayIn::sees_packets)
        {
            return Err(Self::Unknowable(name(), what));
        }
        Self::check_dictionary(rule, is_dictionary)
    }

    fn check_dictionary(rule: &Rule, is_dictionary: impl Fn(&str) -> bool) -> Result<(), Self> {
        let Some(dictionary) = &rule.dictionary else { return Ok(()) };
        if !rule.compression.is_some_and(Method::takes_dictionary) {
            return Err(Self::DictionaryForNothing(rule.name.clone()));
        }
        match is_dictionary(dictionary) {
            true => Ok(()),
            false => Err(Self::NoSuchDictionary(rule.name.clone(), dictionary.clone())),
        }
    }
}
