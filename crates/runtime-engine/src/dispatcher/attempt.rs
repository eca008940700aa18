//! One attempt, from its lease to its result.

use std::{sync::Arc, time::Duration};

use runtime_core::{
    Retry,
    ids::AttemptId,
    ports::{
        dispatch::{Fenced, Lease},
        executor::{ExecutorError, Job, Prepared, ProcessEnd, Running},
    },
    run::{AttemptOutcome, AttemptStatus, RunStatus, Started},
};

use super::{
    Shared, notice, outcome,
    outcome::Stopped,
    recovery::{self, Finding},
    slots::{End, Slot},
};
use crate::{POLL_MS, event::EngineEvent, lifecycle::Phase};

/// A guard that cannot be started is tried again after so long at the latest.
const PREPARE_AGAIN_MS_MAX: u64 = 5_000;

pub(super) struct Attempt {
    pub shared: Arc<Shared>,
    pub lease: Lease,
    pub slot: Slot,
}

/// How a command ended, for the event.
struct Ran {
    duration_ms: u64,
    output_dropped_bytes: u64,
}

impl Attempt {
    /// Whatever happens, the lease is settled or left to run out when this returns.
    pub async fn run(mut self) {
        let Some(running) = self.start().await else { return };
        let began_ms = self.shared.now_ms();
        let (ended, stopped) = self.supervise(running.as_ref(), began_ms).await;
        let duration_ms = self.shared.now_ms().saturating_sub(began_ms);
        let found = match &ended {
            Ok(end) => outcome::of(end, stopped).map(|outcome| (outcome, end.output_dropped_bytes)),
            Err(_) => None,
        };
        match found {
            Some((outcome, output_dropped_bytes)) => self.finish(outcome, Ran { duration_ms, output_dropped_bytes }).await,
            None => self.leave(&running_ended(&ended, stopped), stopped, duration_ms).await,
        }
    }

    /// Prepares the guard, makes its identity durable, and only then lets the command start.
    async fn start(&mut self) -> Option<Box<dyn Running>> {
        if self.shared.handle.stopping() {
            self.give_back("the worker is stopping").await;
            return None;
        }
        let prepared = self.prepare().await?;
        let (prepared, pid) = self.record_start(prepared).await?;
        let left_ms = self.slot.orders.borrow().deadline_ms.saturating_sub(self.shared.now_ms());
        if left_ms == 0 || self.slot.orders.borrow().end == Some(End::Lost) {
            drop(prepared);
            self.not_started("its lease ran out before it could start");
            return None;
        }
        match prepared.go(left_ms).await {
            Ok(running) => {
                let Lease { run, attempt, .. } = &self.lease;
                self.shared.tell(&EngineEvent::Started {
                    run_id: run.id,
                    attempt_id: attempt.id,
                    attempt: attempt.attempt,
                    task_id: run.task_id.clone(),
                    pid,
                });
                Some(running)
            }
            Err(error) => {
                // Its guard died while the start was being recorded: interrupted, like any attempt whose guard dies.
                self.leave(&error.to_string(), None, 0).await;
                None
            }
        }
    }

