//! `ControlStore`, the record of operators' acts, and the clock's mark.

use async_trait::async_trait;
use runtime_core::{
    Invalid, StoreError, TimestampMs,
    definition::{Head, TaskSpec},
    ids::{ProjectId, RunId},
    limits::LIST_PAGE_MAX,
    ports::{
        control::{CancelOutcome, ControlStore, OperatorAct, StartCommand, StartOutcome},
        definitions::Operator,
    },
    run::{
        Actor, ActorType, AdmissionIds, CancelReason, Command as RunCommand, ExecutorType, IllegalTransition, NewRun, RunStatus,
        TriggerType, check_caller_key,
    },
};
use rusqlite::{Connection, params};

use crate::{
    admit::key_holder,
    error::check_page,
    runs,
    schedule_rows::{task, task_revision},
    sql::{Cells, Table, all, execute, one},
    store::SqliteStore,
    tx::{self, Command},
    write,
};

pub(crate) const ACTS: Table = Table { name: "operator_acts", key: &["id"] };
const MARK: Table = Table { name: "clock_mark", key: &["one"] };

#[async_trait]
impl ControlStore for SqliteStore {
    async fn start(&self, command: &StartCommand) -> Result<StartOutcome, StoreError> {
        command.by.check()?;
        command.idempotency_key.as_deref().map_or(Ok(()), check_caller_key)?;
        if !matches!(command.trigger_type, TriggerType::Manual | TriggerType::Api) {
            return Err(Invalid::new("trigger_type", format!("is {}, manual or api is allowed", command.trigger_type)).into());
        }
        let command = command.clone();
        self.write(move |tx| start(tx, &command)).await
    }

    async fn cancel(&self, run_id: RunId, reason: CancelReason, by: &Operator) -> Result<CancelOutcome, StoreError> {
        by.check()?;
        let by = by.clone();
        self.write(move |tx| cancel(tx, run_id, reason, &by)).await
    }

    async fn retry(&self, run_id: RunId, by: &Operator) -> Result<RunId, StoreError> {
        by.check()?;
        let by = by.clone();
        self.write(move |tx| retry(tx, run_id, &by)).await
    }

    async fn accept_clock(&self, by: &Operator) -> Result<Option<TimestampMs>, StoreError> {
        by.check()?;
        let by = by.clone();
        self.on_writer(move |writer| tx::write_under_new_mark(writer, |tx| accept_clock(tx, &by))).await
    }

    async fn clock_mark(&self) -> Result<Option<TimestampMs>, StoreError> {
        self.read(mark).await
    }

    async fn acts(&self, limit: u32) -> Result<Vec<OperatorAct>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        self.read(move |conn| acts(conn, limit)).await
    }
}

fn start(tx: &Command<'_>, command: &StartCommand) -> Result<StartOutcome, StoreError> {
    let StartCommand { project_id, task_id, trigger_type, idempotency_key, by } = command;
    if let Some(key) = idempotency_key
        && let Some(first) = key_holder(tx.conn, project_id, key)?
    {
        if first.task_id != *task_id {
            return Err(StoreError::DuplicateIdempotencyKey);
        }
        return Ok(StartOutcome { run_id: first.id, created: false });
    }
    let task = task(tx.conn, project_id, task_id)?.filter(|task| !task.archived);
    let task = task.ok_or_else(|| StoreError::not_found("task", task_id))?;
    if !task.spec.enabled {
        return Err(Invalid::new("task", format!("`{task_id}` is disabled")).into());
    }
    let new = NewRun { idempotency_key: idempotency_key.clone(), ..new_run(tx, &task, *trigger_type, by) };
    let run_id = admit(tx, new)?;
    act(tx, "start", Some(project_id), task_id.as_str(), &format!("run {run_id}"), by)?;
    Ok(StartOutcome { run_id, created: true })
}

fn new_run(tx: &Command<'_>, task: &Head<TaskSpec>, trigger_type: TriggerType, by: &Operator) -> NewRun {
    NewRun::asked_for(task, trigger_type, &by.name, &tx.options.execution_owner, ExecutorType::LocalProcess)
}

fn admit(tx: &Command<'_>, new: NewRun) -> Result<RunId, StoreError> {
    let ids = AdmissionIds::generate(tx.ids, tx.at);
    write::admission(tx.conn, &new.admit(&ids, tx.at))?;
    Ok(ids.run)
}

fn cancel(tx: &Command<'_>, run_id: RunId, reason: CancelReason, by: &Operator) -> Result<CancelOutcome, StoreError> {
    let state = runs::state(tx.conn, run_id)?.ok_or_else(|| StoreError::not_found("run", run_id))?;
    if state.run.status.is_final() {
        return Ok(CancelOutcome::AlreadyFinal(state.run.status));
    }
    if state.run.cancel_requested_at.is_some() {
        return Ok(CancelOutcome::AlreadyRequested);
    }
    let command = RunCommand::RequestCancel { reason, note: by.reason.clone() };
    let status = write::carry_from(tx, &state, &command, &Actor::named(ActorType::User, &by.name))?;
    act(tx, "cancel", Some(&state.run.project_id), &run_id.to_string(), reason.as_str(), by)?;
    Ok(if status == RunStatus::Cancelled { CancelOutcome::Cancelled } else { CancelOutcome::Requested })
}

