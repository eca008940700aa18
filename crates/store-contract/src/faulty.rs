//! A store whose calls fail, or whose answers are lost.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    definition::{DefinitionKey, Heads, TaskSpec},
    digest::Digest,
    ids::{AttemptId, ProjectId, RunId, SessionId, TaskId, TriggerId, WorkerId},
    ports::{
        BoxFuture,
        control::{CancelOutcome, ControlStore, OperatorAct, StartCommand, StartOutcome},
        definitions::{DefinitionStore, Operator, PauseCommand, PauseOutcome, PublishCommand, Published},
        dispatch::{DispatchClaim, DispatchPage, DispatchStore, Evidence, Expired, Fenced, LeaseFence, OpenLease, Renewal, Session},
        history::{HistoryStore, Overview, RunCursor, RunFacts, RunFilter, RunPage, TaskItem, TriggerItem},
        instants::{InstantFacts, InstantStore},
        retention::{PruneCommand, PrunedLedger, PrunedRuns, RetentionStore},
        runs::{RunReader, RunRepository, Work},
        schedules::{MovedCursor, ScheduleStore},
    },
    run::{AttemptOutcome, CancelReason, RetryPolicy, Run, RunAttempt, RunEvent, RunStatus, Started},
    schedule::{ClaimCommand, ClaimPage, CommitOutcome, LedgerEntry, ScheduleClaim, ScheduleCommit},
};

use crate::{Store, rng::Rng};

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused before anything happened.
    Busy,
    /// Refused before anything happened.
    Unavailable,
    /// The change is absent and the caller cannot know.
    CommitLost,
    /// The change is whole and the caller cannot know.
    AnswerLost,
    /// The change is whole and the answer never comes.
    Hangs,
}

#[derive(Debug, Default)]
struct Plan {
    scripted: BTreeMap<&'static str, VecDeque<Option<Fault>>>,
    seeded: Option<(Rng, u64)>,
    fired: Vec<(&'static str, Fault)>,
}

/// Puts faults in front of a store.
pub struct FaultyStore<S: Store + ?Sized> {
    inner: Arc<S>,
    plan: Mutex<Plan>,
}

impl<S: Store + ?Sized> FaultyStore<S> {
    /// Nothing goes wrong yet.
    pub fn new(inner: Arc<S>) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// The next calls of `operation` (`commit`, `claim_due`, … as the port names it) go as listed; `None` goes well.
    pub fn script(&self, operation: &'static str, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.plan().scripted.entry(operation).or_default().extend(faults);
    }

    /// From now on one call in `one_in` goes wrong in a way that the seed decides, but none hangs. Scripted calls come first.
    pub fn seed(&self, seed: u64, one_in: u64) {
        self.plan().seeded = Some((Rng::new(seed), one_in));
    }

    /// From now on only scripted calls go wrong.
    pub fn heal(&self) {
        self.plan().seeded = None;
    }

    /// What has gone wrong so far.
    pub fn fired(&self) -> Vec<(&'static str, Fault)> {
        self.plan().fired.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("nothing panics while it holds this lock")
    }

    fn next(&self, operation: &'static str) -> Option<Fault> {
        let mut plan = self.plan();
        let scripted = plan.scripted.get_mut(operation).and_then(VecDeque::pop_front);
        let fault = match (scripted, &mut plan.seeded) {
            (Some(scripted), _) => scripted,
            (None, Some((rng, one_in))) => {
                let hit = rng.one_in(*one_in);
                hit.then(|| rng.pick(&[Fault::Busy, Fault::Unavailable, Fault::CommitLost, Fault::AnswerLost]))
            }
            (None, None) => None,
        };
        plan.fired.extend(fault.map(|fault| (operation, fault)));
        fault
    }

    async fn call<T>(&self, operation: &'static str, call: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        match self.next(operation) {
            None => call.await,
            Some(Fault::Busy) => Err(StoreError::Busy { cause: "injected".to_owned() }),
            Some(Fault::Unavailable) => Err(StoreError::Unavailable { cause: "injected".to_owned() }),
            Some(Fault::CommitLost) => Err(StoreError::CommitUnknown),
            // What was refused was refused before COMMIT: that answer is not the one that is lost.
            Some(Fault::AnswerLost) => call.await.and(Err(StoreError::CommitUnknown)),
            Some(Fault::Hangs) => {
                drop(call.await);
                std::future::pending().await
            }
        }
    }
}

/// Every method of the ports, handed on through [`FaultyStore::call`].
macro_rules! hand_on {
    ($($port:ident { $(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty;)* })*) => {
        $(
            #[async_trait]
            impl<S: Store + ?Sized> $port for FaultyStore<S> {
                $(
                    async fn $name(&self, $($arg: $type),*) -> Result<$answer, StoreError> {
                        self.call(stringify!($name), self.inner.$name($($arg),*)).await
                    }
                )*
            }
        )*
    };
}

