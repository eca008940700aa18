//! What the cases are written with.

use std::sync::Arc;

use runtime_core::{
    StoreError, TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{TaskSpec, TriggerSpec},
    digest::Digest,
    ids::{ClaimToken, OwnerId, ProjectId, RunId, TaskId, TriggerId},
    ports::{
        definitions::{Operator, PublishCommand, Published},
        executor::Command,
        history::TriggerItem,
        runs::{RunRepositoryExt, TxError},
    },
    run::{Actor, ActorType, Admission, AdmissionIds, ExecutionOrigin, ExecutorType, NewRun, RetrySpec, RunStatus, TriggerType},
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

    /// One task, one trigger, initialised.
    pub async fn scheduled(&self, trigger: TriggerSpec) {
        let task = task(trigger.task_id.as_str());
        self.publish(vec![task], vec![trigger]).await;
        assert_eq!(self.cycle().await, [CommitOutcome::Initialized]);
    }
}
