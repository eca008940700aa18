//! What a commit makes durable.

use runtime_core::{
    definition::{Misfire, TaskSpec, TriggerSpec},
    run::{
        ActorType, AdmissionIds, AttemptStatus, Backoff, EventType, ExecutionOrigin, ExecutorType, RetrySpec, RunStatus, Safety,
        TriggerType,
    },
    schedule::{Action, CommitOutcome, Decision, LedgerReason, ScheduleClaim, ScheduleCommit, Verdict},
};

use super::super::kit::{MINUTE, World, assert_unchanged, code, task, today, trigger, world};
use crate::Fixture;

/// One due claim.
async fn due<F: Fixture>(w: &World<'_, F>) -> ScheduleClaim {
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    w.until("12:01").await;
    w.claim(16).await.claims.remove(0)
}

/// Run, attempt 1, policy, two events, cursor, latest admission and state version become durable together, stamped with the time of the
/// commit.
pub async fn an_occurrence_becomes_a_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let backoff = Backoff { base_ms: 1_000, max_ms: 60_000 };
    let retry = RetrySpec { max_attempts: 3, on_lost: true, safety: Safety::Idempotent, backoff };
    let spec = TaskSpec { name: Some("Nightly".into()), priority: 5, retry, ..task("a") };
    let timer = trigger("t", "a", "* * * * *");
    w.publish(vec![spec.clone()], vec![timer.clone()]).await;
    w.cycle().await;
    let before = w.row("t").await;
    w.until("12:01:10").await;
    let claim = w.claim(16).await.claims.remove(0);
    w.until("12:01:15").await;
    let commit = w.decide(&claim);
    let Verdict::Decided(_, Some(ids)) = commit.verdict().clone() else { panic!("{commit:?}") };
    assert_eq!(w.store.commit(vec![commit]).await.unwrap(), [CommitOutcome::Admitted { run_id: ids.run }]);

    let now = today("12:01:15");
    let found = w.store.facts(ids.run).await.unwrap().unwrap();
    let run = &found.run;
    assert_eq!((run.status, run.version, run.event_sequence), (RunStatus::Queued, 2, 2));
    assert_eq!((&run.task_id, run.task_revision, &run.task_digest, run.task_name.as_str()), (&spec.id, 1, &spec.digest(), "Nightly"));
    let pinned = (run.trigger_id.as_ref(), run.trigger_revision, run.trigger_digest.as_ref());
    assert_eq!(pinned, (Some(&timer.id), Some(1), Some(&timer.digest())));
    assert_eq!((run.trigger_type, run.execution_origin), (TriggerType::Cron, ExecutionOrigin::ScheduledSystem));
    assert_eq!((run.execution_owner.as_str(), run.priority), (fixture.execution_owner(), 5));
    assert_eq!((run.scheduled_for, run.created_at, run.queued_at), (Some(today("12:01")), now, Some(now)));
    assert_eq!(run.idempotency_key.as_deref(), Some(format!("ql3:cron:v1:t:1:{}", today("12:01").get()).as_str()));
    assert_eq!(found.attempts.len(), 1);
    let attempt = &found.attempts[0];
    assert_eq!((attempt.id, attempt.attempt, attempt.status, attempt.created_at), (ids.attempt, 1, AttemptStatus::Claimed, now));
    let policy = found.policy.as_ref().unwrap();
    assert_eq!((policy.spec, policy.version, policy.next_attempt_at, policy.created_at), (retry, 1, None, now));
    let kinds: Vec<_> = found.events.iter().map(|e| (e.id, e.sequence, e.kind, e.actor.kind, e.created_at)).collect();
    let (created, queued) = (EventType::Run(RunStatus::Created), EventType::Run(RunStatus::Queued));
    let scheduler = ActorType::Scheduler;
    assert_eq!(kinds, [(ids.events[0], 1, created, scheduler, now), (ids.events[1], 2, queued, scheduler, now)]);
    assert_eq!(found.events[0].payload.as_str(), r#"{"latenessMs":15000}"#);

    let row = w.row("t").await;
    assert_eq!((row.next_fire_at, row.last_scheduled_at, row.updated_at), (Some(today("12:02")), Some(today("12:01")), now));
    assert!(row.state_version > before.state_version);
    assert_eq!(w.store.clock_mark().await.unwrap(), Some(now));
}

