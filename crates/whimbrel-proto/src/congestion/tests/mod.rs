//! A sender, a link and a receiver on a virtual clock.
