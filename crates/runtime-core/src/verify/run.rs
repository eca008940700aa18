//! The rules of one Run.

use super::Finding;
use crate::{
    ports::history::RunFacts,
    run::{AttemptStatus, EventType, Run, RunStatus, TriggerType, occurrence_key},
};

/// Everything that contradicts itself.
pub(super) fn check(object: &str, facts: &RunFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut find = |code, detail: String| out.push(Finding::new(code, object, detail));
    let RunFacts { run, attempts, policy, events } = facts;
    if run.version != run.event_sequence {
        find("run_version", format!("version {}, event sequence {}: every transition raises both", run.version, run.event_sequence));
    }
    let sequences: Vec<u64> = events.iter().map(|e| e.sequence).collect();
    if sequences != (1..=run.event_sequence).collect::<Vec<_>>() {
        find(
            "event_sequence",
            format!("{} events, the Run says {}; they must be numbered without a gap", events.len(), run.event_sequence),
        );
    }
    for finding in check_story(run, events.iter().map(|e| e.kind)) {
        find("event_story", finding);
    }
    if run.status.is_final() != run.finished_at.is_some() {
        find("run_finished", format!("is {}, finished at {:?}", run.status, run.finished_at.map(|t| t.to_string())));
    }
    match attempts.last() {
        None => find("attempt_missing", "has no attempt".to_owned()),
        Some(last) if !fits(run.status, last.status) => {
            find("attempt_status", format!("the Run is {}, its latest attempt is {}", run.status, last.status));
        }
        Some(_) => {}
    }
    for (index, attempt) in attempts.iter().enumerate() {
        if attempt.attempt as usize != index + 1 {
            find("attempt_number", format!("attempt {} stands at place {}", attempt.attempt, index + 1));
        }
        if attempt.status.is_final() != attempt.finished_at.is_some() {
            find(
                "attempt_finished",
                format!(
                    "attempt {} is {} and has {} end",
                    attempt.attempt,
                    attempt.status,
                    if attempt.finished_at.is_some() { "an" } else { "no" }
                ),
            );
        }
        if index + 1 < attempts.len() && !attempt.status.is_final() {
            find("attempts_overlap", format!("attempt {} is {} although a later one exists", attempt.attempt, attempt.status));
        }
    }
    match policy {
        None => find("policy_missing", "has no retry policy".to_owned()),
        Some(policy) => {
            if attempts.len() as u64 > u64::from(policy.spec.max_attempts) {
                find("attempts_exceeded", format!("{} attempts, {} are allowed", attempts.len(), policy.spec.max_attempts));
            }
            if policy.next_attempt_at.is_some() != (run.status == RunStatus::RetryWait) {
                find(
                    "policy_next_attempt",
                    format!("is {} and its next attempt is {:?}", run.status, policy.next_attempt_at.map(|t| t.to_string())),
                );
            }
        }
    }
    if let Some(detail) = check_occurrence(run) {
        find("occurrence_key", detail);
    }
    out
}

/// The events tell one legal story that ends in the stored state.
fn check_story(run: &Run, events: impl Iterator<Item = EventType>) -> Vec<String> {
    let mut out = Vec::new();
    let mut at: Option<RunStatus> = None;
    for kind in events {
        let EventType::Run(next) = kind else { continue };
        match at {
            None if next != RunStatus::Created => out.push(format!("begins with {}", kind.name())),
            Some(from) if !from.successors().contains(&next) => out.push(format!("{from} is followed by {next}")),
            _ => {}
        }
        at = Some(next);
    }
    if at != Some(run.status) {
        out.push(format!("ends with {}, the Run is {}", at.map_or("nothing", RunStatus::as_str), run.status));
    }
    out
}

/// Which state of its latest attempt a Run's state allows.
fn fits(run: RunStatus, attempt: AttemptStatus) -> bool {
    match run {
        RunStatus::Created | RunStatus::Queued => attempt == AttemptStatus::Claimed,
        RunStatus::Dispatching => attempt == AttemptStatus::Starting,
        RunStatus::Running | RunStatus::WaitingApproval => attempt == AttemptStatus::Running,
        RunStatus::Succeeded => attempt == AttemptStatus::Succeeded,
        RunStatus::RetryWait | RunStatus::Cancelled | RunStatus::Failed | RunStatus::TimedOut => attempt.is_final(),
        // Never rests.
        RunStatus::Lost => false,
    }
}

fn check_occurrence(run: &Run) -> Option<String> {
    if run.trigger_type != TriggerType::Cron {
        return None;
    }
    let (Some(trigger), Some(revision), Some(due)) = (&run.trigger_id, run.trigger_revision, run.scheduled_for) else {
        return Some("a Run of a trigger without trigger, revision or occurrence".to_owned());
    };
    let key = occurrence_key(trigger, revision, due);
    (run.idempotency_key.as_deref() != Some(&key)).then(|| format!("is {:?}, {key} is expected", run.idempotency_key))
}