    /// A guard that cannot be started is the machine's trouble (no process, no space, no directory), not the command's: it is tried
    /// again until it can, and the attempt is not used up.
    async fn prepare(&mut self) -> Option<Box<dyn Prepared>> {
        let job = job(&self.lease);
        let mut told = false;
        let mut pause_ms = POLL_MS / 8;
        loop {
            let error = match self.shared.ports.executor.prepare(&job).await {
                Ok(prepared) => return Some(prepared),
                Err(error) => error,
            };
            if !told {
                told = true;
                let (run_id, attempt_id) = (self.lease.run.id, self.lease.attempt.id);
                self.shared.tell(&EngineEvent::ExecutorTrouble { run_id, attempt_id, error });
            }
            tokio::select! {
                _ = self.slot.orders.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(pause_ms)) => pause_ms = (pause_ms * 2).min(PREPARE_AGAIN_MS_MAX),
                () = self.shared.handle.reached(Phase::Drain) => {}
            }
            let orders = *self.slot.orders.borrow();
            if orders.end.is_some() || self.shared.handle.stopping() || self.shared.now_ms() >= orders.deadline_ms {
                self.give_back("its guard could not be started").await;
                return None;
            }
        }
    }

    /// `None` means that the command must not start: the guard is gone by then. A start whose answer was lost is repeated, also while
    /// the worker is stopping: given back unstarted, a recorded start would be lost.
    async fn record_start(&self, prepared: Box<dyn Prepared>) -> Option<(Box<dyn Prepared>, u32)> {
        let pid = prepared.pid();
        let started = Started { executor_handle: prepared.handle().to_owned(), pid, deadline_at: None, log_artifact_id: None };
        let mut retries = self.shared.retries("record a start");
        let mut unknown = false;
        let reason = loop {
            let orders = *self.slot.orders.borrow();
            if orders.end == Some(End::Lost) || self.shared.now_ms() >= orders.deadline_ms {
                break "its start could not be recorded in time";
            }
            if self.shared.handle.stopping() && !unknown {
                break "the worker is stopping";
            }
            if !self.shared.clock.may_stamp() {
                tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
                continue;
            }
            let error = match self.shared.ports.dispatch.started(&self.lease.fence, &started, self.lease.task.timeout_ms).await {
                Ok(Fenced::Applied(_)) => {
                    retries.succeeded();
                    return Some((prepared, pid));
                }
                Ok(Fenced::Stale) => {
                    drop(prepared);
                    self.not_started("it was cancelled, or its lease is gone");
                    return None;
                }
                Err(error) => error,
            };
            let delay = retries.failed(&error);
            unknown |= error.retry() == Retry::AfterVerify;
            if error.retry() == Retry::Never {
                break "its start could not be recorded";
            }
            tokio::time::sleep(delay).await;
        };
        // First the guard, then its lease: nobody else may start it while this one still could.
        drop(prepared);
        self.give_back(reason).await;
        None
    }

    /// One try: a lease that could not be given back runs out.
    async fn give_back(&self, reason: &str) {
        if let Err(error) = self.shared.ports.dispatch.release(&self.lease.fence, reason).await {
            tracing::warn!(attempt_id = %self.lease.attempt.id, %error, "a lease was not given back and will run out");
        }
        self.not_started(reason);
    }

    /// Waits for the end, and brings it about when it is time.
    async fn supervise(&mut self, running: &dyn Running, began_ms: u64) -> (Result<ProcessEnd, ExecutorError>, Option<Stopped>) {
        let timeout_ms = self.lease.task.timeout_ms;
        let (kill_grace_ms, lost_grace_ms) = (self.shared.options.kill_grace_ms, self.shared.options.lost_grace_ms());
        let mut stopped = None;
        // The lease may have been extended since the guard was let go.
        let mut extended_to_ms = 0;
        loop {
            let orders = *self.slot.orders.borrow_and_update();
            let now_ms = self.shared.now_ms();
            if orders.deadline_ms > extended_to_ms {
                extended_to_ms = orders.deadline_ms;
                running.extend(orders.deadline_ms.saturating_sub(now_ms));
            }
            let timeout = timeout_ms.filter(|limit_ms| now_ms.saturating_sub(began_ms) >= *limit_ms);
            let lost = orders.end == Some(End::Lost) || now_ms >= orders.deadline_ms;
            let wanted = match (lost, orders.end, timeout) {
                (true, ..) => Some(Stopped::Left),
                (_, Some(End::Cancel), _) => Some(Stopped::Cancelled),
                (_, _, Some(timeout_ms)) => Some(Stopped::TimedOut { timeout_ms }),
                (_, Some(_), _) => Some(Stopped::Left),
                (_, None, None) => None,
            };
            // The first reason stands; only the loss of the lease overrides it.
            if wanted.is_some() && (stopped.is_none() || (lost && stopped != Some(Stopped::Left))) {
                stopped = wanted;
                running.stop(if lost { lost_grace_ms } else { kill_grace_ms });
            }
            let timeout_in_ms = timeout_ms.filter(|_| stopped.is_none()).map(|limit_ms| (began_ms + limit_ms).saturating_sub(now_ms));
            let deadline_in_ms = (!lost).then(|| orders.deadline_ms.saturating_sub(now_ms));
            // The timer does not count suspends, the monotonic clock does: it is asked again every now and then.
            let pause_ms = [timeout_in_ms, deadline_in_ms].into_iter().flatten().fold(POLL_MS, u64::min);
            tokio::select! {
                ended = running.wait() => return (ended, stopped),
                _ = self.slot.orders.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
            }
        }
    }

    /// Gives the result until it is taken. Meanwhile the lease is kept alive; if the program dies, the guard's exit record has it.
    async fn finish(&self, outcome: AttemptOutcome, ran: Ran) {
        let Lease { fence, run, attempt, task, .. } = &self.lease;
        let mut retries = self.shared.retries("record a result");
        let mut unknown = false;
        let status = loop {
            if !self.shared.clock.may_stamp() {
                tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
                continue;
            }
            match self.shared.ports.dispatch.finish(fence, &outcome).await {
                Ok(Fenced::Applied(status)) => break Some(status),
                Ok(Fenced::Stale) if unknown => break self.recorded_result(attempt.id).await,
                Ok(Fenced::Stale) => break None,
                Err(error) => {
                    unknown |= error.retry() == Retry::AfterVerify;
                    let delay = retries.failed(&error);
                    if error.retry() == Retry::Never {
                        tracing::error!(attempt_id = %attempt.id, %error, ?outcome, "a result cannot be recorded");
                        return;
                    }
                    tokio::time::sleep(delay).await;
                }
            }
        };
        retries.succeeded();
        let Some(status) = status else {
            self.shared.tell(&EngineEvent::LateResult { run_id: run.id, attempt_id: attempt.id });
            return;
        };
        self.shared.tell(&EngineEvent::Finished {
            run_id: run.id,
            attempt_id: attempt.id,
            attempt: attempt.attempt,
            task_id: run.task_id.clone(),
            outcome,
            status,
            duration_ms: ran.duration_ms,
            output_dropped_bytes: ran.output_dropped_bytes,
        });
        notice::run(&self.shared, run, task, status).await;
    }

    /// Whether the finish whose answer was lost is the one that made its repeat stale.
    async fn recorded_result(&self, attempt_id: AttemptId) -> Option<RunStatus> {
        let attempt = self.shared.ports.runs.attempt(attempt_id).await.ok()??;
        let finished = attempt.status.is_final() && attempt.status != AttemptStatus::Lost;
        let run = self.shared.ports.runs.run(self.lease.run.id).await.ok()??;
        finished.then_some(run.status)
    }

    /// The end was no result. The lease is left to recovery or expiry, but only once nothing can still be running under it.
    async fn leave(&self, reason: &str, stopped: Option<Stopped>, duration_ms: u64) {
        let Lease { run, attempt, .. } = &self.lease;
        // What the engine stopped itself has ended. A guard that died or gave up may have left something behind.
        while stopped != Some(Stopped::Left) && !self.shared.handle.stopping() {
            let recorded = self.shared.ports.runs.attempt(attempt.id).await;
            let handle = recorded.ok().flatten().and_then(|attempt| attempt.executor_handle);
            let recovered = self.shared.ports.executor.recover(run.id, attempt.id, attempt.attempt, handle.as_deref()).await;
            match recovery::finding(recovered, run) {
                Finding::Unproven(obstacle) => self.shared.unproven(run.id, attempt.id, obstacle),
                Finding::Ended(outcome) => return self.finish(outcome, Ran { duration_ms, output_dropped_bytes: 0 }).await,
                Finding::Gone(_) => break,
            }
            if self.slot.orders.borrow().end == Some(End::Lost) {
                break;
            }
            tokio::time::sleep(recovery::AGAIN).await;
        }
        self.shared.left(run.id, attempt.id, reason);
    }

    fn not_started(&self, reason: &str) {
        let (run_id, attempt_id) = (self.lease.run.id, self.lease.attempt.id);
        self.shared.tell(&EngineEvent::NotStarted { run_id, attempt_id, reason: reason.to_owned() });
    }
}

fn running_ended(ended: &Result<ProcessEnd, ExecutorError>, stopped: Option<Stopped>) -> String {
    match (ended, stopped) {
        (Ok(_), Some(Stopped::Left)) => "the program is stopping, or the lease is lost".to_owned(),
        (Ok(end), _) => end.detail.clone().unwrap_or_else(|| "its guard gave it up".to_owned()),
        (Err(error), _) => error.to_string(),
    }
}

fn job(lease: &Lease) -> Job {
    let Lease { run, attempt, task, .. } = lease;
    Job {
        run_id: run.id,
        attempt_id: attempt.id,
        attempt: attempt.attempt,
        task_id: run.task_id.clone(),
        trigger_id: run.trigger_id.clone(),
        scheduled_for: run.scheduled_for,
        command: task.command.clone(),
        env: task.env.clone(),
        env_file: task.env_file.clone(),
        cwd: task.cwd.clone(),
        stdin: task.stdin.clone(),
    }
}
