//! A lease from its beginning to its end: started, renewed, released; and every fence that is not the lease's own.

use runtime_core::{
    ids::{AttemptId, RequestId, RunId, SessionId, WorkerId},
    ports::dispatch::{Fenced, LeaseFence},
    run::{AttemptStatus, CancelReason, RunStatus, Started},
};

use super::super::kit::{LEASE_MS, assert_unchanged, code, guard, operator, spoilt, succeeded, task, world};
use crate::{Fixture, start};

/// The guard's identity is durable with the transition that lets the command start.
pub async fn a_started_attempt_is_running(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    fixture.elapse(200).await;
    let now = start().plus_ms(200);
    let Fenced::Applied(attempt) = w.store.started(&lease.fence, &guard(), Some(5_000)).await.unwrap() else { panic!("stale") };
    assert_eq!((attempt.status, attempt.started_at, attempt.pid), (AttemptStatus::Running, Some(now), Some(17)));
    assert_eq!(attempt.executor_handle.as_deref(), Some("pid:17 boot:x"));
    assert_eq!(attempt.log_artifact_id.as_deref(), Some("logs/1"));
    assert_eq!(attempt.deadline_at, Some(now.plus_ms(5_000)), "the timeout counts from here by the authority's clock");
    assert_eq!(w.store.attempt(attempt.id).await.unwrap(), Some(attempt));
    let run = w.store.run(lease.run.id).await.unwrap().unwrap();
    assert_eq!((run.status, run.version, run.started_at), (RunStatus::Running, 4, Some(now)));
    assert_eq!(w.event_names(run.id).await, ["run.created", "run.queued", "run.dispatching", "run.running"]);
}

/// The answer was lost and the same guard is announced again: the same answer, and nothing is written.
pub async fn starting_twice_changes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    let first = w.started(&lease).await;
    fixture.elapse(10).await;
    let before = fixture.dump().await;
    assert_eq!(w.started(&lease).await, first);
    assert_unchanged!(fixture, before);
    let other = Started { executor_handle: "pid:18 boot:x".into(), pid: 18, ..guard() };
    assert_eq!(code(w.store.started(&lease.fence, &other, None).await), "illegal_transition", "another guard is a second start");
    assert_unchanged!(fixture, before);
}

/// C23: at the expiry, by the authority's clock, a lease is over; a millisecond before it is not.
pub async fn a_lease_is_good_until_its_expiry(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    fixture.elapse(LEASE_MS).await;
    let before = fixture.dump().await;
    assert_eq!(w.store.started(&lease.fence, &guard(), None).await.unwrap(), Fenced::Stale);
    let renewal = w.store.renew(&lease.fence.session, std::slice::from_ref(&lease.fence), LEASE_MS).await.unwrap();
    assert_eq!((renewal.renewed, renewal.lost), (vec![], vec![lease.attempt.id]));
    assert_unchanged!(fixture, before);
    fixture.set_clock(start().plus_ms(LEASE_MS - 1)).await;
    assert!(matches!(w.store.started(&lease.fence, &guard(), None).await.unwrap(), Fenced::Applied(_)));
    let renewal = w.store.renew(&lease.fence.session, std::slice::from_ref(&lease.fence), LEASE_MS).await.unwrap();
    assert_eq!((renewal.renewed, renewal.lost), (vec![lease.attempt.id], vec![]));
}

/// A renewal moves the expiry, of the lease and of its projection, and is no transition of the Run.
pub async fn a_renewal_extends_the_lease(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    let run = w.store.run(lease.run.id).await.unwrap();
    for n in 1..=5 {
        fixture.elapse(LEASE_MS - 1).await;
        let renewal = w.store.renew(&lease.fence.session, std::slice::from_ref(&lease.fence), LEASE_MS).await.unwrap();
        assert_eq!(renewal.renewed, [lease.attempt.id]);
        assert_eq!(w.store.expire(256).await.unwrap().lost, []);
        let expires_at = w.store.attempt(lease.attempt.id).await.unwrap().unwrap().lease_expires_at;
        assert_eq!(expires_at, Some(start().plus_ms(n * (LEASE_MS - 1) + LEASE_MS)));
    }
    assert_eq!(w.store.run(lease.run.id).await.unwrap(), run);
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.expire(256).await.unwrap().lost.len(), 1);
}

/// One call for all leases of a worker: which are held, which are not, and which Runs somebody wants to end.
pub async fn a_renewal_tells_what_is_lost_and_what_is_cancelled(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    for _ in 0..3 {
        w.start("a").await;
    }
    let session = w.session("w").await;
    let leases = w.dispatch(&session, 3).await.leases;
    let fences: Vec<LeaseFence> = leases.iter().map(|lease| lease.fence.clone()).collect();
    w.store.cancel(leases[1].run.id, CancelReason::User, &operator()).await.unwrap();
    w.store.finish(&fences[2], &super::super::kit::failed()).await.unwrap();
    let renewal = w.store.renew(&session, &fences, LEASE_MS).await.unwrap();
    assert_eq!(renewal.renewed, [leases[0].attempt.id, leases[1].attempt.id]);
    assert_eq!(renewal.lost, [leases[2].attempt.id]);
    assert_eq!(renewal.cancel_requested, [leases[1].attempt.id]);
}

