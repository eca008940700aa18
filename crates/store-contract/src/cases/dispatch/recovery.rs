//! What becomes of attempts whose worker is gone.

use runtime_core::{
    ids::RunId,
    ports::dispatch::{Evidence, Fenced, OpenLease},
    run::{ActorType, AttemptStatus, CancelReason, EventType, RetrySpec, RunStatus},
};

use super::super::kit::{LEASE_MS, assert_unchanged, code, failed, guard, operator, retried, succeeded, task, world};
use crate::Fixture;

/// The attempt is lost; without a promise that running it twice is safe, the Run fails with the reason.
pub async fn an_expired_lease_loses_its_attempt(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    fixture.elapse(LEASE_MS - 1).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost, []);
    fixture.elapse(1).await;
    let expired = w.store.expire(256).await.unwrap();
    assert_eq!((expired.lost, expired.saturated), (vec![(lease.attempt.id, lease.run.id, RunStatus::Failed)], false));
    let found = w.store.facts(lease.run.id).await.unwrap().unwrap();
    assert_eq!(found.attempts[0].status, AttemptStatus::Lost);
    assert_eq!(found.attempts[0].error_code.as_deref(), Some("lease_expired"));
    assert_eq!((found.run.status, found.run.error_code.as_deref()), (RunStatus::Failed, Some("lease_expired")));
    let tail: Vec<_> = found.events.iter().rev().take(2).map(|e| (e.kind, e.actor.kind)).collect();
    assert_eq!(
        tail,
        [(EventType::Run(RunStatus::Failed), ActorType::Reconciler), (EventType::Run(RunStatus::Lost), ActorType::Reconciler)]
    );
    let before = fixture.dump().await;
    assert_eq!(w.store.expire(256).await.unwrap().lost, []);
    assert_unchanged!(fixture, before);
}

/// A lost attempt counts; where the author promised that it is safe, the next one follows until they run out.
pub async fn a_lost_attempt_is_retried_where_that_is_safe(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 2)).await;
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost, [(lease.attempt.id, lease.run.id, RunStatus::RetryWait)]);
    fixture.elapse(1_000).await;
    let next = w.dispatch(&lease.fence.session, 1).await.leases.remove(0);
    assert_eq!((next.run.id, next.attempt.attempt), (lease.run.id, 2));
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost, [(next.attempt.id, lease.run.id, RunStatus::Failed)]);
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::Lost, AttemptStatus::Lost]);
}

/// Attempts left, but no promise: a lost one is not repeated.
pub async fn a_lost_attempt_is_not_retried_where_nobody_promised(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut unsafe_task = retried(task("a"), 5);
    unsafe_task.retry = RetrySpec { on_lost: false, ..unsafe_task.retry };
    let lease = w.running(unsafe_task).await;
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost, [(lease.attempt.id, lease.run.id, RunStatus::Failed)]);
}

pub async fn a_lost_attempt_of_a_cancelled_run_cancels_it(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 5)).await;
    w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost, [(lease.attempt.id, lease.run.id, RunStatus::Cancelled)]);
}

/// Found from the leases themselves, those that ended first first, a page at a time.
pub async fn expiry_goes_by_pages(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let session = w.session("w").await;
    let mut runs: Vec<RunId> = Vec::new();
    for _ in 0..5 {
        runs.push(w.start("a").await);
        assert_eq!(w.dispatch(&session, 1).await.leases.len(), 1);
        fixture.elapse(10).await;
    }
    fixture.elapse(LEASE_MS).await;
    let mut lost: Vec<RunId> = Vec::new();
    for (expected, saturated) in [(2, true), (2, true), (1, false), (0, false)] {
        let page = w.store.expire(2).await.unwrap();
        assert_eq!((page.lost.len(), page.saturated), (expected, saturated));
        lost.extend(page.lost.iter().map(|(_, run, _)| *run));
    }
    assert_eq!(lost, runs);
}

/// The same worker, started again, sees what its earlier sessions hold, oldest first; nobody else's, and nothing of its own.
pub async fn a_restarted_worker_sees_its_earlier_leases(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let (first, other) = (w.session("w").await, w.session("other").await);
    let mut held = Vec::new();
    for _ in 0..3 {
        w.start("a").await;
        held.push(w.dispatch(&first, 1).await.leases.remove(0));
        fixture.elapse(10).await;
    }
    w.start("a").await;
    w.dispatch(&other, 1).await;
    w.started(&held[1]).await;
    let second = w.session("w").await;
    w.start("a").await;
    assert_eq!(w.dispatch(&second, 1).await.leases.len(), 1);
    let open = w.store.earlier_leases(&second, 256).await.unwrap();
    let attempts = |leases: &[OpenLease]| leases.iter().map(|lease| lease.attempt.id).collect::<Vec<_>>();
    assert_eq!(attempts(&open), held.iter().map(|lease| lease.attempt.id).collect::<Vec<_>>());
    assert_eq!((&open[1].session, open[1].lease_generation, open[1].run.status), (&first, 1, RunStatus::Running));
    assert_eq!(open[1].attempt.executor_handle, Some(guard().executor_handle), "its handle names the guard");
    assert_eq!(attempts(&w.store.earlier_leases(&second, 2).await.unwrap()), attempts(&open[..2]));
    assert_eq!(code(w.store.earlier_leases(&first, 256).await), "invalid_input", "an earlier session recovers nothing");
    // Writes of the earlier session are stale from here on.
    let before = fixture.dump().await;
    assert_eq!(w.store.started(&held[0].fence, &guard(), None).await.unwrap(), Fenced::Stale);
    assert_eq!(w.store.finish(&held[1].fence, &succeeded()).await.unwrap(), Fenced::Stale);
    assert_eq!(w.store.release(&held[0].fence, "no").await.unwrap(), Fenced::Stale);
    let renewal = w.store.renew(&first, &[held[0].fence.clone()], LEASE_MS).await.unwrap();
    assert_eq!(renewal.lost, [held[0].attempt.id]);
    assert_unchanged!(fixture, before);
}

