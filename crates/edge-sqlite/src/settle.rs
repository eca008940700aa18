//! What becomes of a lease: started, renewed, finished, given back, expired, settled by a later session. Every write of a worker is
//! compared with the lease row first.

use runtime_core::{
    StoreError,
    ports::dispatch::{Evidence, Expired, Fenced, LeaseFence, OpenLease, Renewal, Session},
    run::{Actor, ActorType, AttemptOutcome, AttemptStatus, Command as RunCommand, EventType, RunAttempt, RunState, RunStatus, Started},
};
use rusqlite::{Connection, params};

use crate::{
    control,
    error::readable,
    leases::{EXPIRED, LEASES, LeaseRow, LeaseState, check_current, close_lease, extend_lease, fenced, lease, lease_row, of_worker},
    rows::EVENTS,
    runs,
    sql::{each, one},
    tx::{self, Command},
    write,
};

fn worker(fence: &LeaseFence) -> Actor {
    Actor::named(ActorType::Worker, fence.session.worker_id.as_str())
}

pub(crate) fn started(
    tx: &Command<'_>,
    fence: &LeaseFence,
    started: &Started,
    timeout_ms: Option<u64>,
) -> Result<Fenced<RunAttempt>, StoreError> {
    if fenced(tx.conn, fence)?.is_none_or(|row| tx.at >= row.expires_at) {
        return Ok(Fenced::Stale);
    }
    let Some(state) = runs::state(tx.conn, fence.run_id)? else { return Ok(Fenced::Stale) };
    let attempt = &state.attempt;
    if attempt.status == AttemptStatus::Running && attempt.executor_handle.as_deref() == Some(&started.executor_handle) {
        // The answer to the first one was lost.
        return Ok(Fenced::Applied(attempt.clone()));
    }
    if state.run.cancel_requested_at.is_some() {
        write::carry_from(tx, &state, &RunCommand::Release { reason: "cancelled".to_owned() }, &worker(fence))?;
        close_lease(tx.conn, fence.attempt_id, LeaseState::Taken, "cancelled")?;
        return Ok(Fenced::Stale);
    }
    let deadline_at = timeout_ms.map(|ms| tx.at.plus_ms(ms));
    write::carry_from(tx, &state, &RunCommand::Start(Started { deadline_at, ..started.clone() }), &worker(fence))?;
    Ok(runs::attempt(tx.conn, fence.attempt_id)?.map_or(Fenced::Stale, Fenced::Applied))
}

pub(crate) fn renew(tx: &Command<'_>, session: &Session, fences: &[LeaseFence], lease_ms: u64) -> Result<Renewal, StoreError> {
    let mut answer = Renewal::default();
    if control::mark(tx.conn)? > Some(tx.at) {
        return Ok(answer);
    }
    for fence in fences {
        let row = fenced(tx.conn, fence)?.filter(|row| row.session == *session && tx.at < row.expires_at);
        if row.is_none() {
            answer.lost.push(fence.attempt_id);
            continue;
        }
        extend_lease(tx.conn, fence.attempt_id, tx.at, tx.at.plus_ms(lease_ms))?;
        answer.renewed.push(fence.attempt_id);
        if runs::run(tx.conn, fence.run_id)?.is_some_and(|run| run.cancel_requested_at.is_some()) {
            answer.cancel_requested.push(fence.attempt_id);
        }
    }
    Ok(answer)
}

pub(crate) fn finish(tx: &Command<'_>, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<Fenced<RunStatus>, StoreError> {
    if fenced(tx.conn, fence)?.is_none() {
        record_late(tx, fence, outcome)?;
        return Ok(Fenced::Stale);
    }
    let status = write::carry(tx, fence.run_id, &RunCommand::Finish(outcome.clone()), &worker(fence))?;
    close_lease(tx.conn, fence.attempt_id, LeaseState::Completed, "finished")?;
    Ok(Fenced::Applied(status))
}

/// Records a result that came after somebody else had ended the attempt, once.
fn record_late(tx: &Command<'_>, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<(), StoreError> {
    const RECORDED: &str = "-- run_events.late_callback
        SELECT id FROM run_events WHERE attempt_id = ?1 AND type = ?2 LIMIT 1";
    let row = lease(tx.conn, fence.attempt_id)?.filter(|row| row.matches(fence) && row.state != LeaseState::Completed);
    let attempt = runs::attempt(tx.conn, fence.attempt_id)?.filter(|attempt| attempt.status.is_final());
    let (Some(_), Some(attempt)) = (row, attempt) else { return Ok(()) };
    let params = params![attempt.id.to_string(), EventType::LateCallbackIgnored.name()];
    if one(tx.conn, &EVENTS, RECORDED, params, |_| Ok(()))?.is_some() {
        return Ok(());
    }
    let Some(state) = runs::state(tx.conn, fence.run_id)? else { return Ok(()) };
    // The Run may be at a later attempt; the fact is about this one.
    let state = RunState { attempt, ..state };
    write::carry_from(tx, &state, &RunCommand::RecordLateCallback(outcome.clone()), &worker(fence)).map(|_| ())
}

