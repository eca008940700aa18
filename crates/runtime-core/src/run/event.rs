//! Append-only facts.

use super::status::{AttemptStatus, RunStatus, text_enum};
use crate::{
    Invalid, TimestampMs,
    ids::{AttemptId, EventId, RunId},
    payload::Payload,
};

text_enum!(
    /// Who acted.
    ActorType, "actor_type", {
        /// A person.
        User = "user",
        /// A program through the API.
        ApiApp = "api_app",
        /// A trigger.
        Trigger = "trigger",
        /// An agent.
        Agent = "agent",
        /// A model-context client.
        McpClient = "mcp_client",
        /// A worker.
        Worker = "worker",
        /// An executor.
        Executor = "executor",
        /// The product itself.
        System = "system",
        /// A shell of the system that this one replaced.
        LegacyShell = "legacy_shell",
        /// The scheduler.
        Scheduler = "scheduler",
        /// Recovery.
        Reconciler = "reconciler",
        /// A compatibility layer.
        Compatibility = "compatibility",
    }
);

/// Who acted, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// What kind.
    pub kind: ActorType,
    /// Which one, at most 128 bytes.
    pub id: Option<String>,
}

impl Actor {
    /// The product itself, in one of its roles.
    pub fn of(kind: ActorType) -> Self {
        Self { kind, id: None }
    }

    /// A named actor.
    pub fn named(kind: ActorType, id: impl Into<String>) -> Self {
        Self { kind, id: Some(id.into()) }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `run.<state>`: the Run entered the state.
    Run(RunStatus),
    /// `attempt.<state>`: only the attempt did.
    Attempt(AttemptStatus),
    /// `run.cancel_requested`: somebody wants a Run to end that somebody else holds.
    CancelRequested,
    /// `run.reconciled`: recovery looked at the Run and left it where it was.
    Reconciled,
    /// `attempt.late_callback_ignored`: a result came after the attempt was final.
    LateCallbackIgnored,
}

impl EventType {
    /// As it is stored and shown.
    pub fn name(self) -> String {
        match self {
            Self::Run(status) => format!("run.{status}"),
            Self::Attempt(status) => format!("attempt.{status}"),
            Self::CancelRequested => "run.cancel_requested".to_owned(),
            Self::Reconciled => "run.reconciled".to_owned(),
            Self::LateCallbackIgnored => "attempt.late_callback_ignored".to_owned(),
        }
    }

    /// Reads the stored form.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match text {
            "run.cancel_requested" => Ok(Self::CancelRequested),
            "run.reconciled" => Ok(Self::Reconciled),
            "attempt.late_callback_ignored" => Ok(Self::LateCallbackIgnored),
            _ => match text.split_once('.') {
                Some(("run", state)) => RunStatus::parse(state).map(Self::Run),
                Some(("attempt", state)) => AttemptStatus::parse(state).map(Self::Attempt),
                _ => Err(Invalid::new("type", format!("`{}` is not an event type", text.escape_debug()))),
            },
        }
    }
}

/// One row of `run_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEvent {
    /// Key.
    pub id: EventId,
    /// Its Run.
    pub run_id: RunId,
    /// 1, 2, 3, … without a gap.
    pub sequence: u64,
    /// What happened.
    pub kind: EventType,
    /// Unique in the Run.
    pub dedupe_key: Option<String>,
    /// Who did it.
    pub actor: Actor,
    /// The attempt that it is about.
    pub attempt_id: Option<AttemptId>,
    /// Step of a multi-step Run.
    pub step_run_id: Option<String>,
    /// Details.
    pub payload: Payload,
    /// Authority time.
    pub created_at: TimestampMs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let special = [EventType::CancelRequested, EventType::Reconciled, EventType::LateCallbackIgnored];
        let runs = RunStatus::ALL.iter().copied().map(EventType::Run);
        let attempts = AttemptStatus::ALL.iter().copied().map(EventType::Attempt);
        for kind in special.into_iter().chain(runs).chain(attempts) {
            assert_eq!(EventType::parse(&kind.name()).unwrap(), kind);
        }
        assert!(EventType::parse("run").is_err());
        assert!(EventType::parse("step.queued").is_err());
    }
}
