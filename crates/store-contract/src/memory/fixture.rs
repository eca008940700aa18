//! The reference model under its own suite.

use std::{fmt::Debug, sync::Arc};

use runtime_core::{TimestampMs, schedule::ScheduleRow};

use super::{Facts, MemoryStore};
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
        self.store.read(lines)
    }
}

/// One line a fact.
fn lines(facts: &Facts) -> Vec<String> {
    fn list<'f>(rows: impl IntoIterator<Item = impl Debug + 'f>) -> impl Iterator<Item = String> {
        rows.into_iter().map(|row| format!("{row:?}"))
    }
    // A claim raises its row's claim version and is no fact.
    let schedules = facts.schedules.values().map(|row| ScheduleRow { claim_version: 0, ..row.clone() });
    list(facts.runs.values())
        .chain(list(facts.attempts.values()))
        .chain(list(facts.policies.values()))
        .chain(list(facts.events.values()))
        .chain(list(facts.tasks.values()))
        .chain(list(facts.triggers.values()))
        .chain(list(schedules))
        .chain(list(&facts.ledger))
        .chain(list(facts.sessions.values()))
        .chain(list(&facts.leases))
        .chain(list(&facts.acts))
        .chain(list([facts.clock_mark]))
        .collect()
}