/// The claim ends with its commit: the next one may be taken at once, and has nothing to do before the next occurrence.
pub async fn each_occurrence_is_admitted_once(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    for minute in 1..=10 {
        fixture.elapse(MINUTE).await;
        assert_eq!(w.admitted().await.len(), 1, "minute {minute}");
        assert_eq!(w.cycle().await, [], "minute {minute}");
    }
    let items = w.store.occurrences(&super::super::kit::project(), &"t".parse().unwrap(), today("12:00"), today("13:00"), 500).await;
    let times: Vec<_> = items.unwrap().iter().map(|run| run.scheduled_for.unwrap()).collect();
    assert_eq!(times, (1..=10).map(|m| today("12:00").plus_ms(m * MINUTE)).collect::<Vec<_>>());
}

/// Each claim of a page has an outcome of its own, in the order of the commits.
pub async fn every_commit_of_a_page_has_its_own_outcome(fixture: &impl Fixture) {
    let w = world(fixture);
    let triggers: Vec<_> = ["admit", "aside", "raced", "skip"].map(|id| trigger(id, "a", "0 * * * *")).into();
    w.publish(vec![task("a")], triggers.clone()).await;
    w.cycle().await;
    w.publish(vec![task("a")], [triggers, vec![trigger("init", "a", "0 0 1 1 *")]].concat()).await;
    w.until("13:10").await;
    let claims = w.claim(16).await.claims;
    let find = |id: &str| claims.iter().find(|c| c.candidate.trigger.id.as_str() == id).unwrap().clone();
    let admit = {
        let claim = find("admit");
        let decision = claim.decide(&claim.candidate.trigger.schedule().unwrap(), 600_000);
        let ids = AdmissionIds::generate(&w.ids, claim.acquired_at);
        (ids.run, ScheduleCommit::new(claim, Verdict::Decided(decision, Some(ids))).unwrap())
    };
    w.store.release_claims(&[find("raced")]).await.unwrap();
    let aside = ScheduleCommit::new(find("aside"), Verdict::SetAside("unreadable".into())).unwrap();
    let commits = vec![w.decide(&find("skip")), aside, w.decide(&find("raced")), admit.1, w.decide(&find("init"))];
    let outcomes = w.store.commit(commits).await.unwrap();
    let reason = "unreadable".to_owned();
    let expected = [
        CommitOutcome::Skipped,
        CommitOutcome::SetAside { reason },
        CommitOutcome::Raced,
        CommitOutcome::Admitted { run_id: admit.0 },
        CommitOutcome::Initialized,
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(w.ledger("skip").await, [(LedgerReason::Misfired, today("13:00"), today("13:00"), 1)]);
    assert_eq!(w.count_runs().await, 1);
}

/// A clock that shows a time before the claim was taken is not believed about anything: the page fails as `unavailable` and may be tried
/// again.
pub async fn a_clock_before_the_acquisition_fails_the_page(fixture: &impl Fixture) {
    let w = world(fixture);
    let claim = due(&w).await;
    let before = fixture.dump().await;
    w.until("12:00:59").await;
    let commit = w.decide(&claim);
    assert_eq!(code(w.store.commit(vec![commit.clone()]).await), "unavailable");
    assert_unchanged!(fixture, before);
    w.until("12:01").await;
    assert!(matches!(w.store.commit(vec![commit]).await.unwrap()[..], [CommitOutcome::Admitted { .. }]));
}

/// The answer was lost and the same commit with the same identities comes again: nothing is written. The answer is `AlreadyAdmitted` with
/// the caller's own Run, or `Raced`, and then the Run that is there under the caller's id is the proof.
pub async fn a_repeated_commit_admits_nothing_twice(fixture: &impl Fixture) {
    let w = world(fixture);
    let claim = due(&w).await;
    let commit = w.decide(&claim);
    let first = w.store.commit(vec![commit.clone()]).await.unwrap();
    let [CommitOutcome::Admitted { run_id }] = first[..] else { panic!("{first:?}") };
    for wait_ms in [0, 1_000, 60_000] {
        fixture.elapse(wait_ms).await;
        let before = fixture.dump().await;
        let again = w.store.commit(vec![commit.clone()]).await.unwrap();
        assert!([CommitOutcome::Raced, CommitOutcome::AlreadyAdmitted { run_id }].contains(&again[0]), "{again:?}");
        assert_unchanged!(fixture, before);
    }
    assert!(w.store.run(run_id).await.unwrap().is_some());
}

/// A Run with the key and the facts of the occurrence is there already: only the cursor moves.
pub async fn an_occurrence_that_was_admitted_before_moves_only_the_cursor(fixture: &impl Fixture) {
    let w = world(fixture);
    let claim = due(&w).await;
    let earlier = w.decide(&claim).admission(fixture.execution_owner(), ExecutorType::LocalProcess, claim.acquired_at).unwrap();
    w.insert(&earlier).await.unwrap();
    let outcomes = w.commit(&[claim]).await;
    assert_eq!(outcomes, [CommitOutcome::AlreadyAdmitted { run_id: earlier.run.id }]);
    assert_eq!(w.count_runs().await, 1);
    assert_eq!(w.store.facts(earlier.run.id).await.unwrap().unwrap().events, earlier.events);
    let row = w.row("t").await;
    assert_eq!((row.next_fire_at, row.last_scheduled_at), (Some(today("12:02")), Some(today("12:01"))));
}

/// The key is there with other facts, which the product cannot have written: that trigger is set aside, and delays nobody else.
pub async fn a_key_with_other_facts_sets_its_trigger_aside(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![trigger("good", "a", "* * * * *"), trigger("bad", "a", "* * * * *")]).await;
    w.cycle().await;
    w.until("12:01").await;
    let claims = w.claim(16).await.claims;
    let mut foreign = w.decide(&claims[0]).admission(fixture.execution_owner(), ExecutorType::LocalProcess, claims[0].acquired_at).unwrap();
    assert_eq!(claims[0].candidate.trigger.id.as_str(), "bad");
    foreign.run.task_revision = 99;
    w.insert(&foreign).await.unwrap();
    let outcomes = w.commit(&claims).await;
    assert!(matches!(outcomes[..], [CommitOutcome::SetAside { .. }, CommitOutcome::Admitted { .. }]), "{outcomes:?}");
    let row = w.row("bad").await;
    assert!(row.set_aside.is_some());
    assert_eq!((row.next_fire_at, row.last_scheduled_at), (Some(today("12:01")), None));
}

