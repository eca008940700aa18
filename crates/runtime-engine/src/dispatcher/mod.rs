//! Executing Runs: lease, start, keep alive, give back the result.

mod attempt;
mod notice;
mod outcome;
mod recovery;
mod slots;
mod upkeep;

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runtime_core::{
    StoreError, TimestampMs,
    ids::{AttemptId, RequestId, RunId, SessionId},
    limits::{CANCELLATION_PAGE_MAX, CLAIM_PAGE_MAX},
    ports::dispatch::{DispatchClaim, Session},
};
use tokio::task::JoinSet;

use self::{
    attempt::Attempt,
    slots::{End, Slots},
};
use crate::{ClockGuard, EngineHandle, EngineOptions, POLL_MS, Ports, event::EngineEvent, lifecycle::Phase, retries::Retries};

/// After the grace of the last stop: guards write their records, results are given back.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// What the loops and the tasks of attempts have in common.
struct Shared {
    ports: Ports,
    options: EngineOptions,
    clock: Arc<ClockGuard>,
    handle: EngineHandle,
    session: Session,
    slots: Arc<Slots>,
    /// Leases of earlier sessions that could not be settled.
    unproven: AtomicU64,
    /// Attempts of earlier sessions that the operator was told about as not provable.
    told: Mutex<HashSet<AttemptId>>,
    /// Leases of this session that were left open.
    left: AtomicU64,
}

/// One worker.
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    /// A claim whose answer is not known: repeated as it is, it is answered with the leases that it got.
    asked: Option<Asked>,
}

#[derive(Clone, Copy)]
struct Asked {
    request_id: RequestId,
    /// Monotonic time before it was first sent.
    sent_ms: u64,
}

impl Dispatcher {
    /// Opens a session and settles what earlier ones left behind. `None` if the engine was asked to stop before that.
    pub async fn open(
        ports: &Ports,
        clock: &Arc<ClockGuard>,
        handle: &EngineHandle,
        options: &EngineOptions,
    ) -> Result<Option<Self>, StoreError> {
        let session_id = SessionId::generate(ports.ids.as_ref(), TimestampMs::EPOCH);
        let open = || ports.dispatch.open_session(&options.worker_id, session_id, options.max_concurrent);
        let Some(session) = Retries::new("open a session", &ports.ids, &ports.observer).until_done(handle, open).await? else {
            return Ok(None);
        };
        let shared = Arc::new(Shared {
            ports: ports.clone(),
            options: options.clone(),
            clock: Arc::clone(clock),
            handle: handle.clone(),
            session,
            slots: Arc::default(),
            unproven: AtomicU64::new(0),
            told: Mutex::default(),
            left: AtomicU64::new(0),
        });
        let pass = recovery::pass(&shared).await?;
        shared.unproven.store(pass.unproven, Ordering::Relaxed);
        shared.tell(&EngineEvent::Ready { settled: pass.settled, unproven: pass.unproven });
        let mut dispatcher = Self { shared, tasks: JoinSet::new(), asked: None };
        for (run_id, status) in pass.ended {
            dispatcher.tell_failure(run_id, status);
        }
        Ok(Some(dispatcher))
    }

