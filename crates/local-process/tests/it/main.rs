//! The executor against real guards and real processes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod crash;
mod group;
mod lease;
mod lifecycle;
mod output;
mod recovery;
mod support;
