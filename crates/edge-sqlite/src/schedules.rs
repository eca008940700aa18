//! `ScheduleStore`.

use async_trait::async_trait;
use runtime_core::{
    Invalid, Retry, StoreError, TimestampMs,
    limits::{CLAIM_PAGE_MAX, SUMMARY_BYTES_MAX},
    ports::schedules::{MovedCursor, ScheduleStore},
    run::ExecutorType,
    schedule::{
        Action, ClaimCommand, ClaimPage, CommitOutcome, Decision, ScheduleClaim, ScheduleCommit, ScheduleRow, Verdict, refresh_zone,
    },
};
use rusqlite::{Connection, params};

use crate::{
    admit::{Taken, admit},
    claims::{Claims, claim_due},
    error::{check_page, readable},
    open::Writer,
    schedule_rows::{SCHEDULES, put_schedule, record, schedule_columns, schedule_row, trigger},
    sql::{Cells, all, execute, int, one},
    store::SqliteStore,
    tx::{self, Command},
};

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn claim_due(&self, command: &ClaimCommand, page: u32) -> Result<ClaimPage, StoreError> {
        command.check()?;
        check_page(page, CLAIM_PAGE_MAX)?;
        let command = command.clone();
        self.on_writer(move |writer| {
            if writer.scheduler.is_none() {
                return Err(Invalid::new("scheduler", "this handle is not the scheduler of the file").into());
            }
            claim_due(writer, &command, page as usize)
        })
        .await
    }

    async fn commit(&self, commits: Vec<ScheduleCommit>) -> Result<Vec<CommitOutcome>, StoreError> {
        self.on_writer(move |writer| commit(writer, &commits)).await
    }

    async fn release_claims(&self, claims: &[ScheduleClaim]) -> Result<u64, StoreError> {
        let released = claims.to_vec();
        self.on_writer(move |writer| release(writer, &released)).await
    }

    async fn refresh_zone_data(&self, zone_data_version: &str, page: u32) -> Result<(Vec<MovedCursor>, bool), StoreError> {
        check_page(page, CLAIM_PAGE_MAX)?;
        let version = zone_data_version.to_owned();
        self.write(move |tx| refresh(tx, &version, page as usize)).await
    }
}

/// Commits a page. If one of its rows cannot be written, the page is written again with each row whole or absent, and that
/// row is set aside with the reason: it holds up nobody else.
fn commit(writer: &mut Writer, commits: &[ScheduleCommit]) -> Result<Vec<CommitOutcome>, StoreError> {
    let outcomes = match commit_page(writer, commits, false) {
        Err(error) if error.retry() == Retry::Never && !matches!(error, StoreError::Closed) => {
            tracing::error!(%error, "a page of schedule commits is written row by row");
            commit_page(writer, commits, true)
        }
        written => written,
    }?;
    for (commit, outcome) in commits.iter().zip(&outcomes) {
        if *outcome != CommitOutcome::Raced {
            writer.claims.end(commit.claim());
        }
    }
    Ok(outcomes)
}

fn commit_page(writer: &Writer, commits: &[ScheduleCommit], row_by_row: bool) -> Result<Vec<CommitOutcome>, StoreError> {
    tx::write(writer, |tx| {
        if let Some(early) = commits.iter().find(|commit| tx.at < commit.claim().acquired_at) {
            let cause = format!("the clock shows {}, before the claim was taken at {}", tx.at, early.claim().acquired_at);
            return Err(StoreError::Unavailable { cause });
        }
        let one = |commit| if row_by_row { commit_row_alone(tx, &writer.claims, commit) } else { commit_row(tx, &writer.claims, commit) };
        commits.iter().map(one).collect()
    })
}

fn commit_row_alone(tx: &Command<'_>, claims: &Claims, commit: &ScheduleCommit) -> Result<CommitOutcome, StoreError> {
    let mut outcome = None;
    let written = tx::whole(tx.conn, || {
        outcome = Some(commit_row(tx, claims, commit)?);
        Ok(true)
    });
    match (written, outcome) {
        (Ok(_), Some(outcome)) => Ok(outcome),
        (Err(error), _) if error.retry() == Retry::Never => set_aside(tx, commit.claim(), &error.to_string()),
        (Err(error), _) => Err(error),
        (Ok(_), None) => Ok(CommitOutcome::Raced),
    }
}

