//! What the cases are written with.

use std::sync::Arc;

use runtime_core::{
    StoreError, TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{TaskSpec, TriggerSpec},
    digest::Digest,
    ids::{ClaimToken, OwnerId, ProjectId, RequestId, RunId, SessionId, TaskId, TriggerId, WorkerId},
    ports::{
        control::StartCommand,
        definitions::{Operator, PublishCommand, Published},
        dispatch::{DispatchClaim, DispatchPage, Fenced, Lease, Session},
        executor::Command,
        history::TriggerItem,
        runs::{RunRepositoryExt, TxError},
    },
    run::{
        Actor, ActorType, Admission, AdmissionIds, AttemptOutcome, AttemptResult, AttemptStatus, Backoff, ExecutionOrigin, ExecutorType,
        NewRun, RetrySpec, RunAttempt, RunStatus, Safety, Started, TriggerType,
    },
    schedule::{Action, ClaimCommand, ClaimPage, CommitOutcome, LedgerReason, ScheduleClaim, ScheduleCommit, ScheduleRow, Verdict},
};

use crate::{Fixture, SeededIds, Store, start};

/// One minute.
pub(super) const MINUTE: u64 = 60_000;
/// How late may be admitted.
pub(super) const GRACE_MS: u64 = 120_000;
/// Of claims and dispatch.
pub(super) const LEASE_MS: u64 = 30_000;

/// A fixture, its store, and ids of the caller's own.
pub(super) struct World<'f, F> {
    pub fixture: &'f F,
    pub store: Arc<dyn Store>,
    pub ids: SeededIds,
}

pub(super) fn world<F: Fixture>(fixture: &F) -> World<'_, F> {
    World { fixture, store: fixture.store(), ids: SeededIds::new(9) }
}

pub(super) fn project() -> ProjectId {
    ProjectId::new("default").unwrap()
}

pub(super) fn task_id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(super) fn trigger_id(id: &str) -> TriggerId {
    TriggerId::new(id).unwrap()
}

pub(super) fn operator() -> Operator {
    Operator { name: "ada".to_owned(), reason: None }
}

pub(super) fn task(id: &str) -> TaskSpec {
    TaskSpec::new(task_id(id), Command::Argv(vec!["true".to_owned()]))
}

/// A trigger in UTC.
pub(super) fn trigger(id: &str, task: &str, cron: &str) -> TriggerSpec {
    let (cron, zone) = (CronExpr::parse(cron).unwrap(), TimeZone::parse("UTC").unwrap());
    TriggerSpec::new(trigger_id(id), task_id(task), &cron, &zone)
}

/// Today, by the clock of a fresh fixture: `12:01` or `12:01:30`.
pub(super) fn today(time: &str) -> TimestampMs {
    let seconds = if time.len() == 5 { ":00" } else { "" };
    TimestampMs::parse(&format!("2026-01-05T{time}{seconds}Z")).unwrap()
}

/// A command that publishes the set as the whole project.
pub(super) fn set(tasks: Vec<TaskSpec>, triggers: Vec<TriggerSpec>) -> PublishCommand {
    PublishCommand { project_id: project(), tasks, triggers, archive_absent: true, dry_run: false, by: operator() }
}

/// Asserts that nothing was written since `before` was dumped; says what was.
macro_rules! assert_unchanged {
    ($fixture:expr, $before:expr) => {
        assert_unchanged!($fixture, $before, "meanwhile")
    };
    ($fixture:expr, $before:expr, $context:expr) => {
        let written = crate::cases::kit::difference(&$before, &$fixture.dump().await);
        assert!(written.is_empty(), "written ({}): {written:#?}", $context);
    };
}
pub(super) use assert_unchanged;

/// The lines that are in one of two dumps only.
pub(super) fn difference(before: &[String], after: &[String]) -> Vec<String> {
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("- {line}"));
    let new = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

/// Something that is good but for one thing, with its name.
type Mutation<'m, T> = (&'static str, &'m dyn Fn(&mut T));

/// What is good, spoilt in one thing each.
pub(super) fn spoilt<T: Clone>(good: &T, mutations: &[Mutation<'_, T>]) -> Vec<(&'static str, T)> {
    let spoil = |(what, mutate): &Mutation<'_, T>| {
        let mut bad = good.clone();
        mutate(&mut bad);
        (*what, bad)
    };
    mutations.iter().map(spoil).collect()
}

/// The identity of a guard.
pub(super) fn guard() -> Started {
    Started { executor_handle: "pid:17 boot:x".to_owned(), pid: 17, deadline_at: None, log_artifact_id: Some("logs/1".to_owned()) }
}

pub(super) fn succeeded() -> AttemptOutcome {
    AttemptOutcome { result: AttemptResult::Succeeded, exit_code: Some(0), error_code: None, error_summary: None }
}

