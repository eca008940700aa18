//! The contract on SQLite, and what only SQLite can get wrong.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod clock;
mod corrupt;
mod crash;
mod files;
mod fixture;
mod kit;
mod locking;
mod migrations;
mod retention;
mod verify;

use fixture::{LegacyOwner, SqliteFixture};

store_contract::contract!(SqliteFixture, cases = 226, skipped = [("shared_claims", 1)]);

/// The schema takes any owner; the suite is registered once for each of two.
mod legacy_owner {
    use super::*;

    store_contract::contract!(LegacyOwner, cases = 226, skipped = [("shared_claims", 1)]);
}

/// The reference model and this adapter, under the same commands.
mod differential {
    use store_contract::{MemoryFixture, differential};

    use super::*;

    async fn agree(seeds: std::ops::Range<u64>) {
        for seed in seeds {
            differential::<MemoryFixture, SqliteFixture>(seed, 300).await;
        }
    }

    #[tokio::test]
    async fn agrees_with_the_reference_model() {
        agree(1..13).await;
    }

    #[tokio::test]
    async fn agrees_with_the_reference_model_under_more_seeds() {
        agree(1_026..1_039).await;
    }
}