fn retry(tx: &Command<'_>, run_id: RunId, by: &Operator) -> Result<RunId, StoreError> {
    let state = runs::state(tx.conn, run_id)?.ok_or_else(|| StoreError::not_found("run", run_id))?;
    let run = state.run;
    if !run.status.is_final() {
        return Err(IllegalTransition { run: run.status, attempt: state.attempt.status, command: "be retried" }.into());
    }
    let task = task_revision(tx.conn, &run.project_id, &run.task_id, run.task_revision)?;
    let task = task.ok_or_else(|| StoreError::not_found("task", &run.task_id))?;
    let new_id = admit(tx, NewRun { retry_of_run_id: Some(run_id), ..new_run(tx, &task, TriggerType::Retry, by) })?;
    act(tx, "retry", Some(&run.project_id), &run_id.to_string(), &format!("run {new_id}"), by)?;
    Ok(new_id)
}

/// Only stamps are pulled back, and with them the retries that wait: cursor, activation and latest admission never go back.
fn accept_clock(tx: &Command<'_>, by: &Operator) -> Result<Option<TimestampMs>, StoreError> {
    let before = mark(tx.conn)?;
    execute(
        tx.conn,
        "-- trigger_schedules.pull_back
         UPDATE trigger_schedules SET updated_at_ms = ?1, state_version = state_version + 1, claim_version = claim_version + 1
         WHERE updated_at_ms > ?1",
        [tx.at.get()],
    )?;
    execute(
        tx.conn,
        "-- run_retry_policies.pull_back
         UPDATE run_retry_policies SET (next_attempt_at_ms, version, updated_at_ms)
           = (?1 + next_attempt_at_ms - updated_at_ms, version + 1, ?1)
         WHERE next_attempt_at_ms IS NOT NULL AND updated_at_ms > ?1",
        [tx.at.get()],
    )?;
    let shown = before.map_or_else(|| "none".to_owned(), |mark| mark.to_string());
    act(tx, "clock_accept", None, "clock", &format!("the mark was {shown}"), by)?;
    Ok(before)
}

/// Records an act, in the transaction that carries it out.
pub(crate) fn act(
    tx: &Command<'_>,
    act: &str,
    project_id: Option<&ProjectId>,
    object: &str,
    detail: &str,
    by: &Operator,
) -> Result<(), StoreError> {
    execute(
        tx.conn,
        "-- operator_acts.insert
         INSERT INTO operator_acts (at_ms, operator, reason, act, project_id, object, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![tx.at.get(), by.name, by.reason, act, project_id.map(ProjectId::as_str), object, detail],
    )
    .map(|_| ())
}

/// Columns of `operator_acts`.
macro_rules! act_columns {
    () => {
        "id, at_ms, operator, reason, act, project_id, object, detail"
    };
}

pub(crate) use act_columns;

fn acts(conn: &Connection, limit: u32) -> Result<Vec<OperatorAct>, StoreError> {
    const SQL: &str = concat!("-- operator_acts.newest\nSELECT ", act_columns!(), " FROM operator_acts ORDER BY id DESC LIMIT ?1");
    all(conn, &ACTS, SQL, [limit], operator_act)
}

pub(crate) fn operator_act(row: &Cells<'_>) -> Result<OperatorAct, StoreError> {
    Ok(OperatorAct {
        at: row.time("at_ms")?,
        by: Operator { name: row.text("operator")?, reason: row.opt_text("reason")? },
        act: row.text("act")?,
        project_id: row.opt_parse("project_id", str::parse)?,
        object: row.text("object")?,
        detail: row.text("detail")?,
    })
}

/// The highest authority time that was ever committed.
pub(crate) fn mark(conn: &Connection) -> Result<Option<TimestampMs>, StoreError> {
    one(conn, &MARK, "-- clock_mark.one\nSELECT one, at_ms FROM clock_mark", [], |row| row.time("at_ms"))
}

/// Raises the mark, with the writes of the transaction that it stands in.
pub(crate) fn raise_mark(conn: &Connection, at: TimestampMs) -> Result<(), StoreError> {
    const SQL: &str = "-- clock_mark.raise
        INSERT INTO clock_mark (one, at_ms) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET at_ms = max(at_ms, ?1)";
    execute(conn, SQL, [at.get()]).map(|_| ())
}

/// Sets the mark, lower too.
pub(crate) fn set_mark(conn: &Connection, at: TimestampMs) -> Result<(), StoreError> {
    const SQL: &str = "-- clock_mark.set
        INSERT INTO clock_mark (one, at_ms) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET at_ms = ?1";
    execute(conn, SQL, [at.get()]).map(|_| ())
}
