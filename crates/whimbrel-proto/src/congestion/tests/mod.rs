//! Controllers held against links: a sender, a bottleneck and a receiver on a virtual clock.

mod goals;
mod link;
mod sender;
mod world;
