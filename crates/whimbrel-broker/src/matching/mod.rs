//! A table that finds the subscriptions that take a message, without trying each.
//!
//! Filters form a tree of levels. At the end of each filter there is a bucket of the subscriptions with it. Those with a selector
//! are found through one term that the selector implies, an equality or a range of one property, if it has such a term. What is found is
//! evaluated, since a term is only a part of its selector. Selectors without such a term are evaluated for every message of the filter.
//!
//! One client's subscriptions are limited in number, in levels, in the memory of their selectors, and in those that have to be evaluated
//! for every message. So one client can neither fill the table nor make messages dear to others.

mod bucket;
mod limits;
mod ranges;
mod slab;
mod table;
mod term;
mod tree;

pub use limits::{Limits, Refused};
pub use table::{Found, Held, Subscription, Table};
