//! The domain of ql3: values and limits, state machines, the cron dialect and the scheduling decision, the ports that stores and
//! executors implement, and the errors that all of them share.
//!
//! Everything here is a pure function of its arguments. There is no driver, no async runtime, no clock and no random source: time
//! and identity are arguments ([`TimestampMs`], [`ids::IdSource`]).

pub mod cron;
pub mod ids;
pub mod invalid;
pub mod limits;
pub mod ports;
pub mod time;

pub use invalid::Invalid;
pub use time::{AuthorityClock, TimestampMs};
