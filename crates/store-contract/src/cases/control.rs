//! What operators do to Runs: start, cancel, retry; and accepting a clock.

use runtime_core::{
    definition::{TaskSpec, TriggerSpec},
    ids::{ProjectId, RunId},
    ports::{
        control::{CancelOutcome, StartCommand},
        definitions::Operator,
        dispatch::Fenced,
    },
    run::{ActorType, AttemptStatus, CancelReason, ExecutionOrigin, RunStatus, TriggerType},
};

use super::kit::{assert_unchanged, code, failed, operator, project, retried, set, succeeded, task, task_id, today, trigger, world};
use crate::{Fixture, start};

fn start_command(key: Option<&str>) -> StartCommand {
    StartCommand {
        project_id: project(),
        task_id: task_id("a"),
        trigger_type: TriggerType::Manual,
        idempotency_key: key.map(str::to_owned),
        by: operator(),
    }
}

/// Run, attempt, policy, events and act become durable together.
pub async fn a_start_admits_a_run_of_the_current_revision(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    w.publish(vec![retried(TaskSpec { priority: 4, name: Some("Nightly".into()), ..task("a") }, 3)], vec![]).await;
    for (trigger_type, origin, actor) in
        [(TriggerType::Manual, ExecutionOrigin::Manual, ActorType::User), (TriggerType::Api, ExecutionOrigin::Api, ActorType::ApiApp)]
    {
        let outcome = w.store.start(&StartCommand { trigger_type, ..start_command(None) }).await.unwrap();
        assert!(outcome.created);
        let found = w.store.facts(outcome.run_id).await.unwrap().unwrap();
        let run = &found.run;
        assert_eq!((run.status, run.version, run.event_sequence), (RunStatus::Queued, 2, 2));
        assert_eq!((run.task_revision, run.priority, run.task_name.as_str()), (2, 4, "Nightly"));
        assert_eq!((run.trigger_type, run.execution_origin, run.triggered_by.as_deref()), (trigger_type, origin, Some("ada")));
        assert_eq!((run.execution_owner.as_str(), &run.trigger_id, run.scheduled_for), (fixture.execution_owner(), &None, None));
        assert_eq!((found.attempts[0].status, found.policy.as_ref().unwrap().spec.max_attempts), (AttemptStatus::Claimed, 3));
        assert_eq!(w.event_names(run.id).await, ["run.created", "run.queued"]);
        assert!(found.events.iter().all(|e| e.actor.kind == actor && e.actor.id.as_deref() == Some("ada")));
        let act = w.store.acts(1).await.unwrap().remove(0);
        assert_eq!((act.act.as_str(), act.by, act.project_id), ("start", operator(), Some(project())));
    }
}

/// The same key again answers with the first Run and writes nothing, also when the Run has ended and the task is gone.
pub async fn a_start_with_a_known_key_answers_with_the_first_run(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let first = w.store.start(&start_command(Some("order-17"))).await.unwrap();
    w.store.cancel(first.run_id, CancelReason::User, &operator()).await.unwrap();
    w.publish(vec![], vec![]).await;
    let before = fixture.dump().await;
    let again = w.store.start(&start_command(Some("order-17"))).await.unwrap();
    assert_eq!((again.run_id, again.created), (first.run_id, false));
    assert_unchanged!(fixture, before);
}

/// A key says what was asked for: another task under it is a mistake, not a repeat.
pub async fn a_key_of_another_task_is_refused(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a"), task("b")], vec![]).await;
    w.store.start(&start_command(Some("k"))).await.unwrap();
    let before = fixture.dump().await;
    let other = StartCommand { task_id: task_id("b"), ..start_command(Some("k")) };
    assert_eq!(code(w.store.start(&other).await), "duplicate_idempotency_key");
    assert_unchanged!(fixture, before);
    let other = ProjectId::new("other").unwrap();
    w.store
        .publish(&runtime_core::ports::definitions::PublishCommand { project_id: other.clone(), ..set(vec![task("a")], vec![]) })
        .await
        .unwrap();
    assert!(w.store.start(&StartCommand { project_id: other, ..start_command(Some("k")) }).await.unwrap().created);
}

