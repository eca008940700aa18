//! Who gets which Run.

use runtime_core::{
    definition::TaskSpec,
    digest::Digest,
    ids::{RunId, SessionId, WorkerId},
    ports::dispatch::{DispatchClaim, DispatchPage},
    run::{ActorType, AttemptStatus, CancelReason, EventType, RunStatus},
};

use super::super::kit::{LEASE_MS, assert_unchanged, code, failed, operator, retried, succeeded, task, today, world};
use crate::{Fixture, start};

fn runs(page: &DispatchPage) -> Vec<RunId> {
    page.leases.iter().map(|lease| lease.run.id).collect()
}

/// Run, attempt, event and lease become durable together, under the authority's clock. The store keeps the SHA-256 of the token.
pub async fn a_lease_is_a_run_that_is_being_dispatched(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let run_id = w.start("a").await;
    let session = w.session("w").await;
    fixture.elapse(500).await;
    let page = w.dispatch(&session, 4).await;
    let now = start().plus_ms(500);
    assert_eq!((page.observed_at, page.leases.len(), page.saturated, page.next_retry_ms), (now, 1, false, None));
    let lease = &page.leases[0];
    assert_eq!((lease.run.id, lease.run.status, lease.run.version), (run_id, RunStatus::Dispatching, 3));
    assert_eq!((lease.attempt.status, lease.attempt.attempt), (AttemptStatus::Starting, 1));
    assert_eq!((&lease.task, lease.expires_at), (&task("a"), now.plus_ms(LEASE_MS)));
    let fence = &lease.fence;
    assert_eq!((&fence.session, fence.run_id, fence.attempt_id, fence.lease_generation), (&session, run_id, lease.attempt.id, 1));
    let found = w.store.facts(run_id).await.unwrap().unwrap();
    assert_eq!((&found.run, &found.attempts[0]), (&lease.run, &lease.attempt), "what is answered is what is stored");
    assert_eq!(found.attempts[0].lease_token, Some(Digest::of(fence.token.as_bytes())));
    assert_eq!(found.attempts[0].lease_expires_at, Some(lease.expires_at));
    assert_eq!(found.attempts[0].worker_id, Some(session.worker_id));
    let event = found.events.last().unwrap();
    assert_eq!((event.sequence, event.kind, event.actor.kind), (3, EventType::Run(RunStatus::Dispatching), ActorType::Worker));
}

/// Highest priority first, then who waited longest, then the lowest id.
pub async fn runs_are_leased_by_priority_then_waiting_time_then_id(fixture: &impl Fixture) {
    let w = world(fixture);
    let priority = |id: &str, priority| TaskSpec { priority, ..task(id) };
    w.publish(vec![priority("low", -5), priority("mid", 0), priority("high", 5)], vec![]).await;
    let mut started = Vec::new();
    for id in ["low", "mid", "mid", "high"] {
        started.push(w.start(id).await);
    }
    fixture.elapse(10).await;
    started.push(w.start("mid").await);
    started.push(w.start("high").await);
    let session = w.session("w").await;
    let mut order = runs(&w.dispatch(&session, 2).await);
    order.extend(runs(&w.dispatch(&session, 100).await));
    let mut twins = [started[1], started[2]];
    twins.sort_unstable();
    assert_eq!(order, [started[3], started[5], twins[0], twins[1], started[4], started[0]]);
}

/// A Run executes the revision that was current when it was admitted, whatever became of the task.
pub async fn a_lease_brings_the_revision_that_the_run_pins(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    w.start("a").await;
    w.publish(vec![TaskSpec { cwd: Some("/srv".into()), ..task("a") }], vec![]).await;
    w.start("a").await;
    w.publish(vec![], vec![]).await;
    let session = w.session("w").await;
    let page = w.dispatch(&session, 4).await;
    let cwds: Vec<_> = page.leases.iter().map(|lease| (lease.run.task_revision, lease.task.cwd.as_deref())).collect();
    assert_eq!(cwds, [(1, None), (2, Some("/srv"))], "archived or not, what was admitted is executed");
}

/// A task at its limit is passed over and holds up nobody else; what it runs counts until it has ended, whoever runs it.
pub async fn a_task_at_its_limit_is_passed_over(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![TaskSpec { max_concurrent: Some(2), priority: 9, ..task("limited") }, task("free")], vec![]).await;
    let mut limited = Vec::new();
    for _ in 0..4 {
        limited.push(w.start("limited").await);
    }
    let free = w.start("free").await;
    let (one, two) = (w.session("one").await, w.session("two").await);
    let first = w.dispatch(&one, 1).await;
    assert_eq!(runs(&first), [limited[0]]);
    w.started(&first.leases[0]).await;
    let second = w.dispatch(&two, 10).await;
    assert_eq!(runs(&second), [limited[1], free], "the running one counts");
    assert!(runs(&w.dispatch(&one, 10).await).is_empty());
    w.store.finish(&first.leases[0].fence, &succeeded()).await.unwrap();
    let third = w.dispatch(&one, 10).await;
    assert_eq!(runs(&third), [limited[2]]);
    w.store.release(&second.leases[0].fence, "enough").await.unwrap();
    assert_eq!(runs(&w.dispatch(&one, 10).await), [limited[1]], "it waited longer than the fourth");
}

