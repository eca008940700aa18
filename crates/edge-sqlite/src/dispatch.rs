//! `DispatchStore`: sessions and claims; what becomes of a lease is in `settle.rs`.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use runtime_core::{
    Invalid, StoreError, TimestampMs,
    digest::Digest,
    ids::{AttemptId, ProjectId, RequestId, RunId, SessionId, TaskId, WorkerId},
    limits::CLAIM_PAGE_MAX,
    ports::dispatch::{
        DispatchClaim, DispatchPage, DispatchStore, Evidence, Expired, Fenced, Lease, LeaseFence, OpenLease, Renewal, Session, check_lease,
    },
    run::{Actor, ActorType, AttemptOutcome, Command as RunCommand, Run, RunAttempt, RunState, RunStatus, Started},
};
use rusqlite::{Connection, params};

use crate::{
    control,
    error::{check_page, readable},
    leases::{
        LeaseRow, LeaseState, check_current, end_session, is_current, lease, leased_of_task, made_by, of_worker, put_lease, put_session,
        session,
    },
    rows::{POLICIES, RUNS},
    runs,
    schedule_rows::{task, task_revision},
    settle,
    sql::{all, each, one},
    store::SqliteStore,
    tx::{self, Command},
    write,
};

#[async_trait]
impl DispatchStore for SqliteStore {
    async fn open_session(&self, worker_id: &WorkerId, session_id: SessionId, capacity: u32) -> Result<Session, StoreError> {
        let worker_id = worker_id.clone();
        self.write(move |tx| open_session(tx, worker_id, session_id, capacity)).await
    }

    async fn close_session(&self, session: &Session) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |tx| close_session(tx, &session)).await
    }

    async fn claim(&self, claim: &DispatchClaim) -> Result<DispatchPage, StoreError> {
        claim.check()?;
        let command = claim.clone();
        self.write(move |tx| claim_page(tx, &command)).await
    }

    async fn started(&self, fence: &LeaseFence, started: &Started, timeout_ms: Option<u64>) -> Result<Fenced<RunAttempt>, StoreError> {
        let (fence, started) = (fence.clone(), started.clone());
        self.write(move |tx| settle::started(tx, &fence, &started, timeout_ms)).await
    }

    async fn renew(&self, session: &Session, fences: &[LeaseFence], lease_ms: u64) -> Result<Renewal, StoreError> {
        check_lease(lease_ms)?;
        let (session, fences) = (session.clone(), fences.to_vec());
        self.write(move |tx| settle::renew(tx, &session, &fences, lease_ms)).await
    }

    async fn finish(&self, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<Fenced<RunStatus>, StoreError> {
        let (fence, outcome) = (fence.clone(), outcome.clone());
        self.write(move |tx| settle::finish(tx, &fence, &outcome)).await
    }

    async fn release(&self, fence: &LeaseFence, reason: &str) -> Result<Fenced<()>, StoreError> {
        let (fence, reason) = (fence.clone(), reason.to_owned());
        self.write(move |tx| settle::release(tx, &fence, &reason)).await
    }

    async fn expire(&self, page: u32) -> Result<Expired, StoreError> {
        check_page(page, CLAIM_PAGE_MAX)?;
        self.write(move |tx| settle::expire(tx, page as usize)).await
    }

    async fn earlier_leases(&self, session: &Session, page: u32) -> Result<Vec<OpenLease>, StoreError> {
        check_page(page, CLAIM_PAGE_MAX)?;
        let session = session.clone();
        self.read(move |conn| settle::earlier_leases(conn, &session, page as usize)).await
    }

    async fn settle(&self, session: &Session, lease: &OpenLease, evidence: &Evidence) -> Result<Fenced<RunStatus>, StoreError> {
        let (session, lease, evidence) = (session.clone(), lease.clone(), evidence.clone());
        self.write(move |tx| settle::settle(tx, &session, &lease, &evidence)).await
    }
}

fn open_session(tx: &Command<'_>, worker_id: WorkerId, session_id: SessionId, capacity: u32) -> Result<Session, StoreError> {
    let last = session(tx.conn, &worker_id)?;
    if let Some(row) = last.as_ref().filter(|row| row.session.session_id == session_id && row.open) {
        return Ok(row.session.clone());
    }
    let session = Session { worker_id, session_id, generation: last.map_or(1, |row| row.session.generation + 1) };
    put_session(tx.conn, &session, capacity, tx.at)?;
    Ok(session)
}

