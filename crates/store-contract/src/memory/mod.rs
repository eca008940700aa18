//! The reference model: what a store does, without a database.
//!
//! It persists what `runtime-core` decides and decides nothing itself, so it is the shortest description of the ports. A write takes
//! its turn, reads the authority's clock, works on a copy, and swaps the copy in: it is whole or absent, also if its future is
//! dropped. One file a port.

mod control;
mod definitions;
mod dispatch;
mod fixture;
mod history;
mod instants;
mod leases;
mod retention;
mod runs;
mod schedules;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use runtime_core::{
    AuthorityClock, Invalid, StoreError, TimestampMs,
    definition::{Head, TaskSpec, TriggerSpec},
    ids::{AttemptId, IdSource, ProjectId, RunId, TaskId, TriggerId, WorkerId},
    ports::control::OperatorAct,
    run::{ExecutorType, RetryPolicy, Run, RunAttempt, RunEvent},
    schedule::{LedgerEntry, ScheduleClaim, ScheduleRow},
};
use tokio::sync::Mutex as Turns;

pub use fixture::MemoryFixture;
use leases::{LeaseRow, SessionRow};

type TaskKey = (ProjectId, TaskId);
type TriggerKey = (ProjectId, TriggerId);

/// Everything that is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    runs: BTreeMap<RunId, Run>,
    attempts: BTreeMap<AttemptId, RunAttempt>,
    policies: BTreeMap<RunId, RetryPolicy>,
    events: BTreeMap<(RunId, u64), RunEvent>,
    /// Revisions, oldest first; the last one is the head.
    tasks: BTreeMap<TaskKey, Vec<Head<TaskSpec>>>,
    triggers: BTreeMap<TriggerKey, Vec<Head<TriggerSpec>>>,
    schedules: BTreeMap<TriggerKey, ScheduleRow>,
    /// In the order in which they were recorded.
    ledger: Vec<LedgerEntry>,
    sessions: BTreeMap<WorkerId, SessionRow>,
    leases: BTreeMap<AttemptId, LeaseRow>,
    acts: Vec<OperatorAct>,
    clock_mark: Option<TimestampMs>,
    pruned_before: Option<TimestampMs>,
}

/// Facts, and what need not be durable.
#[derive(Clone, Debug, Default)]
struct State {
    facts: Facts,
    claims: BTreeMap<TriggerKey, ScheduleClaim>,
}

struct Shared {
    state: Mutex<State>,
    /// Whoever writes waits for their turn.
    turns: Turns<()>,
    clock: Arc<dyn AuthorityClock>,
    ids: Arc<dyn IdSource>,
    execution_owner: String,
    executor_type: ExecutorType,
}

/// A store in memory. A clone is another handle to the same data.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

/// One writer's turn: a working copy, and the authority's clock as it stood after the wait.
struct Turn<'a> {
    facts: Facts,
    claims: BTreeMap<TriggerKey, ScheduleClaim>,
    now: TimestampMs,
    shared: &'a Shared,
}

impl MemoryStore {
    /// An empty store whose authority is `clock`.
    pub fn new(clock: Arc<dyn AuthorityClock>, ids: Arc<dyn IdSource>) -> Self {
        Self::with_owner(clock, ids, "runtime")
    }

    /// An empty store whose Runs belong to `execution_owner`.
    pub fn with_owner(clock: Arc<dyn AuthorityClock>, ids: Arc<dyn IdSource>, execution_owner: &str) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            turns: Turns::new(()),
            clock,
            ids,
            execution_owner: execution_owner.to_owned(),
            executor_type: ExecutorType::LocalProcess,
        };
        Self { shared: Arc::new(shared) }
    }

    fn read<T>(&self, reading: impl FnOnce(&Facts) -> T) -> T {
        reading(&self.shared.state().facts)
    }

    /// A command: all of it or nothing. Whatever writes a fact raises the clock's high-water mark with it.
    async fn write<T>(&self, work: impl FnOnce(&mut Turn<'_>) -> Result<T, StoreError> + Send) -> Result<T, StoreError> {
        self.turn(|turn| {
            let before = turn.facts.clone();
            let answer = work(turn)?;
            if turn.facts != before {
                turn.raise_mark();
            }
            Ok(answer)
        })
        .await
    }

    /// A command that writes no facts of its own.
    async fn turn<T>(&self, work: impl FnOnce(&mut Turn<'_>) -> Result<T, StoreError> + Send) -> Result<T, StoreError> {
        let _turn = self.shared.turns.lock().await;
        let mut turn = self.copy();
        let answer = work(&mut turn)?;
        *self.shared.state() = State { facts: turn.facts, claims: turn.claims };
        Ok(answer)
    }

    /// What a command would answer; nothing of it stays.
    async fn rehearse<T>(&self, work: impl FnOnce(&mut Turn<'_>) -> Result<T, StoreError> + Send) -> Result<T, StoreError> {
        let _turn = self.shared.turns.lock().await;
        work(&mut self.copy())
    }

    fn copy(&self) -> Turn<'_> {
        let State { facts, claims } = self.shared.state().clone();
        Turn { facts, claims, now: self.shared.clock.now(), shared: &self.shared }
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl Turn<'_> {
    fn raise_mark(&mut self) {
        self.facts.clock_mark = self.facts.clock_mark.max(Some(self.now));
    }

    /// Below the mark nothing is decided.
    fn behind(&self) -> bool {
        self.facts.clock_mark > Some(self.now)
    }

    fn ids(&self) -> &dyn IdSource {
        &*self.shared.ids
    }
}

fn check_page(limit: u32, max: u32) -> Result<(), Invalid> {
    if (1..=max).contains(&limit) { Ok(()) } else { Err(Invalid::new("limit", format!("is {limit}, 1 ..= {max} is allowed"))) }
}

/// A page as a count of items in memory.
fn page(limit: u32) -> usize {
    usize::try_from(limit).expect("pages are small")
}
