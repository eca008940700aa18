//! SQLite adapter of ql3: the ports of `runtime-core` on one file.
//!
//! One thread owns the connection that writes, another the one that reads. Every command is one transaction: it takes the write
//! lock, reads the authority's clock once, checks, writes. What is written was decided by `runtime-core`.
//!
//! A port in `runtime-core/src/ports/<port>.rs` has its SQL here in `<port>.rs`: `runs` with `transaction` (the composable port) and
//! `write` (what all ports share), `schedules` with `claims` and `admit`, `definitions` with `pause`, `dispatch` with `leases` and
//! `settle`, `control`, `history` with `lists`, `instants`, `retention`.

mod admit;
mod backup;
mod claims;
mod control;
mod definitions;
mod dispatch;
mod error;
mod history;
mod instants;
mod leases;
mod lists;
mod lock;
mod migrate;
mod open;
mod owner;
mod pause;
#[cfg(test)]
mod plans;
mod retention;
mod rows;
mod runs;
mod schedule_rows;
mod schedules;
mod settle;
mod sql;
mod store;
mod transaction;
mod tx;
mod write;

pub use open::{Authority, SqliteOptions};
pub use store::{FileFacts, SqliteStore};