fn commit_row(tx: &Command<'_>, claims: &Claims, commit: &ScheduleCommit) -> Result<CommitOutcome, StoreError> {
    let claim = commit.claim();
    if !(claims.holds(claim, tx.at) && unchanged(tx.conn, claim)?) {
        return Ok(CommitOutcome::Raced);
    }
    match commit.verdict() {
        Verdict::SetAside(reason) => set_aside(tx, claim, reason),
        Verdict::Decided(decision, _) => decided(tx, commit, decision),
    }
}

/// Whether the stored rows are those that the claim shows. The digests stand for everything that the definitions say.
fn unchanged(conn: &Connection, claim: &ScheduleClaim) -> Result<bool, StoreError> {
    const SQL: &str = "-- trigger_schedules.unchanged
        SELECT s.project_id, s.trigger_id FROM trigger_schedules s
        CROSS JOIN trigger_definitions d ON d.project_id = s.project_id AND d.trigger_id = s.trigger_id
        CROSS JOIN trigger_revisions tr ON tr.project_id = d.project_id AND tr.trigger_id = d.trigger_id AND tr.revision = d.revision
        CROSS JOIN task_definitions td ON td.project_id = d.project_id AND td.task_id = d.task_id
        CROSS JOIN task_revisions ta ON ta.project_id = td.project_id AND ta.task_id = td.task_id AND ta.revision = td.revision
        WHERE s.project_id = ?1 AND s.trigger_id = ?2 AND s.schedulable = 1 AND s.state_version = ?3
          AND s.activated_at_ms = ?4 AND s.next_fire_at_ms IS ?5 AND s.last_scheduled_at_ms IS ?6
          AND d.archived = 0 AND d.task_id = ?7 AND tr.revision = ?8 AND tr.digest = ?9
          AND td.archived = 0 AND ta.revision = ?10 AND ta.digest = ?11";
    let c = &claim.candidate;
    let params = params![
        c.project_id.as_str(),
        c.trigger.id.as_str(),
        int(c.state_version),
        c.activated_at.get(),
        c.next_fire_at.map(TimestampMs::get),
        c.last_scheduled_at.map(TimestampMs::get),
        c.task_id().as_str(),
        c.trigger_revision,
        c.trigger_digest.as_str(),
        c.task_revision,
        c.task_digest.as_str(),
    ];
    Ok(one(conn, &SCHEDULES, SQL, params, |_| Ok(()))?.is_some())
}

fn decided(tx: &Command<'_>, commit: &ScheduleCommit, decision: &Decision) -> Result<CommitOutcome, StoreError> {
    let claim = commit.claim();
    let mut entry = commit.ledger_entry(tx.at);
    let mut last = claim.candidate.last_scheduled_at;
    let outcome = match commit.admission(&tx.options.execution_owner, ExecutorType::LocalProcess, tx.at) {
        None if decision.action == Action::Skip => CommitOutcome::Skipped,
        None => CommitOutcome::Initialized,
        Some(admission) => match admit(tx.conn, &admission)? {
            None => CommitOutcome::Admitted { run_id: admission.run.id },
            Some(Taken { holder, same_facts: true }) => {
                if let Some(entry) = &mut entry {
                    entry.stretch.run_id = Some(holder);
                }
                CommitOutcome::AlreadyAdmitted { run_id: holder }
            }
            Some(Taken { holder, same_facts: false }) => {
                return set_aside(tx, claim, &format!("the key of the occurrence is taken by the Run {holder}, which has other facts"));
            }
        },
    };
    if let Action::Admit { scheduled_for } = decision.action {
        last = last.max(Some(scheduled_for));
    }
    let aside = decision.next_fire_at.is_none().then_some("no further occurrence");
    put_state(tx, claim, decision.next_fire_at, last, aside)?;
    if let Some(entry) = &entry {
        record(tx.conn, entry, claim.candidate.last_scheduled_at)?;
    }
    Ok(outcome)
}

fn set_aside(tx: &Command<'_>, claim: &ScheduleClaim, reason: &str) -> Result<CommitOutcome, StoreError> {
    let reason = &reason[..reason.floor_char_boundary(SUMMARY_BYTES_MAX)];
    put_state(tx, claim, claim.candidate.next_fire_at, claim.candidate.last_scheduled_at, Some(reason))?;
    Ok(CommitOutcome::SetAside { reason: reason.to_owned() })
}

