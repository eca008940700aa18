//! What a command makes of a Run: pure, exhaustive, one compare-and-set each.
//!
//! [`decide`] answers with the write-sets that a store persists. Each is never split: the Run (expected version, new version exactly
//! one higher), its attempt (expected status and callback sequence), its policy and exactly one event, all or nothing.

use serde_json::{Value, json};

use super::{
    admission::new_attempt,
    event::{Actor, EventType, RunEvent},
    record::{CancelReason, Run, RunAttempt},
    retry::{Ended, RetryPolicy},
    status::{AttemptStatus, RunStatus},
};
use crate::{
    TimestampMs,
    digest::Digest,
    ids::{AttemptId, EventId, IdSource, WorkerId},
    limits::SUMMARY_BYTES_MAX,
    payload::Payload,
};

/// A Run with its latest attempt and its policy, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunState {
    /// The Run.
    pub run: Run,
    /// Its latest attempt.
    pub attempt: RunAttempt,
    /// Its policy.
    pub policy: RetryPolicy,
}

/// What somebody wants of a Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A worker took it: `queued -> dispatching`, `claimed -> starting`.
    Dispatch {
        /// Who.
        worker_id: WorkerId,
        /// SHA-256 of the lease token.
        lease_token: Digest,
        /// End of the lease.
        lease_expires_at: TimestampMs,
    },
    /// The worker gives it back unstarted: `dispatching -> queued`, `starting -> claimed`; if the Run is to end, it has ended.
    Release {
        /// Why.
        reason: String,
    },
    /// Its guard's identity becomes durable: `dispatching -> running`, `starting -> running`.
    Start(Started),
    /// The attempt ended; the Run follows by its policy.
    Finish(AttemptOutcome),
    /// Nobody can say how the attempt ended: attempt and Run `lost`, then the Run by its policy. Two transitions.
    Lose {
        /// Stable code: `lease_expired`, `worker_restarted`.
        error_code: String,
        /// For people.
        summary: String,
    },
    /// The next attempt is due: `retry_wait -> queued` with a new attempt.
    Requeue,
    /// The Run is to end. What nobody holds is cancelled at once; what somebody holds is asked to end.
    RequestCancel {
        /// Who wants it.
        reason: CancelReason,
        /// For people.
        note: Option<String>,
    },
    /// A result came after the attempt was final: recorded, nothing else changes.
    RecordLateCallback(AttemptOutcome),
}

/// The identity of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// See `Prepared::handle`.
    pub executor_handle: String,
    /// Process id of the guard.
    pub pid: u32,
    /// When the task's timeout ends it.
    pub deadline_at: Option<TimestampMs>,
    /// Where its output is kept.
    pub log_artifact_id: Option<String>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// Exit status 0.
    Succeeded,
    /// Any other end of its own.
    Failed,
    /// Ended by a requested cancellation.
    Cancelled,
    /// Ended by its timeout.
    TimedOut,
}

/// How an attempt ended, with what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// How.
    pub result: AttemptResult,
    /// Exit status of the command.
    pub exit_code: Option<i32>,
    /// Stable code: `exit_code`, `signal`, `spawn_failed`, `timeout`, `cancelled`.
    pub error_code: Option<String>,
    /// For people; cut at 1024 bytes.
    pub error_summary: Option<String>,
}

/// Compare-and-set of a Run by id and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunChange {
    /// The stored version must be this.
    pub expected_version: u64,
    /// The new record; its version is `expected_version + 1`.
    pub run: Run,
}

/// Compare-and-set of an attempt by id, status and callback sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptChange {
    /// The stored status must be this.
    pub expected_status: AttemptStatus,
    /// The stored callback sequence must be this.
    pub expected_callback_sequence: u64,
    /// The new record; its callback sequence is one higher.
    pub attempt: RunAttempt,
}

