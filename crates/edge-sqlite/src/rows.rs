//! Rows of the run tables and their records. Columns and parameters stand in the same order everywhere.

use runtime_core::{
    StoreError,
    digest::Digest,
    payload::Payload,
    run::{
        Actor, ActorType, AttemptStatus, Backoff, CancelReason, EventType, ExecutionOrigin, ExecutorType, RetryPolicy, RetrySpec, Run,
        RunAttempt, RunEvent, RunStatus, Safety, TriggerType,
    },
};

use crate::sql::{Cells, Table};

pub(crate) const RUNS: Table = Table { name: "runs", key: &["id"] };
pub(crate) const ATTEMPTS: Table = Table { name: "run_attempts", key: &["id"] };
pub(crate) const EVENTS: Table = Table { name: "run_events", key: &["id"] };
pub(crate) const POLICIES: Table = Table { name: "run_retry_policies", key: &["run_id"] };

/// Columns of `runs`.
macro_rules! run_columns {
    () => {
        "id, project_id, task_id, task_revision, task_digest, task_name, task_snapshot_ref, parent_run_id, retry_of_run_id, trigger_id, \
         trigger_revision, trigger_digest, trigger_type, execution_origin, execution_owner, triggered_by, request_id, scheduled_for_ms, \
         status, version, event_sequence, priority, idempotency_key, input_ref, output_ref, created_at_ms, queued_at_ms, started_at_ms, \
         finished_at_ms, cancel_requested_at_ms, cancel_reason, error_code, error_summary, legacy_cron_id"
    };
}

/// Columns of `run_attempts`.
macro_rules! attempt_columns {
    () => {
        "id, run_id, step_run_id, attempt, status, executor_type, worker_id, executor_handle, pid, log_artifact_id, lease_token, \
         lease_expires_at_ms, deadline_at_ms, callback_token_hash, callback_sequence, created_at_ms, started_at_ms, finished_at_ms, \
         exit_code, error_code, error_summary"
    };
}

/// Columns of `run_events`.
macro_rules! event_columns {
    () => {
        "id, run_id, sequence, type, dedupe_key, actor_type, actor_id, attempt_id, step_run_id, payload, created_at_ms"
    };
}

/// Columns of `run_retry_policies`.
macro_rules! policy_columns {
    () => {
        "run_id, max_attempts, retry_on_lost, safety, backoff_base_ms, backoff_max_ms, next_attempt_at_ms, version, created_at_ms, \
         updated_at_ms"
    };
}

pub(crate) use {attempt_columns, event_columns, policy_columns, run_columns};

pub(crate) fn run(row: &Cells<'_>) -> Result<Run, StoreError> {
    Ok(Run {
        id: row.parse("id", str::parse)?,
        project_id: row.parse("project_id", str::parse)?,
        task_id: row.parse("task_id", str::parse)?,
        task_revision: row.u32("task_revision")?,
        task_digest: row.parse("task_digest", Digest::parse)?,
        task_name: row.text("task_name")?,
        task_snapshot_ref: row.opt_text("task_snapshot_ref")?,
        parent_run_id: row.opt_parse("parent_run_id", str::parse)?,
        retry_of_run_id: row.opt_parse("retry_of_run_id", str::parse)?,
        trigger_id: row.opt_parse("trigger_id", str::parse)?,
        trigger_revision: row.opt_u32("trigger_revision")?,
        trigger_digest: row.opt_parse("trigger_digest", Digest::parse)?,
        trigger_type: row.parse("trigger_type", TriggerType::parse)?,
        execution_origin: row.parse("execution_origin", ExecutionOrigin::parse)?,
        execution_owner: row.text("execution_owner")?,
        triggered_by: row.opt_text("triggered_by")?,
        request_id: row.opt_text("request_id")?,
        scheduled_for: row.opt_time("scheduled_for_ms")?,
        status: row.parse("status", RunStatus::parse)?,
        version: row.u64("version")?,
        event_sequence: row.u64("event_sequence")?,
        priority: row.i32("priority")?,
        idempotency_key: row.opt_text("idempotency_key")?,
        input_ref: row.opt_text("input_ref")?,
        output_ref: row.opt_text("output_ref")?,
        created_at: row.time("created_at_ms")?,
        queued_at: row.opt_time("queued_at_ms")?,
        started_at: row.opt_time("started_at_ms")?,
        finished_at: row.opt_time("finished_at_ms")?,
        cancel_requested_at: row.opt_time("cancel_requested_at_ms")?,
        cancel_reason: row.opt_parse("cancel_reason", CancelReason::parse)?,
        error_code: row.opt_text("error_code")?,
        error_summary: row.opt_text("error_summary")?,
        legacy_cron_id: row.opt_u64("legacy_cron_id")?,
    })
}

pub(crate) fn attempt(row: &Cells<'_>) -> Result<RunAttempt, StoreError> {
    Ok(RunAttempt {
        id: row.parse("id", str::parse)?,
        run_id: row.parse("run_id", str::parse)?,
        step_run_id: row.opt_text("step_run_id")?,
        attempt: row.u32("attempt")?,
        status: row.parse("status", AttemptStatus::parse)?,
        executor_type: row.parse("executor_type", ExecutorType::parse)?,
        worker_id: row.opt_parse("worker_id", str::parse)?,
        executor_handle: row.opt_text("executor_handle")?,
        pid: row.opt_u32("pid")?,
        log_artifact_id: row.opt_text("log_artifact_id")?,
        lease_token: row.opt_parse("lease_token", Digest::parse)?,
        lease_expires_at: row.opt_time("lease_expires_at_ms")?,
        deadline_at: row.opt_time("deadline_at_ms")?,
        callback_token_hash: row.opt_parse("callback_token_hash", Digest::parse)?,
        callback_sequence: row.u64("callback_sequence")?,
        created_at: row.time("created_at_ms")?,
        started_at: row.opt_time("started_at_ms")?,
        finished_at: row.opt_time("finished_at_ms")?,
        exit_code: row.opt_i32("exit_code")?,
        error_code: row.opt_text("error_code")?,
        error_summary: row.opt_text("error_summary")?,
    })
}

pub(crate) fn event(row: &Cells<'_>) -> Result<RunEvent, StoreError> {
    Ok(RunEvent {
        id: row.parse("id", str::parse)?,
        run_id: row.parse("run_id", str::parse)?,
        sequence: row.u64("sequence")?,
        kind: row.parse("type", EventType::parse)?,
        dedupe_key: row.opt_text("dedupe_key")?,
        actor: Actor { kind: row.parse("actor_type", ActorType::parse)?, id: row.opt_text("actor_id")? },
        attempt_id: row.opt_parse("attempt_id", str::parse)?,
        step_run_id: row.opt_text("step_run_id")?,
        payload: row.parse("payload", Payload::parse)?,
        created_at: row.time("created_at_ms")?,
    })
}

pub(crate) fn policy(row: &Cells<'_>) -> Result<RetryPolicy, StoreError> {
    Ok(RetryPolicy {
        run_id: row.parse("run_id", str::parse)?,
        spec: RetrySpec {
            max_attempts: row.u32("max_attempts")?,
            on_lost: row.flag("retry_on_lost")?,
            safety: row.parse("safety", Safety::parse)?,
            backoff: Backoff { base_ms: row.u64("backoff_base_ms")?, max_ms: row.u64("backoff_max_ms")? },
        },
        next_attempt_at: row.opt_time("next_attempt_at_ms")?,
        version: row.u64("version")?,
        created_at: row.time("created_at_ms")?,
        updated_at: row.time("updated_at_ms")?,
    })
}