/// Moves a claimed row on, and ends its claim with that.
fn put_state(
    tx: &Command<'_>,
    claim: &ScheduleClaim,
    next_fire_at: Option<TimestampMs>,
    last_scheduled_at: Option<TimestampMs>,
    aside: Option<&str>,
) -> Result<(), StoreError> {
    let c = &claim.candidate;
    let params = params![
        c.project_id.as_str(),
        c.trigger.id.as_str(),
        int(c.state_version),
        next_fire_at.map(TimestampMs::get),
        last_scheduled_at.map(TimestampMs::get),
        aside.map(|_| tx.at.get()),
        aside,
        aside.is_none(),
        int(claim.claim_version),
        tx.options.zone_data_version,
        tx.at.get(),
    ];
    let rows = execute(
        tx.conn,
        "-- trigger_schedules.commit
         UPDATE trigger_schedules SET (next_fire_at_ms, last_scheduled_at_ms, set_aside_at_ms, set_aside_reason, schedulable,
             state_version, claim_version, zone_data_version, updated_at_ms)
           = (?4, ?5, ?6, ?7, ?8, ?3 + 1, ?9, ?10, ?11)
         WHERE project_id = ?1 AND trigger_id = ?2 AND state_version = ?3",
        params,
    )?;
    // The row was compared in this transaction.
    if rows == 1 { Ok(()) } else { Err(StoreError::corrupt(SCHEDULES.name, "state_version", &c.trigger.id)) }
}

fn release(writer: &mut Writer, claims: &[ScheduleClaim]) -> Result<u64, StoreError> {
    let Writer { conn, authority, claims: held, .. } = writer;
    let valid = tx::read(conn, |conn| {
        let at = authority.clock.now();
        let mut valid = Vec::new();
        for claim in claims {
            if held.holds(claim, at) && unchanged(conn, claim)? {
                valid.push(claim);
            }
        }
        Ok(valid)
    })?;
    let mut released = 0;
    for claim in valid {
        // A claim that was given twice is released once.
        if held.holds(claim, claim.acquired_at) {
            held.end(claim);
            released += 1;
        }
    }
    Ok(released)
}

fn refresh(tx: &Command<'_>, version: &str, page: usize) -> Result<(Vec<MovedCursor>, bool), StoreError> {
    let stale = stale_rows(tx.conn, version, page)?;
    let saturated = stale.len() == page;
    let mut moved = Vec::new();
    for (row, live) in stale {
        let head = readable(trigger(tx.conn, &row.project_id, &row.trigger_id))?.flatten();
        let next = match head.and_then(|head| head.spec.schedule().ok()) {
            Some(schedule) => refresh_zone(&row, &schedule, tx.at, version),
            // It cannot be evaluated, so its cursor says nothing; but it need not be looked at again.
            None => ScheduleRow { zone_data_version: version.to_owned(), ..row.clone() },
        };
        put_schedule(tx.conn, &next, live)?;
        if let (Some(from), Some(to)) = (row.next_fire_at, next.next_fire_at)
            && from != to
        {
            moved.push(MovedCursor { project_id: row.project_id, trigger_id: row.trigger_id, from, to });
        }
    }
    Ok((moved, saturated))
}

pub(crate) const NEXT_ZONE_DATA: &str = "-- trigger_schedules.next_zone_data
    SELECT project_id, trigger_id, zone_data_version FROM trigger_schedules INDEXED BY trigger_schedules_zone_data
    WHERE zone_data_version > ?1 ORDER BY zone_data_version LIMIT 1";

pub(crate) const OF_ZONE_DATA: &str = concat!(
    "-- trigger_schedules.of_zone_data\nSELECT ",
    schedule_columns!(),
    ", s.schedulable FROM trigger_schedules s INDEXED BY trigger_schedules_zone_data
     WHERE s.zone_data_version = ?1 ORDER BY s.project_id, s.trigger_id LIMIT ?2"
);

/// The first rows by project and trigger that have other zone data, each with its `schedulable`. There are few versions, so each
/// gives its first rows, and the first of all are among them.
fn stale_rows(conn: &Connection, version: &str, page: usize) -> Result<Vec<(ScheduleRow, bool)>, StoreError> {
    let mut rows = Vec::new();
    let mut last = String::new();
    while let Some(found) = one(conn, &SCHEDULES, NEXT_ZONE_DATA, [&last], |row| row.text("zone_data_version"))? {
        if found != version {
            let read = |row: &Cells<'_>| Ok((readable(schedule_row(row))?, row.flag("schedulable")?));
            let of_version = all(conn, &SCHEDULES, OF_ZONE_DATA, params![found, int(page as u64)], read)?;
            rows.extend(of_version.into_iter().filter_map(|(row, live)| Some((row?, live))));
        }
        last = found;
    }
    rows.sort_by(|(a, _), (b, _)| (&a.project_id, &a.trigger_id).cmp(&(&b.project_id, &b.trigger_id)));
    rows.truncate(page);
    Ok(rows)
}
