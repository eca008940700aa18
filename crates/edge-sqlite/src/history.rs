//! `HistoryStore`. Each request is one short read transaction; none outlives its request.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    definition::{DefinitionKey, DefinitionKind},
    digest::Digest,
    ids::{ProjectId, RunId, TaskId, TriggerId},
    limits::LIST_PAGE_MAX,
    ports::history::{HistoryStore, Overview, RunCursor, RunFacts, RunFilter, RunPage, TaskItem, TriggerItem},
    run::{Run, RunAttempt, RunEvent, RunStatus},
    schedule::LedgerEntry,
};
use rusqlite::{Connection, Params, params};

use crate::{
    control,
    error::check_page,
    lists, retention,
    rows::{self, EVENTS, RUNS, event_columns, run_columns},
    runs,
    schedule_rows::{
        LEDGER, SCHEDULES, TASKS, TRIGGERS, ledger_columns, ledger_entry, revision_columns, schedule_columns, schedule_row, task_head,
        trigger_head,
    },
    sql::{Cells, all, one},
    store::SqliteStore,
};

#[async_trait]
impl HistoryStore for SqliteStore {
    async fn runs(&self, filter: &RunFilter, after: Option<RunCursor>, limit: u32) -> Result<RunPage, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let filter = filter.clone();
        self.read(move |conn| lists::runs(conn, &filter, after, limit as usize)).await
    }

    async fn attempts(&self, run_id: RunId) -> Result<Vec<RunAttempt>, StoreError> {
        self.read(move |conn| runs::attempts(conn, run_id)).await
    }

    async fn tasks(&self, project_id: &ProjectId, after: Option<&TaskId>, limit: u32) -> Result<Vec<TaskItem>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let (project_id, after) = (project_id.clone(), after.cloned());
        self.read(move |conn| tasks(conn, &project_id, after.as_ref(), limit)).await
    }

    async fn triggers(&self, project_id: &ProjectId, after: Option<&TriggerId>, limit: u32) -> Result<Vec<TriggerItem>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let (project_id, after) = (project_id.clone(), after.map_or_else(String::new, ToString::to_string));
        self.read(move |conn| trigger_items(conn, LIVE_TRIGGERS, params![project_id.as_str(), after, limit])).await
    }

    async fn trigger(&self, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<TriggerItem>, StoreError> {
        let (project_id, trigger_id) = (project_id.clone(), trigger_id.clone());
        self.read(move |conn| trigger_item(conn, &project_id, &trigger_id)).await
    }

    async fn ledger(
        &self,
        project_id: &ProjectId,
        trigger_id: &TriggerId,
        since: TimestampMs,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let (project_id, trigger_id) = (project_id.clone(), trigger_id.clone());
        self.read(move |conn| {
            all(conn, &LEDGER, LEDGER_PAGE, params![project_id.as_str(), trigger_id.as_str(), since.get(), limit], ledger_entry)
        })
        .await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.read_with(|conn, authority| overview(conn, || authority.clock.now())).await
    }

    async fn pruned_before(&self) -> Result<Option<TimestampMs>, StoreError> {
        self.read(retention::pruned_before).await
    }

    async fn run_ids(&self, after: Option<RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let after = after.map_or_else(String::new, |id| id.to_string());
        self.read(move |conn| all(conn, &RUNS, RUN_IDS, params![after, limit], |row| row.parse("id", str::parse))).await
    }

    async fn facts(&self, run_id: RunId) -> Result<Option<RunFacts>, StoreError> {
        self.read(move |conn| {
            let Some(run) = runs::run(conn, run_id)? else { return Ok(None) };
            let (attempts, policy) = (runs::attempts(conn, run_id)?, runs::retry_policy(conn, run_id)?);
            Ok(Some(RunFacts { run, attempts, policy, events: all_events(conn, run_id)? }))
        })
        .await
    }

    async fn all_triggers(&self, after: Option<(&ProjectId, &TriggerId)>, limit: u32) -> Result<Vec<TriggerItem>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let (project_id, trigger_id) = after.map_or_else(Default::default, |(project, trigger)| (project.to_string(), trigger.to_string()));
        self.read(move |conn| trigger_items(conn, ALL_TRIGGERS, params![project_id, trigger_id, limit])).await
    }

    async fn revision_text(
        &self,
        project_id: &ProjectId,
        key: &DefinitionKey,
        revision: u32,
    ) -> Result<Option<(String, Digest)>, StoreError> {
        let (project_id, key) = (project_id.clone(), key.clone());
        self.read(move |conn| revision_text(conn, &project_id, &key, revision)).await
    }

    async fn occurrences(
        &self,
        project_id: &ProjectId,
        trigger_id: &TriggerId,
        from: TimestampMs,
        to: TimestampMs,
        limit: u32,
    ) -> Result<Vec<Run>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let (project_id, trigger_id) = (project_id.clone(), trigger_id.clone());
        self.read(move |conn| {
            let params = params![project_id.as_str(), trigger_id.as_str(), from.get(), to.get(), limit];
            all(conn, &RUNS, OCCURRENCES, params, rows::run)
        })
        .await
    }
}