/// Token, generations, session, Run, attempt: a fence that differs in any of them changes nothing, whatever it is used for.
pub async fn a_fence_that_differs_in_anything_is_stale(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    let run_of_another = {
        w.start("a").await;
        w.dispatch(&w.session("other").await, 1).await.leases.remove(0)
    };
    let good = lease.fence.clone();
    let forgeries = spoilt::<LeaseFence>(
        &good,
        &[
            ("token", &|f| f.token.push('x')),
            ("empty token", &|f| f.token.clear()),
            ("another's token", &|f| f.token.clone_from(&run_of_another.fence.token)),
            ("lease generation", &|f| f.lease_generation += 1),
            ("worker generation", &|f| f.session.generation += 1),
            ("session", &|f| f.session.session_id = SessionId::generate(&w.ids, start())),
            ("worker", &|f| f.session.worker_id = WorkerId::new("other").unwrap()),
            ("run", &|f| f.run_id = RunId::from_uuid(RequestId::generate(&w.ids, start()).as_uuid())),
            ("attempt", &|f| f.attempt_id = AttemptId::from_uuid(RequestId::generate(&w.ids, start()).as_uuid())),
        ],
    );
    let before = fixture.dump().await;
    for (what, forged) in forgeries {
        assert_eq!(w.store.started(&forged, &guard(), None).await.unwrap(), Fenced::Stale, "{what}");
        assert_eq!(w.store.finish(&forged, &succeeded()).await.unwrap(), Fenced::Stale, "{what}");
        assert_eq!(w.store.release(&forged, "no").await.unwrap(), Fenced::Stale, "{what}");
        let renewal = w.store.renew(&good.session, std::slice::from_ref(&forged), LEASE_MS).await.unwrap();
        assert_eq!((renewal.renewed, renewal.lost), (vec![], vec![forged.attempt_id]), "{what}");
        assert_unchanged!(fixture, before, what);
    }
    assert!(matches!(w.store.started(&good, &guard(), None).await.unwrap(), Fenced::Applied(_)), "as it was given out it is good");
}

/// Somebody wanted the Run to end before its command started: it does not start, and the Run has ended.
pub async fn a_cancelled_run_does_not_start(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
    assert_eq!(w.status(lease.run.id).await, RunStatus::Dispatching, "its worker will end it");
    assert_eq!(w.store.started(&lease.fence, &guard(), None).await.unwrap(), Fenced::Stale);
    assert_eq!(w.status(lease.run.id).await, RunStatus::Cancelled);
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::Cancelled]);
    let renewal = w.store.renew(&lease.fence.session, std::slice::from_ref(&lease.fence), LEASE_MS).await.unwrap();
    assert_eq!(renewal.lost, [lease.attempt.id], "the lease is over");
    w.store.close_session(&lease.fence.session).await.unwrap();
}

/// Given back before it started, the attempt waits again and is not used up; the next lease of it has a higher generation, and the old
/// fence is stale.
pub async fn a_released_attempt_waits_again(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    assert_eq!(w.store.release(&lease.fence, "draining").await.unwrap(), Fenced::Applied(()));
    assert_eq!(w.store.release(&lease.fence, "draining").await.unwrap(), Fenced::Stale);
    let attempt = w.store.attempt(lease.attempt.id).await.unwrap().unwrap();
    assert_eq!(
        (attempt.status, attempt.worker_id, attempt.lease_token, attempt.lease_expires_at),
        (AttemptStatus::Claimed, None, None, None)
    );
    let run = w.store.run(lease.run.id).await.unwrap().unwrap();
    assert_eq!((run.status, run.queued_at), (RunStatus::Queued, lease.run.queued_at), "it keeps its place");
    let again = w.dispatch(&lease.fence.session, 1).await.leases.remove(0);
    assert_eq!((again.attempt.id, again.attempt.attempt, again.fence.lease_generation), (lease.attempt.id, 1, 2));
    assert_ne!(again.fence.token, lease.fence.token);
    assert_eq!(w.store.started(&lease.fence, &guard(), None).await.unwrap(), Fenced::Stale);
    assert!(matches!(w.store.started(&again.fence, &guard(), None).await.unwrap(), Fenced::Applied(_)));
}

/// A command that may run cannot be given back.
pub async fn a_running_attempt_is_not_released(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    let before = fixture.dump().await;
    assert_eq!(code(w.store.release(&lease.fence, "draining").await), "illegal_transition");
    assert_unchanged!(fixture, before);
}

/// Nobody waits for what somebody wanted to end.
pub async fn a_cancelled_run_ends_when_it_is_released(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
    assert_eq!(w.store.release(&lease.fence, "draining").await.unwrap(), Fenced::Applied(()));
    assert_eq!(w.status(lease.run.id).await, RunStatus::Cancelled);
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::Cancelled]);
}

/// C23: the clock is read after the lock. A renewal whose lease ran out while it waited has lost it.
pub async fn a_renewal_that_waited_beyond_its_lease_has_lost_it(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    let renewal = w.after_a_wait(LEASE_MS, w.store.renew(&lease.fence.session, std::slice::from_ref(&lease.fence), LEASE_MS)).await;
    assert_eq!(renewal.unwrap().lost, [lease.attempt.id]);
}
