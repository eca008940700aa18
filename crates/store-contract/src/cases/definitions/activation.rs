//! An edit fires nothing of the past, loses nothing of it, and doubles nothing.

use runtime_core::{
    TimestampMs,
    definition::{TaskSpec, TriggerSpec},
    schedule::{CommitOutcome, LedgerReason},
};

use super::super::kit::{MINUTE, task, today, trigger, world};
use crate::Fixture;

fn timer() -> TriggerSpec {
    trigger("t", "a", "* * * * *")
}

fn at(text: &str) -> TimestampMs {
    TimestampMs::parse(text).unwrap()
}

/// C21b: "monthly on the 10th", edited on the 12th to "on the 11th": a revision has no occurrences before its own activation.
pub async fn an_edit_does_not_fire_the_past(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "0 0 10 * *")).await;
    fixture.set_clock(at("2026-01-10T00:00:00Z")).await;
    assert_eq!(w.admitted().await.len(), 1);
    fixture.set_clock(at("2026-01-12T09:00:00Z")).await;
    w.publish(vec![task("a")], vec![trigger("t", "a", "0 0 11 * *")]).await;
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(at("2026-02-11T00:00:00Z")));
    assert_eq!(w.ledger("t").await, []);
}

/// What was due and not yet admitted is recorded under the revision that owed it.
pub async fn what_an_edit_supersedes_is_recorded(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:03:30").await;
    let published = w.publish(vec![task("a")], vec![trigger("t", "a", "*/2 * * * *")]).await;
    assert_eq!(published.ledger.len(), 1);
    assert_eq!((published.ledger[0].trigger_revision, published.ledger[0].recorded_at), (1, today("12:03:30")));
    assert_eq!(w.ledger("t").await, [(LedgerReason::Superseded, today("12:01"), today("12:03"), 3)]);
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(today("12:04")));
}

/// An edit in the very instant of an admission: the key has a new revision in it, and the occurrence is still admitted once.
pub async fn an_edit_does_not_double_an_occurrence(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    assert_eq!(w.admitted().await.len(), 1);
    w.publish(vec![task("a")], vec![TriggerSpec { name: Some("renamed".into()), ..timer() }]).await;
    let row = w.row("t").await;
    assert_eq!((row.next_fire_at, row.last_scheduled_at, row.activated_at), (None, Some(today("12:01")), today("12:01")));
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.count_runs().await, 1);
}

/// An occurrence in the very instant of an edit, not yet admitted, is the new revision's.
pub async fn an_occurrence_in_the_instant_of_an_edit_belongs_to_the_new_revision(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    w.publish(vec![task("a")], vec![TriggerSpec { name: Some("renamed".into()), ..timer() }]).await;
    let run = w.store.run(w.admitted().await[0]).await.unwrap().unwrap();
    assert_eq!((run.scheduled_for, run.trigger_revision), (Some(today("12:01")), Some(2)));
    assert_eq!(w.ledger("t").await, []);
}

/// Archived: what was due is recorded as that, also in the very instant; published again it begins anew.
pub async fn an_archive_records_what_was_due(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:02").await;
    w.publish(vec![task("a")], vec![]).await;
    assert_eq!(w.ledger("t").await, [(LedgerReason::Archived, today("12:01"), today("12:02"), 2)]);
    w.until("12:30").await;
    assert_eq!(w.cycle().await, []);
    w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(w.ledger("t").await.len(), 1, "an archived trigger owes nothing");
    assert_eq!(w.store.run(w.admitted().await[0]).await.unwrap().unwrap().scheduled_for, Some(today("12:30")));
}

/// A disabled trigger rests: it owes nothing meanwhile, and enabling it fires nothing of the past.
pub async fn a_disabled_trigger_owes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01:30").await;
    w.publish(vec![task("a")], vec![TriggerSpec { enabled: false, ..timer() }]).await;
    let superseded = (LedgerReason::Superseded, today("12:01"), today("12:01"), 1);
    assert_eq!(w.ledger("t").await, [superseded]);
    w.until("12:30:30").await;
    w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(w.ledger("t").await, [superseded]);
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    assert_eq!(w.row("t").await.next_fire_at, Some(today("12:31")));
}

/// The same when it is the task that rests, though the trigger's own revision stays.
pub async fn a_trigger_of_a_disabled_task_owes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01:30").await;
    w.publish(vec![TaskSpec { enabled: false, ..task("a") }], vec![timer()]).await;
    let superseded = (LedgerReason::Superseded, today("12:01"), today("12:01"), 1);
    assert_eq!(w.ledger("t").await, [superseded]);
    assert!(!w.item("t").await.task_live);
    w.until("12:30:30").await;
    w.publish(vec![task("a")], vec![timer()]).await;
    assert_eq!(w.ledger("t").await, [superseded]);
    let row = w.row("t").await;
    assert_eq!((row.trigger_revision, row.activated_at), (1, today("12:30:30")));
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    fixture.elapse(MINUTE).await;
    assert_eq!(w.admitted().await.len(), 1);
}

/// Another priority, another command: the schedule is not edited, and what is due is admitted under the new task revision.
pub async fn an_edit_of_a_task_keeps_what_is_due(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(timer()).await;
    w.until("12:01").await;
    w.publish(vec![TaskSpec { priority: 5, ..task("a") }], vec![timer()]).await;
    let run = w.store.run(w.admitted().await[0]).await.unwrap().unwrap();
    assert_eq!((run.scheduled_for, run.task_revision, run.priority), (Some(today("12:01")), 2, 5));
    assert_eq!(w.ledger("t").await, []);
}
