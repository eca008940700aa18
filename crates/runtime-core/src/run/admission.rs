//! How a Run comes to be: one Run, attempt 1, its retry policy and two events, all or nothing.

use serde_json::json;

use super::{
    event::{Actor, ActorType, EventType, RunEvent},
    record::{ExecutionOrigin, ExecutorType, Run, RunAttempt, TriggerType},
    retry::{RetryPolicy, RetrySpec},
    status::{AttemptStatus, RunStatus},
};
use crate::{
    Invalid, TimestampMs,
    definition::{Head, TaskSpec},
    digest::Digest,
    ids::{AttemptId, EventId, IdSource, ProjectId, RunId, TaskId, TriggerId},
    limits::IDEMPOTENCY_KEY_BYTES_MAX,
    payload::Payload,
};

/// Keys that begin so are the product's own.
pub(crate) const RESERVED_KEY_PREFIX: &str = "ql3:";

/// The identities of one admission. Repeating a command whose answer was lost uses the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionIds {
    /// The Run.
    pub run: RunId,
    /// Its first attempt.
    pub attempt: AttemptId,
    /// `run.created` and `run.queued`.
    pub events: [EventId; 2],
}

impl AdmissionIds {
    /// Allocates them.
    pub fn generate(ids: &dyn IdSource, at: TimestampMs) -> Self {
        Self {
            run: RunId::generate(ids, at),
            attempt: AttemptId::generate(ids, at),
            events: [EventId::generate(ids, at), EventId::generate(ids, at)],
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Namespace.
    pub project_id: ProjectId,
    /// What is executed, with the revision that is current.
    pub task_id: TaskId,
    /// See `task_id`.
    pub task_revision: u32,
    /// See `task_id`.
    pub task_digest: Digest,
    /// Display name of the task.
    pub task_name: String,
    /// Higher runs first.
    pub priority: i32,
    /// When it may be tried again.
    pub retry: RetrySpec,
    /// Trigger, its revision and digest, and the occurrence.
    pub occurrence: Option<(TriggerId, u32, Digest, TimestampMs)>,
    /// What made it.
    pub trigger_type: TriggerType,
    /// On whose account.
    pub execution_origin: ExecutionOrigin,
    /// Which runtime owns it.
    pub execution_owner: String,
    /// What will execute it.
    pub executor_type: ExecutorType,
    /// Unique in the project.
    pub idempotency_key: Option<String>,
    /// The person or program, as it named itself.
    pub triggered_by: Option<String>,
    /// The caller's request.
    pub request_id: Option<String>,
    /// The finished Run that this one repeats.
    pub retry_of_run_id: Option<RunId>,
    /// Who admits it.
    pub actor: Actor,
}

/// What becomes durable together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// `queued`, version 2, event sequence 2.
    pub run: Run,
    /// `claimed`, number 1.
    pub attempt: RunAttempt,
    /// Version 1.
    pub policy: RetryPolicy,
    /// `run.created` and `run.queued`.
    pub events: [RunEvent; 2],
}

/// The key of an occurrence: whoever admits it a second time finds it taken.
pub(crate) fn occurrence_key(trigger: &TriggerId, revision: u32, scheduled_for: TimestampMs) -> String {
    format!("ql3:cron:v1:{trigger}:{revision}:{}", scheduled_for.get())
}

/// Checks a key that a caller chose.
pub fn check_caller_key(key: &str) -> Result<(), Invalid> {
    let refuse = |reason: String| Err(Invalid::new("idempotency_key", reason));
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return refuse(format!("is {} bytes long, 1 ..= {IDEMPOTENCY_KEY_BYTES_MAX} are allowed", key.len()));
    }
    if key.starts_with(RESERVED_KEY_PREFIX) {
        return refuse(format!("begins with `{RESERVED_KEY_PREFIX}`, which is the product's own"));
    }
    if key.chars().any(char::is_control) {
        return refuse("holds a control character".to_owned());
    }
    Ok(())
}