/// A trigger without a further occurrence is set aside after its last one, and an edit gives it another chance.
pub async fn an_exhausted_trigger_is_set_aside_after_its_last_occurrence(fixture: &impl Fixture) {
    let w = world(fixture);
    let claim = due(&w).await;
    let action = Action::Admit { scheduled_for: today("12:01") };
    let last = Decision { observed_at: claim.acquired_at, action, next_fire_at: None, ledger: None };
    let ids = AdmissionIds::generate(&w.ids, claim.acquired_at);
    let commit = ScheduleCommit::new(claim, Verdict::Decided(last, Some(ids))).unwrap();
    assert_eq!(w.store.commit(vec![commit]).await.unwrap(), [CommitOutcome::Admitted { run_id: ids.run }]);
    let row = w.row("t").await;
    assert_eq!((row.next_fire_at, row.last_scheduled_at), (None, Some(today("12:01"))));
    let aside = row.set_aside.unwrap();
    assert_eq!((aside.at, aside.reason.as_str()), (today("12:01"), "no further occurrence"));
    fixture.elapse(MINUTE).await;
    assert_eq!(w.cycle().await, []);
    w.publish(vec![task("a")], vec![trigger("t", "a", "*/2 * * * *")]).await;
    assert_eq!(w.row("t").await.set_aside, None);
}

