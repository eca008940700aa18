//! What these tests are written with.

use edge_sqlite::SqliteStore;
use runtime_core::{
    StoreError, TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{TaskSpec, TriggerSpec},
    digest::Digest,
    ids::{ClaimToken, OwnerId, ProjectId, SessionId, TaskId, TriggerId, WorkerId},
    ports::{
        control::{ControlStore, StartCommand},
        definitions::{DefinitionStore, Operator, PublishCommand},
        dispatch::{DispatchClaim, DispatchStore, Session},
        executor::Command,
        runs::{RunRepositoryExt, TxError},
        schedules::ScheduleStore,
    },
    run::{Actor, ActorType, Admission, AdmissionIds, ExecutionOrigin, ExecutorType, NewRun, RetrySpec, TriggerType},
    schedule::{Action, ClaimCommand, ClaimPage, ScheduleClaim, ScheduleCommit, Verdict},
};
use store_contract::{SeededIds, start};

pub const MINUTE: u64 = 60_000;

pub fn project() -> ProjectId {
    ProjectId::new("default").unwrap()
}

pub fn trigger_id(id: &str) -> TriggerId {
    TriggerId::new(id).unwrap()
}

pub fn operator() -> Operator {
    Operator { name: "ada".to_owned(), reason: None }
}

pub fn task(id: &str) -> TaskSpec {
    TaskSpec::new(TaskId::new(id).unwrap(), Command::Argv(vec!["true".to_owned()]))
}

/// A trigger of a task, every minute in UTC.
pub fn minutely(id: &str, task: &str) -> TriggerSpec {
    let (cron, zone) = (CronExpr::parse("* * * * *").unwrap(), TimeZone::parse("UTC").unwrap());
    TriggerSpec::new(trigger_id(id), TaskId::new(task).unwrap(), &cron, &zone)
}

pub async fn publish(store: &SqliteStore, tasks: Vec<TaskSpec>, triggers: Vec<TriggerSpec>) {
    let command = PublishCommand { project_id: project(), tasks, triggers, archive_absent: true, dry_run: false, by: operator() };
    store.publish(&command).await.unwrap();
}

pub fn claim_command(ids: &SeededIds) -> ClaimCommand {
    let claim_token = ClaimToken::generate(ids, start());
    ClaimCommand { owner_id: OwnerId::new("scheduler-a").unwrap(), claim_token, lease_ms: 30_000 }
}

pub async fn claim(store: &SqliteStore, ids: &SeededIds) -> ClaimPage {
    store.claim_due(&claim_command(ids), 256).await.unwrap()
}

/// What the scheduler commits about a claim.
pub fn decide(claim: &ScheduleClaim, ids: &SeededIds) -> ScheduleCommit {
    let decision = claim.decide(&claim.candidate.trigger.schedule().unwrap(), 120_000);
    let admits = matches!(decision.action, Action::Admit { .. });
    let admission = admits.then(|| AdmissionIds::generate(ids, claim.acquired_at));
    ScheduleCommit::new(claim.clone(), Verdict::Decided(decision, admission)).unwrap()
}

/// One cycle of a scheduler.
pub async fn cycle(store: &SqliteStore, ids: &SeededIds) -> Vec<runtime_core::schedule::CommitOutcome> {
    let page = claim(store, ids).await;
    store.commit(page.claims.iter().map(|claim| decide(claim, ids)).collect()).await.unwrap()
}

/// A Run that nobody defined.
pub fn admission(ids: &SeededIds, at: TimestampMs) -> Admission {
    let new = NewRun {
        project_id: project(),
        task_id: TaskId::new("backup").unwrap(),
        task_revision: 1,
        task_digest: Digest::of(b"backup"),
        task_name: "Backup".to_owned(),
        priority: 0,
        retry: RetrySpec::default(),
        occurrence: None,
        trigger_type: TriggerType::Api,
        execution_origin: ExecutionOrigin::Api,
        execution_owner: "runtime".to_owned(),
        executor_type: ExecutorType::LocalProcess,
        idempotency_key: None,
        triggered_by: None,
        request_id: None,
        retry_of_run_id: None,
        actor: Actor::of(ActorType::System),
    };
    new.admit(&AdmissionIds::generate(ids, at), at)
}

/// Writes an admission, whole.
pub async fn insert(store: &SqliteStore, new: &Admission) -> Result<(), TxError<StoreError>> {
    store
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

/// Starts a task by hand.
pub async fn start_task(store: &SqliteStore, task: &str) -> Result<runtime_core::ids::RunId, StoreError> {
    let command = StartCommand {
        project_id: project(),
        task_id: TaskId::new(task).unwrap(),
        trigger_type: TriggerType::Manual,
        idempotency_key: None,
        by: operator(),
    };
    store.start(&command).await.map(|outcome| outcome.run_id)
}

pub async fn session(store: &SqliteStore, ids: &SeededIds) -> Session {
    let worker = WorkerId::new("worker-a").unwrap();
    store.open_session(&worker, SessionId::generate(ids, start()), 4).await.unwrap()
}

pub fn dispatch_claim(session: &Session, ids: &SeededIds) -> DispatchClaim {
    let request_id = runtime_core::ids::RequestId::generate(ids, start());
    DispatchClaim { session: session.clone(), slots: 16, lease_ms: 30_000, request_id }
}
