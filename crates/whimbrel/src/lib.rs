//! whimbrel
