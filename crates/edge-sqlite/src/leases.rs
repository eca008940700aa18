//! Rows of sessions and leases. The lease row is the authority; what an attempt shows of it is a projection.

use runtime_core::{
    Invalid, StoreError, TimestampMs,
    digest::Digest,
    ids::{AttemptId, ProjectId, RunId, SessionId, TaskId, WorkerId},
    ports::dispatch::{LeaseFence, Session},
};
use rusqlite::{Connection, params};

use crate::{
    error::readable,
    sql::{Cells, Table, all, execute, int, one},
};

pub(crate) const SESSIONS: Table = Table { name: "worker_sessions", key: &["worker_id"] };
pub(crate) const LEASES: Table = Table { name: "run_dispatch_leases", key: &["attempt_id"] };

/// Columns of `run_dispatch_leases`.
macro_rules! lease_columns {
    () => {
        "attempt_id, run_id, project_id, task_id, worker_id, session_id, worker_generation, lease_generation, token_hash, request_hash, \
         state, acquired_at_ms, expires_at_ms"
    };
}

/// The latest start of a worker.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub session: Session,
    pub open: bool,
}

/// The latest lease of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRow {
    pub attempt_id: AttemptId,
    pub run_id: RunId,
    pub project_id: ProjectId,
    pub task_id: TaskId,
    pub session: Session,
    pub generation: u64,
    pub token: Digest,
    pub request: Digest,
    pub state: LeaseState,
    pub acquired_at: TimestampMs,
    pub expires_at: TimestampMs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    Leased,
    /// Given back unstarted.
    Released,
    /// Its own holder gave the result.
    Completed,
    /// Somebody else ended it: expiry, recovery, a cancellation.
    Taken,
}

impl LeaseState {
    const ALL: [Self; 4] = [Self::Leased, Self::Released, Self::Completed, Self::Taken];

    fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Released => "released",
            Self::Completed => "completed",
            Self::Taken => "taken",
        }
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| Invalid::new("state", "is not known"))
    }
}

impl LeaseRow {
    /// Whether the fence names this very lease.
    pub fn matches(&self, fence: &LeaseFence) -> bool {
        (&self.session, self.run_id, self.generation) == (&fence.session, fence.run_id, fence.lease_generation)
            && self.token == Digest::of(fence.token.as_bytes())
    }
}

pub(crate) fn session(conn: &Connection, worker_id: &WorkerId) -> Result<Option<SessionRow>, StoreError> {
    const SQL: &str = "-- worker_sessions.one\nSELECT worker_id, session_id, generation, state FROM worker_sessions WHERE worker_id = ?1";
    one(conn, &SESSIONS, SQL, [worker_id.as_str()], |row| {
        let session = Session {
            worker_id: row.parse("worker_id", str::parse)?,
            session_id: row.parse("session_id", str::parse::<SessionId>)?,
            generation: row.u64("generation")?,
        };
        Ok(SessionRow { session, open: row.text("state")? != "offline" })
    })
}

pub(crate) fn put_session(conn: &Connection, session: &Session, capacity: u32, at: TimestampMs) -> Result<(), StoreError> {
    execute(
        conn,
        "-- worker_sessions.put
         INSERT INTO worker_sessions (worker_id, session_id, generation, state, capacity, heartbeat_at_ms)
         VALUES (?1, ?2, ?3, 'online', ?4, ?5)
         ON CONFLICT (worker_id) DO UPDATE SET (session_id, generation, state, capacity, heartbeat_at_ms) = (?2, ?3, 'online', ?4, ?5)",
        params![session.worker_id.as_str(), session.session_id.to_string(), int(session.generation), capacity, at.get()],
    )
    .map(|_| ())
}

pub(crate) fn end_session(conn: &Connection, session: &Session, at: TimestampMs) -> Result<(), StoreError> {
    execute(
        conn,
        "-- worker_sessions.end
         UPDATE worker_sessions SET (state, heartbeat_at_ms) = ('offline', ?2) WHERE worker_id = ?1",
        params![session.worker_id.as_str(), at.get()],
    )
    .map(|_| ())
}

/// Whether it is the latest start of its worker, and not ended.
pub(crate) fn is_current(conn: &Connection, session_of: &Session) -> Result<bool, StoreError> {
    Ok(session(conn, &session_of.worker_id)?.is_some_and(|row| row.session == *session_of && row.open))
}

pub(crate) fn check_current(conn: &Connection, session: &Session) -> Result<(), StoreError> {
    if is_current(conn, session)? {
        return Ok(());
    }
    Err(Invalid::new("session", format!("{} is not the open session of worker {}", session.session_id, session.worker_id)).into())
}

pub(crate) fn lease_row(row: &Cells<'_>) -> Result<LeaseRow, StoreError> {
    Ok(LeaseRow {
        attempt_id: row.parse("attempt_id", str::parse)?,
        run_id: row.parse("run_id", str::parse)?,
        project_id: row.parse("project_id", str::parse)?,
        task_id: row.parse("task_id", str::parse)?,
        session: Session {
            worker_id: row.parse("worker_id", str::parse)?,
            session_id: row.parse("session_id", str::parse)?,
            generation: row.u64("worker_generation")?,
        },
        generation: row.u64("lease_generation")?,
        token: row.parse("token_hash", Digest::parse)?,
        request: row.parse("request_hash", Digest::parse)?,
        state: row.parse("state", LeaseState::parse)?,
        acquired_at: row.time("acquired_at_ms")?,
        expires_at: row.time("expires_at_ms")?,
    })
}

