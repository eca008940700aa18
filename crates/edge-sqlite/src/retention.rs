//! `RetentionStore`: removing history in small transactions.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    ids::RunId,
    ports::{
        history::RunCursor,
        retention::{PruneCommand, PrunedLedger, PrunedRuns, RetentionStore},
    },
};
use rusqlite::{Connection, params};

use crate::{
    control,
    error::readable,
    rows::{self, RUNS, run_columns},
    schedule_rows::LEDGER,
    sql::{Table, all, execute, one},
    store::SqliteStore,
    tx::Command,
};

const RETENTION: Table = Table { name: "history_retention", key: &["one"] };

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn prune_runs(&self, command: &PruneCommand, after: Option<RunCursor>) -> Result<PrunedRuns, StoreError> {
        command.check()?;
        let command = command.clone();
        if command.dry_run {
            return self.read_with(move |conn, authority| page(conn, &until_now(command, authority.clock.now()), after, would_go)).await;
        }
        self.write(move |tx| {
            let command = until_now(command, tx.at);
            let pruned = page(tx.conn, &command, after, remove)?;
            if !pruned.runs.is_empty() {
                record(tx, &command)?;
            }
            Ok(pruned)
        })
        .await
    }

    async fn prune_ledger(&self, command: &PruneCommand) -> Result<PrunedLedger, StoreError> {
        command.check()?;
        let command = command.clone();
        if command.dry_run {
            return self.read_with(move |conn, authority| count_ledger(conn, &until_now(command, authority.clock.now()))).await;
        }
        self.write(move |tx| {
            let command = until_now(command, tx.at);
            let removed = execute(tx.conn, REMOVE_LEDGER, params![command.before.get(), command.page])?;
            if removed > 0 {
                record(tx, &command)?;
            }
            Ok(PrunedLedger { entries: removed as u64, saturated: removed == command.page as usize })
        })
        .await
    }
}

/// What lies ahead has not ended.
fn until_now(command: PruneCommand, now: TimestampMs) -> PruneCommand {
    PruneCommand { before: command.before.min(now), ..command }
}

pub(crate) const PAGE: &str = concat!(
    "-- runs.prune_page\nSELECT ",
    run_columns!(),
    " FROM runs INDEXED BY runs_created
     WHERE (created_at_ms, id) < (?1, ?2) ORDER BY created_at_ms DESC, id DESC LIMIT ?3"
);

pub(crate) const REMOVE_LEDGER: &str = "-- schedule_ledger.prune
    DELETE FROM schedule_ledger WHERE id IN
        (SELECT id FROM schedule_ledger INDEXED BY schedule_ledger_age WHERE to_ms < ?1 ORDER BY to_ms, id LIMIT ?2)";

pub(crate) const REFERRED: &str = "-- runs.referred
    SELECT id FROM runs INDEXED BY runs_retry_of WHERE retry_of_run_id = ?1
    UNION ALL SELECT id FROM runs INDEXED BY runs_parent WHERE parent_run_id = ?1 LIMIT 1";

/// Walks one page and lets `take` decide about each Run that is old enough.
fn page(
    conn: &Connection,
    command: &PruneCommand,
    after: Option<RunCursor>,
    take: impl Fn(&Connection, &PruneCommand, RunId) -> Result<bool, StoreError>,
) -> Result<PrunedRuns, StoreError> {
    // No id is before the empty text: what was created at the instant itself stays.
    let from = after.map_or((command.before.get(), String::new()), |cursor| (cursor.created_at.get(), cursor.id.to_string()));
    let seen = all(conn, &RUNS, PAGE, params![from.0, from.1, command.page], |row| {
        let place = RunCursor { created_at: row.time("created_at_ms")?, id: row.parse("id", str::parse)? };
        // A damaged Run stays, for whoever mends it, and holds up no other.
        Ok((place, readable(rows::run(row))?))
    })?;
    let full = seen.len() == command.page as usize;
    let next = seen.last().filter(|_| full).map(|(place, _)| *place);
    let mut runs = Vec::new();
    for run in seen.iter().filter_map(|(_, run)| run.as_ref()).filter(|run| command.covers(run)) {
        if take(conn, command, run.id)? {
            runs.push(run.id);
        }
    }
    Ok(PrunedRuns { runs, next })
}

/// Removes a Run that nothing refers to; false: something does, and it stays.
fn remove(conn: &Connection, _: &PruneCommand, id: RunId) -> Result<bool, StoreError> {
    let id = id.to_string();
    if one(conn, &RUNS, REFERRED, [&id], |_| Ok(()))?.is_some() {
        return Ok(false);
    }
    for sql in [
        "-- run_events.prune\nDELETE FROM run_events WHERE run_id = ?1",
        "-- run_dispatch_leases.prune\nDELETE FROM run_dispatch_leases WHERE run_id = ?1",
        "-- run_attempts.prune\nDELETE FROM run_attempts WHERE run_id = ?1",
        "-- run_retry_policies.prune\nDELETE FROM run_retry_policies WHERE run_id = ?1",
        "-- runs.prune\nDELETE FROM runs WHERE id = ?1",
    ] {
        execute(conn, sql, [&id])?;
    }
    Ok(true)
}

/// Whether a Run would go: everything that refers to it, directly or not, is old enough too.
fn would_go(conn: &Connection, command: &PruneCommand, id: RunId) -> Result<bool, StoreError> {
    const DESCENDANTS: &str = concat!(
        "-- runs.descendants
         WITH RECURSIVE family (id) AS (
             VALUES (?1)
             UNION SELECT r.id FROM family f JOIN runs r INDEXED BY runs_retry_of ON r.retry_of_run_id = f.id
             UNION SELECT r.id FROM family f JOIN runs r INDEXED BY runs_parent ON r.parent_run_id = f.id)
         SELECT ",
        run_columns!(),
        " FROM runs WHERE id IN (SELECT id FROM family)"
    );
    let family = all(conn, &RUNS, DESCENDANTS, [id.to_string()], rows::run)?;
    Ok(family.iter().all(|run| command.covers(run)))
}

fn count_ledger(conn: &Connection, command: &PruneCommand) -> Result<PrunedLedger, StoreError> {
    const SQL: &str = "-- schedule_ledger.prunable
        SELECT 0 AS id, count(*) AS count FROM schedule_ledger INDEXED BY schedule_ledger_age WHERE to_ms < ?1";
    let entries = one(conn, &LEDGER, SQL, [command.before.get()], |row| row.u64("count"))?;
    Ok(PrunedLedger { entries: entries.unwrap_or_default(), saturated: false })
}

/// What makes a removal whole: how far back gaps may be, and the act.
fn record(tx: &Command<'_>, command: &PruneCommand) -> Result<(), StoreError> {
    const SQL: &str = "-- history_retention.raise
        INSERT INTO history_retention (one, pruned_before_ms) VALUES (1, ?1)
        ON CONFLICT (one) DO UPDATE SET pruned_before_ms = max(pruned_before_ms, ?1)";
    execute(tx.conn, SQL, [command.before.get()])?;
    match &command.by {
        Some(by) => control::act(tx, "prune", None, "history", &format!("what ended before {}", command.before), by),
        None => Ok(()),
    }
}

/// Before which instant history may have gaps.
pub(crate) fn pruned_before(conn: &Connection) -> Result<Option<TimestampMs>, StoreError> {
    const SQL: &str = "-- history_retention.one\nSELECT one, pruned_before_ms FROM history_retention";
    one(conn, &RETENTION, SQL, [], |row| row.time("pruned_before_ms"))
}
