//! Records as JSON and as cells. Scripts rely on the names: fields are added, never changed (docs/cli.md lists them).

use runtime_core::{
    TimestampMs,
    definition::{Head, TaskSpec},
    ids::RunId,
    ports::{
        executor::Command,
        history::{RunListItem, TriggerItem},
    },
    run::{CancelReason, RetryPolicy, RetrySpec, Run, RunAttempt, RunEvent, RunStatus},
    schedule::LedgerEntry,
};
use serde_json::{Value, json};

use crate::{
    output::Paint,
    table::{Cell, Tone},
};

/// RFC 3339, or null.
pub fn at(at: Option<TimestampMs>) -> Value {
    at.map_or(Value::Null, |at| Value::from(at.to_string()))
}

pub fn tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Succeeded => Tone::Good,
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::Lost => Tone::Bad,
        RunStatus::Cancelled => Tone::Dim,
        RunStatus::RetryWait | RunStatus::WaitingApproval => Tone::Warn,
        RunStatus::Created | RunStatus::Queued | RunStatus::Dispatching | RunStatus::Running => Tone::Plain,
    }
}

pub fn status(status: RunStatus) -> Cell {
    Cell::toned(status.as_str(), tone(status))
}

pub fn status_text(status: RunStatus, paint: Paint) -> String {
    match tone(status) {
        Tone::Good => paint.green(status),
        Tone::Bad => paint.red(status),
        Tone::Warn => paint.yellow(status),
        Tone::Dim => paint.dim(status),
        Tone::Plain => status.to_string(),
    }
}

/// The fields that every list of Runs has from the start.
pub fn run_item(item: &RunListItem) -> Value {
    let run = &item.run;
    json!({
        "id": run.id, "projectId": run.project_id, "taskId": run.task_id, "triggerId": run.trigger_id, "status": run.status.as_str(),
        "scheduledFor": at(run.scheduled_for), "createdAt": at(Some(run.created_at)), "startedAt": at(run.started_at),
        "finishedAt": at(run.finished_at), "attempts": item.attempts, "errorCode": run.error_code, "errorSummary": run.error_summary,
    })
}

/// A Run that something else speaks of.
pub fn run_brief(run: &Run) -> Value {
    json!({
        "id": run.id, "status": run.status.as_str(), "taskId": run.task_id, "taskRevision": run.task_revision,
        "taskDigest": run.task_digest.as_str(), "triggerRevision": run.trigger_revision,
        "triggerDigest": run.trigger_digest.as_ref().map(runtime_core::digest::Digest::as_str), "triggeredBy": run.triggered_by,
        "createdAt": at(Some(run.created_at)), "startedAt": at(run.started_at), "finishedAt": at(run.finished_at),
    })
}

/// Everything about a Run but its attempts.
pub fn run(run: &Run, attempts: usize) -> Value {
    json!({
        "id": run.id, "projectId": run.project_id, "taskId": run.task_id, "taskRevision": run.task_revision,
        "taskDigest": run.task_digest.as_str(), "taskName": run.task_name, "triggerId": run.trigger_id,
        "triggerRevision": run.trigger_revision, "triggerDigest": run.trigger_digest.as_ref().map(runtime_core::digest::Digest::as_str),
        "triggerType": run.trigger_type.as_str(), "triggeredBy": run.triggered_by, "retryOfRunId": run.retry_of_run_id,
        "scheduledFor": at(run.scheduled_for), "status": run.status.as_str(), "version": run.version, "eventSequence": run.event_sequence,
        "priority": run.priority, "idempotencyKey": run.idempotency_key, "createdAt": at(Some(run.created_at)),
        "queuedAt": at(run.queued_at), "startedAt": at(run.started_at), "finishedAt": at(run.finished_at),
        "cancelRequestedAt": at(run.cancel_requested_at), "cancelReason": run.cancel_reason.map(CancelReason::as_str),
        "errorCode": run.error_code, "errorSummary": run.error_summary, "attempts": attempts,
    })
}