fn close_session(tx: &Command<'_>, session: &Session) -> Result<(), StoreError> {
    if !is_current(tx.conn, session)? {
        return Ok(());
    }
    let held = of_worker(tx.conn, &session.worker_id)?.iter().filter(|lease| lease.session == *session).count();
    if held > 0 {
        return Err(Invalid::new("session", format!("still holds {held} leases")).into());
    }
    end_session(tx.conn, session, tx.at)
}

/// Follows from the request, so that a replay answers with the same one and nobody keeps it. Only its hash is stored, and only a
/// hash of the request.
fn token(request_id: RequestId, attempt_id: AttemptId, generation: u64) -> String {
    Digest::of(format!("{request_id}:{attempt_id}:{generation}").as_bytes()).to_string()
}

fn claim_page(tx: &Command<'_>, claim: &DispatchClaim) -> Result<DispatchPage, StoreError> {
    check_current(tx.conn, &claim.session)?;
    let mut answer = DispatchPage { observed_at: tx.at, leases: Vec::new(), next_retry_ms: None, saturated: false };
    if control::mark(tx.conn)? > Some(tx.at) {
        return Ok(answer);
    }
    let request = Digest::of(claim.request_id.to_string().as_bytes());
    let mut made = made_by(tx.conn, &claim.session, &request)?;
    if made.is_empty() {
        queue_retries(tx)?;
        made = lease_page(tx, claim, &request)?;
    }
    for row in made.into_iter().filter(|row| row.state == LeaseState::Leased && tx.at < row.expires_at) {
        answer.leases.extend(answer_of(tx, claim, &row)?);
    }
    answer.leases.sort_by_key(|lease| (std::cmp::Reverse(lease.run.priority), lease.run.queued_at, lease.run.id));
    answer.saturated = answer.leases.len() == claim.slots as usize;
    let next_retry = one(tx.conn, &POLICIES, NEXT_RETRY, [tx.at.get()], |row| row.time("next_attempt_at_ms"))?;
    answer.next_retry_ms = next_retry.map(|at| at.since_ms(tx.at));
    Ok(answer)
}

pub(crate) const NEXT_RETRY: &str = "-- run_retry_policies.next
    SELECT run_id, next_attempt_at_ms FROM run_retry_policies INDEXED BY run_retry_policies_due
    WHERE next_attempt_at_ms > ?1 AND next_attempt_at_ms IS NOT NULL ORDER BY next_attempt_at_ms LIMIT 1";

pub(crate) const DUE_RETRIES: &str = "-- run_retry_policies.due
    SELECT run_id FROM run_retry_policies INDEXED BY run_retry_policies_due
    WHERE next_attempt_at_ms <= ?1 AND next_attempt_at_ms IS NOT NULL ORDER BY next_attempt_at_ms, run_id LIMIT ?2";

/// Queues the retries that have become due.
fn queue_retries(tx: &Command<'_>) -> Result<(), StoreError> {
    let due = all(tx.conn, &POLICIES, DUE_RETRIES, params![tx.at.get(), CLAIM_PAGE_MAX], |row| row.parse("run_id", str::parse::<RunId>))?;
    for run_id in due {
        tx::alone(tx.conn, || write::carry(tx, run_id, &RunCommand::Requeue, &Actor::of(ActorType::Scheduler)))?;
    }
    Ok(())
}

pub(crate) const WAITING: &str = "-- runs.waiting
    SELECT id, project_id, task_id FROM runs INDEXED BY runs_dispatch
    WHERE execution_owner = ?1 AND status = 'queued' AND cancel_requested_at_ms IS NULL
    ORDER BY priority DESC, queued_at_ms, id";

/// Leases as many Runs as there are slots. One that cannot be leased gives its slot to the next.
fn lease_page(tx: &Command<'_>, claim: &DispatchClaim, request: &Digest) -> Result<Vec<LeaseRow>, StoreError> {
    let (mut made, mut refused) = (Vec::new(), HashSet::new());
    while made.len() < claim.slots as usize {
        let picked = pick(tx, claim.slots as usize - made.len(), &refused)?;
        let refused_before = refused.len();
        for state in &picked {
            match tx::alone(tx.conn, || dispatch(tx, claim, request, state))? {
                Some(row) => made.push(row),
                None => _ = refused.insert(state.run.id),
            }
        }
        if refused.len() == refused_before {
            break;
        }
    }
    Ok(made)
}

