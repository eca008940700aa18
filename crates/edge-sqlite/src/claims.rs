//! Claims. They live in the memory of the writing thread: a claim need not survive its process, since the next scheduler can only
//! come after the lock on `<db>.lock` has gone with it. So claiming writes nothing.

use std::{collections::HashMap, ops::ControlFlow};

use runtime_core::{
    StoreError, TimestampMs,
    definition::{Head, Overlap, TaskSpec, TriggerSpec},
    ids::{ProjectId, RunId, TriggerId},
    schedule::{Candidate, ClaimCommand, ClaimPage, ScheduleClaim, ScheduleRow},
};
use rusqlite::{Connection, params};

use crate::{
    control,
    error::readable,
    open::Writer,
    rows::RUNS,
    schedule_rows::{SCHEDULES, TASKS, TRIGGERS, schedule_columns, schedule_row},
    sql::{Cells, each, one},
    tx,
};

type TriggerKey = (ProjectId, TriggerId);

/// The latest claim of each trigger that has one. A claim ends with its expiry, and with whatever raises the row's claim version,
/// whoever did it: a commit, an edit.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    latest: HashMap<TriggerKey, Held>,
}

#[derive(Debug)]
struct Held {
    claim: ScheduleClaim,
    /// The row's claim version when it was claimed; claiming does not write.
    stored_version: u64,
}

pub(crate) fn key(claim: &ScheduleClaim) -> TriggerKey {
    (claim.candidate.project_id.clone(), claim.candidate.trigger.id.clone())
}

impl Claims {
    fn free(&self, key: &TriggerKey, row: &ScheduleRow, at: TimestampMs) -> bool {
        self.latest.get(key).is_none_or(|held| held.claim.expires_at <= at || held.stored_version != row.claim_version)
    }

    /// Whether it is the claim that was given out, in every field, and has not expired.
    pub fn holds(&self, claim: &ScheduleClaim, at: TimestampMs) -> bool {
        at < claim.expires_at && self.latest.get(&key(claim)).is_some_and(|held| held.claim == *claim)
    }

    /// Ends a claim.
    pub fn end(&mut self, claim: &ScheduleClaim) {
        self.latest.remove(&key(claim));
    }

    fn give(
        &mut self,
        command: &ClaimCommand,
        row: &ScheduleRow,
        candidate: Candidate,
        unfinished_run: Option<RunId>,
        at: TimestampMs,
    ) -> ScheduleClaim {
        let key = (row.project_id.clone(), row.trigger_id.clone());
        let before = self.latest.get(&key).map_or(0, |held| held.claim.claim_version);
        let claim = ScheduleClaim {
            candidate,
            owner_id: command.owner_id.clone(),
            token: command.claim_token,
            claim_version: row.claim_version.max(before) + 1,
            acquired_at: at,
            expires_at: at.plus_ms(command.lease_ms),
            unfinished_run,
            locator: 0,
        };
        self.latest.insert(key, Held { claim: claim.clone(), stored_version: row.claim_version });
        claim
    }
}

/// A trigger as its claim shows it.
pub(crate) fn candidate(trigger: &Head<TriggerSpec>, task: &Head<TaskSpec>, row: &ScheduleRow) -> Candidate {
    Candidate {
        project_id: row.project_id.clone(),
        trigger: trigger.spec.clone(),
        trigger_revision: trigger.revision,
        trigger_digest: trigger.digest.clone(),
        task_revision: task.revision,
        task_digest: task.digest.clone(),
        task_name: task.spec.display_name().to_owned(),
        priority: task.spec.priority,
        retry: task.spec.retry,
        state_version: row.state_version,
        activated_at: row.activated_at,
        next_fire_at: row.next_fire_at,
        last_scheduled_at: row.last_scheduled_at,
    }
}