/// Compare-and-set of a policy by Run and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    /// The stored version must be this.
    pub expected_version: u64,
    /// The new record; its version is `expected_version + 1`.
    pub policy: RetryPolicy,
}

/// What becomes durable together, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The Run.
    pub run: RunChange,
    /// Its latest attempt, if it changes.
    pub attempt: Option<AttemptChange>,
    /// The next attempt, if one begins.
    pub new_attempt: Option<RunAttempt>,
    /// Its policy, if it changes.
    pub policy: Option<PolicyChange>,
    /// Exactly one fact.
    pub event: RunEvent,
}

/// The command does not fit the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a Run that is {run} with an attempt that is {attempt} cannot {command}")]
pub struct IllegalTransition {
    /// State of the Run.
    pub run: RunStatus,
    /// State of its latest attempt.
    pub attempt: AttemptStatus,
    /// What was wanted.
    pub command: &'static str,
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Dispatch { .. } => "be dispatched",
            Self::Release { .. } => "be released",
            Self::Start(_) => "start",
            Self::Finish(_) => "finish",
            Self::Lose { .. } => "be lost",
            Self::Requeue => "be queued again",
            Self::RequestCancel { .. } => "be cancelled",
            Self::RecordLateCallback(_) => "take a late result",
        }
    }
}

/// The write-sets that `command` makes of `state` at authority time `at`, in order. Empty: the command was carried out before
/// (a second request to cancel).
pub fn decide(
    state: &RunState,
    command: &Command,
    actor: &Actor,
    at: TimestampMs,
    ids: &dyn IdSource,
) -> Result<Vec<Transition>, IllegalTransition> {
    let mut step = Step { before: state.clone(), state: state.clone(), command: command.name(), actor, at, ids, out: Vec::new() };
    match command {
        Command::Dispatch { worker_id, lease_token, lease_expires_at } => {
            let attempt = step.attempt_to(AttemptStatus::Starting)?;
            attempt.worker_id = Some(worker_id.clone());
            attempt.lease_token = Some(lease_token.clone());
            attempt.lease_expires_at = Some(*lease_expires_at);
            step.run_to(RunStatus::Dispatching, &json!({ "worker": worker_id.as_str() }))?;
        }
        Command::Release { reason } => step.release(reason)?,
        Command::Start(started) => {
            let attempt = step.attempt_to(AttemptStatus::Running)?;
            attempt.started_at = Some(at);
            attempt.executor_handle = Some(started.executor_handle.clone());
            attempt.pid = Some(started.pid);
            attempt.deadline_at = started.deadline_at;
            attempt.log_artifact_id.clone_from(&started.log_artifact_id);
            step.state.run.started_at.get_or_insert(at);
            step.run_to(RunStatus::Running, &json!({ "pid": started.pid }))?;
        }
        Command::Finish(outcome) => step.finish(outcome)?,
        Command::Lose { error_code, summary } => step.lose(error_code, summary)?,
        Command::Requeue => {
            let attempt = AttemptId::generate(ids, at);
            step.requeue(attempt)?;
        }
        Command::RequestCancel { reason, note } => step.request_cancel(*reason, note.as_deref())?,
        Command::RecordLateCallback(outcome) => {
            if !step.state.attempt.status.is_final() {
                return Err(step.illegal());
            }
            step.record(EventType::LateCallbackIgnored, &outcome_payload(outcome));
        }
    }
    Ok(step.out)
}

/// Works on a copy; each `record` writes down what changed since the last one.
struct Step<'a> {
    before: RunState,
    state: RunState,
    command: &'static str,
    actor: &'a Actor,
    at: TimestampMs,
    ids: &'a dyn IdSource,
    out: Vec<Transition>,
}