/// A limit is a property of the task as it is now: raising it helps those that wait.
pub async fn a_limit_is_the_current_one(fixture: &impl Fixture) {
    let w = world(fixture);
    let limited = |n| TaskSpec { max_concurrent: Some(n), ..task("a") };
    w.publish(vec![limited(1)], vec![]).await;
    for _ in 0..3 {
        w.start("a").await;
    }
    let session = w.session("w").await;
    assert_eq!(w.dispatch(&session, 10).await.leases.len(), 1);
    w.publish(vec![limited(2)], vec![]).await;
    assert_eq!(w.dispatch(&session, 10).await.leases.len(), 1);
    w.publish(vec![task("a")], vec![]).await;
    assert_eq!(w.dispatch(&session, 10).await.leases.len(), 1);
}

/// The answer was lost and the same request comes again: the same leases, token by token, and nothing more.
pub async fn a_replay_answers_with_the_same_leases(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    for _ in 0..5 {
        w.start("a").await;
    }
    let session = w.session("w").await;
    let claim = w.dispatch_claim(&session, 2);
    let first = w.store.claim(&claim).await.unwrap();
    assert_eq!((first.leases.len(), first.saturated), (2, true));
    let before = fixture.dump().await;
    let again = w.store.claim(&claim).await.unwrap();
    assert_eq!(again, first);
    assert_unchanged!(fixture, before);
    let other = w.dispatch(&session, 2).await;
    assert!(runs(&other).iter().all(|id| !runs(&first).contains(id)), "another request is other work");
    // What is not held any more is not answered again.
    w.started(&first.leases[0]).await;
    w.store.finish(&first.leases[0].fence, &succeeded()).await.unwrap();
    assert_eq!(w.store.claim(&claim).await.unwrap().leases, first.leases[1..]);
    w.store.release(&first.leases[1].fence, "enough").await.unwrap();
    assert_eq!(w.store.claim(&claim).await.unwrap().leases, [], "and nothing new is taken");
}

/// Another session with the same request id asks for itself.
pub async fn a_replay_is_the_sessions_own(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    w.start("a").await;
    let other_run = w.start("a").await;
    let (mine, theirs) = (w.session("mine").await, w.session("theirs").await);
    let claim = w.dispatch_claim(&mine, 1);
    w.store.claim(&claim).await.unwrap();
    let page = w.store.claim(&DispatchClaim { session: theirs, ..claim }).await.unwrap();
    assert_eq!(runs(&page), [other_run]);
}

/// A lease that is over is not answered again, though nobody has expired it yet.
pub async fn an_expired_lease_is_not_replayed(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    w.start("a").await;
    let session = w.session("w").await;
    let claim = w.dispatch_claim(&session, 1);
    w.store.claim(&claim).await.unwrap();
    fixture.elapse(LEASE_MS).await;
    assert_eq!(w.store.claim(&claim).await.unwrap().leases, []);
}

pub async fn dispatch_slots_and_leases_are_bounded(fixture: &impl Fixture) {
    let w = world(fixture);
    let session = w.session("w").await;
    let good = w.dispatch_claim(&session, 256);
    assert!(w.store.claim(&good).await.is_ok());
    for slots in [0, 257] {
        assert_eq!(code(w.store.claim(&DispatchClaim { slots, ..good.clone() }).await), "invalid_input");
    }
    for lease_ms in [0, 999, 60_001] {
        assert_eq!(code(w.store.claim(&DispatchClaim { lease_ms, ..good.clone() }).await), "invalid_input");
        assert_eq!(code(w.store.renew(&session, &[], lease_ms).await), "invalid_input");
    }
    for page in [0, 257] {
        assert_eq!(code(w.store.expire(page).await), "invalid_input");
        assert_eq!(code(w.store.earlier_leases(&session, page).await), "invalid_input");
    }
}

/// What somebody cancelled while it waited is nobody's work.
pub async fn a_cancelled_run_is_not_leased(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let (cancelled, waiting) = (w.start("a").await, w.start("a").await);
    w.store.cancel(cancelled, CancelReason::User, &operator()).await.unwrap();
    let session = w.session("w").await;
    assert_eq!(runs(&w.dispatch(&session, 10).await), [waiting]);
}

/// Two workers on two handles at once: each Run has one holder.
pub async fn two_workers_never_lease_the_same_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let second = fixture.second_handle().await;
    w.publish(vec![task("a")], vec![]).await;
    for _ in 0..40 {
        w.start("a").await;
    }
    let (one, two) = (w.session("one").await, w.session("two").await);
    let mut all = Vec::new();
    for _ in 0..4 {
        let (a, b) = (w.dispatch_claim(&one, 5), w.dispatch_claim(&two, 5));
        let (a, b) = tokio::join!(w.store.claim(&a), second.claim(&b));
        all.extend([a.unwrap(), b.unwrap()].iter().flat_map(runs));
    }
    assert_eq!(all.len(), 40);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 40);
}

