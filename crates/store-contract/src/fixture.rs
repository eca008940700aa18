//! What an adapter brings along to be tested.

use std::{future::Future, sync::Arc};

use runtime_core::{
    TimestampMs,
    ids::RunId,
    ports::{
        control::ControlStore, definitions::DefinitionStore, dispatch::DispatchStore, history::HistoryStore, instants::InstantStore,
        retention::RetentionStore, runs::RunRepository, schedules::ScheduleStore,
    },
};

use crate::facts::facts;

/// Every port of a store.
pub trait Store:
    RunRepository + ScheduleStore + DefinitionStore + DispatchStore + ControlStore + HistoryStore + InstantStore + RetentionStore
{
}

impl<
    S: RunRepository + ScheduleStore + DefinitionStore + DispatchStore + ControlStore + HistoryStore + InstantStore + RetentionStore + ?Sized,
> Store for S
{
}

/// 2026-01-05T12:00:30Z, a Monday: where the clock of a fresh fixture stands.
pub fn start() -> TimestampMs {
    TimestampMs::clamped(1_767_614_430_000)
}

/// What a store can do beyond the contract, or cannot be made to do in a test. A case that needs what is absent is skipped, says so, and
/// is counted by the registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// A claim that one handle took is seen by the others.
    pub shared_claims: bool,
    /// [`Fixture::corrupt`] works.
    pub corruptible: bool,
}

impl Capabilities {
    /// Looks a capability up by its name in the case list.
    pub fn has(self, name: &str) -> bool {
        match name {
            "shared_claims" => self.shared_claims,
            "corruptible" => self.corruptible,
            _ => panic!("`{name}` is not a capability"),
        }
    }
}

/// Damage that only a hand, a disk or another program can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// `runs.version` of this Run holds 2^53.
    VersionOutOfRange(RunId),
    /// `runs.status` of this Run holds a word that is not a state.
    UnknownStatus(RunId),
    /// `run_events.payload` of this Run's first event holds `[]`.
    PayloadNotObject(RunId),
    /// `run_retry_policies` holds two rows of this Run.
    TwoPolicies(RunId),
}

/// A store of its own for each case, with a clock that the case moves.
pub trait Fixture: Sized + Send + Sync + 'static {
    /// An empty store. Its authority's clock stands at [`start`] and moves only when it is told to; a database that is its own authority is
    /// given a clock function that a test can set. Its ids come from [`crate::SeededIds`] with seed 1, so that they grow in the order in
    /// which they are made.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Another connection to the same data, under the same clock.
    fn second_handle(&self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Moves the authority's clock on.
    fn elapse(&self, ms: u64) -> impl Future<Output = ()> + Send;

    /// Sets the authority's clock, backwards too.
    fn set_clock(&self, at: TimestampMs) -> impl Future<Output = ()> + Send;

    /// What the store can do.
    fn capabilities() -> Capabilities;

    /// `execution_owner` of the Runs that the store accepts.
    #[expect(clippy::unnecessary_literal_bound, reason = "an owner may be a value of the fixture")]
    fn execution_owner(&self) -> &str {
        "runtime"
    }

    /// Does the damage, around every check that stands in the way.
    fn corrupt(&self, damage: Corruption) -> impl Future<Output = ()> + Send {
        async move { panic!("the fixture is registered as corruptible and does not know how to do {damage:?}") }
    }

    /// Everything that is durable, in a stable order: equal before and after means that nothing was written. The default reads it through
    /// the ports; an adapter that can read its raw rows sees more. Schedule claims, which need not be durable, are left out.
    fn dump(&self) -> impl Future<Output = Vec<String>> + Send {
        async { facts(&*self.store()).await }
    }
}
