//! Runs, attempts, policies and events.
//!
//! [`RunRepositoryExt::transaction`] runs a caller's work on one connection: the work runs exactly once, its own error comes back
//! unchanged, and the connection is always released. If its future is dropped before COMMIT was sent, everything is rolled back; if it is
//! dropped after, the dropper does not know; in no case is a connection handed back inside an open transaction.

use std::{future::Future, marker::PhantomData, ops};

use async_trait::async_trait;

use super::BoxFuture;
use crate::{
    Invalid, StoreError, TimestampMs,
    ids::{AttemptId, RunId},
    limits::{CANCELLATION_PAGE_MAX, EVENT_PAGE_MAX},
    run::{AttemptChange, PolicyChange, RetryPolicy, Run, RunAttempt, RunChange, RunEvent, Transition},
};

/// Readers of committed facts.
#[async_trait]
pub trait RunReader: Send + Sync {
    /// A Run by id.
    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError>;

    /// An attempt by id.
    async fn attempt(&self, id: AttemptId) -> Result<Option<RunAttempt>, StoreError>;

    /// The attempt of a Run with the highest number.
    async fn latest_attempt(&self, run_id: RunId) -> Result<Option<RunAttempt>, StoreError>;

    /// The retry policy of a Run.
    async fn retry_policy(&self, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError>;

    /// Events with a sequence above `after_sequence`, lowest first; `limit` is 1 ..= 500.
    async fn events(&self, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError>;

    /// Unfinished Runs with a cancellation requested before `before`, oldest request first; `limit` is 1 ..= 500.
    async fn cancellations(&self, before: TimestampMs, limit: u32) -> Result<Vec<Run>, StoreError>;
}

/// The repository: readers, and transactions.
pub trait RunRepository: RunReader {
    /// See [`RunRepositoryExt::transaction`], which everybody calls.
    fn transaction_erased<'w>(&'w self, work: Work<'w>) -> BoxFuture<'w, Result<(), StoreError>>;
}

/// What work may do inside a transaction. Reads see its own writes.
#[async_trait]
pub trait RunTx: Send {
    /// The authority's clock, read now: lock first (a compare-and-set or an insert), then ask.
    async fn now(&mut self) -> Result<TimestampMs, StoreError>;

    /// A duplicate idempotency key of the project is [`StoreError::DuplicateIdempotencyKey`].
    async fn insert_run(&mut self, run: &Run) -> Result<(), StoreError>;

    /// A second attempt of the same number is [`StoreError::DuplicateAttemptNumber`].
    async fn insert_attempt(&mut self, attempt: &RunAttempt) -> Result<(), StoreError>;

    /// One a Run.
    async fn insert_retry_policy(&mut self, policy: &RetryPolicy) -> Result<(), StoreError>;

    /// Duplicates are [`StoreError::DuplicateEventSequence`] and [`StoreError::DuplicateEventDedupeKey`].
    async fn append_event(&mut self, event: &RunEvent) -> Result<(), StoreError>;

    /// True: won. False: another version is stored, or none. A new version that is not exactly one higher is refused as invalid.
    async fn compare_and_set_run(&mut self, change: &RunChange) -> Result<bool, StoreError>;

    /// True: won. False: another status or callback sequence is stored.
    async fn compare_and_set_attempt(&mut self, change: &AttemptChange) -> Result<bool, StoreError>;

    /// True: won. False: another version is stored.
    async fn compare_and_set_retry_policy(&mut self, change: &PolicyChange) -> Result<bool, StoreError>;

    /// The whole write-set. False: one of its compare-and-sets lost, and nothing of it was written; the transaction can go on.
    async fn transition(&mut self, transition: &Transition) -> Result<bool, StoreError>;

    /// See [`RunReader::run`].
    async fn run(&mut self, id: RunId) -> Result<Option<Run>, StoreError>;

    /// See [`RunReader::attempt`].
    async fn attempt(&mut self, id: AttemptId) -> Result<Option<RunAttempt>, StoreError>;

    /// See [`RunReader::latest_attempt`].
    async fn latest_attempt(&mut self, run_id: RunId) -> Result<Option<RunAttempt>, StoreError>;

    /// See [`RunReader::retry_policy`].
    async fn retry_policy(&mut self, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError>;

    /// See [`RunReader::events`].
    async fn events(&mut self, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError>;
}

/// Rolls the transaction back; the work's own error travels outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollBack;

/// The transaction as work sees it. The second lifetime lets work borrow from its caller.
pub struct Tx<'t, 'w> {
    inner: &'t mut (dyn RunTx + 't),
    caller: PhantomData<&'t &'w ()>,
}

impl<'t> Tx<'t, '_> {
    /// For adapters.
    pub fn new(inner: &'t mut (dyn RunTx + 't)) -> Self {
        Self { inner, caller: PhantomData }
    }
}

impl<'t> ops::Deref for Tx<'t, '_> {
    type Target = dyn RunTx + 't;

