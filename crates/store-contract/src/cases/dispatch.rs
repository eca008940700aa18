//! Executing Runs: workers lease attempts, keep the leases alive, and give back results.

mod claim;
mod finish;
mod lease;
mod recovery;

pub use claim::*;
pub use finish::*;
pub use lease::*;
pub use recovery::*;