pub(super) fn failed() -> AttemptOutcome {
    let error_summary = Some("exit status 3".to_owned());
    AttemptOutcome { result: AttemptResult::Failed, exit_code: Some(3), error_code: Some("exit_code".to_owned()), error_summary }
}

/// So many attempts, 1 s and then twice as long between them, also after a lost one.
pub(super) fn retried(task: TaskSpec, max_attempts: u32) -> TaskSpec {
    let backoff = Backoff { base_ms: 1_000, max_ms: 60_000 };
    TaskSpec { retry: RetrySpec { max_attempts, on_lost: true, safety: Safety::Idempotent, backoff }, ..task }
}

/// The code of an error.
pub(super) fn code<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> &'static str {
    answer.unwrap_err().code().as_str()
}

/// The code of the error of a transaction whose work fails as the store does.
pub(super) fn tx_code<T: std::fmt::Debug>(answer: Result<T, TxError<StoreError>>) -> &'static str {
    match answer.unwrap_err() {
        TxError::Work(error) | TxError::Store(error) => error.code().as_str(),
    }
}

/// A Run that nobody defined, as the repository takes it.
pub(super) fn admission(ids: &SeededIds, owner: &str, key: Option<&str>) -> Admission {
    let new = NewRun {
        project_id: project(),
        task_id: task_id("backup"),
        task_revision: 1,
        task_digest: Digest::of(b"backup"),
        task_name: "Backup".to_owned(),
        priority: 0,
        retry: RetrySpec::default(),
        occurrence: None,
        trigger_type: TriggerType::Api,
        execution_origin: ExecutionOrigin::Api,
        execution_owner: owner.to_owned(),
        executor_type: ExecutorType::LocalProcess,
        idempotency_key: key.map(str::to_owned),
        triggered_by: None,
        request_id: None,
        retry_of_run_id: None,
        actor: Actor::of(ActorType::System),
    };
    new.admit(&AdmissionIds::generate(ids, start()), start())
}

