//! Rows of definitions, schedules and the ledger, and their records.

use runtime_core::{
    Invalid, StoreError, TimestampMs,
    definition::{Head, TaskSpec, TriggerSpec},
    digest::Digest,
    ids::{ProjectId, TaskId, TriggerId},
    schedule::{LedgerEntry, LedgerReason, Pause, ScheduleRow, SetAside, Stretch},
};
use rusqlite::{Connection, params};

use crate::sql::{Cells, Table, execute, int, one};

pub(crate) const TASKS: Table = Table { name: "task_revisions", key: &["project_id", "task_id", "revision"] };
pub(crate) const TRIGGERS: Table = Table { name: "trigger_revisions", key: &["project_id", "trigger_id", "revision"] };
pub(crate) const SCHEDULES: Table = Table { name: "trigger_schedules", key: &["project_id", "trigger_id"] };
pub(crate) const LEDGER: Table = Table { name: "schedule_ledger", key: &["id"] };

/// Columns of a revision in a join where it is called `r`.
macro_rules! revision_columns {
    () => {
        "r.project_id, r.revision, r.digest, r.canonical, r.archived, r.created_at_ms"
    };
}

/// Columns of `trigger_schedules`, but for `schedulable`, in a join where it is called `s`.
macro_rules! schedule_columns {
    () => {
        "s.project_id, s.trigger_id, s.trigger_revision, s.activated_at_ms, s.next_fire_at_ms, s.last_scheduled_at_ms, s.paused_at_ms, \
         s.paused_by, s.paused_reason, s.set_aside_at_ms, s.set_aside_reason, s.state_version, s.claim_version, s.zone_data_version, \
         s.updated_at_ms"
    };
}

/// Columns of `schedule_ledger`.
macro_rules! ledger_columns {
    () => {
        "id, project_id, trigger_id, trigger_revision, from_ms, to_ms, count, capped, reason, run_id, recorded_at_ms"
    };
}

pub(crate) use {ledger_columns, revision_columns, schedule_columns};

fn head<T>(row: &Cells<'_>, spec: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Head<T>, StoreError> {
    Ok(Head {
        project_id: row.parse("project_id", str::parse)?,
        revision: row.u32("revision")?,
        digest: row.parse("digest", Digest::parse)?,
        spec: row.parse("canonical", spec)?,
        archived: row.flag("archived")?,
        created_at: row.time("created_at_ms")?,
    })
}

pub(crate) fn task_head(row: &Cells<'_>) -> Result<Head<TaskSpec>, StoreError> {
    head(row, TaskSpec::from_canonical)
}

pub(crate) fn trigger_head(row: &Cells<'_>) -> Result<Head<TriggerSpec>, StoreError> {
    head(row, TriggerSpec::from_canonical)
}

/// The current revision of a task.
pub(crate) fn task(conn: &Connection, project_id: &ProjectId, task_id: &TaskId) -> Result<Option<Head<TaskSpec>>, StoreError> {
    const SQL: &str = concat!(
        "-- task_definitions.head\nSELECT ",
        revision_columns!(),
        ", r.task_id FROM task_definitions d JOIN task_revisions r USING (project_id, task_id, revision)
         WHERE d.project_id = ?1 AND d.task_id = ?2"
    );
    one(conn, &TASKS, SQL, [project_id.as_str(), task_id.as_str()], task_head)
}

/// One revision of a task.
pub(crate) fn task_revision(
    conn: &Connection,
    project_id: &ProjectId,
    task_id: &TaskId,
    revision: u32,
) -> Result<Option<Head<TaskSpec>>, StoreError> {
    const SQL: &str = concat!(
        "-- task_revisions.one\nSELECT ",
        revision_columns!(),
        ", r.task_id FROM task_revisions r WHERE r.project_id = ?1 AND r.task_id = ?2 AND r.revision = ?3"
    );
    one(conn, &TASKS, SQL, params![project_id.as_str(), task_id.as_str(), revision], task_head)
}