impl Step<'_> {
    fn illegal(&self) -> IllegalTransition {
        IllegalTransition { run: self.before.run.status, attempt: self.before.attempt.status, command: self.command }
    }

    fn attempt_to(&mut self, to: AttemptStatus) -> Result<&mut RunAttempt, IllegalTransition> {
        if !self.state.attempt.status.successors().contains(&to) {
            return Err(self.illegal());
        }
        let attempt = &mut self.state.attempt;
        attempt.status = to;
        attempt.callback_sequence += 1;
        if to.is_final() {
            attempt.finished_at = Some(self.at);
            attempt.lease_token = None;
            attempt.lease_expires_at = None;
        }
        Ok(attempt)
    }

    fn run_to(&mut self, to: RunStatus, payload: &Value) -> Result<(), IllegalTransition> {
        if !self.state.run.status.successors().contains(&to) {
            return Err(self.illegal());
        }
        self.state.run.status = to;
        if to.is_final() {
            self.state.run.finished_at = Some(self.at);
        }
        self.record(EventType::Run(to), payload);
        Ok(())
    }

    fn record(&mut self, kind: EventType, payload: &Value) {
        let run = &mut self.state.run;
        run.version += 1;
        run.event_sequence += 1;
        let event = RunEvent {
            id: EventId::generate(self.ids, self.at),
            run_id: run.id,
            sequence: run.event_sequence,
            kind,
            dedupe_key: None,
            actor: self.actor.clone(),
            attempt_id: Some(self.state.attempt.id),
            step_run_id: None,
            payload: Payload::from_value(payload).expect("payloads made here are small objects of safe values"),
            created_at: self.at,
        };
        let RunState { run, attempt, policy } = &mut self.state;
        let is_new = attempt.id != self.before.attempt.id;
        let attempt_changed = !is_new && *attempt != self.before.attempt;
        let policy_changed = *policy != self.before.policy;
        if policy_changed {
            policy.version += 1;
            policy.updated_at = self.at;
        }
        self.out.push(Transition {
            run: RunChange { expected_version: self.before.run.version, run: run.clone() },
            attempt: attempt_changed.then(|| AttemptChange {
                expected_status: self.before.attempt.status,
                expected_callback_sequence: self.before.attempt.callback_sequence,
                attempt: attempt.clone(),
            }),
            new_attempt: is_new.then(|| attempt.clone()),
            policy: policy_changed.then(|| PolicyChange { expected_version: self.before.policy.version, policy: policy.clone() }),
            event,
        });
        self.before = self.state.clone();
    }

    fn release(&mut self, reason: &str) -> Result<(), IllegalTransition> {
        if self.state.run.cancel_requested_at.is_some() && self.state.attempt.status == AttemptStatus::Starting {
            // Waiting again, it would wait for ever: nobody takes a Run that is to end.
            let error_code = Some("cancelled".to_owned());
            let outcome = AttemptOutcome { result: AttemptResult::Cancelled, exit_code: None, error_code, error_summary: None };
            return self.finish(&outcome);
        }
        let attempt = self.attempt_to(AttemptStatus::Claimed)?;
        attempt.worker_id = None;
        attempt.lease_token = None;
        attempt.lease_expires_at = None;
        self.run_to(RunStatus::Queued, &json!({ "released": reason }))
    }

    fn finish(&mut self, outcome: &AttemptOutcome) -> Result<(), IllegalTransition> {
        let payload = outcome_payload(outcome);
        let (attempt_to, run_to) = match outcome.result {
            AttemptResult::Succeeded => (AttemptStatus::Succeeded, RunStatus::Succeeded),
            AttemptResult::Failed => (AttemptStatus::Failed, RunStatus::Failed),
            AttemptResult::Cancelled => (AttemptStatus::Cancelled, RunStatus::Cancelled),
            AttemptResult::TimedOut => (AttemptStatus::TimedOut, RunStatus::TimedOut),
        };
        let attempt = self.attempt_to(attempt_to)?;
        attempt.exit_code = outcome.exit_code;
        attempt.error_code.clone_from(&outcome.error_code);
        attempt.error_summary = outcome.error_summary.as_deref().map(cut);
        if matches!(outcome.result, AttemptResult::Failed | AttemptResult::TimedOut) {
            return self.ended_badly(Ended::Badly, run_to, payload);
        }
        self.run_to(run_to, &payload)
    }

    fn lose(&mut self, error_code: &str, summary: &str) -> Result<(), IllegalTransition> {
        let attempt = self.attempt_to(AttemptStatus::Lost)?;
        attempt.error_code = Some(error_code.to_owned());
        attempt.error_summary = Some(cut(summary));
        let payload = json!({ "errorCode": error_code, "summary": cut(summary) });
        self.run_to(RunStatus::Lost, &payload)?;
        self.ended_badly(Ended::Lost, RunStatus::Failed, payload)
    }

    /// The Run after an attempt that did not succeed: cancelled if that was wanted, else retried by its policy, else `last`.
    fn ended_badly(&mut self, ended: Ended, last: RunStatus, mut payload: Value) -> Result<(), IllegalTransition> {
        if self.state.run.cancel_requested_at.is_some() {
            return self.run_to(RunStatus::Cancelled, &payload);
        }
        if let Some(next) = self.state.policy.next_attempt(ended, self.state.attempt.attempt, self.at) {
            self.state.policy.next_attempt_at = Some(next);
            payload["nextAttemptAtMs"] = json!(next.get());
            return self.run_to(RunStatus::RetryWait, &payload);
        }
        self.state.run.error_code.clone_from(&self.state.attempt.error_code);
        self.state.run.error_summary.clone_from(&self.state.attempt.error_summary);
        self.run_to(last, &payload)
    }

    fn requeue(&mut self, id: AttemptId) -> Result<(), IllegalTransition> {
        if !self.state.attempt.status.is_final() {
            return Err(self.illegal());
        }
        let RunState { run, attempt, policy } = &mut self.state;
        *attempt = new_attempt(id, run.id, attempt.attempt + 1, attempt.executor_type, self.at);
        policy.next_attempt_at = None;
        run.queued_at = Some(self.at);
        let payload = json!({ "attempt": attempt.attempt });
        self.run_to(RunStatus::Queued, &payload)
    }

    fn request_cancel(&mut self, reason: CancelReason, note: Option<&str>) -> Result<(), IllegalTransition> {
        if self.state.run.status.is_final() {
            return Err(self.illegal());
        }
        if self.state.run.cancel_requested_at.is_some() {
            return Ok(());
        }
        self.state.run.cancel_requested_at = Some(self.at);
        self.state.run.cancel_reason = Some(reason);
        let payload = json!({ "reason": reason.as_str(), "note": note.map(cut) });
        match self.state.run.status {
            RunStatus::Created | RunStatus::Queued | RunStatus::RetryWait => {
                if !self.state.attempt.status.is_final() {
                    self.attempt_to(AttemptStatus::Cancelled)?;
                }
                self.state.policy.next_attempt_at = None;
                self.run_to(RunStatus::Cancelled, &payload)
            }
            _ => {
                self.record(EventType::CancelRequested, &payload);
                Ok(())
            }
        }
    }
}

fn outcome_payload(outcome: &AttemptOutcome) -> Value {
    json!({
        "result": match outcome.result {
            AttemptResult::Succeeded => "succeeded",
            AttemptResult::Failed => "failed",
            AttemptResult::Cancelled => "cancelled",
            AttemptResult::TimedOut => "timed_out",
        },
        "exitCode": outcome.exit_code,
        "errorCode": outcome.error_code,
        "summary": outcome.error_summary.as_deref().map(cut),
    })
}

/// At most [`SUMMARY_BYTES_MAX`] bytes, cut between characters, without what a store would refuse.
fn cut(text: &str) -> String {
    let clean = text.replace('\0', "\u{fffd}");
    clean[..clean.floor_char_boundary(SUMMARY_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests;