/// A retry that has become due is queued by the next claim, which then leases the new attempt; until then the page says how long.
pub async fn a_due_retry_is_queued_and_leased(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 3)).await;
    w.store.finish(&lease.fence, &failed()).await.unwrap();
    let session = lease.fence.session;
    fixture.elapse(999).await;
    let page = w.dispatch(&session, 4).await;
    assert_eq!((page.leases.len(), page.next_retry_ms), (0, Some(1)));
    assert_eq!(w.status(lease.run.id).await, RunStatus::RetryWait);
    fixture.elapse(1).await;
    let page = w.dispatch(&session, 4).await;
    assert_eq!((page.leases.len(), page.next_retry_ms), (1, None));
    assert_eq!((page.leases[0].run.id, page.leases[0].attempt.attempt), (lease.run.id, 2));
    assert_eq!(page.leases[0].run.queued_at, Some(start().plus_ms(1_000)), "it waits anew");
    assert_eq!(w.attempt_statuses(lease.run.id).await, [AttemptStatus::Failed, AttemptStatus::Starting]);
    assert_eq!(w.store.retry_policy(lease.run.id).await.unwrap().unwrap().next_attempt_at, None);
}

/// A retry has its turn behind those that waited when it was queued again, though its Run is older.
pub async fn a_retry_waits_behind_those_that_waited_before_it(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 3)).await;
    w.store.finish(&lease.fence, &failed()).await.unwrap();
    fixture.elapse(500).await;
    let younger = w.start("a").await;
    fixture.elapse(500).await;
    assert_eq!(runs(&w.dispatch(&lease.fence.session, 1).await), [younger]);
    assert_eq!(runs(&w.dispatch(&lease.fence.session, 1).await), [lease.run.id]);
}

/// C23: the clock is read after the lock. A claim that waited leases from when it got on, not from when it asked.
pub async fn a_claim_that_waited_leases_from_the_end_of_the_wait(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    w.start("a").await;
    let session = w.session("w").await;
    let page = w.after_a_wait(5_000, w.dispatch(&session, 1)).await;
    assert_eq!(page.observed_at, start().plus_ms(5_000));
    assert_eq!(page.leases[0].expires_at, start().plus_ms(5_000 + LEASE_MS));
}

/// C22: below the mark nothing is leased, extended or expired; what was asked for comes when the clock has caught up.
pub async fn below_the_mark_nothing_is_leased_extended_or_expired(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    let waiting = w.start("a").await;
    w.until("12:30").await;
    w.publish(vec![task("a"), task("b")], vec![]).await;
    let before = fixture.dump().await;
    w.until("12:20").await;
    let page = w.dispatch(&lease.fence.session, 4).await;
    assert_eq!((page.leases.len(), page.observed_at, page.saturated), (0, today("12:20"), false));
    assert_eq!(w.store.expire(256).await.unwrap().lost, []);
    let renewal = w.store.renew(&lease.fence.session, std::slice::from_ref(&lease.fence), LEASE_MS).await.unwrap();
    assert_eq!(renewal.renewed, []);
    assert_unchanged!(fixture, before);
    w.until("12:30").await;
    assert_eq!(runs(&w.dispatch(&lease.fence.session, 4).await), [waiting]);
    assert_eq!(w.store.expire(256).await.unwrap().lost.len(), 1);
}

/// Each start of a worker is a session of a higher generation; the same start told twice is the same session.
pub async fn a_session_has_a_generation_of_its_own(fixture: &impl Fixture) {
    let w = world(fixture);
    let worker = WorkerId::new("w").unwrap();
    let open = async |id: SessionId| w.store.open_session(&worker, id, 8).await.unwrap();
    let [first, second] = [(); 2].map(|()| SessionId::generate(&w.ids, start()));
    let one = open(first).await;
    assert_eq!((one.generation, one.session_id, &one.worker_id), (1, first, &worker));
    assert_eq!(open(first).await, one);
    assert_eq!(open(second).await.generation, 2);
    assert_eq!(w.session("other").await.generation, 1);
}

/// A session that is over asks for nothing: the request is refused, not answered with nothing to do.
pub async fn an_earlier_session_gets_no_work(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    w.start("a").await;
    let old = w.session("w").await;
    let new = w.session("w").await;
    assert_eq!(code(w.store.claim(&w.dispatch_claim(&old, 1)).await), "invalid_input");
    assert_eq!(w.dispatch(&new, 1).await.leases.len(), 1);
}

/// A session is closed when it holds nothing; then it asks for nothing more. Closing twice is closing.
pub async fn a_session_with_leases_is_not_closed(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.leased(task("a")).await;
    let session = &lease.fence.session;
    let before = fixture.dump().await;
    assert_eq!(code(w.store.close_session(session).await), "invalid_input");
    assert_unchanged!(fixture, before);
    w.store.release(&lease.fence, "drained").await.unwrap();
    w.store.close_session(session).await.unwrap();
    w.store.close_session(session).await.unwrap();
    assert_eq!(code(w.store.claim(&w.dispatch_claim(session, 1)).await), "invalid_input");
    assert_eq!(w.session("w").await.generation, session.generation + 1);
}
