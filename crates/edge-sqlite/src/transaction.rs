//! The composable transaction: a caller's steps, run one by one inside a transaction of the writing thread.
//!
//! While it lasts, the thread serves nobody else. The steps come over a channel of their own; when its sender is dropped, which a
//! dropped future does, everything is rolled back.

use std::{
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    ids::{AttemptId, RunId},
    ports::runs::{RunTx, Tx, Work, check_attempt_change, check_event_page, check_policy_change, check_run_change},
    run::{AttemptChange, PolicyChange, RetryPolicy, Run, RunAttempt, RunChange, RunEvent, Transition},
};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{
    control,
    open::{Authority, Writer},
    runs,
    store::SqliteStore,
    tx::Transaction,
    write,
};

enum Step {
    Do(Box<dyn FnOnce(&Inside<'_>) + Send>),
    Commit(oneshot::Sender<Result<(), StoreError>>),
}

/// A transaction as its steps see it, on the writing thread.
struct Inside<'c> {
    conn: &'c Connection,
    authority: &'c Authority,
}

/// Runs `work` in a transaction.
pub(crate) async fn run(store: &SqliteStore, work: Work<'_>) -> Result<(), StoreError> {
    let (steps, inbox) = mpsc::channel();
    let (began, beginning) = oneshot::channel();
    let ended = Arc::new(OnceLock::new());
    let why = ended.clone();
    store.writer().run(move |writer| serve(writer, began, &inbox, &why)).await?;
    beginning.await.unwrap_or(Err(StoreError::Closed))?;
    let mut steps = Steps { steps, ended };
    // Dropping the sender rolls back, here as anywhere.
    if work(Tx::new(&mut steps)).await.is_err() {
        return Ok(());
    }
    let (reply, committed) = oneshot::channel();
    if steps.steps.send(Step::Commit(reply)).is_err() {
        return Err(steps.why());
    }
    // The thread is gone or panicked with the COMMIT in its hands.
    committed.await.unwrap_or(Err(StoreError::CommitUnknown))
}

/// The other end, on the writing thread.
fn serve(writer: &Writer, began: oneshot::Sender<Result<(), StoreError>>, inbox: &mpsc::Receiver<Step>, ended: &OnceLock<StoreError>) {
    if began.is_closed() {
        return;
    }
    let tx = match writer.check_file().and_then(|()| Transaction::immediate(&writer.conn)) {
        Ok(tx) => tx,
        Err(error) => return drop(began.send(Err(error))),
    };
    if began.send(Ok(())).is_err() {
        return;
    }
    let changes = writer.conn.total_changes();
    let inside = Inside { conn: &writer.conn, authority: &writer.authority };
    loop {
        match inbox.recv_timeout(Duration::from_millis(writer.options.transaction_idle_ms)) {
            Ok(Step::Do(step)) => step(&inside),
            Ok(Step::Commit(reply)) => {
                let wrote = writer.conn.total_changes() > changes;
                let marked = if wrote { control::raise_mark(&writer.conn, writer.authority.clock.now()) } else { Ok(()) };
                let _gone = reply.send(marked.and_then(|()| tx.commit()));
                return;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let idle_ms = writer.options.transaction_idle_ms;
                let cause = format!("a transaction paused for more than {idle_ms} ms and was rolled back");
                let _set = ended.set(StoreError::Busy { cause });
                return;
            }
        }
    }
}

/// The transaction as the caller sees it.
struct Steps {
    steps: mpsc::Sender<Step>,
    /// Why the thread left, if it left by itself.
    ended: Arc<OnceLock<StoreError>>,
}

impl Steps {
    fn why(&self) -> StoreError {
        self.ended.get().cloned().unwrap_or(StoreError::Closed)
    }

    async fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Inside<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let step = Step::Do(Box::new(move |inside| drop(reply.send(step(inside)))));
        self.steps.send(step).map_err(|_| self.why())?;
        answer.await.unwrap_or_else(|_| Err(self.why()))
    }
}

#[async_trait]
impl RunTx for Steps {
    async fn now(&mut self) -> Result<TimestampMs, StoreError> {
        self.step(|inside| Ok(inside.authority.clock.now())).await
    }

    async fn insert_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let run = run.clone();
        self.step(move |inside| write::insert_run(inside.conn, &run)).await
    }

    async fn insert_attempt(&mut self, attempt: &RunAttempt) -> Result<(), StoreError> {
        let attempt = attempt.clone();
        self.step(move |inside| write::insert_attempt(inside.conn, &attempt)).await
    }

    async fn insert_retry_policy(&mut self, policy: &RetryPolicy) -> Result<(), StoreError> {
        let policy = policy.clone();
        self.step(move |inside| write::insert_policy(inside.conn, &policy)).await
    }

    async fn append_event(&mut self, event: &RunEvent) -> Result<(), StoreError> {
        let event = event.clone();
        self.step(move |inside| write::append_event(inside.conn, &event)).await
    }

    async fn compare_and_set_run(&mut self, change: &RunChange) -> Result<bool, StoreError> {
        check_run_change(change)?;
        let change = change.clone();
        self.step(move |inside| write::compare_and_set_run(inside.conn, &change)).await
    }

    async fn compare_and_set_attempt(&mut self, change: &AttemptChange) -> Result<bool, StoreError> {
        check_attempt_change(change)?;
        let change = change.clone();
        self.step(move |inside| write::compare_and_set_attempt(inside.conn, &change)).await
    }

    async fn compare_and_set_retry_policy(&mut self, change: &PolicyChange) -> Result<bool, StoreError> {
        check_policy_change(change)?;
        let change = change.clone();
        self.step(move |inside| write::compare_and_set_policy(inside.conn, &change)).await
    }

    async fn transition(&mut self, transition: &Transition) -> Result<bool, StoreError> {
        let transition = transition.clone();
        self.step(move |inside| write::transition(inside.conn, &transition)).await
    }

    async fn run(&mut self, id: RunId) -> Result<Option<Run>, StoreError> {
        self.step(move |inside| runs::run(inside.conn, id)).await
    }

    async fn attempt(&mut self, id: AttemptId) -> Result<Option<RunAttempt>, StoreError> {
        self.step(move |inside| runs::attempt(inside.conn, id)).await
    }

    async fn latest_attempt(&mut self, run_id: RunId) -> Result<Option<RunAttempt>, StoreError> {
        self.step(move |inside| runs::latest_attempt(inside.conn, run_id)).await
    }

    async fn retry_policy(&mut self, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError> {
        self.step(move |inside| runs::retry_policy(inside.conn, run_id)).await
    }

    async fn events(&mut self, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError> {
        check_event_page(limit)?;
        self.step(move |inside| runs::events(inside.conn, run_id, after_sequence, limit)).await
    }
}
