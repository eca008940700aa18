//! Asking an engine to stop, and how far it has got.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use runtime_core::StoreError;
use tokio::sync::{Notify, watch};

/// Only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Work is admitted and dispatched.
    Run,
    /// Nothing new begins; what runs may finish.
    Drain,
    /// What runs is stopped.
    Stop,
}

/// Controls an engine from outside. All of it is idempotent, and cheap to clone.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    phase: watch::Sender<Phase>,
    scheduler: Arc<Notify>,
    dispatcher: Arc<Notify>,
    first_error: Arc<Mutex<Option<StoreError>>>,
}

impl Default for EngineHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl EngineHandle {
    /// Of an engine that runs.
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Run), scheduler: Arc::default(), dispatcher: Arc::default(), first_error: Arc::default() }
    }

    /// Stops admitting and dispatching; running attempts may finish up to the drain limit, the rest are stopped then.
    pub fn stop(&self) {
        self.raise(Phase::Drain);
    }

    /// Like [`Self::stop`] with a drain limit of zero. May follow it.
    pub fn stop_now(&self) {
        self.raise(Phase::Stop);
    }

    /// Cuts the loops' sleep short: the store was changed by somebody else. Nothing depends on it.
    pub fn wake(&self) {
        self.scheduler.notify_one();
        self.dispatcher.notify_one();
    }

    pub(crate) fn wake_dispatcher(&self) {
        self.dispatcher.notify_one();
    }

    pub(crate) async fn scheduler_woken(&self) {
        self.scheduler.notified().await;
    }

    pub(crate) async fn dispatcher_woken(&self) {
        self.dispatcher.notified().await;
    }

    /// A loop cannot go on: the engine stops, and the first such error is its answer.
    pub(crate) fn fail(&self, error: StoreError) {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop();
    }

    pub(crate) fn first_error(&self) -> Option<StoreError> {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn stopping(&self) -> bool {
        *self.phase.borrow() >= Phase::Drain
    }

    /// Waits until `phase` is reached.
    pub(crate) async fn reached(&self, phase: Phase) {
        // `self` holds a sender, so the channel cannot close while this waits.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Waits, but not once the engine is asked to stop.
    pub(crate) async fn pause(&self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.reached(Phase::Drain) => {}
        }
    }

    fn raise(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let raised = *phase < to;
            *phase = to.max(*phase);
            raised
        });
    }
}
