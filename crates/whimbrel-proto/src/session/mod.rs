//! The session: messages, streams, order, credit, tags, priorities, lifetimes, outcomes.
