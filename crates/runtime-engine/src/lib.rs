//! The loops of ql3 over its ports: what turns due triggers into Runs, and Runs into executed attempts.
//!
//! An [`Engine`] is given ports and clocks and owns no thread; it runs on any tokio runtime, a current-thread one included.
//!
//! * The [`scheduler`] claims what is due, decides each claim from the store's observation and nothing else, and commits. It never asks
//!   what time it is: it sleeps on a monotonic timer, for a second at most, and asks the store again.
//! * The dispatcher leases Runs, starts each under a guard whose identity is durable first, keeps the leases alive, and gives
//!   back results. It stops what it may not run any more before anybody else may start it.
//! * [`ClockGuard`] judges the authority's clock. While it is not to be trusted nothing is claimed, leased or expired.
//! * Start: the clock, then recovery, then admission opens. Stop: admission closes, unused claims are released, running attempts may
//!   finish up to a limit, the rest are stopped and left to be recovered exactly as after a kill.
//!
//! # What ends an attempt, and what is recorded
//!
//! | End | Recorded |
//! |---|---|
//! | exit status 0 | `succeeded` |
//! | another exit status, a signal of its own, no such program | `failed` with `exit_code`, `signal`, `spawn_failed` |
//! | the task's timeout | `timed_out` |
//! | a cancellation | `cancelled` |
//! | shutdown, a lost lease, a killed guard | nothing: the lease stays open and the attempt becomes `lost`, as after SIGKILL |
//!
//! A lease protects an attempt only as far as clocks go: a suspend that is longer than a lease, or a step of the authority's clock by
//! more than that, ends running attempts as `lost` too, because nobody could tell them from attempts whose worker is gone.
//!
//! `lost` is settled by the next start of the same worker, on evidence, or by the lease's expiry; the Run follows its retry policy.

mod clock_guard;
mod dispatcher;
mod engine;
mod event;
mod lifecycle;
mod options;
mod retries;
pub mod scheduler;

pub use clock_guard::ClockGuard;
pub use engine::{Engine, Ports};
pub use event::{EngineEvent, Observer};
pub use lifecycle::EngineHandle;
pub use options::EngineOptions;

/// Nothing waits longer than this without looking again: steps of the clock, suspends and other programs' writes are noticed within it.
pub const POLL_MS: u64 = 1_000;
