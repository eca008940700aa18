//! Every reachable state under every command: only legal arrows, counters up by exactly one, never a half step.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use uuid::Uuid;

use super::*;
use crate::{
    ids::{ProjectId, TaskId},
    run::{ActorType, AdmissionIds, Backoff, ExecutionOrigin, ExecutorType, NewRun, RetrySpec, Safety, TriggerType},
};

#[derive(Default)]
struct Counter(AtomicU64);

impl IdSource for Counter {
    fn uuid_v7(&self, at: TimestampMs) -> Uuid {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        let mut random = [0; 10];
        random[2..].copy_from_slice(&n.to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(at.get().unsigned_abs(), &random).into_uuid()
    }
}

fn fresh(retry: RetrySpec) -> RunState {
    let ids = Counter::default();
    let at = TimestampMs::clamped(1_000);
    let admission = NewRun {
        project_id: ProjectId::new("p").unwrap(),
        task_id: TaskId::new("t").unwrap(),
        task_revision: 1,
        task_digest: Digest::of(b"t"),
        task_name: "t".into(),
        priority: 0,
        retry,
        occurrence: None,
        trigger_type: TriggerType::Manual,
        execution_origin: ExecutionOrigin::Manual,
        execution_owner: "runtime".into(),
        executor_type: ExecutorType::LocalProcess,
        idempotency_key: None,
        triggered_by: None,
        request_id: None,
        retry_of_run_id: None,
        actor: Actor::of(ActorType::User),
    }
    .admit(&AdmissionIds::generate(&ids, at), at);
    RunState { run: admission.run, attempt: admission.attempt, policy: admission.policy }
}

fn after(state: &RunState, out: &[Transition]) -> RunState {
    let mut next = state.clone();
    for t in out {
        next.run = t.run.run.clone();
        if let Some(change) = &t.attempt {
            next.attempt = change.attempt.clone();
        }
        if let Some(attempt) = &t.new_attempt {
            next.attempt = attempt.clone();
        }
        if let Some(change) = &t.policy {
            next.policy = change.policy.clone();
        }
    }
    next
}

fn outcome(result: AttemptResult) -> AttemptOutcome {
    AttemptOutcome { result, exit_code: None, error_code: Some("x".into()), error_summary: Some("y".repeat(3_000)) }
}

fn commands() -> Vec<Command> {
    vec![
        Command::Dispatch {
            worker_id: WorkerId::new("w").unwrap(),
            lease_token: Digest::of(b"token"),
            lease_expires_at: TimestampMs::clamped(9_000),
        },
        Command::Release { reason: "drain".into() },
        Command::Start(Started { executor_handle: "h".into(), pid: 7, deadline_at: None, log_artifact_id: None }),
        Command::Finish(outcome(AttemptResult::Succeeded)),
        Command::Finish(outcome(AttemptResult::Failed)),
        Command::Finish(outcome(AttemptResult::Cancelled)),
        Command::Finish(outcome(AttemptResult::TimedOut)),
        Command::Lose { error_code: "lease_expired".into(), summary: String::new() },
        Command::Requeue,
        Command::RequestCancel { reason: CancelReason::User, note: None },
        Command::RecordLateCallback(outcome(AttemptResult::Succeeded)),
    ]
}

/// The rules that hold for every write-set, whatever the command.
fn check(before: &RunState, out: &[Transition]) {
    let mut state = before.clone();
    for t in out {
        assert_eq!(t.run.expected_version, state.run.version);
        assert_eq!(t.run.run.version, state.run.version + 1);
        assert_eq!(t.run.run.event_sequence, state.run.event_sequence + 1);
        assert_eq!(t.event.sequence, t.run.run.event_sequence);
        let (from, to) = (state.run.status, t.run.run.status);
        assert!(from == to || from.successors().contains(&to), "Run {from} -> {to}");
        if let Some(change) = &t.attempt {
            let (from, to) = (change.expected_status, change.attempt.status);
            assert_eq!((from, change.expected_callback_sequence), (state.attempt.status, state.attempt.callback_sequence));
            assert_eq!(change.attempt.callback_sequence, change.expected_callback_sequence + 1);
            assert!(from.successors().contains(&to), "attempt {from} -> {to}");
        }
        if let Some(new) = &t.new_attempt {
            assert!(state.attempt.status.is_final(), "attempts overlap");
            assert_eq!((new.attempt, new.status), (state.attempt.attempt + 1, AttemptStatus::Claimed));
        }
        if let Some(change) = &t.policy {
            assert_eq!(change.policy.version, change.expected_version + 1);
        }
        state = after(&state, std::slice::from_ref(t));
        assert_eq!(state.run.status.is_final(), state.run.finished_at.is_some());
        assert_eq!(state.run.status == RunStatus::RetryWait, state.policy.next_attempt_at.is_some());
        if state.run.status.is_final() || state.run.status == RunStatus::RetryWait {
            assert!(state.attempt.status.is_final(), "a Run that is {} has an attempt that is {}", state.run.status, state.attempt.status);
        }
    }
}

#[test]
fn only_legal_arrows_are_reachable() {
    let ids = Counter::default();
    let actor = Actor::of(ActorType::System);
    let spec = RetrySpec { max_attempts: 3, on_lost: true, safety: Safety::Idempotent, backoff: Backoff { base_ms: 5, max_ms: 5 } };
    for retry in [RetrySpec::default(), spec] {
        let mut seen = BTreeSet::new();
        let mut open = vec![fresh(retry)];
        while let Some(state) = open.pop() {
            let key = (state.run.status, state.attempt.status, state.attempt.attempt, state.run.cancel_requested_at.is_some());
            if !seen.insert(key) {
                continue;
            }
            for command in commands() {
                match decide(&state, &command, &actor, TimestampMs::clamped(2_000), &ids) {
                    Ok(out) => {
                        check(&state, &out);
                        let late = matches!(command, Command::RecordLateCallback(_));
                        if !out.is_empty() && !late {
                            open.push(after(&state, &out));
                        }
                    }
                    Err(illegal) => assert_eq!((illegal.run, illegal.attempt), (state.run.status, state.attempt.status)),
                }
            }
        }
        let states: BTreeSet<_> = seen.iter().map(|s| s.0).collect();
        for status in [RunStatus::Succeeded, RunStatus::Failed, RunStatus::Cancelled, RunStatus::Running] {
            assert!(states.contains(&status), "{status} is never reached");
        }
    }
}

#[test]
fn lost_attempt_follows_its_policy() {
    let ids = Counter::default();
    let actor = Actor::of(ActorType::System);
    let at = TimestampMs::clamped(5_000);
    let lose = Command::Lose { error_code: "lease_expired".into(), summary: "gone".into() };
    for (safety, on_lost, expected) in [
        (Safety::Unknown, false, RunStatus::Failed),
        (Safety::Idempotent, false, RunStatus::Failed),
        (Safety::Idempotent, true, RunStatus::RetryWait),
        (Safety::Deduplicated, true, RunStatus::RetryWait),
    ] {
        let mut state = fresh(RetrySpec { max_attempts: 2, on_lost, safety, backoff: Backoff { base_ms: 10, max_ms: 10 } });
        for command in &commands()[..1] {
            state = after(&state, &decide(&state, command, &actor, at, &ids).unwrap());
        }
        let out = decide(&state, &lose, &actor, at, &ids).unwrap();
        assert_eq!(out.iter().map(|t| t.run.run.status).collect::<Vec<_>>(), [RunStatus::Lost, expected]);
        check(&state, &out);
        let end = after(&state, &out);
        assert_eq!(end.policy.next_attempt_at, (expected == RunStatus::RetryWait).then(|| at.plus_ms(10)));
    }
}

#[test]
fn cancelling_twice_changes_nothing() {
    let ids = Counter::default();
    let actor = Actor::of(ActorType::User);
    let at = TimestampMs::clamped(5_000);
    let mut state = fresh(RetrySpec::default());
    for command in [&commands()[0], &commands()[2]] {
        state = after(&state, &decide(&state, command, &actor, at, &ids).unwrap());
    }
    let cancel = Command::RequestCancel { reason: CancelReason::User, note: Some("enough".into()) };
    let out = decide(&state, &cancel, &actor, at, &ids).unwrap();
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].event.kind, EventType::CancelRequested);
    let state = after(&state, &out);
    assert_eq!(state.run.status, RunStatus::Running);
    assert!(decide(&state, &cancel, &actor, at, &ids).unwrap().is_empty());
    // A failure after the request is the cancellation that was wanted, not a reason to retry.
    let end = after(&state, &decide(&state, &Command::Finish(outcome(AttemptResult::Failed)), &actor, at, &ids).unwrap());
    assert_eq!((end.run.status, end.attempt.status), (RunStatus::Cancelled, AttemptStatus::Failed));
}

/// Nobody takes a Run that is to end, so it must not go back to waiting.
#[test]
fn a_release_after_a_request_to_cancel_ends_the_run() {
    let ids = Counter::default();
    let actor = Actor::of(ActorType::Worker);
    let at = TimestampMs::clamped(5_000);
    let mut state = fresh(RetrySpec::default());
    let cancel = Command::RequestCancel { reason: CancelReason::User, note: None };
    for command in [&commands()[0], &cancel] {
        state = after(&state, &decide(&state, command, &actor, at, &ids).unwrap());
    }
    let end = after(&state, &decide(&state, &Command::Release { reason: "drain".into() }, &actor, at, &ids).unwrap());
    assert_eq!((end.run.status, end.attempt.status), (RunStatus::Cancelled, AttemptStatus::Cancelled));
}

#[test]
fn summaries_are_cut_between_characters() {
    assert_eq!(cut(&"ä".repeat(600)).len(), 1_024);
    assert_eq!(cut("a\0b"), "a\u{fffd}b");
}
