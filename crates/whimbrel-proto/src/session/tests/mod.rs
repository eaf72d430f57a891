//! Tests of the session by topic, on a virtual clock.

mod batches;
mod bundles;
mod credit;
mod exhaustion;
mod hostile;
mod late;
mod many;
mod options;
mod pipe;
mod random;
mod scheduling;
mod services;
mod snapshot;
mod speed;
mod streams;
mod tags;