/// Two handles with one key at once: one Run.
pub async fn two_starts_at_once_with_one_key_make_one_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let second = fixture.second_handle().await;
    w.publish(vec![task("a")], vec![]).await;
    for n in 0..10 {
        let command = start_command(Some(&format!("k{n}")));
        let (a, b) = tokio::join!(w.store.start(&command), second.start(&command));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.run_id, b.run_id);
        assert!(a.created != b.created);
    }
    assert_eq!(w.count_runs().await, 10);
}

/// Refused before anything is stored, each with its code.
pub async fn a_start_that_cannot_be_is_refused(fixture: &impl Fixture) {
    let w = world(fixture);
    let off = TaskSpec { enabled: false, ..task("off") };
    w.publish(vec![task("a"), task("gone"), off.clone()], vec![]).await;
    w.publish(vec![task("a"), off], vec![]).await;
    let before = fixture.dump().await;
    let of = |id: &str| StartCommand { task_id: task_id(id), ..start_command(None) };
    assert_eq!(code(w.store.start(&of("absent")).await), "not_found");
    assert_eq!(code(w.store.start(&of("gone")).await), "not_found");
    assert_eq!(code(w.store.start(&of("off")).await), "invalid_input");
    for key in ["ql3:cron:v1:t:1:0", "", "a\nb", &"x".repeat(256)] {
        assert_eq!(code(w.store.start(&start_command(Some(key))).await), "invalid_input", "{key:?}");
    }
    for trigger_type in [TriggerType::Cron, TriggerType::Retry] {
        assert_eq!(code(w.store.start(&StartCommand { trigger_type, ..start_command(None) }).await), "invalid_input");
    }
    let nobody = Operator { name: String::new(), reason: None };
    assert_eq!(code(w.store.start(&StartCommand { by: nobody, ..start_command(None) }).await), "invalid_input");
    assert_unchanged!(fixture, before);
}

/// Nobody holds it: it is cancelled at once, attempt and all, and the act is recorded.
pub async fn a_waiting_run_is_cancelled_at_once(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let id = w.start("a").await;
    fixture.elapse(5).await;
    let by = Operator { name: "grace".into(), reason: Some("wrong day".into()) };
    assert_eq!(w.store.cancel(id, CancelReason::Policy, &by).await.unwrap(), CancelOutcome::Cancelled);
    let found = w.store.facts(id).await.unwrap().unwrap();
    let now = Some(start().plus_ms(5));
    assert_eq!((found.run.status, found.run.cancel_requested_at, found.run.finished_at), (RunStatus::Cancelled, now, now));
    assert_eq!((found.run.cancel_reason, found.attempts[0].status), (Some(CancelReason::Policy), AttemptStatus::Cancelled));
    let event = found.events.last().unwrap();
    assert_eq!((event.actor.kind, event.actor.id.as_deref()), (ActorType::User, Some("grace")));
    assert_eq!(event.payload.as_str(), r#"{"note":"wrong day","reason":"policy"}"#);
    let act = w.store.acts(1).await.unwrap().remove(0);
    assert_eq!((act.act.as_str(), act.by, act.object), ("cancel", by, id.to_string()));
}

/// A Run that waits for its retry is not retried.
pub async fn a_run_that_waits_for_its_retry_is_cancelled_at_once(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 3)).await;
    w.store.finish(&lease.fence, &failed()).await.unwrap();
    assert_eq!(w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap(), CancelOutcome::Cancelled);
    assert_eq!(w.store.retry_policy(lease.run.id).await.unwrap().unwrap().next_attempt_at, None);
    fixture.elapse(60_000).await;
    assert_eq!(w.dispatch(&lease.fence.session, 1).await.leases, []);
    assert_eq!(w.status(lease.run.id).await, RunStatus::Cancelled);
}

