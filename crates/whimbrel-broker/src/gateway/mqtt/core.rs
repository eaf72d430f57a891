//! The state that all connections of clients of MQTT share.

use std::sync::Arc;

use super::admission::Admission;
use super::clients::Clients;
use super::entrance::Entrance;
use super::limits::Limits;
use super::wills::Wills;
use crate::hub::Hub;

/// The service for clients of MQTT: the state that all connections share.
#[derive(Debug)]
pub struct Gateway {
    pub(super) hub: Arc<Hub>,
    pub(super) admission: Arc<Admission>,
    pub(super) limits: Limits,
    pub(super) clients: Arc<Clients>,
    pub(super) entrance: Arc<Entrance>,
    pub(super) wills: Wills,
}
