//! The edge profile of ql3: one machine, one `SQLite` file. It admits Runs and executes them as guarded local processes.
//!
//! [`Edge`] is the scheduler and executor of a file; one process at a time can be it. [`EdgeClient`] is everybody else: any number of
//! processes may read the file and give orders beside it.
//!
//! A program that opens an [`Edge`] calls [`run_if_guard`] first in `main`: the guards of attempts are the same program, started again.
//! It needs a tokio runtime, current-thread or not, with its I/O and time drivers enabled.
//!
//! The authority of this profile is the machine's wall clock, and this crate is the only place that reads it. The clock watch
//! (`runtime_core::clock`) decides whether its word is taken.

mod client;
mod clocks;
mod edge;
mod ids;
mod options;

pub use client::EdgeClient;
pub use clocks::{BootClock, SystemClock};
pub use edge::Edge;
pub use edge_sqlite::{FileFacts, SqliteStore};
pub use ids::RandomIds;
pub use local_process::{logs, run_if_guard};
pub use options::EdgeOptions;
pub use runtime_engine::{EngineEvent, EngineHandle, Observer};
