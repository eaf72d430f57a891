//! Tests by topic, on a virtual clock.