/// The unfinished Run of a trigger that has waited longest.
pub(crate) fn unfinished_run(conn: &Connection, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<RunId>, StoreError> {
    one(conn, &RUNS, UNFINISHED, [project_id.as_str(), trigger_id.as_str()], |row| row.parse("id", str::parse))
}

pub(crate) const UNFINISHED: &str = "-- runs.unfinished
    SELECT id FROM runs INDEXED BY runs_unfinished
    WHERE project_id = ?1 AND trigger_id = ?2 AND status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    ORDER BY id LIMIT 1";

/// The rows of a claim, driven by the due index: an ordered range, however many triggers there are.
macro_rules! claimable {
    ($name:literal, $range:literal) => {
        concat!(
            "-- trigger_schedules.",
            $name,
            "\nSELECT ",
            schedule_columns!(),
            ", tr.revision AS tr_revision, tr.digest AS tr_digest, tr.canonical AS tr_canonical,
               ta.revision AS ta_revision, ta.digest AS ta_digest, ta.canonical AS ta_canonical
             FROM trigger_schedules s INDEXED BY trigger_schedules_due
             CROSS JOIN trigger_definitions d ON d.project_id = s.project_id AND d.trigger_id = s.trigger_id
             CROSS JOIN trigger_revisions tr
                 ON tr.project_id = d.project_id AND tr.trigger_id = d.trigger_id AND tr.revision = d.revision
             CROSS JOIN task_definitions td ON td.project_id = d.project_id AND td.task_id = d.task_id
             CROSS JOIN task_revisions ta ON ta.project_id = td.project_id AND ta.task_id = td.task_id AND ta.revision = td.revision
             WHERE s.schedulable = 1 AND s.updated_at_ms <= ?1 AND ",
            $range,
            " ORDER BY s.next_fire_at_ms, s.project_id, s.trigger_id"
        )
    };
}

pub(crate) const DUE: &str = claimable!("due", "s.next_fire_at_ms <= ?1");
pub(crate) const NEW: &str = claimable!("new", "s.next_fire_at_ms IS NULL");
pub(crate) const NEXT_DUE: &str = "-- trigger_schedules.next_due
    SELECT project_id, trigger_id, next_fire_at_ms FROM trigger_schedules INDEXED BY trigger_schedules_due
    WHERE schedulable = 1 AND next_fire_at_ms > ?1 ORDER BY next_fire_at_ms LIMIT 1";

fn read_candidate(row: &Cells<'_>, schedule: &ScheduleRow) -> Result<Candidate, StoreError> {
    let (tr, ta) = (row.of(&TRIGGERS), row.of(&TASKS));
    let trigger = Head {
        project_id: schedule.project_id.clone(),
        revision: tr.u32("tr_revision")?,
        digest: tr.parse("tr_digest", runtime_core::digest::Digest::parse)?,
        spec: tr.parse("tr_canonical", TriggerSpec::from_canonical)?,
        archived: false,
        created_at: TimestampMs::EPOCH,
    };
    let task = Head {
        project_id: schedule.project_id.clone(),
        revision: ta.u32("ta_revision")?,
        digest: ta.parse("ta_digest", runtime_core::digest::Digest::parse)?,
        spec: ta.parse("ta_canonical", TaskSpec::from_canonical)?,
        archived: false,
        created_at: TimestampMs::EPOCH,
    };
    Ok(candidate(&trigger, &task, schedule))
}

/// Claims a page, in one snapshot. Waits for no writer.
pub(crate) fn claim_due(writer: &mut Writer, command: &ClaimCommand, page: usize) -> Result<ClaimPage, StoreError> {
    let Writer { conn, authority, claims, .. } = writer;
    tx::read(conn, |conn| {
        // The snapshot begins with the first read: the clock is read after it.
        let clock_mark = control::mark(conn)?;
        let at = authority.clock.now();
        let mut answer = ClaimPage { observed_at: at, clock_mark, claims: Vec::new(), next_due_ms: None, saturated: false };
        if clock_mark > Some(at) {
            return Ok(answer);
        }
        let mut rows = Vec::new();
        let (mut room, mut more_new) = (page, false);
        free_rows(conn, DUE, at, claims, |row| {
            if let Some(row) = row {
                rows.push(row);
            }
            if rows.len() == page { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        room -= rows.len();
        let quota = if rows.is_empty() { page } else { (page / 4).min(room) };
        if room > 0 {
            let full = rows.len() + quota;
            free_rows(conn, NEW, at, claims, |row| {
                let Some(row) = row else { return ControlFlow::Continue(()) };
                if rows.len() == full {
                    more_new = true;
                    return ControlFlow::Break(());
                }
                rows.push(row);
                ControlFlow::Continue(())
            })?;
        }
        answer.saturated = rows.len() == page || more_new;
        let mut unfinished = Vec::with_capacity(rows.len());
        for (row, candidate) in &rows {
            unfinished.push(match candidate.trigger.overlap {
                Overlap::Skip => unfinished_run(conn, &row.project_id, &row.trigger_id)?,
                Overlap::Allow => None,
            });
        }
        let next_due = one(conn, &SCHEDULES, NEXT_DUE, [at.get()], |row| row.time("next_fire_at_ms"))?;
        answer.next_due_ms = next_due.map(|due| due.since_ms(at));
        // Nothing fails from here on: every claim that is given out is answered.
        let pairs = rows.into_iter().zip(unfinished);
        answer.claims = pairs.map(|((row, candidate), unfinished)| claims.give(command, &row, candidate, unfinished, at)).collect();
        Ok(answer)
    })
}

/// Visits the rows that nobody holds. A row that cannot be read (`None`) is logged and passed over: it holds up nobody else.
fn free_rows(
    conn: &Connection,
    sql: &str,
    at: TimestampMs,
    claims: &Claims,
    mut visit: impl FnMut(Option<(ScheduleRow, Candidate)>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    each(conn, &SCHEDULES, sql, params![at.get()], |cells| {
        let Some(row) = readable(schedule_row(cells))? else { return Ok(visit(None)) };
        if !claims.free(&(row.project_id.clone(), row.trigger_id.clone()), &row, at) {
            return Ok(ControlFlow::Continue(()));
        }
        let candidate = readable(read_candidate(cells, &row))?;
        Ok(visit(candidate.map(|candidate| (row, candidate))))
    })
}
