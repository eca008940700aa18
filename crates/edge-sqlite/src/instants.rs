//! `InstantStore`: what is stored about one instant of one trigger.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    definition::{Head, TaskSpec, TriggerSpec},
    ids::{ProjectId, TaskId, TriggerId},
    ports::{
        control::OperatorAct,
        instants::{InstantFacts, InstantStore},
    },
    schedule::LedgerEntry,
};
use rusqlite::{Connection, params};

use crate::{
    control,
    history::{self, OCCURRENCES},
    retention,
    rows::{self, RUNS},
    runs,
    schedule_rows::{LEDGER, TASKS, TRIGGERS, ledger_columns, ledger_entry, revision_columns, task_head, trigger_head},
    sql::{all, one},
    store::SqliteStore,
};

#[async_trait]
impl InstantStore for SqliteStore {
    async fn instant(&self, project_id: &ProjectId, trigger_id: &TriggerId, at: TimestampMs) -> Result<Option<InstantFacts>, StoreError> {
        let (project_id, trigger_id) = (project_id.clone(), trigger_id.clone());
        self.read_with(move |conn, authority| instant(conn, &project_id, &trigger_id, at, || authority.clock.now())).await
    }
}

fn instant(
    conn: &Connection,
    project_id: &ProjectId,
    trigger_id: &TriggerId,
    at: TimestampMs,
    now: impl FnOnce() -> TimestampMs,
) -> Result<Option<InstantFacts>, StoreError> {
    let Some(trigger) = history::trigger_item(conn, project_id, trigger_id)? else { return Ok(None) };
    let in_force = trigger_in_force(conn, project_id, trigger_id, at)?;
    let followed_by = trigger_after(conn, project_id, trigger_id, in_force.as_ref().map_or(0, |head| head.revision))?;
    let task_id = in_force.as_ref().map_or(&trigger.head.spec.task_id, |head| &head.spec.task_id);
    let task = task_in_force(conn, project_id, task_id, at)?;
    let occurrence = params![project_id.as_str(), trigger_id.as_str(), at.get(), at.get(), 1];
    let run = all(conn, &RUNS, OCCURRENCES, occurrence, rows::run)?.pop();
    let recorded = ledger_at(conn, project_id, trigger_id, at)?;
    let (mut recorded_run, mut recorded_under, mut pause) = (None, None, None);
    if let Some(entry) = &recorded {
        recorded_run = entry.stretch.run_id.map_or(Ok(None), |id| runs::run(conn, id))?;
        recorded_under = trigger_in_force(conn, project_id, trigger_id, entry.recorded_at)?;
        pause = pause_before(conn, project_id, trigger_id, entry.recorded_at)?;
    }
    let clock_mark = control::mark(conn)?;
    Ok(Some(InstantFacts {
        trigger,
        in_force,
        followed_by,
        task,
        run,
        recorded,
        recorded_run,
        recorded_under,
        pause,
        pruned_before: retention::pruned_before(conn)?,
        observed_at: now(),
        clock_mark,
    }))
}

/// The revision that was current at an instant; a tombstone of that very instant was not yet.
fn trigger_in_force(
    conn: &Connection,
    project_id: &ProjectId,
    trigger_id: &TriggerId,
    at: TimestampMs,
) -> Result<Option<Head<TriggerSpec>>, StoreError> {
    const SQL: &str = concat!(
        "-- trigger_revisions.in_force\nSELECT ",
        revision_columns!(),
        ", r.trigger_id FROM trigger_revisions r
         WHERE r.project_id = ?1 AND r.trigger_id = ?2 AND r.created_at_ms + r.archived <= ?3 ORDER BY r.revision DESC LIMIT 1"
    );
    one(conn, &TRIGGERS, SQL, params![project_id.as_str(), trigger_id.as_str(), at.get()], trigger_head)
}

fn trigger_after(
    conn: &Connection,
    project_id: &ProjectId,
    trigger_id: &TriggerId,
    revision: u32,
) -> Result<Option<Head<TriggerSpec>>, StoreError> {
    const SQL: &str = concat!(
        "-- trigger_revisions.after\nSELECT ",
        revision_columns!(),
        ", r.trigger_id FROM trigger_revisions r
         WHERE r.project_id = ?1 AND r.trigger_id = ?2 AND r.revision > ?3 ORDER BY r.revision LIMIT 1"
    );
    one(conn, &TRIGGERS, SQL, params![project_id.as_str(), trigger_id.as_str(), revision], trigger_head)
}

fn task_in_force(
    conn: &Connection,
    project_id: &ProjectId,
    task_id: &TaskId,
    at: TimestampMs,
) -> Result<Option<Head<TaskSpec>>, StoreError> {
    const SQL: &str = concat!(
        "-- task_revisions.in_force\nSELECT ",
        revision_columns!(),
        ", r.task_id FROM task_revisions r
         WHERE r.project_id = ?1 AND r.task_id = ?2 AND r.created_at_ms + r.archived <= ?3 ORDER BY r.revision DESC LIMIT 1"
    );
    one(conn, &TASKS, SQL, params![project_id.as_str(), task_id.as_str(), at.get()], task_head)
}

/// Stretches of a trigger lie one after the other, so what contains an instant is among the first that end after it.
fn ledger_at(
    conn: &Connection,
    project_id: &ProjectId,
    trigger_id: &TriggerId,
    at: TimestampMs,
) -> Result<Option<LedgerEntry>, StoreError> {
    const SQL: &str = concat!(
        "-- schedule_ledger.at\nSELECT ",
        ledger_columns!(),
        " FROM schedule_ledger WHERE project_id = ?1 AND trigger_id = ?2 AND to_ms >= ?3 ORDER BY to_ms, id LIMIT 8"
    );
    let entries = all(conn, &LEDGER, SQL, params![project_id.as_str(), trigger_id.as_str(), at.get()], ledger_entry)?;
    Ok(entries.into_iter().find(|entry| entry.stretch.from <= at))
}

fn pause_before(
    conn: &Connection,
    project_id: &ProjectId,
    trigger_id: &TriggerId,
    at: TimestampMs,
) -> Result<Option<OperatorAct>, StoreError> {
    const SQL: &str = concat!(
        "-- operator_acts.pause_before\nSELECT ",
        control::act_columns!(),
        " FROM operator_acts
         WHERE act = 'pause' AND project_id = ?1 AND object = ?2 AND at_ms <= ?3 ORDER BY id DESC LIMIT 1"
    );
    one(conn, &control::ACTS, SQL, params![project_id.as_str(), trigger_id.as_str(), at.get()], control::operator_act)
}