/// The current revision of a trigger.
pub(crate) fn trigger(conn: &Connection, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<Head<TriggerSpec>>, StoreError> {
    const SQL: &str = concat!(
        "-- trigger_definitions.head\nSELECT ",
        revision_columns!(),
        ", r.trigger_id FROM trigger_definitions d JOIN trigger_revisions r USING (project_id, trigger_id, revision)
         WHERE d.project_id = ?1 AND d.trigger_id = ?2"
    );
    one(conn, &TRIGGERS, SQL, [project_id.as_str(), trigger_id.as_str()], trigger_head)
}

pub(crate) fn schedule_row(row: &Cells<'_>) -> Result<ScheduleRow, StoreError> {
    let paused = match row.opt_time("paused_at_ms")? {
        None => None,
        Some(at) => Some(Pause { at, by: row.text("paused_by")?, reason: row.opt_text("paused_reason")? }),
    };
    let set_aside = match row.opt_time("set_aside_at_ms")? {
        None => None,
        Some(at) => Some(SetAside { at, reason: row.text("set_aside_reason")? }),
    };
    Ok(ScheduleRow {
        project_id: row.parse("project_id", str::parse)?,
        trigger_id: row.parse("trigger_id", str::parse)?,
        trigger_revision: row.u32("trigger_revision")?,
        activated_at: row.time("activated_at_ms")?,
        next_fire_at: row.opt_time("next_fire_at_ms")?,
        last_scheduled_at: row.opt_time("last_scheduled_at_ms")?,
        paused,
        set_aside,
        state_version: row.u64("state_version")?,
        claim_version: row.u64("claim_version")?,
        zone_data_version: row.text("zone_data_version")?,
        updated_at: row.time("updated_at_ms")?,
    })
}

/// Where a trigger stands.
pub(crate) fn schedule(conn: &Connection, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<ScheduleRow>, StoreError> {
    const SQL: &str = concat!(
        "-- trigger_schedules.one\nSELECT ",
        schedule_columns!(),
        " FROM trigger_schedules s WHERE s.project_id = ?1 AND s.trigger_id = ?2"
    );
    one(conn, &SCHEDULES, SQL, [project_id.as_str(), trigger_id.as_str()], schedule_row)
}

/// Stores a row. `live`: trigger and task are current and enabled; with the row's own pause and set-aside it makes `schedulable`.
pub(crate) fn put_schedule(conn: &Connection, row: &ScheduleRow, live: bool) -> Result<(), StoreError> {
    const SQL: &str = "-- trigger_schedules.put
        INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, activated_at_ms, next_fire_at_ms, last_scheduled_at_ms,
            paused_at_ms, paused_by, paused_reason, set_aside_at_ms, set_aside_reason, schedulable, state_version, claim_version,
            zone_data_version, updated_at_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
        ON CONFLICT (project_id, trigger_id) DO UPDATE SET
            (trigger_revision, activated_at_ms, next_fire_at_ms, last_scheduled_at_ms, paused_at_ms, paused_by, paused_reason,
             set_aside_at_ms, set_aside_reason, schedulable, state_version, claim_version, zone_data_version, updated_at_ms)
          = (?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    let ms = |at: Option<TimestampMs>| at.map(TimestampMs::get);
    let schedulable = live && row.paused.is_none() && row.set_aside.is_none();
    let params = params![
        row.project_id.as_str(),
        row.trigger_id.as_str(),
        row.trigger_revision,
        row.activated_at.get(),
        ms(row.next_fire_at),
        ms(row.last_scheduled_at),
        ms(row.paused.as_ref().map(|pause| pause.at)),
        row.paused.as_ref().map(|pause| &pause.by),
        row.paused.as_ref().and_then(|pause| pause.reason.as_ref()),
        ms(row.set_aside.as_ref().map(|aside| aside.at)),
        row.set_aside.as_ref().map(|aside| &aside.reason),
        schedulable,
        int(row.state_version),
        int(row.claim_version),
        row.zone_data_version,
        row.updated_at.get(),
    ];
    execute(conn, SQL, params).map(|_| ())
}

pub(crate) fn ledger_entry(row: &Cells<'_>) -> Result<LedgerEntry, StoreError> {
    Ok(LedgerEntry {
        project_id: row.parse("project_id", str::parse)?,
        trigger_id: row.parse("trigger_id", str::parse)?,
        trigger_revision: row.u32("trigger_revision")?,
        stretch: Stretch {
            from: row.time("from_ms")?,
            to: row.time("to_ms")?,
            count: row.u32("count")?,
            capped: row.flag("capped")?,
            reason: row.parse("reason", LedgerReason::parse)?,
            run_id: row.opt_parse("run_id", str::parse)?,
        },
        recorded_at: row.time("recorded_at_ms")?,
    })
}

/// Writes an entry, or lets the trigger's newest one grow by it. `last_scheduled_at`: as it was before the command.
pub(crate) fn record(conn: &Connection, entry: &LedgerEntry, last_scheduled_at: Option<TimestampMs>) -> Result<(), StoreError> {
    const NEWEST: &str = concat!(
        "-- schedule_ledger.newest\nSELECT ",
        ledger_columns!(),
        " FROM schedule_ledger WHERE project_id = ?1 AND trigger_id = ?2 ORDER BY to_ms DESC, id DESC LIMIT 1"
    );
    let read = |row: &Cells<'_>| Ok((row.u64("id")?, ledger_entry(row)?));
    let newest = one(conn, &LEDGER, NEWEST, [entry.project_id.as_str(), entry.trigger_id.as_str()], read)?;
    let grown = newest.and_then(|(id, newest)| Some((id, newest.extended_by(entry, last_scheduled_at)?)));
    let (id, entry) = match &grown {
        Some((id, grown)) => (Some(int(*id)), grown),
        None => (None, entry),
    };
    let stretch = &entry.stretch;
    execute(
        conn,
        "-- schedule_ledger.put
         INSERT INTO schedule_ledger (id, project_id, trigger_id, trigger_revision, from_ms, to_ms, count, capped, reason, run_id,
             recorded_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (id) DO UPDATE SET (to_ms, count, capped, recorded_at_ms) = (?6, ?7, ?8, ?11)",
        params![
            id,
            entry.project_id.as_str(),
            entry.trigger_id.as_str(),
            entry.trigger_revision,
            stretch.from.get(),
            stretch.to.get(),
            stretch.count,
            stretch.capped,
            stretch.reason.as_str(),
            stretch.run_id.map(|id| id.to_string()),
            entry.recorded_at.get(),
        ],
    )
    .map(|_| ())
}
