//! What stores and executors implement. A port here has its SQL in `<adapter>/src/<port>.rs` and its cases in
//! `store-contract/src/cases/<port>.rs`.
//!
//! [`runs`] is the composable port: readers, and one transaction for whatever a caller does in it. All others are command-shaped:
//! one method is one transaction, takes a page, and carries no time, because the store observes its authority's clock once, after
//! its locks.

pub mod control;
pub mod definitions;
pub mod dispatch;
pub mod executor;
pub mod history;
pub mod instants;
pub mod retention;
pub mod runs;
pub mod schedules;

use std::{future::Future, pin::Pin};

/// A future that may be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