/// A trigger that cannot be evaluated is left alone with its reason, its cursor where it was; the others go on; an edit revives it.
pub async fn a_set_aside_trigger_delays_nobody_and_an_edit_revives_it(fixture: &impl Fixture) {
    let w = world(fixture);
    let pair = |cron| vec![trigger("bad", "a", cron), trigger("good", "a", "* * * * *")];
    w.publish(vec![task("a")], pair("* * * * *")).await;
    w.cycle().await;
    w.until("12:01").await;
    let claims = w.claim(16).await.claims;
    let reason = "\u{e4}".repeat(600);
    let aside = ScheduleCommit::new(claims[0].clone(), Verdict::SetAside(reason)).unwrap();
    let outcomes = w.store.commit(vec![aside, w.decide(&claims[1])]).await.unwrap();
    let cut = "\u{e4}".repeat(512);
    assert!(
        matches!(&outcomes[..], [CommitOutcome::SetAside { reason }, CommitOutcome::Admitted { .. }] if *reason == cut),
        "{outcomes:?}"
    );
    let row = w.row("bad").await;
    assert_eq!((row.next_fire_at, row.last_scheduled_at), (Some(today("12:01")), None));
    assert_eq!(row.set_aside.map(|aside| aside.reason), Some(cut), "1024 bytes, cut between characters");
    for _ in 0..3 {
        fixture.elapse(MINUTE).await;
        assert_eq!(w.admitted().await.len(), 1);
    }
    w.publish(vec![task("a")], pair("*/5 * * * *")).await;
    assert_eq!(w.row("bad").await.set_aside, None);
    assert_eq!(w.ledger("bad").await, [(LedgerReason::Superseded, today("12:01"), today("12:03"), 3)], "up to the edit at 12:04");
    w.until("12:05").await;
    w.cycle().await;
    assert_eq!(w.row("bad").await.last_scheduled_at, Some(today("12:05")));
}

/// C20: two hours of a minute job are outstanding. One Run stands for the latest of them, all others are in the ledger, and the numbers
/// add up.
pub async fn after_an_outage_every_occurrence_is_admitted_or_recorded(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    w.until("14:00:20").await;
    let runs = w.admitted().await;
    assert_eq!(w.store.run(runs[0]).await.unwrap().unwrap().scheduled_for, Some(today("14:00")));
    assert_eq!(w.ledger("t").await, [(LedgerReason::Collapsed, today("12:01"), today("13:59"), 119)]);
    let entries = w.store.ledger(&super::super::kit::project(), &"t".parse().unwrap(), today("12:00"), 500).await.unwrap();
    assert_eq!(entries[0].stretch.run_id, Some(runs[0]), "it names the Run that stands for it");
    assert_eq!(w.row("t").await.next_fire_at, Some(today("14:01")));
}

/// Later than the grace, `skip` admits nothing and `fire_once` the latest one.
pub async fn a_misfire_follows_the_policy(fixture: &impl Fixture) {
    let w = world(fixture);
    let once = TriggerSpec { misfire: Misfire::FireOnce, ..trigger("once", "a", "0 * * * *") };
    w.publish(vec![task("a")], vec![once, trigger("skip", "a", "0 * * * *")]).await;
    w.cycle().await;
    w.until("14:50").await;
    let outcomes = w.cycle().await;
    assert!(matches!(outcomes[..], [CommitOutcome::Admitted { .. }, CommitOutcome::Skipped]), "{outcomes:?}");
    assert_eq!(w.ledger("once").await, [(LedgerReason::Collapsed, today("13:00"), today("13:00"), 1)]);
    assert_eq!(w.ledger("skip").await, [(LedgerReason::Misfired, today("13:00"), today("14:00"), 2)]);
    assert_eq!(w.row("once").await.last_scheduled_at, Some(today("14:00")));
    assert_eq!(w.row("skip").await.last_scheduled_at, None);
    assert_eq!(w.row("skip").await.next_fire_at, Some(today("15:00")));
}
