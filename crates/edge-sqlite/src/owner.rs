//! Threads that own a connection. Work is sent to them as closures over an async queue, so a caller never blocks its runtime; a
//! connection never leaves its thread, so nothing can be handed on inside an open transaction.

use std::{sync::Mutex, thread::JoinHandle};

use runtime_core::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::error::unavailable;

/// Jobs that wait; further callers wait for a place.
const QUEUE_JOBS: usize = 256;

enum Job<S> {
    Work(Box<dyn FnOnce(&mut S) + Send>),
    Close(oneshot::Sender<()>),
}

/// The state of an owner: a connection and what belongs to it.
pub(crate) trait Owned: 'static {
    /// Runs after every job.
    fn between_jobs(&mut self) {}

    /// Runs last.
    fn close(self);
}

/// A thread that owns an `S`.
pub(crate) struct Owner<S> {
    queue: mpsc::Sender<Job<S>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<S: Owned> Owner<S> {
    /// Starts the thread; `open` makes its state there.
    pub async fn spawn(name: &str, open: impl FnOnce() -> Result<S, StoreError> + Send + 'static) -> Result<Self, StoreError> {
        let (queue, mut jobs) = mpsc::channel::<Job<S>>(QUEUE_JOBS);
        let (opened, outcome) = oneshot::channel();
        let run = move || {
            let mut state = match open() {
                Ok(state) => state,
                Err(error) => return drop(opened.send(Err(error))),
            };
            if opened.send(Ok(())).is_err() {
                return state.close();
            }
            let mut closed = None;
            while let Some(job) = jobs.blocking_recv() {
                match job {
                    Job::Work(work) => {
                        work(&mut state);
                        state.between_jobs();
                    }
                    Job::Close(done) => {
                        closed = Some(done);
                        break;
                    }
                }
            }
            // What was queued behind the close is dropped, and its callers learn that the store is closed.
            drop(jobs);
            state.close();
            drop(closed);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| unavailable(&format!("no thread for the database: {error}")))?;
        outcome.await.unwrap_or(Err(StoreError::Closed))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Runs `work` on the thread. Work whose caller has gone before it began is left out.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut S) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.run(move |state| {
            if !reply.is_closed() {
                let _gone = reply.send(work(state));
            }
        })
        .await?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs `work` on the thread, without an answer.
    pub async fn run(&self, work: impl FnOnce(&mut S) + Send + 'static) -> Result<(), StoreError> {
        self.queue.send(Job::Work(Box::new(work))).await.map_err(|_| StoreError::Closed)
    }

    /// Finishes what was queued before, closes the connection and joins the thread. A second call does nothing.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Job::Close(done)).await.is_ok() {
            // Answered by being dropped, when the connection is closed.
            let _dropped = closed.await;
        }
        let thread = self.thread.lock().expect("nothing panics while it holds this lock").take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("a thread of the database had panicked");
        }
    }
}
