//! Results: applied once, and never after somebody else has decided.

use runtime_core::{
    ports::dispatch::Fenced,
    run::{AttemptOutcome, AttemptResult, AttemptStatus, CancelReason, EventType, RunStatus},
};

use super::super::kit::{LEASE_MS, assert_unchanged, failed, operator, retried, succeeded, task, world};
use crate::{Fixture, start};

pub async fn a_result_ends_attempt_and_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    fixture.elapse(300).await;
    let now = start().plus_ms(300);
    assert_eq!(w.store.finish(&lease.fence, &succeeded()).await.unwrap(), Fenced::Applied(RunStatus::Succeeded));
    let found = w.store.facts(lease.run.id).await.unwrap().unwrap();
    assert_eq!((found.run.status, found.run.finished_at), (RunStatus::Succeeded, Some(now)));
    let attempt = &found.attempts[0];
    assert_eq!((attempt.status, attempt.exit_code, attempt.finished_at), (AttemptStatus::Succeeded, Some(0), Some(now)));
    assert_eq!((&attempt.lease_token, attempt.lease_expires_at), (&None, None));
    assert_eq!(found.events.last().unwrap().kind, EventType::Run(RunStatus::Succeeded));
    w.store.close_session(&lease.fence.session).await.unwrap();
}

/// The answer was lost and the same result comes again: it is `Stale`, and nothing is written.
pub async fn a_result_is_applied_once(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    w.store.finish(&lease.fence, &succeeded()).await.unwrap();
    let before = fixture.dump().await;
    for outcome in [succeeded(), failed()] {
        assert_eq!(w.store.finish(&lease.fence, &outcome).await.unwrap(), Fenced::Stale);
        assert_unchanged!(fixture, before);
    }
}

/// Without attempts left the Run fails as its attempt did.
pub async fn a_failure_without_attempts_left_fails_the_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    assert_eq!(w.store.finish(&lease.fence, &failed()).await.unwrap(), Fenced::Applied(RunStatus::Failed));
    let found = w.store.facts(lease.run.id).await.unwrap().unwrap();
    assert_eq!((found.run.error_code.as_deref(), found.run.error_summary.as_deref()), (Some("exit_code"), Some("exit status 3")));
    assert_eq!((found.attempts[0].exit_code, found.attempts[0].error_code.as_deref()), (Some(3), Some("exit_code")));
}

/// C38: each failure waits twice as long as the one before; the last one fails the Run. The date of the retry is a row, not memory.
pub async fn failures_are_retried_with_backoff_until_attempts_run_out(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut lease = w.running(retried(task("a"), 4)).await;
    let run_id = lease.run.id;
    let mut now = start();
    for (n, delay_ms) in [(1, 1_000), (2, 2_000), (3, 4_000)] {
        assert_eq!(w.store.finish(&lease.fence, &failed()).await.unwrap(), Fenced::Applied(RunStatus::RetryWait));
        let policy = fixture.second_handle().await.retry_policy(run_id).await.unwrap().unwrap();
        assert_eq!(policy.next_attempt_at, Some(now.plus_ms(delay_ms)), "after attempt {n}");
        fixture.elapse(delay_ms).await;
        now = now.plus_ms(delay_ms);
        lease = w.dispatch(&lease.fence.session, 1).await.leases.remove(0);
        assert_eq!((lease.run.id, lease.attempt.attempt), (run_id, n + 1));
        w.started(&lease).await;
    }
    assert_eq!(w.store.finish(&lease.fence, &failed()).await.unwrap(), Fenced::Applied(RunStatus::Failed));
    assert_eq!(w.attempt_statuses(run_id).await, [AttemptStatus::Failed; 4]);
}

pub async fn a_timeout_is_retried_like_a_failure_and_ends_as_a_timeout(fixture: &impl Fixture) {
    let w = world(fixture);
    let error_code = Some("timeout".to_owned());
    let timed_out = AttemptOutcome { result: AttemptResult::TimedOut, exit_code: None, error_code, error_summary: None };
    let lease = w.running(retried(task("a"), 2)).await;
    assert_eq!(w.store.finish(&lease.fence, &timed_out).await.unwrap(), Fenced::Applied(RunStatus::RetryWait));
    fixture.elapse(1_000).await;
    let lease = w.dispatch(&lease.fence.session, 1).await.leases.remove(0);
    w.started(&lease).await;
    assert_eq!(w.store.finish(&lease.fence, &timed_out).await.unwrap(), Fenced::Applied(RunStatus::TimedOut));
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::TimedOut; 2]);
}

