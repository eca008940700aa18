//! Writing Runs, attempts, policies and events, inside somebody's transaction.

use runtime_core::{
    StoreError, TimestampMs,
    digest::Digest,
    ids::{RunId, TriggerId, WorkerId},
    ports::runs::{check_attempt_change, check_policy_change, check_run_change},
    run::{
        self, Actor, Admission, AttemptChange, CancelReason, PolicyChange, RetryPolicy, Run, RunAttempt, RunChange, RunEvent, RunState,
        RunStatus, Transition, decide,
    },
};
use rusqlite::{Connection, ToSql};

use crate::{
    rows::{ATTEMPTS, POLICIES, RUNS, attempt_columns, event_columns, policy_columns, run_columns},
    runs,
    sql::{compare_and_set, execute, int},
    tx::{self, Command},
};

/// Gathers parameters in the order of the columns. Text is borrowed from the record.
type Params<'a> = Vec<Box<dyn ToSql + 'a>>;

macro_rules! params_of {
    ($($value:expr),* $(,)?) => { { let params: Params<'_> = vec![$(Box::new($value)),*]; params } };
}

fn run_params(run: &Run) -> Params<'_> {
    params_of![
        run.id.to_string(),
        run.project_id.as_str(),
        run.task_id.as_str(),
        run.task_revision,
        run.task_digest.as_str(),
        &run.task_name,
        &run.task_snapshot_ref,
        run.parent_run_id.map(|id| id.to_string()),
        run.retry_of_run_id.map(|id| id.to_string()),
        run.trigger_id.as_ref().map(TriggerId::as_str),
        run.trigger_revision,
        run.trigger_digest.as_ref().map(Digest::as_str),
        run.trigger_type.as_str(),
        run.execution_origin.as_str(),
        &run.execution_owner,
        &run.triggered_by,
        &run.request_id,
        run.scheduled_for.map(TimestampMs::get),
        run.status.as_str(),
        int(run.version),
        int(run.event_sequence),
        run.priority,
        &run.idempotency_key,
        &run.input_ref,
        &run.output_ref,
        run.created_at.get(),
        run.queued_at.map(TimestampMs::get),
        run.started_at.map(TimestampMs::get),
        run.finished_at.map(TimestampMs::get),
        run.cancel_requested_at.map(TimestampMs::get),
        run.cancel_reason.map(CancelReason::as_str),
        &run.error_code,
        &run.error_summary,
        run.legacy_cron_id.map(int),
    ]
}

fn attempt_params(attempt: &RunAttempt) -> Params<'_> {
    params_of![
        attempt.id.to_string(),
        attempt.run_id.to_string(),
        &attempt.step_run_id,
        attempt.attempt,
        attempt.status.as_str(),
        attempt.executor_type.as_str(),
        attempt.worker_id.as_ref().map(WorkerId::as_str),
        &attempt.executor_handle,
        attempt.pid,
        &attempt.log_artifact_id,
        attempt.lease_token.as_ref().map(Digest::as_str),
        attempt.lease_expires_at.map(TimestampMs::get),
        attempt.deadline_at.map(TimestampMs::get),
        attempt.callback_token_hash.as_ref().map(Digest::as_str),
        int(attempt.callback_sequence),
        attempt.created_at.get(),
        attempt.started_at.map(TimestampMs::get),
        attempt.finished_at.map(TimestampMs::get),
        attempt.exit_code,
        &attempt.error_code,
        &attempt.error_summary,
    ]
}

fn policy_params(policy: &RetryPolicy) -> Params<'_> {
    params_of![
        policy.run_id.to_string(),
        policy.spec.max_attempts,
        policy.spec.on_lost,
        policy.spec.safety.as_str(),
        int(policy.spec.backoff.base_ms),
        int(policy.spec.backoff.max_ms),
        policy.next_attempt_at.map(TimestampMs::get),
        int(policy.version),
        policy.created_at.get(),
        policy.updated_at.get(),
    ]
}

fn bind(params: Params<'_>) -> impl rusqlite::Params {
    rusqlite::params_from_iter(params)
}

pub(crate) fn insert_run(conn: &Connection, run: &Run) -> Result<(), StoreError> {
    const SQL: &str = concat!(
        "-- runs.insert\nINSERT INTO runs (",
        run_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, \
         ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)"
    );
    execute(conn, SQL, bind(run_params(run))).map(|_| ())
}

pub(crate) fn insert_attempt(conn: &Connection, attempt: &RunAttempt) -> Result<(), StoreError> {
    const SQL: &str = concat!(
        "-- run_attempts.insert\nINSERT INTO run_attempts (",
        attempt_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)"
    );
    execute(conn, SQL, bind(attempt_params(attempt))).map(|_| ())
}