/// The Runs that are to be leased, in order. Runs of tasks at their limit are passed over from the index alone.
fn pick(tx: &Command<'_>, slots: usize, refused: &HashSet<RunId>) -> Result<Vec<RunState>, StoreError> {
    let mut picked = Vec::new();
    let mut free: HashMap<(ProjectId, TaskId), Option<u64>> = HashMap::new();
    each(tx.conn, &RUNS, WAITING, [&tx.options.execution_owner], |row| {
        let task = (row.parse("project_id", str::parse::<ProjectId>)?, row.parse("task_id", str::parse::<TaskId>)?);
        let free = match free.entry(task) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                let places = free_places(tx.conn, &unknown.key().0, &unknown.key().1)?;
                unknown.insert(places)
            }
        };
        if *free == Some(0) {
            return Ok(std::ops::ControlFlow::Continue(()));
        }
        let state = readable(runs::state(tx.conn, row.parse("id", str::parse)?))?.flatten();
        let Some(state) = state.filter(|state| state.run.status == RunStatus::Queued && !refused.contains(&state.run.id)) else {
            return Ok(std::ops::ControlFlow::Continue(()));
        };
        let run = &state.run;
        // A Run of a revision that is not there, or cannot be read, waits; it holds up nobody else.
        if readable(task_revision(tx.conn, &run.project_id, &run.task_id, run.task_revision))?.flatten().is_none() {
            return Ok(std::ops::ControlFlow::Continue(()));
        }
        *free = free.map(|places| places - 1);
        picked.push(state);
        Ok(if picked.len() == slots { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) })
    })?;
    Ok(picked)
}

/// How many more attempts of a task may run; `None`: any number.
fn free_places(conn: &Connection, project_id: &ProjectId, task_id: &TaskId) -> Result<Option<u64>, StoreError> {
    let head = readable(task(conn, project_id, task_id))?.flatten();
    let Some(max) = head.and_then(|head| head.spec.max_concurrent) else { return Ok(None) };
    Ok(Some(u64::from(max).saturating_sub(leased_of_task(conn, project_id, task_id)?)))
}

fn dispatch(tx: &Command<'_>, claim: &DispatchClaim, request: &Digest, state: &RunState) -> Result<LeaseRow, StoreError> {
    let attempt_id = state.attempt.id;
    let generation = lease(tx.conn, attempt_id)?.map_or(1, |row| row.generation + 1);
    let token = Digest::of(token(claim.request_id, attempt_id, generation).as_bytes());
    let expires_at: TimestampMs = tx.at.plus_ms(claim.lease_ms);
    let worker_id = claim.session.worker_id.clone();
    let actor = Actor::named(ActorType::Worker, worker_id.as_str());
    let command = RunCommand::Dispatch { worker_id, lease_token: token.clone(), lease_expires_at: expires_at };
    write::carry_from(tx, state, &command, &actor)?;
    let row = LeaseRow {
        attempt_id,
        run_id: state.run.id,
        project_id: state.run.project_id.clone(),
        task_id: state.run.task_id.clone(),
        session: claim.session.clone(),
        generation,
        token,
        request: request.clone(),
        state: LeaseState::Leased,
        acquired_at: tx.at,
        expires_at,
    };
    put_lease(tx.conn, &row)?;
    Ok(row)
}

/// A lease as its holder gets it.
fn answer_of(tx: &Command<'_>, claim: &DispatchClaim, row: &LeaseRow) -> Result<Option<Lease>, StoreError> {
    let run: Option<Run> = runs::run(tx.conn, row.run_id)?;
    let (Some(run), Some(attempt)) = (run, runs::attempt(tx.conn, row.attempt_id)?) else { return Ok(None) };
    let Some(task) = task_revision(tx.conn, &run.project_id, &run.task_id, run.task_revision)? else { return Ok(None) };
    let fence = LeaseFence {
        session: claim.session.clone(),
        attempt_id: row.attempt_id,
        run_id: row.run_id,
        lease_generation: row.generation,
        token: token(claim.request_id, row.attempt_id, row.generation),
    };
    Ok(Some(Lease { fence, run, attempt, task: task.spec, expires_at: row.expires_at }))
}