impl NewRun {
    /// A Run of a task revision that the operator `by` asked for, without a key.
    pub fn asked_for(
        task: &Head<TaskSpec>,
        trigger_type: TriggerType,
        by: &str,
        execution_owner: &str,
        executor_type: ExecutorType,
    ) -> Self {
        let (execution_origin, actor) = match trigger_type {
            TriggerType::Api => (ExecutionOrigin::Api, ActorType::ApiApp),
            TriggerType::Cron | TriggerType::Manual | TriggerType::Retry => (ExecutionOrigin::Manual, ActorType::User),
        };
        Self {
            project_id: task.project_id.clone(),
            task_id: task.spec.id.clone(),
            task_revision: task.revision,
            task_digest: task.digest.clone(),
            task_name: task.spec.display_name().to_owned(),
            priority: task.spec.priority,
            retry: task.spec.retry,
            occurrence: None,
            trigger_type,
            execution_origin,
            execution_owner: execution_owner.to_owned(),
            executor_type,
            idempotency_key: None,
            triggered_by: Some(by.to_owned()),
            request_id: None,
            retry_of_run_id: None,
            actor: Actor::named(actor, by),
        }
    }

    /// The records of the admission at authority time `at`.
    pub fn admit(self, ids: &AdmissionIds, at: TimestampMs) -> Admission {
        let event = |index: usize, kind: RunStatus, attempt_id, payload| RunEvent {
            id: ids.events[index],
            run_id: ids.run,
            sequence: index as u64 + 1,
            kind: EventType::Run(kind),
            dedupe_key: None,
            actor: self.actor.clone(),
            attempt_id,
            step_run_id: None,
            payload,
            created_at: at,
        };
        let scheduled_for = self.occurrence.as_ref().map(|(.., at)| *at);
        let lateness = scheduled_for.map(|due| json!({ "latenessMs": at.since_ms(due) }));
        let created = lateness.map_or_else(Payload::empty, |v| Payload::from_value(&v).expect("one small number"));
        let queued = Payload::from_value(&json!({ "attempt": 1 })).expect("one small number");
        let events = [event(0, RunStatus::Created, None, created), event(1, RunStatus::Queued, Some(ids.attempt), queued)];
        let (trigger_id, trigger_revision, trigger_digest) = match self.occurrence {
            Some((trigger, revision, digest, _)) => (Some(trigger), Some(revision), Some(digest)),
            None => (None, None, None),
        };
        let policy = RetryPolicy { run_id: ids.run, spec: self.retry, next_attempt_at: None, version: 1, created_at: at, updated_at: at };
        let attempt = first_attempt(ids, self.executor_type, at);
        let run = Run {
            id: ids.run,
            project_id: self.project_id,
            task_id: self.task_id,
            task_revision: self.task_revision,
            task_digest: self.task_digest,
            task_name: self.task_name,
            task_snapshot_ref: None,
            parent_run_id: None,
            retry_of_run_id: self.retry_of_run_id,
            trigger_id,
            trigger_revision,
            trigger_digest,
            trigger_type: self.trigger_type,
            execution_origin: self.execution_origin,
            execution_owner: self.execution_owner,
            triggered_by: self.triggered_by,
            request_id: self.request_id,
            scheduled_for,
            status: RunStatus::Queued,
            version: 2,
            event_sequence: 2,
            priority: self.priority,
            idempotency_key: self.idempotency_key,
            input_ref: None,
            output_ref: None,
            created_at: at,
            queued_at: Some(at),
            started_at: None,
            finished_at: None,
            cancel_requested_at: None,
            cancel_reason: None,
            error_code: None,
            error_summary: None,
            legacy_cron_id: None,
        };
        Admission { run, attempt, policy, events }
    }
}

fn first_attempt(ids: &AdmissionIds, executor_type: ExecutorType, at: TimestampMs) -> RunAttempt {
    new_attempt(ids.attempt, ids.run, 1, executor_type, at)
}

/// An attempt that waits for a worker.
pub(super) fn new_attempt(id: AttemptId, run_id: RunId, attempt: u32, executor_type: ExecutorType, at: TimestampMs) -> RunAttempt {
    RunAttempt {
        id,
        run_id,
        step_run_id: None,
        attempt,
        status: AttemptStatus::Claimed,
        executor_type,
        worker_id: None,
        executor_handle: None,
        pid: None,
        log_artifact_id: None,
        lease_token: None,
        lease_expires_at: None,
        deadline_at: None,
        callback_token_hash: None,
        callback_sequence: 0,
        created_at: at,
        started_at: None,
        finished_at: None,
        exit_code: None,
        error_code: None,
        error_summary: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_cannot_take_the_products_keys() {
        assert!(check_caller_key("order-17").is_ok());
        for bad in ["", "ql3:cron:v1:a:1:0", "a\nb", &"x".repeat(256)] {
            assert_eq!(check_caller_key(bad).unwrap_err().field, "idempotency_key");
        }
    }
}
