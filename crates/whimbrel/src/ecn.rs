//! ECN marks, which the protocol and the sockets each have a type for.

use whimbrel_net::EcnCodepoint;
use whimbrel_proto::Ecn;

/// Returns the mark as the sockets know it.
pub(crate) fn to_net_ecn(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}

/// Returns the mark as the protocol knows it.
pub(crate) fn from_net_ecn(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}
