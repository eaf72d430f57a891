//! Why the broker refuses something, in the standard's codes.

use std::borrow::Cow;

/// A reason code of MQTT 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Reason(pub(in super::super) u8);

#[allow(dead_code, reason = "the codes are a table of the standard")]
impl Reason {
    pub(in super::super) const SUCCESS: Self = Self(0x00);
    pub(in super::super) const WITH_WILL: Self = Self(0x04);
    pub(in super::super) const NO_SUBSCRIPTION: Self = Self(0x11);
    pub(in super::super) const UNSPECIFIED: Self = Self(0x80);
    pub(in super::super) const MALFORMED: Self = Self(0x81);
    pub(in super::super) const PROTOCOL_ERROR: Self = Self(0x82);
    pub(in super::super) const IMPLEMENTATION: Self = Self(0x83);
    pub(in super::super) const PROTOCOL_VERSION: Self = Self(0x84);
    pub(in super::super) const CLIENT_ID: Self = Self(0x85);
    pub(in super::super) const BAD_PASSWORD: Self = Self(0x86);
    pub(in super::super) const NOT_AUTHORIZED: Self = Self(0x87);
    pub(in super::super) const UNAVAILABLE: Self = Self(0x88);
    pub(in super::super) const SHUTTING_DOWN: Self = Self(0x8b);
    pub(in super::super) const AUTH_METHOD: Self = Self(0x8c);
    pub(in super::super) const KEEP_ALIVE: Self = Self(0x8d);
    pub(in super::super) const TAKEN_OVER: Self = Self(0x8e);
    pub(in super::super) const FILTER_INVALID: Self = Self(0x8f);
    pub(in super::super) const TOPIC_INVALID: Self = Self(0x90);
    pub(in super::super) const ID_NOT_FOUND: Self = Self(0x92);
    pub(in super::super) const RECEIVE_MAXIMUM: Self = Self(0x93);
    pub(in super::super) const TOPIC_ALIAS: Self = Self(0x94);
    pub(in super::super) const TOO_LARGE: Self = Self(0x95);
    pub(in super::super) const QUOTA: Self = Self(0x97);
    pub(in super::super) const SHARED: Self = Self(0x9e);

    /// The code for the return code of a CONNACK of MQTT 3.1.1.
    pub(in super::super) fn of_return_code(code: u8) -> Self {
        match code {
            0 => Self::SUCCESS,
            1 => Self::PROTOCOL_VERSION,
            2 => Self::CLIENT_ID,
            3 => Self::UNAVAILABLE,
            4 => Self::BAD_PASSWORD,
            5 => Self::NOT_AUTHORIZED,
            _ => Self::UNSPECIFIED,
        }
    }

    /// Whether something was refused.
    pub(in super::super) fn is_refusal(self) -> bool {
        self.0 >= 0x80
    }

    /// The return code of a CONNACK of MQTT 3.1.1; `None` if the connection is closed without one.
    pub(in super::super) fn return_code(self) -> Option<u8> {
        match self {
            Self::SUCCESS => Some(0),
            Self::PROTOCOL_VERSION => Some(1),
            Self::CLIENT_ID => Some(2),
            Self::UNAVAILABLE | Self::QUOTA => Some(3),
            Self::BAD_PASSWORD => Some(4),
            Self::NOT_AUTHORIZED => Some(5),
            _ => None,
        }
    }
}

/// A mistake of a client: its code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Fault {
    pub(in super::super) reason: Reason,
    pub(in super::super) why: Cow<'static, str>,
}

impl Fault {
    pub(in super::super) fn new(reason: Reason, why: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, why: why.into() }
    }

    pub(in super::super) fn malformed(why: &'static str) -> Self {
        Self::new(Reason::MALFORMED, why)
    }

    pub(in super::super) fn protocol(why: &'static str) -> Self {
        Self::new(Reason::PROTOCOL_ERROR, why)
    }
}