impl<S: Store + ?Sized> RunRepository for FaultyStore<S> {
    fn transaction_erased<'w>(&'w self, work: Work<'w>) -> BoxFuture<'w, Result<(), StoreError>> {
        Box::pin(self.call("transaction", self.inner.transaction_erased(work)))
    }
}

hand_on! {
    RunReader {
        fn run(id: RunId) -> Option<Run>;
        fn attempt(id: AttemptId) -> Option<RunAttempt>;
        fn latest_attempt(run_id: RunId) -> Option<RunAttempt>;
        fn retry_policy(run_id: RunId) -> Option<RetryPolicy>;
        fn events(run_id: RunId, after_sequence: u64, limit: u32) -> Vec<RunEvent>;
        fn cancellations(before: TimestampMs, limit: u32) -> Vec<Run>;
    }
    ScheduleStore {
        fn claim_due(command: &ClaimCommand, page: u32) -> ClaimPage;
        fn commit(commits: Vec<ScheduleCommit>) -> Vec<CommitOutcome>;
        fn release_claims(claims: &[ScheduleClaim]) -> u64;
        fn refresh_zone_data(zone_data_version: &str, page: u32) -> (Vec<MovedCursor>, bool);
    }
    DefinitionStore {
        fn publish(command: &PublishCommand) -> Published;
        fn archive(project_id: &ProjectId, keys: &[DefinitionKey], by: &Operator) -> Published;
        fn set_paused(command: &PauseCommand) -> PauseOutcome;
        fn heads(project_id: &ProjectId) -> Heads;
        fn task_revision(project_id: &ProjectId, task_id: &TaskId, revision: u32) -> Option<TaskSpec>;
    }
    DispatchStore {
        fn open_session(worker_id: &WorkerId, session_id: SessionId, capacity: u32) -> Session;
        fn close_session(session: &Session) -> ();
        fn claim(claim: &DispatchClaim) -> DispatchPage;
        fn started(fence: &LeaseFence, started: &Started, timeout_ms: Option<u64>) -> Fenced<RunAttempt>;
        fn renew(session: &Session, fences: &[LeaseFence], lease_ms: u64) -> Renewal;
        fn finish(fence: &LeaseFence, outcome: &AttemptOutcome) -> Fenced<RunStatus>;
        fn release(fence: &LeaseFence, reason: &str) -> Fenced<()>;
        fn expire(page: u32) -> Expired;
        fn earlier_leases(session: &Session, page: u32) -> Vec<OpenLease>;
        fn settle(session: &Session, lease: &OpenLease, evidence: &Evidence) -> Fenced<RunStatus>;
    }
    ControlStore {
        fn start(command: &StartCommand) -> StartOutcome;
        fn cancel(run_id: RunId, reason: CancelReason, by: &Operator) -> CancelOutcome;
        fn retry(run_id: RunId, by: &Operator) -> RunId;
        fn accept_clock(by: &Operator) -> Option<TimestampMs>;
        fn clock_mark() -> Option<TimestampMs>;
        fn acts(limit: u32) -> Vec<OperatorAct>;
    }
    HistoryStore {
        fn runs(filter: &RunFilter, after: Option<RunCursor>, limit: u32) -> RunPage;
        fn attempts(run_id: RunId) -> Vec<RunAttempt>;
        fn tasks(project_id: &ProjectId, after: Option<&TaskId>, limit: u32) -> Vec<TaskItem>;
        fn triggers(project_id: &ProjectId, after: Option<&TriggerId>, limit: u32) -> Vec<TriggerItem>;
        fn trigger(project_id: &ProjectId, trigger_id: &TriggerId) -> Option<TriggerItem>;
        fn ledger(project_id: &ProjectId, trigger_id: &TriggerId, since: TimestampMs, limit: u32) -> Vec<LedgerEntry>;
        fn overview() -> Overview;
        fn pruned_before() -> Option<TimestampMs>;
        fn run_ids(after: Option<RunId>, limit: u32) -> Vec<RunId>;
        fn facts(run_id: RunId) -> Option<RunFacts>;
        fn all_triggers(after: Option<(&ProjectId, &TriggerId)>, limit: u32) -> Vec<TriggerItem>;
        fn revision_text(project_id: &ProjectId, key: &DefinitionKey, revision: u32) -> Option<(String, Digest)>;
        fn occurrences(project_id: &ProjectId, trigger_id: &TriggerId, from: TimestampMs, to: TimestampMs, limit: u32) -> Vec<Run>;
    }
    InstantStore {
        fn instant(project_id: &ProjectId, trigger_id: &TriggerId, at: TimestampMs) -> Option<InstantFacts>;
    }
    RetentionStore {
        fn prune_runs(command: &PruneCommand, after: Option<RunCursor>) -> PrunedRuns;
        fn prune_ledger(command: &PruneCommand) -> PrunedLedger;
    }
}
