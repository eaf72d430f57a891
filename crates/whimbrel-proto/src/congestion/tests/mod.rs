//! Tests of controllers on links: a sender, a bottleneck and a receiver on a virtual clock.

mod cubic;
mod goals;
mod hostile;
mod link;
mod sender;
mod tables;
mod world;
