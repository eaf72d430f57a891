//! whimbrel-net
