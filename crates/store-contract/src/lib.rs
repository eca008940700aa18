//! What every ql3 store must do, written once.
//!
//! An adapter implements [`Fixture`] and registers everything in one line:
//!
//! ```text
//! store_contract::contract!(SqliteFixture, cases = 207, skipped = [("shared_claims", 1)]);
//! ```
//!
//! [`MemoryStore`] is the reference model: it passes the same suite, stands behind unit tests of whatever uses a store, and is the
//! oracle of [`differential()`]. [`FaultyStore`] puts errors and lost replies in front of any store.

mod clock;
mod differential;
mod facts;
mod faulty;
mod fixture;
mod ids;
mod memory;
mod rng;
mod suite;

pub mod cases;

pub use clock::ManualClock;
pub use differential::differential;
pub use facts::facts;
pub use faulty::{Fault, FaultyStore};
pub use fixture::{Capabilities, Corruption, Fixture, Store, start};
pub use ids::SeededIds;
pub use memory::{MemoryFixture, MemoryStore};
pub use suite::{Case, INDEX, run_case, skipped};