pub(crate) fn lease(conn: &Connection, attempt_id: AttemptId) -> Result<Option<LeaseRow>, StoreError> {
    const SQL: &str = concat!("-- run_dispatch_leases.one\nSELECT ", lease_columns!(), " FROM run_dispatch_leases WHERE attempt_id = ?1");
    one(conn, &LEASES, SQL, [attempt_id.to_string()], lease_row)
}

/// The open lease that the fence names, if its session is current.
pub(crate) fn fenced(conn: &Connection, fence: &LeaseFence) -> Result<Option<LeaseRow>, StoreError> {
    let row = lease(conn, fence.attempt_id)?.filter(|row| row.state == LeaseState::Leased && row.matches(fence));
    Ok(if is_current(conn, &fence.session)? { row } else { None })
}

/// The leases that a request made, in whatever state.
pub(crate) fn made_by(conn: &Connection, session: &Session, request: &Digest) -> Result<Vec<LeaseRow>, StoreError> {
    const SQL: &str =
        concat!("-- run_dispatch_leases.of_request\nSELECT ", lease_columns!(), " FROM run_dispatch_leases WHERE request_hash = ?1");
    let rows = all(conn, &LEASES, SQL, [request.as_str()], lease_row)?;
    Ok(rows.into_iter().filter(|row| row.session == *session).collect())
}

pub(crate) const EXPIRED: &str = concat!(
    "-- run_dispatch_leases.expired\nSELECT ",
    lease_columns!(),
    " FROM run_dispatch_leases INDEXED BY run_dispatch_leases_expiry
     WHERE state = 'leased' AND expires_at_ms <= ?1 ORDER BY expires_at_ms, attempt_id"
);

pub(crate) const OF_WORKER: &str = concat!(
    "-- run_dispatch_leases.of_worker\nSELECT ",
    lease_columns!(),
    " FROM run_dispatch_leases INDEXED BY run_dispatch_leases_worker
     WHERE state = 'leased' AND worker_id = ?1 ORDER BY acquired_at_ms, attempt_id"
);

/// Open leases of a worker, of any of its sessions, oldest first. One that cannot be read is passed over.
pub(crate) fn of_worker(conn: &Connection, worker_id: &WorkerId) -> Result<Vec<LeaseRow>, StoreError> {
    let rows = all(conn, &LEASES, OF_WORKER, [worker_id.as_str()], |row| readable(lease_row(row)))?;
    Ok(rows.into_iter().flatten().collect())
}

/// How many attempts of a task are leased.
pub(crate) fn leased_of_task(conn: &Connection, project_id: &ProjectId, task_id: &TaskId) -> Result<u64, StoreError> {
    const SQL: &str = "-- run_dispatch_leases.count_of_task
        SELECT ?2 AS attempt_id, count(*) AS leased FROM run_dispatch_leases INDEXED BY run_dispatch_leases_task
        WHERE state = 'leased' AND project_id = ?1 AND task_id = ?2";
    let count = one(conn, &LEASES, SQL, [project_id.as_str(), task_id.as_str()], |row| row.u64("leased"))?;
    Ok(count.unwrap_or(0))
}

/// Leases an attempt, for the first time or anew.
pub(crate) fn put_lease(conn: &Connection, row: &LeaseRow) -> Result<(), StoreError> {
    execute(
        conn,
        "-- run_dispatch_leases.put
         INSERT INTO run_dispatch_leases (attempt_id, run_id, project_id, task_id, worker_id, session_id, worker_generation,
             lease_generation, version, token_hash, request_hash, state, reason, acquired_at_ms, renewed_at_ms, expires_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, NULL, ?12, ?12, ?13)
         ON CONFLICT (attempt_id) DO UPDATE SET (worker_id, session_id, worker_generation, lease_generation, version, token_hash,
             request_hash, state, reason, acquired_at_ms, renewed_at_ms, expires_at_ms)
           = (?5, ?6, ?7, ?8, version + 1, ?9, ?10, ?11, NULL, ?12, ?12, ?13)",
        params![
            row.attempt_id.to_string(),
            row.run_id.to_string(),
            row.project_id.as_str(),
            row.task_id.as_str(),
            row.session.worker_id.as_str(),
            row.session.session_id.to_string(),
            int(row.session.generation),
            int(row.generation),
            row.token.as_str(),
            row.request.as_str(),
            row.state.as_str(),
            row.acquired_at.get(),
            row.expires_at.get(),
        ],
    )
    .map(|_| ())
}

/// Extends a lease, and its projection in the attempt.
pub(crate) fn extend_lease(conn: &Connection, attempt_id: AttemptId, at: TimestampMs, expires_at: TimestampMs) -> Result<(), StoreError> {
    execute(
        conn,
        "-- run_dispatch_leases.extend
         UPDATE run_dispatch_leases SET (version, renewed_at_ms, expires_at_ms) = (version + 1, ?2, ?3) WHERE attempt_id = ?1",
        params![attempt_id.to_string(), at.get(), expires_at.get()],
    )?;
    execute(
        conn,
        "-- run_attempts.extend_lease\nUPDATE run_attempts SET lease_expires_at_ms = ?2 WHERE id = ?1",
        params![attempt_id.to_string(), expires_at.get()],
    )
    .map(|_| ())
}

pub(crate) fn close_lease(conn: &Connection, attempt_id: AttemptId, state: LeaseState, reason: &str) -> Result<(), StoreError> {
    execute(
        conn,
        "-- run_dispatch_leases.close
         UPDATE run_dispatch_leases SET (version, state, reason) = (version + 1, ?2, ?3) WHERE attempt_id = ?1",
        params![attempt_id.to_string(), state.as_str(), reason],
    )
    .map(|_| ())
}