impl<F: Fixture> World<'_, F> {
    /// A Run that nobody defined, of the fixture's owner.
    pub fn admission(&self, key: Option<&str>) -> Admission {
        admission(&self.ids, self.fixture.execution_owner(), key)
    }

    /// Writes an admission, whole.
    pub async fn insert(&self, new: &Admission) -> Result<(), TxError<StoreError>> {
        self.store
            .transaction(move |mut tx| {
                Box::pin(async move {
                    tx.insert_run(&new.run).await?;
                    tx.insert_attempt(&new.attempt).await?;
                    tx.insert_retry_policy(&new.policy).await?;
                    for event in &new.events {
                        tx.append_event(event).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// A Run that is there.
    pub async fn inserted(&self) -> Admission {
        let new = self.admission(None);
        self.insert(&new).await.unwrap();
        new
    }

    pub async fn publish(&self, tasks: Vec<TaskSpec>, triggers: Vec<TriggerSpec>) -> Published {
        self.store.publish(&set(tasks, triggers)).await.unwrap()
    }

    pub fn claim_command(&self, owner: &str) -> ClaimCommand {
        let claim_token = ClaimToken::generate(&self.ids, start());
        ClaimCommand { owner_id: OwnerId::new(owner).unwrap(), claim_token, lease_ms: LEASE_MS }
    }

    pub async fn claim_as(&self, owner: &str, page: u32) -> ClaimPage {
        self.store.claim_due(&self.claim_command(owner), page).await.unwrap()
    }

    pub async fn claim(&self, page: u32) -> ClaimPage {
        self.claim_as("scheduler-a", page).await
    }

    /// What the scheduler commits about a claim.
    pub fn decide(&self, claim: &ScheduleClaim) -> ScheduleCommit {
        let decision = claim.decide(&claim.candidate.trigger.schedule().unwrap(), GRACE_MS);
        let admits = matches!(decision.action, Action::Admit { .. });
        let ids = admits.then(|| AdmissionIds::generate(&self.ids, claim.acquired_at));
        ScheduleCommit::new(claim.clone(), Verdict::Decided(decision, ids)).unwrap()
    }

    pub async fn commit(&self, claims: &[ScheduleClaim]) -> Vec<CommitOutcome> {
        self.store.commit(claims.iter().map(|claim| self.decide(claim)).collect()).await.unwrap()
    }

    /// One cycle of a scheduler.
    pub async fn cycle(&self) -> Vec<CommitOutcome> {
        let page = self.claim(256).await;
        self.commit(&page.claims).await
    }

    /// Admits what is due and answers with the Runs.
    pub async fn admitted(&self) -> Vec<RunId> {
        let admitted = |outcome| match outcome {
            CommitOutcome::Admitted { run_id } => Some(run_id),
            _ => None,
        };
        self.cycle().await.into_iter().filter_map(admitted).collect()
    }

    /// Moves the clock on, until today's `time`.
    pub async fn until(&self, time: &str) {
        self.fixture.set_clock(today(time)).await;
    }

    pub async fn item(&self, trigger: &str) -> TriggerItem {
        self.store.trigger(&project(), &trigger_id(trigger)).await.unwrap().unwrap()
    }

    pub async fn row(&self, trigger: &str) -> ScheduleRow {
        self.item(trigger).await.schedule
    }

    /// What the ledger says about a trigger, newest first: reason, first, last, count.
    pub async fn ledger(&self, trigger: &str) -> Vec<(LedgerReason, TimestampMs, TimestampMs, u32)> {
        let entries = self.store.ledger(&project(), &trigger_id(trigger), TimestampMs::EPOCH, 500).await.unwrap();
        entries.into_iter().map(|e| (e.stretch.reason, e.stretch.from, e.stretch.to, e.stretch.count)).collect()
    }

    /// How many Runs there are.
    pub async fn count_runs(&self) -> usize {
        self.store.run_ids(None, 500).await.unwrap().len()
    }

    pub async fn status(&self, run_id: RunId) -> RunStatus {
        self.store.run(run_id).await.unwrap().unwrap().status
    }

    /// Has another handle hold the store's lock, lets `call` wait for it, and lets `ms` pass before it lets go. Where a handle waits on a
    /// thread of its own, `call` may come late and not wait at all; then it has nothing to be wrong about.
    pub async fn after_a_wait<T>(&self, ms: u64, call: impl Future<Output = T> + Send) -> T {
        let (other, new, locked) = (self.fixture.second_handle().await, &self.admission(None), &tokio::sync::Notify::new());
        let hold = other.transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&new.run).await?;
                locked.notify_one();
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                self.fixture.elapse(ms).await;
                Ok::<_, StoreError>(())
            })
        });
        let waits = async {
            locked.notified().await;
            call.await
        };
        let (outcome, answer) = tokio::join!(hold, waits);
        outcome.unwrap();
        answer
    }

    /// Starts the task by hand.
    pub async fn start(&self, task: &str) -> RunId {
        let command = StartCommand {
            project_id: project(),
            task_id: task_id(task),
            trigger_type: TriggerType::Manual,
            idempotency_key: None,
            by: operator(),
        };
        self.store.start(&command).await.unwrap().run_id
    }

    /// A worker begins a session.
    pub async fn session(&self, worker: &str) -> Session {
        let session_id = SessionId::generate(&self.ids, start());
        self.store.open_session(&WorkerId::new(worker).unwrap(), session_id, 64).await.unwrap()
    }

    pub fn dispatch_claim(&self, session: &Session, slots: u32) -> DispatchClaim {
        let request_id = RequestId::generate(&self.ids, start());
        DispatchClaim { session: session.clone(), slots, lease_ms: LEASE_MS, request_id }
    }

    pub async fn dispatch(&self, session: &Session, slots: u32) -> DispatchPage {
        self.store.claim(&self.dispatch_claim(session, slots)).await.unwrap()
    }

    /// Publishes the task, starts it, and leases its Run to a new session of worker `w`.
    pub async fn leased(&self, task: TaskSpec) -> Lease {
        let id = task.id.clone();
        self.publish(vec![task], vec![]).await;
        self.start(id.as_str()).await;
        let session = self.session("w").await;
        self.dispatch(&session, 1).await.leases.remove(0)
    }

    /// The command of a lease runs.
    pub async fn started(&self, lease: &Lease) -> RunAttempt {
        match self.store.started(&lease.fence, &guard(), None).await.unwrap() {
            Fenced::Applied(attempt) => attempt,
            Fenced::Stale => panic!("{lease:?} is stale"),
        }
    }

    /// As [`World::leased`], and its command runs.
    pub async fn running(&self, task: TaskSpec) -> Lease {
        let lease = self.leased(task).await;
        self.started(&lease).await;
        lease
    }

    pub async fn attempt_statuses(&self, run_id: RunId) -> Vec<AttemptStatus> {
        self.store.attempts(run_id).await.unwrap().into_iter().map(|attempt| attempt.status).collect()
    }

    /// The names of a Run's events.
    pub async fn event_names(&self, run_id: RunId) -> Vec<String> {
        self.store.events(run_id, 0, 500).await.unwrap().into_iter().map(|event| event.kind.name()).collect()
    }

    /// One task, one trigger, initialised.
    pub async fn scheduled(&self, trigger: TriggerSpec) {
        let task = task(trigger.task_id.as_str());
        self.publish(vec![task], vec![trigger]).await;
        assert_eq!(self.cycle().await, [CommitOutcome::Initialized]);
    }
}
