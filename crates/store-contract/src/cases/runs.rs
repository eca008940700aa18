//! Runs, attempts, policies and events; transactions.

mod compare_and_set;
mod damage;
mod facts;
mod transactions;

pub use compare_and_set::*;
pub use damage::*;
pub use facts::*;
pub use transactions::*;
