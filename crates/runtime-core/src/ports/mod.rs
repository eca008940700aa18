//! What stores and executors implement. A port here has its SQL in `<adapter>/src/<port>.rs` and its cases in
//! `store-contract/src/cases/<port>.rs`.

pub mod executor;