/// Somebody holds it: the request is durable, the worker is told at its next renewal, and recovery finds it.
pub async fn a_held_run_is_asked_to_end(fixture: &impl Fixture) {
    let w = world(fixture);
    for starts in [false, true] {
        let lease = w.leased(task("a")).await;
        if starts {
            w.started(&lease).await;
        }
        let status = w.status(lease.run.id).await;
        assert_eq!(w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap(), CancelOutcome::Requested);
        assert_eq!(w.status(lease.run.id).await, status);
        assert_eq!(w.event_names(lease.run.id).await.last().map(String::as_str), Some("run.cancel_requested"));
        let waiting = w.store.cancellations(start().plus_ms(1), 500).await.unwrap();
        assert_eq!(waiting.iter().map(|run| run.id).collect::<Vec<_>>(), [lease.run.id]);
        let before = fixture.dump().await;
        assert_eq!(w.store.cancel(lease.run.id, CancelReason::Policy, &operator()).await.unwrap(), CancelOutcome::AlreadyRequested);
        assert_unchanged!(fixture, before);
        assert_eq!(w.store.finish(&lease.fence, &failed()).await.unwrap(), Fenced::Applied(RunStatus::Cancelled));
    }
}

pub async fn a_run_that_has_ended_is_not_cancelled(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(task("a")).await;
    w.store.finish(&lease.fence, &succeeded()).await.unwrap();
    let before = fixture.dump().await;
    let outcome = w.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
    assert_eq!(outcome, CancelOutcome::AlreadyFinal(RunStatus::Succeeded));
    let absent = RunId::generate(&w.ids, start());
    assert_eq!(code(w.store.cancel(absent, CancelReason::User, &operator()).await), "not_found");
    assert_unchanged!(fixture, before);
}

/// A new Run that names the old one, of the revision that the old one pinned, whatever became of the task since.
pub async fn a_retry_is_a_new_run_of_the_same_revision(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![retried(TaskSpec { priority: 3, ..task("a") }, 2)], vec![trigger("t", "a", "* * * * *")]).await;
    w.cycle().await;
    w.until("12:01").await;
    let old = w.admitted().await[0];
    w.store.cancel(old, CancelReason::User, &operator()).await.unwrap();
    w.publish(vec![], vec![]).await;
    let ended = w.store.facts(old).await.unwrap();
    let new = w.store.retry(old, &operator()).await.unwrap();
    let found = w.store.facts(new).await.unwrap().unwrap();
    let run = &found.run;
    assert_eq!((run.retry_of_run_id, run.trigger_type, run.execution_origin), (Some(old), TriggerType::Retry, ExecutionOrigin::Manual));
    assert_eq!((run.task_revision, run.priority, &run.task_digest), (1, 3, &ended.as_ref().unwrap().run.task_digest));
    assert_eq!((&run.idempotency_key, &run.trigger_id, run.scheduled_for), (&None, &None, None));
    assert_eq!((run.status, found.attempts.len(), found.policy.unwrap().spec.max_attempts), (RunStatus::Queued, 1, 2));
    assert_eq!(w.store.facts(old).await.unwrap(), ended, "what has ended stays as it is");
    assert_eq!(w.store.acts(1).await.unwrap()[0].act, "retry");
    assert_ne!(w.store.retry(old, &operator()).await.unwrap(), new, "each request is a Run");
}

pub async fn a_run_that_has_not_ended_is_not_retried(fixture: &impl Fixture) {
    let w = world(fixture);
    let lease = w.running(retried(task("a"), 3)).await;
    let before = fixture.dump().await;
    assert_eq!(code(w.store.retry(lease.run.id, &operator()).await), "illegal_transition");
    assert_eq!(code(w.store.retry(RunId::generate(&w.ids, start()), &operator()).await), "not_found");
    assert_unchanged!(fixture, before);
    w.store.finish(&lease.fence, &failed()).await.unwrap();
    assert_eq!(code(w.store.retry(lease.run.id, &operator()).await), "illegal_transition", "it retries by itself");
}

