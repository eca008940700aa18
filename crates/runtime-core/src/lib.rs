//! The domain of ql3: values and limits, state machines, the cron dialect and the scheduling decision, the ports that stores and
//! executors implement, and the errors that all of them share.
//!
//! Everything here is a pure function of its arguments. There is no driver, no async runtime, no clock and no random source: time
//! and identity are arguments ([`TimestampMs`], [`ids::IdSource`]).

pub mod clock;
pub mod cron;
pub mod definition;
pub mod digest;
pub mod error;
pub mod ids;
pub mod invalid;
pub mod limits;
pub mod payload;
pub mod ports;
pub mod run;
pub mod schedule;
pub mod time;
pub mod verify;
pub mod why;

pub use error::{ErrorCode, Retry, StoreError};
pub use invalid::Invalid;
pub use time::{AuthorityClock, MonotonicClock, TimestampMs};
