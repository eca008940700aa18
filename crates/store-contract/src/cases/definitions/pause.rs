//! A pause keeps occurrences back, and says so.

use runtime_core::{
    TimestampMs,
    cron::{CronExpr, TimeZone},
    definition::{Overlap, TaskSpec, TriggerSpec},
    ids::RunId,
    ports::definitions::{Missed, Operator, PauseCommand, PauseOutcome},
    run::{ActorType, AttemptStatus, RunStatus, TriggerType},
    schedule::{CommitOutcome, LedgerReason},
};

use super::super::kit::{World, assert_unchanged, code, operator, project, task, task_id, today, trigger, trigger_id, world};
use crate::Fixture;

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

fn at(text: &str) -> TimestampMs {
    TimestampMs::parse(text).unwrap()
}

fn command(paused: bool, missed: Missed) -> PauseCommand {
    PauseCommand { project_id: project(), trigger_id: trigger_id("t"), paused, missed, by: operator() }
}

async fn pause<F: Fixture>(w: &World<'_, F>) -> PauseOutcome {
    w.store.set_paused(&command(true, Missed::Skip)).await.unwrap()
}

async fn resume<F: Fixture>(w: &World<'_, F>, missed: Missed) -> PauseOutcome {
    w.store.set_paused(&command(false, missed)).await.unwrap()
}

/// Fridays at 20:45 in Moscow.
fn weekly(zone: &str) -> TriggerSpec {
    let (cron, zone) = (CronExpr::parse("45 20 * * 5").unwrap(), TimeZone::parse(zone).unwrap());
    TriggerSpec::new(trigger_id("t"), task_id("a"), &cron, &zone)
}

/// C21a: paused before Friday 2025-02-21, resumed on Monday.
async fn paused_over_a_friday<F: Fixture>(w: &World<'_, F>) {
    w.fixture.set_clock(at("2025-02-17T09:00:00Z")).await;
    w.scheduled(weekly("Europe/Moscow")).await;
    w.fixture.set_clock(at("2025-02-20T09:00:00Z")).await;
    assert!(pause(w).await.changed);
    w.fixture.set_clock(at("2025-02-24T09:00:00Z")).await;
    assert_eq!(w.cycle().await, []);
}

const FRIDAY: &str = "2025-02-21T17:45:00Z";

pub async fn a_resume_does_not_fire_the_past(fixture: &impl Fixture) {
    let w = world(fixture);
    paused_over_a_friday(&w).await;
    let outcome = resume(&w, Missed::Skip).await;
    assert_eq!((outcome.changed, outcome.admitted), (true, None));
    assert_eq!(outcome.ledger.map(|entry| entry.stretch.count), Some(1));
    assert_eq!(w.ledger("t").await, [(LedgerReason::Paused, at(FRIDAY), at(FRIDAY), 1)]);
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(at("2025-02-28T17:45:00Z")));
    assert_eq!(w.count_runs().await, 0);
}

/// With the choice of one, the Friday is made up for, on the operator's account, and stands in no ledger.
pub async fn a_resume_may_make_up_for_the_latest(fixture: &impl Fixture) {
    let w = world(fixture);
    paused_over_a_friday(&w).await;
    let outcome = resume(&w, Missed::One).await;
    let run_id = outcome.admitted.unwrap();
    assert_eq!(outcome.ledger, None);
    let found = w.store.facts(run_id).await.unwrap().unwrap();
    let (run, resumed) = (&found.run, at("2025-02-24T09:00:00Z"));
    assert_eq!((run.status, run.version, run.scheduled_for, run.created_at), (RunStatus::Queued, 2, Some(at(FRIDAY)), resumed));
    assert_eq!((run.trigger_type, run.triggered_by.as_deref()), (TriggerType::Cron, Some("ada")));
    assert_eq!(run.idempotency_key.as_deref(), Some(format!("ql3:cron:v1:t:1:{}", at(FRIDAY).get()).as_str()));
    assert_eq!((found.attempts.len(), found.attempts[0].status), (1, AttemptStatus::Claimed));
    assert!(found.policy.is_some() && found.events.len() == 2);
    assert!(found.events.iter().all(|e| e.actor.kind == ActorType::User && e.actor.id.as_deref() == Some("ada")));
    assert_eq!(w.ledger("t").await, []);
    assert_eq!(w.row("t").await.last_scheduled_at, Some(at(FRIDAY)));
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(at("2025-02-28T17:45:00Z")));
}

/// C21c: the zone is changed while paused. The pause stays, the Friday of the old zone is recorded, and nothing of the new one fires.
pub async fn an_edit_while_paused_keeps_the_pause(fixture: &impl Fixture) {
    let w = world(fixture);
    paused_over_a_friday(&w).await;
    let before = w.row("t").await.paused;
    w.publish(vec![task("a")], vec![weekly("America/New_York")]).await;
    assert_eq!(w.row("t").await.paused, before);
    let friday = (LedgerReason::Paused, at(FRIDAY), at(FRIDAY), 1);
    assert_eq!(w.ledger("t").await, [friday]);
    assert_eq!(w.cycle().await, []);
    let outcome = resume(&w, Missed::One).await;
    assert_eq!((outcome.ledger, outcome.admitted), (None, None), "the new revision has missed nothing");
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(at("2025-03-01T01:45:00Z")));
    assert_eq!(w.ledger("t").await, [friday]);
}