/// The clock was wrong, something was committed under it, and an operator vouches for the clock as it is now: the mark comes down to it,
/// what was stamped later can be claimed again. Cursor, activation and latest admission never go back.
pub async fn an_accepted_clock_is_the_mark(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![trigger("t", "a", "* * * * *")]).await;
    w.until("18:00:30").await;
    w.cycle().await;
    w.publish(vec![task("a")], vec![trigger("t", "a", "*/5 * * * *"), trigger("u", "a", "* * * * *")]).await;
    let rows = [w.row("t").await, w.row("u").await];
    w.until("12:10").await;
    assert_eq!(w.claim(16).await.claims, []);
    assert_eq!(w.store.accept_clock(&operator()).await.unwrap(), Some(today("18:00:30")));
    assert_eq!(w.store.clock_mark().await.unwrap(), Some(today("12:10")));
    for before in rows {
        let after = w.row(before.trigger_id.as_str()).await;
        assert_eq!(after.updated_at, today("12:10"));
        let kept = |row: &runtime_core::schedule::ScheduleRow| (row.next_fire_at, row.last_scheduled_at, row.activated_at);
        assert_eq!(kept(&after), kept(&before));
    }
    assert_eq!(w.claim(16).await.claims.len(), 2, "work goes on");
    let act = w.store.acts(1).await.unwrap().remove(0);
    assert_eq!((act.act.as_str(), act.at, act.project_id), ("clock_accept", today("12:10"), None));
}

/// A claim from the time that nobody vouches for is worth nothing after it.
pub async fn a_claim_from_before_an_accepted_clock_is_not_committed(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    w.until("18:00:30").await;
    w.publish(vec![task("a"), task("b")], vec![trigger("t", "a", "* * * * *"), trigger("new", "a", "* * * * *")]).await;
    let claims = w.claim(16).await.claims;
    let commits: Vec<_> = claims.iter().map(|claim| w.decide(claim)).collect();
    w.until("12:10").await;
    w.store.accept_clock(&operator()).await.unwrap();
    assert_eq!(code(w.store.commit(commits).await), "unavailable");
    assert_eq!(w.count_runs().await, 0);
}

/// What was admitted under the wrong clock is not admitted again under the right one, edited or not.
pub async fn what_a_wrong_clock_admitted_is_not_admitted_again(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    w.until("12:06").await;
    assert_eq!(w.admitted().await.len(), 1);
    w.until("12:02:10").await;
    w.store.accept_clock(&operator()).await.unwrap();
    w.publish(vec![task("a")], vec![TriggerSpec { name: Some("renamed".into()), ..trigger("t", "a", "* * * * *") }]).await;
    for time in ["12:02:20", "12:03", "12:05:30", "12:06", "12:06:30"] {
        w.until(time).await;
        assert_eq!(w.admitted().await, [], "{time}");
    }
    w.until("12:07").await;
    assert_eq!(w.admitted().await.len(), 1);
}

/// Nothing was ever committed: there is no mark, and accepting sets one.
pub async fn an_empty_store_has_no_mark(fixture: &impl Fixture) {
    let w = world(fixture);
    assert_eq!(w.store.clock_mark().await.unwrap(), None);
    assert_eq!(w.store.accept_clock(&operator()).await.unwrap(), None);
    assert_eq!(w.store.clock_mark().await.unwrap(), Some(start()));
}

/// Newest first, 1 ..= 500.
pub async fn acts_are_listed_newest_first(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![]).await;
    let id = w.start("a").await;
    w.store.cancel(id, CancelReason::User, &operator()).await.unwrap();
    let names = async |limit| -> Vec<String> { w.store.acts(limit).await.unwrap().into_iter().map(|act| act.act).collect() };
    assert_eq!(names(500).await, ["cancel", "start", "apply"]);
    assert_eq!(names(2).await, ["cancel", "start"]);
    for limit in [0, 501] {
        assert_eq!(code(w.store.acts(limit).await), "invalid_input");
    }
}