/// A command that could not even be started failed, and is retried as one.
pub async fn an_attempt_may_fail_before_it_runs(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    assert_eq!(w.store.finish(&lease.fence, &failed()).await.unwrap(), Fenced::Applied(RunStatus::Failed));
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::Failed]);
}

/// After a request to cancel nothing is retried; a command that succeeded all the same has succeeded.
pub async fn a_result_after_a_request_to_cancel_is_final(fixture: &impl Fixture) {
    let w = world(fixture);
    for (outcome, expected) in [(failed(), RunStatus::Cancelled), (succeeded(), RunStatus::Succeeded)] {
        let lease = w.running(retried(task("a"), 3)).await;
        w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
        assert_eq!(w.store.finish(&lease.fence, &outcome).await.unwrap(), Fenced::Applied(expected));
    }
}

/// A result is worth more than a clock: until the expiry has been committed it is accepted.
pub async fn a_result_is_accepted_until_the_expiry_is_committed(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    fixture.elapse(10 * LEASE_MS).await;
    assert_eq!(w.store.finish(&lease.fence, &succeeded()).await.unwrap(), Fenced::Applied(RunStatus::Succeeded));
    assert_eq!(w.store.expire(256).await.unwrap().lost, []);
}

/// A result that comes after the attempt was lost changes nothing and is recorded once, however often it comes.
pub async fn a_late_result_is_recorded_once(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost.len(), 1);
    let before = w.store.facts(lease.run.id).await.unwrap().unwrap();
    assert_eq!(w.store.finish(&lease.fence, &succeeded()).await.unwrap(), Fenced::Stale);
    let after = w.store.facts(lease.run.id).await.unwrap().unwrap();
    assert_eq!((after.run.status, &after.attempts), (before.run.status, &before.attempts));
    assert_eq!(after.run.version, before.run.version + 1);
    let recorded = after.events.last().unwrap();
    assert_eq!((recorded.kind, recorded.attempt_id), (EventType::LateCallbackIgnored, Some(lease.attempt.id)));
    assert_eq!(recorded.payload.to_value()["result"], "succeeded");
    let dump = fixture.dump().await;
    assert_eq!(w.store.finish(&lease.fence, &succeeded()).await.unwrap(), Fenced::Stale);
    assert_unchanged!(fixture, dump);
}

/// Also when the next attempt is under way: the record names the late one, and the running one goes on.
pub async fn a_late_result_does_not_touch_the_next_attempt(fixture: &impl Fixture) {
    let w = world(fixture);
    let late = w.running(retried(task("a"), 3)).await;
    fixture.elapse(LEASE_MS).await;
    w.store.expire(256).await.unwrap();
    fixture.elapse(1_000).await;
    let next = w.dispatch(&late.fence.session, 1).await.leases.remove(0);
    w.started(&next).await;
    assert_eq!(w.store.finish(&late.fence, &succeeded()).await.unwrap(), Fenced::Stale);
    let event = w.store.events(late.run.id, 0, 500).await.unwrap().pop().unwrap();
    assert_eq!((event.kind, event.attempt_id), (EventType::LateCallbackIgnored, Some(late.attempt.id)));
    assert_eq!(w.attempt_statuses(late.run.id).await, [AttemptStatus::Lost, AttemptStatus::Running]);
    assert_eq!(w.store.finish(&next.fence, &succeeded()).await.unwrap(), Fenced::Applied(RunStatus::Succeeded));
}

/// Texts for people are cut to their bound between characters, and never fail the result.
pub async fn a_long_summary_is_cut(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    let outcome = AttemptOutcome { error_summary: Some(format!("\0{}", "\u{e4}".repeat(2_000))), ..failed() };
    assert_eq!(w.store.finish(&lease.fence, &outcome).await.unwrap(), Fenced::Applied(RunStatus::Failed));
    let summary = w.store.run(lease.run.id).await.unwrap().unwrap().error_summary.unwrap();
    assert!(summary.len() <= 1_024 && summary.len() > 1_000 && !summary.contains('\0'));
}
