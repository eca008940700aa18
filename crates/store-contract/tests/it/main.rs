//! The reference model passes its own suite.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faulty;

use runtime_core::TimestampMs;
use store_contract::{Capabilities, Fault, FaultyStore, Fixture, MemoryFixture, Store, differential};

store_contract::contract!(MemoryFixture, cases = 226, skipped = [("corruptible", 4)]);

/// The model agrees with itself, and what it leaves behind verifies: whatever a database disagrees about is the database's.
#[tokio::test]
async fn the_model_agrees_with_itself() {
    for seed in 0..20 {
        differential::<MemoryFixture, MemoryFixture>(seed, 400).await;
    }
}

/// A store that loses one answer.
struct Forgetful(MemoryFixture, std::sync::Arc<FaultyStore<dyn Store>>);

impl Fixture for Forgetful {
    async fn fresh() -> Self {
        let fixture = MemoryFixture::fresh().await;
        let faulty = std::sync::Arc::new(FaultyStore::new(fixture.store()));
        faulty.script("publish", [None, None, Some(Fault::AnswerLost)]);
        Self(fixture, faulty)
    }

    fn store(&self) -> std::sync::Arc<dyn Store> {
        self.1.clone()
    }

    async fn second_handle(&self) -> std::sync::Arc<dyn Store> {
        self.1.clone()
    }

    async fn elapse(&self, ms: u64) {
        self.0.elapse(ms).await;
    }

    async fn set_clock(&self, at: TimestampMs) {
        self.0.set_clock(at).await;
    }

    fn capabilities() -> Capabilities {
        MemoryFixture::capabilities()
    }
}

/// One answer of hundreds differs: it is noticed, and the seed is told.
#[tokio::test]
#[should_panic(expected = "seed 1, step")]
async fn a_difference_is_noticed() {
    differential::<MemoryFixture, Forgetful>(1, 400).await;
}