pub(crate) fn insert_policy(conn: &Connection, policy: &RetryPolicy) -> Result<(), StoreError> {
    const SQL: &str = concat!(
        "-- run_retry_policies.insert\nINSERT INTO run_retry_policies (",
        policy_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    );
    execute(conn, SQL, bind(policy_params(policy))).map(|_| ())
}

pub(crate) fn append_event(conn: &Connection, event: &RunEvent) -> Result<(), StoreError> {
    const SQL: &str = concat!(
        "-- run_events.append\nINSERT INTO run_events (",
        event_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
    );
    let params = params_of![
        event.id.to_string(),
        event.run_id.to_string(),
        int(event.sequence),
        event.kind.name(),
        &event.dedupe_key,
        event.actor.kind.as_str(),
        &event.actor.id,
        event.attempt_id.map(|id| id.to_string()),
        &event.step_run_id,
        event.payload.as_str(),
        event.created_at.get(),
    ];
    execute(conn, SQL, bind(params)).map(|_| ())
}

pub(crate) fn compare_and_set_run(conn: &Connection, change: &RunChange) -> Result<bool, StoreError> {
    const SQL: &str = concat!(
        "-- runs.compare_and_set\nUPDATE runs SET (",
        run_columns!(),
        ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, \
         ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34) WHERE id = ?1 AND version = ?35"
    );
    check_run_change(change)?;
    let mut params = run_params(&change.run);
    params.push(Box::new(int(change.expected_version)));
    compare_and_set(conn, &RUNS, &change.run.id.to_string(), SQL, bind(params))
}

pub(crate) fn compare_and_set_attempt(conn: &Connection, change: &AttemptChange) -> Result<bool, StoreError> {
    const SQL: &str = concat!(
        "-- run_attempts.compare_and_set\nUPDATE run_attempts SET (",
        attempt_columns!(),
        ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21) \
         WHERE id = ?1 AND status = ?22 AND callback_sequence = ?23"
    );
    check_attempt_change(change)?;
    let mut params = attempt_params(&change.attempt);
    params.push(Box::new(change.expected_status.as_str()));
    params.push(Box::new(int(change.expected_callback_sequence)));
    compare_and_set(conn, &ATTEMPTS, &change.attempt.id.to_string(), SQL, bind(params))
}

pub(crate) fn compare_and_set_policy(conn: &Connection, change: &PolicyChange) -> Result<bool, StoreError> {
    const SQL: &str = concat!(
        "-- run_retry_policies.compare_and_set\nUPDATE run_retry_policies SET (",
        policy_columns!(),
        ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) WHERE run_id = ?1 AND version = ?11"
    );
    check_policy_change(change)?;
    let mut params = policy_params(&change.policy);
    params.push(Box::new(int(change.expected_version)));
    compare_and_set(conn, &POLICIES, &change.policy.run_id.to_string(), SQL, bind(params))
}

/// The whole write-set, or nothing of it.
pub(crate) fn transition(conn: &Connection, transition: &Transition) -> Result<bool, StoreError> {
    tx::whole(conn, || {
        let won = compare_and_set_run(conn, &transition.run)?
            && transition.attempt.as_ref().map_or(Ok(true), |change| compare_and_set_attempt(conn, change))?
            && transition.policy.as_ref().map_or(Ok(true), |change| compare_and_set_policy(conn, change))?;
        if won {
            transition.new_attempt.as_ref().map_or(Ok(()), |attempt| insert_attempt(conn, attempt))?;
            append_event(conn, &transition.event)?;
        }
        Ok(won)
    })
}

/// The records of an admission.
pub(crate) fn admission(conn: &Connection, admission: &Admission) -> Result<(), StoreError> {
    insert_run(conn, &admission.run)?;
    insert_attempt(conn, &admission.attempt)?;
    insert_policy(conn, &admission.policy)?;
    admission.events.iter().try_for_each(|event| append_event(conn, event))
}

/// Carries a command out; answers with the state of the Run after it.
pub(crate) fn carry(tx: &Command<'_>, run_id: RunId, command: &run::Command, actor: &Actor) -> Result<RunStatus, StoreError> {
    let state = runs::state(tx.conn, run_id)?.ok_or_else(|| StoreError::not_found("run", run_id))?;
    carry_from(tx, &state, command, actor)
}

/// Carries a command out from a state that was read in this transaction.
pub(crate) fn carry_from(tx: &Command<'_>, state: &RunState, command: &run::Command, actor: &Actor) -> Result<RunStatus, StoreError> {
    let mut status = state.run.status;
    for step in decide(state, command, actor, tx.at, tx.ids)? {
        status = step.run.run.status;
        // Nobody else writes during this transaction: what was just read is still so, or the rows contradict each other.
        if !transition(tx.conn, &step)? {
            return Err(StoreError::corrupt(RUNS.name, "version", state.run.id));
        }
    }
    Ok(status)
}
