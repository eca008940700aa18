//! What operators do to Runs: start, cancel, retry. Each act is recorded with who and when, together with what it did.

use async_trait::async_trait;

use super::definitions::Operator;
use crate::{
    StoreError, TimestampMs,
    ids::{ProjectId, RunId, TaskId},
    run::{CancelReason, RunStatus, TriggerType},
};

/// Starts a task now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCommand {
    /// Namespace.
    pub project_id: ProjectId,
    /// What.
    pub task_id: TaskId,
    /// `manual` or `api`.
    pub trigger_type: TriggerType,
    /// A second start with the same key answers with the first Run. May not begin with `ql3:`.
    pub idempotency_key: Option<String>,
    /// Who.
    pub by: Operator,
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartOutcome {
    /// The Run.
    pub run_id: RunId,
    /// False: the idempotency key was taken by this Run before.
    pub created: bool,
}

/// What became of a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// Nobody held it: it is cancelled.
    Cancelled,
    /// Its worker will end it; the request is durable.
    Requested,
    /// It was requested before; nothing was written.
    AlreadyRequested,
    /// It had ended before; nothing was written.
    AlreadyFinal(RunStatus),
}

/// One operator's act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorAct {
    /// Authority time.
    pub at: TimestampMs,
    /// Who.
    pub by: Operator,
    /// `apply`, `archive`, `pause`, `resume`, `start`, `cancel`, `retry`, `prune`, `clock_accept`.
    pub act: String,
    /// Whose.
    pub project_id: Option<ProjectId>,
    /// What it was done to: a trigger, a task, a Run.
    pub object: String,
    /// What changed, for people.
    pub detail: String,
}

/// Acts of operators.
#[async_trait]
pub trait ControlStore: Send + Sync {
    /// Admits a Run of a task. A task that is unknown or archived is `NotFound`, one that is disabled `Invalid`, a key that another task of the project has
    /// `DuplicateIdempotencyKey`. A known key answers with its Run whatever became of the task. Durable together: Run, attempt, policy, events, act.
    async fn start(&self, command: &StartCommand) -> Result<StartOutcome, StoreError>;

    /// Asks a Run to end. Durable together: Run, attempt, event, act. The process is signalled after.
    async fn cancel(&self, run_id: RunId, reason: CancelReason, by: &Operator) -> Result<CancelOutcome, StoreError>;

    /// Admits a new Run of the task revision that a finished Run pinned, with `retry_of_run_id`. A Run that has not ended is `Illegal`.
    async fn retry(&self, run_id: RunId, by: &Operator) -> Result<RunId, StoreError>;

    /// Sets the clock's high-water mark to now, and pulls back the stamp of schedule rows that are stamped later, ending their claims; see
    /// [`crate::clock`]. Cursor, activation and latest admission never go back. Answers the mark before.
    async fn accept_clock(&self, by: &Operator) -> Result<Option<TimestampMs>, StoreError>;

    /// The highest authority time that the store has seen committed.
    async fn clock_mark(&self) -> Result<Option<TimestampMs>, StoreError>;

    /// Acts, newest first, at most `limit` (1 ..= 500).
    async fn acts(&self, limit: u32) -> Result<Vec<OperatorAct>, StoreError>;
}