pub(crate) const LEDGER_PAGE: &str = concat!(
    "-- schedule_ledger.page\nSELECT ",
    ledger_columns!(),
    " FROM schedule_ledger WHERE project_id = ?1 AND trigger_id = ?2 AND to_ms >= ?3 ORDER BY to_ms DESC, id DESC LIMIT ?4"
);

const RUN_IDS: &str = "-- runs.ids\nSELECT id FROM runs WHERE id > ?1 ORDER BY id LIMIT ?2";

pub(crate) const OCCURRENCES: &str = concat!(
    "-- runs.occurrences\nSELECT ",
    run_columns!(),
    " FROM runs INDEXED BY runs_occurrence
     WHERE project_id = ?1 AND trigger_id = ?2 AND scheduled_for_ms BETWEEN ?3 AND ?4 ORDER BY scheduled_for_ms, id LIMIT ?5"
);

/// A trigger with everything that is shown of it.
macro_rules! trigger_items {
    ($name:literal, $rest:literal) => {
        concat!(
            "-- trigger_definitions.",
            $name,
            "\nSELECT ",
            schedule_columns!(),
            ", ",
            revision_columns!(),
            ", td.archived = 0 AND ta.canonical ->> '$.enabled' = 1 AS task_live
             FROM trigger_definitions d
             CROSS JOIN trigger_schedules s ON s.project_id = d.project_id AND s.trigger_id = d.trigger_id
             CROSS JOIN trigger_revisions r ON r.project_id = d.project_id AND r.trigger_id = d.trigger_id AND r.revision = d.revision
             CROSS JOIN task_definitions td ON td.project_id = d.project_id AND td.task_id = d.task_id
             CROSS JOIN task_revisions ta ON ta.project_id = td.project_id AND ta.task_id = td.task_id AND ta.revision = td.revision
             WHERE ",
            $rest
        )
    };
}

pub(crate) const LIVE_TRIGGERS: &str =
    trigger_items!("live", "d.project_id = ?1 AND d.trigger_id > ?2 AND d.archived = 0 ORDER BY d.trigger_id LIMIT ?3");
const ONE_TRIGGER: &str = trigger_items!("one", "d.project_id = ?1 AND d.trigger_id = ?2");
pub(crate) const ALL_TRIGGERS: &str =
    trigger_items!("all", "(d.project_id, d.trigger_id) > (?1, ?2) ORDER BY d.project_id, d.trigger_id LIMIT ?3");

