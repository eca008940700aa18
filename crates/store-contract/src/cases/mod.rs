//! The cases, one file a port. Names are claims; a case that makes a rule up where the port is silent says so.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod kit;

pub mod control;
pub mod definitions;
pub mod dispatch;
pub mod history;
pub mod instants;
pub mod retention;
pub mod runs;
pub mod schedules;
