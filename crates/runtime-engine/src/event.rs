//! What the engine tells whoever runs it, as it happens.

use std::sync::Arc;

use runtime_core::{
    StoreError, TimestampMs,
    clock::ClockState,
    ids::{AttemptId, ProjectId, RunId, TaskId, TriggerId},
    ports::{executor::ExecutorError, schedules::MovedCursor},
    run::{AttemptOutcome, RunStatus},
    schedule::Stretch,
};

/// Takes events. It is called from the loops, so it must not block for long.
pub type Observer = Arc<dyn Fn(&EngineEvent) + Send + Sync>;

/// Something happened. Whatever is a fact was durable before its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// New zone data moved a cursor.
    CursorMoved(MovedCursor),
    /// Recovery is done: work is admitted and dispatched from here on.
    Ready {
        /// Attempts of earlier sessions that were settled.
        settled: u64,
        /// Attempts of earlier sessions that could not be.
        unproven: u64,
    },
    /// A trigger's occurrence became a Run.
    Admitted {
        /// The Run.
        run_id: RunId,
        /// Namespace.
        project_id: ProjectId,
        /// What is executed.
        task_id: TaskId,
        /// Whose occurrence.
        trigger_id: TriggerId,
        /// The occurrence.
        scheduled_for: TimestampMs,
        /// How much later it was noticed, by the authority's clock.
        lateness_ms: u64,
    },
    /// Occurrences are recorded in the ledger instead of run.
    Recorded {
        /// Namespace.
        project_id: ProjectId,
        /// Whose.
        trigger_id: TriggerId,
        /// Which, how many, and why.
        stretch: Stretch,
    },
    /// A trigger is left alone until it is edited.
    SetAside {
        /// Namespace.
        project_id: ProjectId,
        /// Which.
        trigger_id: TriggerId,
        /// Why.
        reason: String,
    },
    /// A command starts.
    Started {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// Its number.
        attempt: u32,
        /// What is executed.
        task_id: TaskId,
        /// Process id of the guard.
        pid: u32,
    },
    /// An attempt ended, and its result is durable.
    Finished {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// Its number.
        attempt: u32,
        /// What was executed.
        task_id: TaskId,
        /// How the attempt ended.
        outcome: AttemptOutcome,
        /// What became of the Run: final, or `retry_wait`.
        status: RunStatus,
        /// How long the command ran, by monotonic time that counts suspends.
        duration_ms: u64,
        /// Output that was dropped to stay within the cap.
        output_dropped_bytes: u64,
    },
    /// A leased attempt was not started: it was cancelled meanwhile, its lease is gone, or the program is stopping.
    NotStarted {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// Why.
        reason: String,
    },
    /// The guard of an attempt could not be started: the machine lacks something, and it is tried again until it does not. Told once an attempt.
    ExecutorTrouble {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// What was tried, and what the system answered.
        error: ExecutorError,
    },
    /// A result came after the attempt was final: it is recorded, nothing else changed.
    LateResult {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
    },
    /// A command was ended without a result: its lease stays open until recovery or expiry settles it.
    Left {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// Why.
        reason: String,
    },
    /// An attempt of an earlier session, or with an expired lease, was settled.
    Settled {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// What was found out.
        finding: String,
        /// What became of the Run.
        status: RunStatus,
    },
    /// Nobody can prove that nothing of an attempt runs any more: it is looked at again later, and never repeated before.
    Unproven {
        /// The Run.
        run_id: RunId,
        /// The attempt.
        attempt_id: AttemptId,
        /// What stands in the way.
        reason: String,
    },
    /// A task's `on_failure` command ended.
    FailureCommand {
        /// The Run that failed.
        run_id: RunId,
        /// How the command ended; `Ok` is exit status 0.
        ended: Result<(), String>,
    },
    /// What is thought of the authority's clock has changed.
    Clock(ClockState),
    /// A store command failed and is repeated. Told once for each streak of one error code.
    StoreTrouble {
        /// What was being done.
        doing: &'static str,
        /// What the store answered.
        error: StoreError,
    },
    /// The streak is over.
    StoreRecovered {
        /// What was being done.
        doing: &'static str,
    },
    /// Admission is closed; running attempts may finish.
    Draining {
        /// How many run.
        running: u64,
    },
    /// The limit is reached: the rest is being stopped.
    Stopping {
        /// How many run.
        running: u64,
    },
}