/// One trigger, archived or not.
pub(crate) fn trigger_item(conn: &Connection, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<TriggerItem>, StoreError> {
    Ok(trigger_items(conn, ONE_TRIGGER, [project_id.as_str(), trigger_id.as_str()])?.pop())
}

fn trigger_items(conn: &Connection, sql: &str, params: impl Params) -> Result<Vec<TriggerItem>, StoreError> {
    const LAST_RUN: &str = "-- runs.last_of_trigger
        SELECT id, status FROM runs WHERE project_id = ?1 AND trigger_id = ?2 ORDER BY created_at_ms DESC, id DESC LIMIT 1";
    all(conn, &SCHEDULES, sql, params, |row| {
        let head = trigger_head(&row.of(&TRIGGERS))?;
        let last_run = last_run(conn, LAST_RUN, &head.project_id, head.spec.id.as_str())?;
        Ok(TriggerItem { schedule: schedule_row(row)?, task_live: row.flag("task_live")?, last_run, head })
    })
}

fn last_run(conn: &Connection, sql: &str, project_id: &ProjectId, of: &str) -> Result<Option<(RunId, RunStatus)>, StoreError> {
    one(conn, &RUNS, sql, [project_id.as_str(), of], |row| Ok((row.parse("id", str::parse)?, row.parse("status", RunStatus::parse)?)))
}

fn tasks(conn: &Connection, project_id: &ProjectId, after: Option<&TaskId>, limit: u32) -> Result<Vec<TaskItem>, StoreError> {
    const SQL: &str = concat!(
        "-- task_definitions.live\nSELECT ",
        revision_columns!(),
        ", r.task_id FROM task_definitions d
           CROSS JOIN task_revisions r ON r.project_id = d.project_id AND r.task_id = d.task_id AND r.revision = d.revision
         WHERE d.project_id = ?1 AND d.task_id > ?2 AND d.archived = 0 ORDER BY d.task_id LIMIT ?3"
    );
    const LAST_RUN: &str = "-- runs.last_of_task
        SELECT id, status FROM runs WHERE project_id = ?1 AND task_id = ?2 ORDER BY created_at_ms DESC, id DESC LIMIT 1";
    all(conn, &TASKS, SQL, params![project_id.as_str(), after.map_or("", TaskId::as_str), limit], |row| {
        let head = task_head(row)?;
        let last_run = last_run(conn, LAST_RUN, project_id, head.spec.id.as_str())?;
        Ok(TaskItem { head, last_run })
    })
}

fn overview(conn: &Connection, now: impl FnOnce() -> TimestampMs) -> Result<Overview, StoreError> {
    const RUN_COUNTS: &str = "-- runs.by_status
        SELECT status AS id, status, count(*) AS count FROM runs GROUP BY status";
    const TRIGGER_COUNTS: &str = "-- trigger_definitions.counts
        SELECT count(*) AS triggers, count(s.paused_at_ms) AS paused, count(s.set_aside_at_ms) AS set_aside
        FROM trigger_definitions d JOIN trigger_schedules s ON s.project_id = d.project_id AND s.trigger_id = d.trigger_id
        WHERE d.archived = 0";
    let clock_mark = control::mark(conn)?;
    let at = now();
    let counts = all(conn, &RUNS, RUN_COUNTS, [], |row| Ok((row.parse("status", RunStatus::parse)?, row.u64("count")?)))?;
    let runs = RunStatus::ALL.iter().filter_map(|status| counts.iter().find(|(of, _)| of == status).copied()).collect();
    let read = |row: &Cells<'_>| Ok((row.u64("triggers")?, row.u64("paused")?, row.u64("set_aside")?));
    let (triggers, paused, set_aside) = one(conn, &SCHEDULES, TRIGGER_COUNTS, [], read)?.unwrap_or_default();
    let read = |row: &Cells<'_>| Ok((row.u64("due")?, row.opt_time("next_fire_at_ms")?));
    let (due, next_fire_at) = one(conn, &SCHEDULES, DUE_COUNTS, [at.get()], read)?.unwrap_or_default();
    Ok(Overview { observed_at: Some(at), clock_mark, runs, triggers, paused, set_aside, due, next_fire_at })
}

pub(crate) const DUE_COUNTS: &str = "-- trigger_schedules.due_counts
    SELECT (SELECT count(*) FROM trigger_schedules INDEXED BY trigger_schedules_due
            WHERE schedulable = 1 AND next_fire_at_ms <= ?1) AS due,
           (SELECT min(next_fire_at_ms) FROM trigger_schedules INDEXED BY trigger_schedules_due
            WHERE schedulable = 1 AND next_fire_at_ms IS NOT NULL) AS next_fire_at_ms";

fn all_events(conn: &Connection, run_id: RunId) -> Result<Vec<RunEvent>, StoreError> {
    const SQL: &str = concat!("-- run_events.of_run\nSELECT ", event_columns!(), " FROM run_events WHERE run_id = ?1 ORDER BY sequence");
    all(conn, &EVENTS, SQL, [run_id.to_string()], rows::event)
}

fn revision_text(
    conn: &Connection,
    project_id: &ProjectId,
    key: &DefinitionKey,
    revision: u32,
) -> Result<Option<(String, Digest)>, StoreError> {
    let (table, sql) = match key.kind {
        DefinitionKind::Task => (
            &TASKS,
            "-- task_revisions.text
             SELECT project_id, task_id, revision, canonical, digest FROM task_revisions
             WHERE project_id = ?1 AND task_id = ?2 AND revision = ?3",
        ),
        DefinitionKind::Trigger => (
            &TRIGGERS,
            "-- trigger_revisions.text
             SELECT project_id, trigger_id, revision, canonical, digest FROM trigger_revisions
             WHERE project_id = ?1 AND trigger_id = ?2 AND revision = ?3",
        ),
    };
    one(conn, table, sql, params![project_id.as_str(), key.id, revision], |row| {
        Ok((row.text("canonical")?, row.parse("digest", Digest::parse)?))
    })
}
