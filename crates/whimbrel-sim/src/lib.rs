//! whimbrel-sim