/// Of many the latest runs; the others stay recorded, and the numbers add up.
pub async fn of_many_missed_occurrences_one_is_made_up_for(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    pause(&w).await;
    w.until("12:05:30").await;
    let outcome = resume(&w, Missed::One).await;
    let run = w.store.run(outcome.admitted.unwrap()).await.unwrap().unwrap();
    assert_eq!(run.scheduled_for, Some(today("12:05")));
    assert_eq!(w.ledger("t").await, [(LedgerReason::Paused, today("12:01"), today("12:04"), 4)]);
    assert_eq!(outcome.ledger.unwrap().stretch.count, 4);
    w.cycle().await;
    w.until("12:06").await;
    assert_eq!(w.admitted().await.len(), 1);
    assert_eq!(w.count_runs().await, 2);
}

pub async fn a_resume_that_missed_nothing_makes_up_for_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    pause(&w).await;
    w.until("12:00:50").await;
    let outcome = resume(&w, Missed::One).await;
    assert_eq!(outcome, PauseOutcome { changed: true, ledger: None, admitted: None });
    assert_eq!(w.count_runs().await, 0);
}

/// Where the policy is to skip overlaps and a Run is unfinished, a resume makes up for nothing: all of it stays recorded as paused.
pub async fn a_resume_respects_the_overlap_policy(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(TriggerSpec { overlap: Overlap::Skip, ..timer() }).await;
    w.until("12:01").await;
    let unfinished: RunId = w.admitted().await[0];
    pause(&w).await;
    w.until("12:05:30").await;
    let outcome = resume(&w, Missed::One).await;
    assert_eq!(outcome.admitted, None);
    assert_eq!(w.ledger("t").await, [(LedgerReason::Paused, today("12:02"), today("12:05"), 4)]);
    assert_eq!(w.store.run_ids(None, 500).await.unwrap(), [unfinished]);
}

/// A trigger that rests has missed nothing.
pub async fn a_resume_of_a_resting_trigger_makes_up_for_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    pause(&w).await;
    w.publish(vec![TaskSpec { enabled: false, ..task("a") }], vec![timer()]).await;
    w.until("12:05:30").await;
    let outcome = resume(&w, Missed::One).await;
    assert_eq!(outcome, PauseOutcome { changed: true, ledger: None, admitted: None });
}

/// Already so: nothing is written, and the first pause keeps its name, its reason and its time.
pub async fn pausing_twice_changes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    let not_paused = fixture.dump().await;
    assert!(!resume(&w, Missed::One).await.changed);
    assert_unchanged!(fixture, not_paused);
    let by = Operator { name: "grace".into(), reason: Some("broken disk".into()) };
    assert!(w.store.set_paused(&PauseCommand { by, ..command(true, Missed::Skip) }).await.unwrap().changed);
    w.until("12:10").await;
    let before = fixture.dump().await;
    assert_eq!(pause(&w).await, PauseOutcome { changed: false, ledger: None, admitted: None });
    assert_unchanged!(fixture, before);
    let paused = w.row("t").await.paused.unwrap();
    assert_eq!((paused.at, paused.by.as_str(), paused.reason.as_deref()), (today("12:00:30"), "grace", Some("broken disk")));
}

/// A pause is a fact of the schedule, not of the definition: applying a file never touches it, and makes no revision of it.
pub async fn applying_a_file_never_touches_a_pause(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    pause(&w).await;
    let paused = w.row("t").await.paused;
    assert!(paused.is_some());
    w.publish(vec![task("a")], vec![timer()]).await;
    w.publish(vec![task("a")], vec![trigger("t", "a", "*/5 * * * *")]).await;
    assert_eq!(w.row("t").await.paused, paused);
    assert_eq!(w.item("t").await.head.revision, 2, "the edit is the only revision");
}

/// What was due when the pause began is recorded as paused too.
pub async fn a_pause_records_what_was_due(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:02:30").await;
    let outcome = pause(&w).await;
    assert_eq!(outcome.ledger.map(|entry| entry.stretch.count), Some(2));
    w.until("12:04:30").await;
    resume(&w, Missed::Skip).await;
    let total: u32 = w.ledger("t").await.iter().map(|(reason, .., count)| if *reason == LedgerReason::Paused { *count } else { 0 }).sum();
    assert_eq!(total, 4);
    w.cycle().await;
    assert_eq!(w.row("t").await.next_fire_at, Some(today("12:05")));
}

pub async fn pausing_what_is_not_there_is_not_found(fixture: &impl Fixture) {
    let w = world(fixture);
    w.publish(vec![task("a")], vec![timer()]).await;
    w.publish(vec![task("a")], vec![]).await;
    let before = fixture.dump().await;
    assert_eq!(code(w.store.set_paused(&command(true, Missed::Skip)).await), "not_found", "archived");
    let unknown = PauseCommand { trigger_id: trigger_id("absent"), ..command(true, Missed::Skip) };
    assert_eq!(code(w.store.set_paused(&unknown).await), "not_found");
    assert_unchanged!(fixture, before);
}

/// Pause and resume are acts.
pub async fn a_pause_and_a_resume_are_acts(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    pause(&w).await;
    resume(&w, Missed::Skip).await;
    let acts: Vec<_> = w.store.acts(2).await.unwrap().into_iter().map(|act| (act.act, act.object)).collect();
    assert_eq!(acts, [("resume".to_owned(), "t".to_owned()), ("pause".to_owned(), "t".to_owned())]);
}
