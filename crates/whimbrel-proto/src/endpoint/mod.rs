//! The endpoint: it finds the connection that a datagram is for, and answers strangers without keeping state for
//! them.

mod accepting;
mod admitting;
mod agreeing;
mod api;
mod begun;
mod gate;
mod handle;
mod networks;
mod places;
mod rates;
mod resume;
mod revoked;
mod routed;
mod settings;
mod shares;
mod state;
mod tokens;
mod told;
mod waiting;

pub use agreeing::{AgreedPing, Agreeing};
pub use handle::Handle;
pub use resume::ResumeError;
pub use routed::{EndpointStats, Routed};
pub use settings::{Admit, ConnectConfig, ListenConfig};
pub use state::Endpoint;
