//! The contract on SQLite, and what only SQLite can get wrong.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corrupt;
mod crash;
mod fixture;
mod kit;
mod locking;
mod migrations;

use fixture::{LegacyOwner, SqliteFixture};

store_contract::contract!(SqliteFixture, cases = 201, skipped = [("shared_claims", 1)]);

/// The schema takes any owner; the suite is registered once for each of two.
mod legacy_owner {
    use super::*;

    store_contract::contract!(LegacyOwner, cases = 201, skipped = [("shared_claims", 1)]);
}
