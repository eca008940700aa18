//! `RunReader` and `RunRepository`.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    ids::{AttemptId, RunId},
    ports::{
        BoxFuture,
        runs::{RunReader, RunRepository, Work, check_cancellation_page, check_event_page},
    },
    run::{RetryPolicy, Run, RunAttempt, RunEvent, RunState},
};
use rusqlite::{Connection, params};

use crate::{
    rows::{self, ATTEMPTS, EVENTS, POLICIES, RUNS, attempt_columns, event_columns, policy_columns, run_columns},
    sql::{all, int, one},
    store::SqliteStore,
    transaction,
};

#[async_trait]
impl RunReader for SqliteStore {
    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        self.read(move |conn| run(conn, id)).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<RunAttempt>, StoreError> {
        self.read(move |conn| attempt(conn, id)).await
    }

    async fn latest_attempt(&self, run_id: RunId) -> Result<Option<RunAttempt>, StoreError> {
        self.read(move |conn| latest_attempt(conn, run_id)).await
    }

    async fn retry_policy(&self, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError> {
        self.read(move |conn| retry_policy(conn, run_id)).await
    }

    async fn events(&self, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError> {
        check_event_page(limit)?;
        self.read(move |conn| events(conn, run_id, after_sequence, limit)).await
    }

    async fn cancellations(&self, before: TimestampMs, limit: u32) -> Result<Vec<Run>, StoreError> {
        check_cancellation_page(limit)?;
        self.read(move |conn| cancellations(conn, before, limit)).await
    }
}

impl RunRepository for SqliteStore {
    fn transaction_erased<'w>(&'w self, work: Work<'w>) -> BoxFuture<'w, Result<(), StoreError>> {
        Box::pin(transaction::run(self, work))
    }
}

pub(crate) fn run(conn: &Connection, id: RunId) -> Result<Option<Run>, StoreError> {
    const SQL: &str = concat!("-- runs.one\nSELECT ", run_columns!(), " FROM runs WHERE id = ?1");
    one(conn, &RUNS, SQL, [id.to_string()], rows::run)
}

pub(crate) fn attempt(conn: &Connection, id: AttemptId) -> Result<Option<RunAttempt>, StoreError> {
    const SQL: &str = concat!("-- run_attempts.one\nSELECT ", attempt_columns!(), " FROM run_attempts WHERE id = ?1");
    one(conn, &ATTEMPTS, SQL, [id.to_string()], rows::attempt)
}

pub(crate) fn latest_attempt(conn: &Connection, run_id: RunId) -> Result<Option<RunAttempt>, StoreError> {
    const SQL: &str = concat!(
        "-- run_attempts.latest\nSELECT ",
        attempt_columns!(),
        " FROM run_attempts WHERE run_id = ?1 ORDER BY attempt DESC LIMIT 1"
    );
    one(conn, &ATTEMPTS, SQL, [run_id.to_string()], rows::attempt)
}

pub(crate) fn attempts(conn: &Connection, run_id: RunId) -> Result<Vec<RunAttempt>, StoreError> {
    const SQL: &str =
        concat!("-- run_attempts.of_run\nSELECT ", attempt_columns!(), " FROM run_attempts WHERE run_id = ?1 ORDER BY attempt");
    all(conn, &ATTEMPTS, SQL, [run_id.to_string()], rows::attempt)
}

pub(crate) fn retry_policy(conn: &Connection, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError> {
    const SQL: &str = concat!("-- run_retry_policies.one\nSELECT ", policy_columns!(), " FROM run_retry_policies WHERE run_id = ?1");
    one(conn, &POLICIES, SQL, [run_id.to_string()], rows::policy)
}

pub(crate) fn events(conn: &Connection, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError> {
    const SQL: &str = concat!(
        "-- run_events.page\nSELECT ",
        event_columns!(),
        " FROM run_events WHERE run_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3"
    );
    all(conn, &EVENTS, SQL, params![run_id.to_string(), int(after_sequence), limit], rows::event)
}

fn cancellations(conn: &Connection, before: TimestampMs, limit: u32) -> Result<Vec<Run>, StoreError> {
    const SQL: &str = concat!(
        "-- runs.cancellations\nSELECT ",
        run_columns!(),
        " FROM runs WHERE cancel_requested_at_ms < ?1 AND cancel_requested_at_ms IS NOT NULL
           AND status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
         ORDER BY cancel_requested_at_ms, id LIMIT ?2"
    );
    all(conn, &RUNS, SQL, params![before.get(), limit], rows::run)
}

/// A Run with what a decision about it needs. Without its attempt or policy it cannot be what the product wrote.
pub(crate) fn state(conn: &Connection, id: RunId) -> Result<Option<RunState>, StoreError> {
    let Some(run) = run(conn, id)? else { return Ok(None) };
    let attempt = latest_attempt(conn, id)?.ok_or_else(|| StoreError::corrupt(ATTEMPTS.name, "*", id))?;
    let policy = retry_policy(conn, id)?.ok_or_else(|| StoreError::corrupt(POLICIES.name, "*", id))?;
    Ok(Some(RunState { run, attempt, policy }))
}
