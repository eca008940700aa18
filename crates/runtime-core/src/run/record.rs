//! The stored facts of a Run and of an attempt, field by field as the tables name them.

use super::status::{AttemptStatus, RunStatus, text_enum};
use crate::{
    TimestampMs,
    digest::Digest,
    ids::{AttemptId, ProjectId, RunId, TaskId, TriggerId, WorkerId},
};

text_enum!(
    /// What made the Run.
    TriggerType, "trigger_type", {
        /// An occurrence of a trigger.
        Cron = "cron",
        /// A person.
        Manual = "manual",
        /// A program.
        Api = "api",
        /// A manual retry of a finished Run.
        Retry = "retry",
    }
);

text_enum!(
    /// On whose account it executes.
    ExecutionOrigin, "execution_origin", {
        /// The scheduler's.
        ScheduledSystem = "scheduled_system",
        /// A person's.
        Manual = "manual",
        /// A program's.
        Api = "api",
    }
);

text_enum!(
    /// What executes attempts.
    ExecutorType, "executor_type", {
        /// A guarded process of this machine.
        LocalProcess = "local_process",
        /// A worker that talks to the store.
        RemoteWorker = "remote_worker",
    }
);

text_enum!(
    /// Who wanted a Run to end.
    CancelReason, "cancel_reason", {
        /// A person.
        User = "user",
        /// A rule of the product.
        Policy = "policy",
        /// The program is stopping.
        Shutdown = "shutdown",
        /// Recovery.
        Reconcile = "reconcile",
        /// The task's timeout.
        Timeout = "timeout",
    }
);

/// What a user asked for. One row of `runs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Key.
    pub id: RunId,
    /// Namespace of `idempotency_key`.
    pub project_id: ProjectId,
    /// What is executed.
    pub task_id: TaskId,
    /// The task revision that was current when the Run was admitted.
    pub task_revision: u32,
    /// Digest of that revision.
    pub task_digest: Digest,
    /// The task's display name then.
    pub task_name: String,
    /// Where a snapshot of the task is kept, if it is kept outside the definitions.
    pub task_snapshot_ref: Option<String>,
    /// The Run that started this one.
    pub parent_run_id: Option<RunId>,
    /// The finished Run that this one repeats.
    pub retry_of_run_id: Option<RunId>,
    /// The trigger that admitted it.
    pub trigger_id: Option<TriggerId>,
    /// The trigger revision that admitted it.
    pub trigger_revision: Option<u32>,
    /// Digest of that revision.
    pub trigger_digest: Option<Digest>,
    /// What made it.
    pub trigger_type: TriggerType,
    /// On whose account.
    pub execution_origin: ExecutionOrigin,
    /// Which runtime owns it; the product writes `runtime`.
    pub execution_owner: String,
    /// The person or program, as it named itself.
    pub triggered_by: Option<String>,
    /// The caller's request.
    pub request_id: Option<String>,
    /// The occurrence, if a trigger admitted it.
    pub scheduled_for: Option<TimestampMs>,
    /// State.
    pub status: RunStatus,
    /// Raised by exactly one with every transition; starts at 1.
    pub version: u64,
    /// Sequence of the newest event; raised with every transition.
    pub event_sequence: u64,
    /// Higher runs first.
    pub priority: i32,
    /// Unique in the project.
    pub idempotency_key: Option<String>,
    /// Where its input is kept.
    pub input_ref: Option<String>,
    /// Where its output is kept.
    pub output_ref: Option<String>,
    /// Authority time of the admission.
    pub created_at: TimestampMs,
    /// Since when it waits for a worker; set anew at each retry.
    pub queued_at: Option<TimestampMs>,
    /// When its first attempt started.
    pub started_at: Option<TimestampMs>,
    /// When it became final.
    pub finished_at: Option<TimestampMs>,
    /// When somebody wanted it to end.
    pub cancel_requested_at: Option<TimestampMs>,
    /// Who.
    pub cancel_reason: Option<CancelReason>,
    /// Stable code of what went wrong.
    pub error_code: Option<String>,
    /// For people.
    pub error_summary: Option<String>,
    /// Id of the record in the system that this one replaced.
    pub legacy_cron_id: Option<u64>,
}

/// One try at executing a Run. One row of `run_attempts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAttempt {
    /// Key.
    pub id: AttemptId,
    /// Its Run.
    pub run_id: RunId,
    /// Step of a multi-step Run.
    pub step_run_id: Option<String>,
    /// 1 for the first.
    pub attempt: u32,
    /// State.
    pub status: AttemptStatus,
    /// What executes it.
    pub executor_type: ExecutorType,
    /// Who holds it.
    pub worker_id: Option<WorkerId>,
    /// Identity of its guard.
    pub executor_handle: Option<String>,
    /// Process id of its guard.
    pub pid: Option<u32>,
    /// Where its output is kept.
    pub log_artifact_id: Option<String>,
    /// SHA-256 of the lease token, never the token.
    pub lease_token: Option<Digest>,
    /// A projection of its dispatch lease.
    pub lease_expires_at: Option<TimestampMs>,
    /// When its timeout ends it.
    pub deadline_at: Option<TimestampMs>,
    /// SHA-256 of the callback token.
    pub callback_token_hash: Option<Digest>,
    /// Raised by exactly one with every change of the attempt; starts at 0.
    pub callback_sequence: u64,
    /// Authority time.
    pub created_at: TimestampMs,
    /// When its identity became durable.
    pub started_at: Option<TimestampMs>,
    /// When it became final.
    pub finished_at: Option<TimestampMs>,
    /// Exit status of the command.
    pub exit_code: Option<i32>,
    /// Stable code of what went wrong.
    pub error_code: Option<String>,
    /// For people.
    pub error_summary: Option<String>,
}