    /// Works until the engine is asked to stop; then lets running attempts finish up to the limit and stops the rest.
    pub async fn run(mut self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            served = self.serve_and_drain() => served,
            () = upkeep::renew(&shared) => Ok(()),
            () = upkeep::look_again(&shared) => Ok(()),
        }
    }

    async fn serve_and_drain(&mut self) -> Result<(), StoreError> {
        let served = self.serve().await;
        // A store that is closed ends everything, not only the claims.
        self.shared.handle.stop();
        self.drain().await;
        served
    }

    async fn serve(&mut self) -> Result<(), StoreError> {
        let mut retries = self.shared.retries("dispatch");
        while !self.shared.handle.stopping() {
            let pause = match self.turn().await {
                Ok(pause_ms) => {
                    retries.succeeded();
                    Duration::from_millis(pause_ms)
                }
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(error) => retries.failed(&error),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shared.handle.dispatcher_woken() => {}
                Some(ended) = self.tasks.join_next() => note(ended),
                () = self.shared.handle.reached(Phase::Drain) => {}
            }
            while let Some(ended) = self.tasks.try_join_next() {
                note(ended);
            }
        }
        Ok(())
    }

    /// Leases what there are slots for, expires what is due, passes on cancellations. Answers how long there is nothing to do.
    async fn turn(&mut self) -> Result<u64, StoreError> {
        let mut pause_ms = POLL_MS;
        if self.shared.clock.state().trusted() {
            pause_ms = pause_ms.min(self.claim().await?.unwrap_or(POLL_MS));
        }
        if self.shared.unproven.load(Ordering::Relaxed) == 0 && self.shared.clock.may_expire() {
            let expired = self.shared.ports.dispatch.expire(CLAIM_PAGE_MAX).await?;
            for (attempt_id, run_id, status) in expired.lost {
                self.shared.tell(&EngineEvent::Settled { run_id, attempt_id, finding: "its lease ran out".to_owned(), status });
                self.tell_failure(run_id, status);
            }
            if expired.saturated {
                pause_ms = 0;
            }
        }
        if !self.shared.slots.is_empty() {
            for run in self.shared.ports.runs.cancellations(TimestampMs::MAX, CANCELLATION_PAGE_MAX).await? {
                self.shared.slots.cancel_run(run.id);
            }
        }
        Ok(pause_ms)
    }

    /// Fills the free slots. Answers how long until the next retry is due.
    async fn claim(&mut self) -> Result<Option<u64>, StoreError> {
        let shared = &self.shared;
        let running = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        let slots = shared.options.max_concurrent.saturating_sub(running);
        if slots == 0 {
            return Ok(None);
        }
        let now_ms = shared.now_ms();
        // After a whole lease without an answer, whatever an earlier request got has run out.
        let asked = self.asked.filter(|asked| now_ms.saturating_sub(asked.sent_ms) < shared.options.lease_ms);
        let asked =
            *self.asked.insert(asked.unwrap_or_else(|| Asked {
                request_id: RequestId::generate(shared.ports.ids.as_ref(), TimestampMs::EPOCH),
                sent_ms: now_ms,
            }));
        let claim =
            DispatchClaim { session: shared.session.clone(), slots, lease_ms: shared.options.lease_ms, request_id: asked.request_id };
        let page = shared.ports.dispatch.claim(&claim).await?;
        self.asked = None;
        let deadline_ms = asked.sent_ms.saturating_add(shared.options.usable_ms());
        for lease in page.leases {
            let slot = shared.slots.hold(&lease.fence, deadline_ms);
            self.tasks.spawn(Attempt { shared: Arc::clone(shared), lease, slot }.run());
        }
        Ok(page.next_retry_ms)
    }

    async fn drain(&mut self) {
        let running = |tasks: &JoinSet<()>| u64::try_from(tasks.len()).unwrap_or(u64::MAX);
        let shared = Arc::clone(&self.shared);
        shared.tell(&EngineEvent::Draining { running: running(&self.tasks) });
        tokio::select! {
            () = all(&mut self.tasks) => {}
            () = tokio::time::sleep(Duration::from_millis(shared.options.drain_ms)) => {}
            () = shared.handle.reached(Phase::Stop) => {}
        }
        if !self.tasks.is_empty() {
            shared.tell(&EngineEvent::Stopping { running: running(&self.tasks) });
            shared.slots.end_all(End::Shutdown);
            let limit = Duration::from_millis(shared.options.kill_grace_ms) + SETTLE_LIMIT;
            let _ = tokio::time::timeout(limit, all(&mut self.tasks)).await;
            // What is left loses its guard's pipe, which ends it as the death of this process would.
            shared.left.fetch_add(running(&self.tasks), Ordering::Relaxed);
            self.tasks.shutdown().await;
        }
        // With leases left open the session stays as SIGKILL leaves it: the next start of this worker settles them.
        if shared.left.load(Ordering::Relaxed) == 0
            && let Err(error) = shared.ports.dispatch.close_session(&shared.session).await
        {
            tracing::debug!(%error, "the session stays open");
        }
    }

    fn tell_failure(&mut self, run_id: RunId, status: runtime_core::run::RunStatus) {
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move { notice::look_up_and_run(&shared, run_id, status).await });
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.ports.monotonic.now_ms()
    }

    fn tell(&self, event: &EngineEvent) {
        (self.ports.observer)(event);
    }

    fn retries(&self, doing: &'static str) -> Retries {
        Retries::new(doing, &self.ports.ids, &self.ports.observer)
    }

    /// Told once, however often it is looked at again.
    fn unproven(&self, run_id: RunId, attempt_id: AttemptId, reason: String) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(attempt_id) {
            self.tell(&EngineEvent::Unproven { run_id, attempt_id, reason });
        }
    }

    fn left(&self, run_id: RunId, attempt_id: AttemptId, reason: &str) {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.tell(&EngineEvent::Left { run_id, attempt_id, reason: reason.to_owned() });
    }
}

async fn all(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        note(ended);
    }
}

/// A task that panicked has dropped its slot and its guard's pipe: the command is ended and the lease runs out.
fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of an attempt failed");
    }
}