pub(crate) fn release(tx: &Command<'_>, fence: &LeaseFence, reason: &str) -> Result<Fenced<()>, StoreError> {
    if fenced(tx.conn, fence)?.is_none() {
        return Ok(Fenced::Stale);
    }
    write::carry(tx, fence.run_id, &RunCommand::Release { reason: reason.to_owned() }, &worker(fence))?;
    close_lease(tx.conn, fence.attempt_id, LeaseState::Released, reason)?;
    Ok(Fenced::Applied(()))
}

pub(crate) fn expire(tx: &Command<'_>, page: usize) -> Result<Expired, StoreError> {
    let mut answer = Expired::default();
    if control::mark(tx.conn)? > Some(tx.at) {
        return Ok(answer);
    }
    let mut over = Vec::new();
    each(tx.conn, &LEASES, EXPIRED, [tx.at.get()], |row| {
        over.extend(readable(lease_row(row))?);
        Ok(if over.len() == page { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) })
    })?;
    answer.saturated = over.len() == page;
    for row in over {
        let summary = format!("its lease ended at {} without a result", row.expires_at);
        let command = RunCommand::Lose { error_code: "lease_expired".to_owned(), summary };
        // If its Run is damaged, or was ended past its lease, there is nothing left to expire, and no other lease waits for it.
        let lost = tx::alone(tx.conn, || write::carry(tx, row.run_id, &command, &Actor::of(ActorType::Reconciler)))?;
        if let Some(status) = lost {
            answer.lost.push((row.attempt_id, row.run_id, status));
        } else {
            tracing::error!(run_id = %row.run_id, "a lease without a Run that it could hold is closed");
        }
        close_lease(tx.conn, row.attempt_id, LeaseState::Taken, "lease_expired")?;
    }
    Ok(answer)
}

pub(crate) fn earlier_leases(conn: &Connection, session: &Session, page: usize) -> Result<Vec<OpenLease>, StoreError> {
    check_current(conn, session)?;
    let rows = of_worker(conn, &session.worker_id)?;
    let mut open = Vec::new();
    for row in rows.into_iter().filter(|row| row.session.generation < session.generation) {
        // What cannot be read is left to expiry, which closes it: nobody can prove anything about it, and the others need not wait.
        open.extend(readable(open_lease(conn, row))?);
        if open.len() == page {
            break;
        }
    }
    Ok(open)
}

fn open_lease(conn: &Connection, row: LeaseRow) -> Result<OpenLease, StoreError> {
    let (Some(run), Some(attempt)) = (runs::run(conn, row.run_id)?, runs::attempt(conn, row.attempt_id)?) else {
        return Err(StoreError::corrupt(LEASES.name, "run_id", row.attempt_id));
    };
    Ok(OpenLease { session: row.session, run, attempt, lease_generation: row.generation })
}

pub(crate) fn settle(tx: &Command<'_>, session: &Session, open: &OpenLease, evidence: &Evidence) -> Result<Fenced<RunStatus>, StoreError> {
    check_current(tx.conn, session)?;
    let id = open.attempt.id;
    let row = lease(tx.conn, id)?.filter(|row| row.state == LeaseState::Leased && row.run_id == open.run.id);
    let same = row.is_some_and(|row| row.session == open.session && row.generation == open.lease_generation);
    let earlier = open.session.worker_id == session.worker_id && open.session.generation < session.generation;
    if !(same && earlier) {
        return Ok(Fenced::Stale);
    }
    let actor = Actor::named(ActorType::Reconciler, session.worker_id.as_str());
    let (command, state) = match evidence {
        Evidence::NeverStarted => {
            let status = write::carry(tx, open.run.id, &RunCommand::Release { reason: "never started".to_owned() }, &actor)?;
            close_lease(tx.conn, id, LeaseState::Released, "never started")?;
            return Ok(Fenced::Applied(status));
        }
        Evidence::Finished(outcome) => (RunCommand::Finish(outcome.clone()), "recovered"),
        Evidence::Gone { summary } => {
            (RunCommand::Lose { error_code: "worker_restarted".to_owned(), summary: summary.clone() }, "worker_restarted")
        }
    };
    let status = write::carry(tx, open.run.id, &command, &actor)?;
    close_lease(tx.conn, id, LeaseState::Taken, state)?;
    Ok(Fenced::Applied(status))
}