pub fn attempt(attempt: &RunAttempt) -> Value {
    json!({
        "id": attempt.id, "attempt": attempt.attempt, "status": attempt.status.as_str(), "executorType": attempt.executor_type.as_str(),
        "workerId": attempt.worker_id.as_ref().map(ToString::to_string), "pid": attempt.pid, "createdAt": at(Some(attempt.created_at)),
        "startedAt": at(attempt.started_at), "deadlineAt": at(attempt.deadline_at), "finishedAt": at(attempt.finished_at),
        "exitCode": attempt.exit_code, "errorCode": attempt.error_code, "errorSummary": attempt.error_summary,
    })
}

pub fn event(event: &RunEvent) -> Value {
    json!({
        "id": event.id, "runId": event.run_id, "sequence": event.sequence, "type": event.kind.name(),
        "actor": { "type": event.actor.kind.as_str(), "id": event.actor.id }, "attemptId": event.attempt_id,
        "payload": event.payload.to_value(), "createdAt": at(Some(event.created_at)),
    })
}

pub fn retry(spec: &RetrySpec) -> Value {
    json!({
        "maxAttempts": spec.max_attempts, "backoffMs": spec.backoff.base_ms, "maxBackoffMs": spec.backoff.max_ms, "onLost": spec.on_lost,
        "safety": spec.safety.as_str(),
    })
}

pub fn policy(policy: &RetryPolicy) -> Value {
    let mut value = retry(&policy.spec);
    value["nextAttemptAt"] = at(policy.next_attempt_at);
    value
}

fn last_run(last: Option<(RunId, RunStatus)>) -> Value {
    last.map_or(Value::Null, |(id, status)| json!({ "id": id, "status": status.as_str() }))
}

/// A task. Of `env` only the names, of `stdin` only the size: what they hold may be secret.
pub fn task(head: &Head<TaskSpec>, last: Option<(RunId, RunStatus)>) -> Value {
    let spec = &head.spec;
    let command = match &spec.command {
        Command::Argv(argv) => json!({ "argv": argv }),
        Command::Shell(line) => json!({ "shell": line }),
    };
    json!({
        "id": spec.id, "projectId": head.project_id, "name": spec.name, "enabled": spec.enabled, "revision": head.revision,
        "digest": head.digest.as_str(), "command": command, "env": spec.env.keys().collect::<Vec<_>>(), "envFile": spec.env_file,
        "cwd": spec.cwd, "stdinBytes": spec.stdin.as_ref().map(String::len), "priority": spec.priority, "timeoutMs": spec.timeout_ms,
        "maxConcurrent": spec.max_concurrent, "retry": retry(&spec.retry), "onFailure": spec.on_failure, "labels": spec.labels,
        "lastRun": last_run(last),
    })
}

/// Occurrences that are recorded instead of run.
pub fn ledger(entry: &LedgerEntry) -> Value {
    let stretch = &entry.stretch;
    json!({
        "triggerId": entry.trigger_id, "triggerRevision": entry.trigger_revision, "from": at(Some(stretch.from)), "to": at(Some(stretch.to)),
        "count": stretch.count, "capped": stretch.capped, "reason": stretch.reason.as_str(), "runId": stretch.run_id,
        "recordedAt": at(Some(entry.recorded_at)),
    })
}

/// A trigger; `next` is its next occurrence, if it has one and does not rest.
pub fn trigger(item: &TriggerItem, state: &str, next: Option<TimestampMs>) -> Value {
    let (spec, row) = (&item.head.spec, &item.schedule);
    let paused = row.paused.as_ref().map(|pause| json!({ "at": at(Some(pause.at)), "by": pause.by, "reason": pause.reason }));
    let set_aside = row.set_aside.as_ref().map(|aside| json!({ "at": at(Some(aside.at)), "reason": aside.reason }));
    json!({
        "id": spec.id, "projectId": item.head.project_id, "taskId": spec.task_id, "name": spec.name, "enabled": spec.enabled,
        "revision": item.head.revision, "digest": item.head.digest.as_str(), "cron": spec.cron, "dialect": spec.dialect,
        "timezone": spec.timezone, "misfire": spec.misfire.as_str(), "overlap": spec.overlap.as_str(), "state": state,
        "activatedAt": at(Some(row.activated_at)), "nextFireAt": at(next), "lastScheduledFor": at(row.last_scheduled_at),
        "zoneData": row.zone_data_version, "paused": paused, "setAside": set_aside, "lastRun": last_run(item.last_run),
    })
}