    fn deref(&self) -> &Self::Target {
        self.inner
    }
}

impl ops::DerefMut for Tx<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.inner
    }
}

/// Work, with its answer taken out of band so that the port stays dyn-compatible.
pub type Work<'w> = Box<dyn for<'t> FnOnce(Tx<'t, 'w>) -> BoxFuture<'t, Result<(), RollBack>> + Send + 'w>;

/// Why a transaction did not commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TxError<E> {
    /// The work's own error, unchanged; everything was rolled back.
    #[error(transparent)]
    Work(E),
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The transaction, with an answer.
pub trait RunRepositoryExt: RunRepository {
    /// Runs `work` exactly once in a transaction of its own. `Ok` commits, `Err` rolls back.
    fn transaction<'w, T, E, F>(&'w self, work: F) -> impl Future<Output = Result<T, TxError<E>>> + Send + 'w
    where
        T: Send + 'w,
        E: Send + 'w,
        F: for<'t> FnOnce(Tx<'t, 'w>) -> BoxFuture<'t, Result<T, E>> + Send + 'w,
    {
        async move {
            let answer = std::sync::Arc::new(std::sync::Mutex::new(None));
            let slot = answer.clone();
            let erased: Work<'w> = Box::new(move |tx| {
                let running = work(tx);
                Box::pin(async move {
                    let result = running.await;
                    let verdict = result.as_ref().map(|_| ()).map_err(|_| RollBack);
                    *slot.lock().expect("nothing panics while it holds this lock") = Some(result);
                    verdict
                })
            });
            let committed = self.transaction_erased(erased).await;
            let result = answer.lock().expect("nothing panics while it holds this lock").take();
            match (result, committed) {
                // The work's own error wins over whatever its rollback said.
                (Some(Err(own)), _) => Err(TxError::Work(own)),
                (_, Err(error)) => Err(TxError::Store(error)),
                (Some(Ok(value)), Ok(())) => Ok(value),
                (None, Ok(())) => Err(TxError::Store(StoreError::Closed)),
            }
        }
    }
}

impl<R: RunRepository + ?Sized> RunRepositoryExt for R {}

/// Refuses a page of events that is empty or too large.
pub fn check_event_page(limit: u32) -> Result<(), Invalid> {
    check_page(limit, EVENT_PAGE_MAX)
}

/// Refuses a page of cancellations that is empty or too large.
pub fn check_cancellation_page(limit: u32) -> Result<(), Invalid> {
    check_page(limit, CANCELLATION_PAGE_MAX)
}

pub(super) fn check_page(limit: u32, max: u32) -> Result<(), Invalid> {
    if (1..=max).contains(&limit) { Ok(()) } else { Err(Invalid::new("limit", format!("is {limit}, 1 ..= {max} is allowed"))) }
}

/// Refuses a change whose version is not exactly one higher, before any SQL.
pub fn check_run_change(change: &RunChange) -> Result<(), Invalid> {
    raised_by_one("version", change.expected_version, change.run.version)
}

/// Refuses a change whose callback sequence is not exactly one higher, before any SQL.
pub fn check_attempt_change(change: &AttemptChange) -> Result<(), Invalid> {
    raised_by_one("callback_sequence", change.expected_callback_sequence, change.attempt.callback_sequence)
}

/// Refuses a change whose version is not exactly one higher, before any SQL.
pub fn check_policy_change(change: &PolicyChange) -> Result<(), Invalid> {
    raised_by_one("version", change.expected_version, change.policy.version)
}

fn raised_by_one(field: &str, expected: u64, new: u64) -> Result<(), Invalid> {
    if expected.checked_add(1) == Some(new) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("is {new}; a compare-and-set from {expected} raises it by exactly one")))
}
