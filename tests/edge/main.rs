//! The edge program end to end: real processes, real signals, one file.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock;
mod kill;
mod stop;
