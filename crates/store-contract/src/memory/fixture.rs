//! The reference model under its own suite.

use std::sync::Arc;

use runtime_core::TimestampMs;

use super::MemoryStore;
use crate::{Capabilities, Fixture, ManualClock, SeededIds, Store, start};

/// A [`MemoryStore`] with a clock that the case moves.
pub struct MemoryFixture {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Fixture for MemoryFixture {
    async fn fresh() -> Self {
        let clock = Arc::new(ManualClock::new(start()));
        Self { store: MemoryStore::new(clock.clone(), Arc::new(SeededIds::new(1))), clock }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn elapse(&self, ms: u64) {
        self.clock.advance(ms);
    }

    async fn set_clock(&self, at: TimestampMs) {
        self.clock.set(at);
    }

    fn capabilities() -> Capabilities {
        // Its values are typed: there is nothing that damage could be done to.
        Capabilities { shared_claims: true, corruptible: false }
    }

    async fn dump(&self) -> Vec<String> {
        vec![self.store.read(|facts| format!("{facts:#?}"))]
    }
}
