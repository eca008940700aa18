//! Executing one attempt, under a guard that outlives neither its orders nor its lease.
//!
//! The order of events is the contract: [`Executor::prepare`] starts a guard that is blocked before `exec`; the caller makes its
//! identity durable; only then [`Prepared::go`] lets the command start. Dropping a [`Prepared`] means that it never starts. So
//! nothing ever runs unrecorded.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    TimestampMs,
    ids::{AttemptId, RunId, TaskId, TriggerId},
};

/// What a task runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Program and arguments, no shell.
    Argv(Vec<String>),
    /// One line for `/bin/sh -c`.
    Shell(String),
}

/// Everything that one attempt needs to run, and nothing that it could decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Goes to the child as `QL3_RUN_ID`.
    pub run_id: RunId,
    /// Goes to the child as `QL3_ATTEMPT_ID`.
    pub attempt_id: AttemptId,
    /// 1 for the first; goes to the child as `QL3_ATTEMPT`.
    pub attempt: u32,
    /// Goes to the child as `QL3_TASK_ID`.
    pub task_id: TaskId,
    /// Goes to the child as `QL3_TRIGGER_ID`, if a trigger admitted the Run.
    pub trigger_id: Option<TriggerId>,
    /// Goes to the child as `QL3_SCHEDULED_FOR` (RFC 3339), if a trigger admitted the Run.
    pub scheduled_for: Option<TimestampMs>,
    /// What is executed.
    pub command: Command,
    /// Added to the executor's own environment, after `env_file`.
    pub env: BTreeMap<String, String>,
    /// `KEY=value` lines, read when the attempt starts.
    pub env_file: Option<String>,
    /// Working directory; the executor's own if absent.
    pub cwd: Option<String>,
    /// Fed to the command, then closed; an empty input if absent.
    pub stdin: Option<String>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEnd {
    /// Who ended it.
    pub cause: EndCause,
    /// Exit status, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// What to tell the operator: why it could not start, or that the group had to be killed.
    pub detail: Option<String>,
    /// Bytes of output that were kept.
    pub output_kept_bytes: u64,
    /// Bytes of output that were dropped, oldest first, to stay within the cap.
    pub output_dropped_bytes: u64,
}

/// Who ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// It exited, or died of a signal that the guard did not send.
    Exited,
    /// It never started: no such program, no such directory, unreadable `env_file`.
    SpawnFailed,
    /// [`Running::stop`].
    Stopped,
    /// The guard's lease ran out, or its controller disappeared: the result is not to be believed as the command's own.
    Abandoned,
}

/// What recovery could prove about an attempt of an earlier process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// The guard kept an exit record.
    Ended(ProcessEnd),
    /// Nothing of it runs any more and there is no exit record.
    Gone,
    /// Its processes cannot be proved to be ours, or could not be ended; nothing was signalled. The reason is for the operator.
    Unproven(String),
}

/// Why an executor could not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct ExecutorError {
    /// What was tried, with the path or program.
    pub what: String,
    /// What the system answered.
    pub cause: String,
}

/// Runs attempts.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Starts a guard for `job`, blocked before `exec`. An error means that nothing was started.
    async fn prepare(&self, job: &Job) -> Result<Box<dyn Prepared>, ExecutorError>;

    /// Ends what it can prove to be its own of an attempt that an earlier process started, and tells how it ended.
    /// `handle` is what [`Prepared::handle`] gave; `None` if nothing was recorded, and then nothing ever ran.
    async fn recover(&self, run_id: RunId, attempt_id: AttemptId, attempt: u32, handle: Option<&str>) -> Result<Recovered, ExecutorError>;
}

/// A guard that is blocked before `exec`. Dropping it means that the command never starts.
#[async_trait]
pub trait Prepared: Send {
    /// Process id of the guard.
    fn pid(&self) -> u32;

    /// Identity of the guard, to be stored before [`Prepared::go`]: at most 255 bytes of printable ASCII.
    fn handle(&self) -> &str;

    /// Lets the command start. The guard kills it when `lease_ms` of suspend-aware monotonic time pass without an extension.
    async fn go(self: Box<Self>, lease_ms: u64) -> Result<Box<dyn Running>, ExecutorError>;
}

/// A running command.
#[async_trait]
pub trait Running: Send + Sync {
    /// Waits for the end. May be called again after its future was dropped.
    async fn wait(&self) -> Result<ProcessEnd, ExecutorError>;

    /// The guard's deadline is now + `lease_ms`. A guard that is gone answers at the next [`Running::wait`].
    fn extend(&self, lease_ms: u64);

    /// TERM to the command's process group now, KILL after `grace_ms`. Asking again with a shorter grace shortens it.
    fn stop(&self, grace_ms: u64);
}