/// One open lease of an earlier session, and the session that finds it.
async fn left_behind<F: Fixture>(
    w: &super::super::kit::World<'_, F>,
    started: bool,
) -> (runtime_core::ports::dispatch::Lease, runtime_core::ports::dispatch::Session, OpenLease) {
    let lease = w.leased(retried(task("a"), 3)).await;
    if started {
        w.started(&lease).await;
    }
    let session = w.session("w").await;
    let open = w.store.earlier_leases(&session, 256).await.unwrap().remove(0);
    (lease, session, open)
}

/// Its guard never got the order: it waits again, and no attempt is used up.
pub async fn an_attempt_that_never_started_waits_again(fixture: &impl Fixture) {
    let w = world(fixture);
    let (lease, session, open) = left_behind(&w, false).await;
    assert_eq!(w.store.settle(&session, &open, &Evidence::NeverStarted).await.unwrap(), Fenced::Applied(RunStatus::Queued));
    let again = w.dispatch(&session, 1).await.leases.remove(0);
    assert_eq!((again.attempt.id, again.attempt.attempt, again.fence.lease_generation), (lease.attempt.id, 1, 2));
}

/// The guard kept the result: it is the attempt's.
pub async fn an_attempt_that_ended_meanwhile_has_its_result(fixture: &impl Fixture) {
    let w = world(fixture);
    let (lease, session, open) = left_behind(&w, true).await;
    let settled = w.store.settle(&session, &open, &Evidence::Finished(succeeded())).await.unwrap();
    assert_eq!(settled, Fenced::Applied(RunStatus::Succeeded));
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::Succeeded]);
    let (_, session, open) = left_behind(&w, true).await;
    assert_eq!(w.store.settle(&session, &open, &Evidence::Finished(failed())).await.unwrap(), Fenced::Applied(RunStatus::RetryWait));
}

/// C36: nobody knows how it ended: lost, and then by its policy, as after an expiry.
pub async fn an_attempt_that_is_gone_is_lost(fixture: &impl Fixture) {
    let w = world(fixture);
    let (lease, session, open) = left_behind(&w, true).await;
    let gone = Evidence::Gone { summary: "no process".into() };
    assert_eq!(w.store.settle(&session, &open, &gone).await.unwrap(), Fenced::Applied(RunStatus::RetryWait));
    let attempt = w.store.attempt(lease.attempt.id).await.unwrap().unwrap();
    assert_eq!((attempt.status, attempt.error_code.as_deref()), (AttemptStatus::Lost, Some("worker_restarted")));
    assert_eq!(attempt.error_summary.as_deref(), Some("no process"));
}

/// Whatever the evidence, a Run that somebody wanted to end has ended, unless it succeeded.
pub async fn a_cancelled_run_ends_when_it_is_settled(fixture: &impl Fixture) {
    let w = world(fixture);
    let gone = Evidence::Gone { summary: "no process".into() };
    for (started, evidence) in [(false, Evidence::NeverStarted), (true, Evidence::Finished(failed())), (true, gone)] {
        let (lease, session, _) = left_behind(&w, started).await;
        w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
        let open = w.store.earlier_leases(&session, 256).await.unwrap().remove(0);
        assert_eq!(w.store.settle(&session, &open, &evidence).await.unwrap(), Fenced::Applied(RunStatus::Cancelled), "{evidence:?}");
    }
}

/// Once: what is not open any more is settled by nobody, and a session's own leases are not its to settle.
pub async fn a_lease_is_settled_once_and_only_by_a_later_session(fixture: &impl Fixture) {
    let w = world(fixture);
    let (lease, session, open) = left_behind(&w, true).await;
    assert_eq!(code(w.store.settle(&lease.fence.session, &open, &Evidence::NeverStarted).await), "invalid_input");
    w.store.settle(&session, &open, &Evidence::Finished(succeeded())).await.unwrap();
    let before = fixture.dump().await;
    for evidence in [Evidence::Finished(failed()), Evidence::Gone { summary: String::new() }, Evidence::NeverStarted] {
        assert_eq!(w.store.settle(&session, &open, &evidence).await.unwrap(), Fenced::Stale);
    }
    assert_unchanged!(fixture, before);
    let own = w.running(task("b")).await;
    let attempt = w.store.attempt(own.attempt.id).await.unwrap().unwrap();
    let mine = OpenLease { session: own.fence.session.clone(), run: own.run.clone(), attempt, lease_generation: 1 };
    let settled = w.store.settle(&own.fence.session, &mine, &Evidence::Gone { summary: String::new() }).await.unwrap();
    assert_eq!(settled, Fenced::Stale);
    assert_eq!(w.status(own.run.id).await, RunStatus::Running);
}

/// The old session's own result comes after recovery has decided: recorded, nothing else.
pub async fn a_result_after_recovery_is_late(fixture: &impl Fixture) {
    let w = world(fixture);
    let (lease, session, open) = left_behind(&w, true).await;
    w.store.settle(&session, &open, &Evidence::Gone { summary: "no process".into() }).await.unwrap();
    assert_eq!(w.store.finish(&lease.fence, &succeeded()).await.unwrap(), Fenced::Stale);
    assert_eq!(w.event_names(lease.run.id).await.last().map(String::as_str), Some("attempt.late_callback_ignored"));
    assert_eq!(w.status(lease.run.id).await, RunStatus::RetryWait);
}
