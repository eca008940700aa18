//! Why an occurrence did not run, told once; and what never goes back.

use runtime_core::{
    definition::{Misfire, Overlap, TriggerSpec},
    run::CancelReason,
    schedule::{CommitOutcome, LedgerReason},
};

use super::super::kit::{MINUTE, operator, project, task, today, trigger, trigger_id, world};
use crate::Fixture;

fn hourly() -> TriggerSpec {
    trigger("t", "a", "0 * * * *")
}

fn exclusive() -> TriggerSpec {
    TriggerSpec { overlap: Overlap::Skip, ..trigger("t", "a", "* * * * *") }
}

/// Two misfires in a row are one stretch, stamped by its latest extension.
pub async fn an_open_stretch_is_extended_not_repeated(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(hourly()).await;
    for (time, until, count) in [("13:50", "13:00", 1), ("14:50", "14:00", 2), ("16:50", "16:00", 4)] {
        w.until(time).await;
        assert_eq!(w.cycle().await, [CommitOutcome::Skipped]);
        assert_eq!(w.ledger("t").await, [(LedgerReason::Misfired, today("13:00"), today(until), count)]);
        let entries = w.store.ledger(&project(), &trigger_id("t"), today("12:00"), 1).await.unwrap();
        assert_eq!(entries[0].recorded_at, today(time));
    }
}

/// An admission in between ends a stretch: the next misfire begins another.
pub async fn a_stretch_is_not_extended_across_an_admission(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(hourly()).await;
    w.until("13:50").await;
    w.cycle().await;
    w.until("14:00").await;
    assert_eq!(w.admitted().await.len(), 1);
    w.until("15:50").await;
    w.cycle().await;
    let misfired = |at| (LedgerReason::Misfired, today(at), today(at), 1);
    assert_eq!(w.ledger("t").await, [misfired("15:00"), misfired("13:00")]);
}

/// Nor across an edit: an entry speaks of one revision.
pub async fn a_stretch_is_not_extended_across_a_revision(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(hourly()).await;
    w.until("13:50").await;
    w.cycle().await;
    w.publish(vec![task("a")], vec![TriggerSpec { name: Some("renamed".into()), ..hourly() }]).await;
    w.until("14:50").await;
    assert_eq!(w.cycle().await, [CommitOutcome::Skipped]);
    let entries = w.store.ledger(&project(), &trigger_id("t"), today("12:00"), 500).await.unwrap();
    assert_eq!(entries.iter().map(|e| (e.trigger_revision, e.stretch.count)).collect::<Vec<_>>(), [(2, 1), (1, 1)]);
}

/// Counts stop at 1000 and say so.
pub async fn a_count_is_capped_and_says_so(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(TriggerSpec { misfire: Misfire::FireOnce, ..trigger("t", "a", "* * * * *") }).await;
    fixture.elapse(2_000 * MINUTE).await;
    assert_eq!(w.admitted().await.len(), 1);
    let entries = w.store.ledger(&project(), &trigger_id("t"), today("12:00"), 500).await.unwrap();
    assert_eq!((entries[0].stretch.count, entries[0].stretch.capped, entries[0].stretch.from), (1_000, true, today("12:01")));
}

/// While a Run of the trigger is unfinished its occurrences are recorded with that Run, as one stretch; once it has ended they run again.
pub async fn an_overlap_is_recorded_with_the_run_in_the_way(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(exclusive()).await;
    w.until("12:01").await;
    let first = w.admitted().await[0];
    for time in ["12:02", "12:03", "12:05"] {
        w.until(time).await;
        assert_eq!(w.cycle().await, [CommitOutcome::Skipped]);
    }
    assert_eq!(w.ledger("t").await, [(LedgerReason::Overlap, today("12:02"), today("12:05"), 4)]);
    let entries = w.store.ledger(&project(), &trigger_id("t"), today("12:00"), 500).await.unwrap();
    assert_eq!(entries[0].stretch.run_id, Some(first));
    assert_eq!(w.row("t").await.last_scheduled_at, Some(today("12:01")), "only an admission moves it");
    w.store.cancel(first, CancelReason::User, &operator()).await.unwrap();
    w.until("12:06").await;
    let second = w.admitted().await;
    assert_eq!(second.len(), 1);
    w.until("12:07").await;
    w.cycle().await;
    let overlap = |from, to, count| (LedgerReason::Overlap, today(from), today(to), count);
    assert_eq!(w.ledger("t").await, [overlap("12:07", "12:07", 1), overlap("12:02", "12:05", 4)]);
}

/// The default: occurrences do not wait for each other.
pub async fn an_overlap_is_admitted_where_the_policy_allows_it(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    for time in ["12:01", "12:02"] {
        w.until(time).await;
        assert_eq!(w.admitted().await.len(), 1);
    }
    assert_eq!(w.ledger("t").await, []);
}

/// C22c: the clock goes back and comes forward again. No instant is admitted twice, and neither cursor nor latest admission go back.
pub async fn a_cursor_never_goes_back(fixture: &impl Fixture) {
    let w = world(fixture);
    w.scheduled(trigger("t", "a", "* * * * *")).await;
    let mut seen = (None, None);
    for time in ["12:01", "12:05", "12:03:30", "12:04", "12:05:30", "12:06", "11:00", "12:05:59", "12:06", "12:20", "12:07", "12:21"] {
        w.until(time).await;
        w.cycle().await;
        let row = w.row("t").await;
        assert!((row.next_fire_at, row.last_scheduled_at) >= seen, "{time}: {row:?} after {seen:?}");
        seen = (row.next_fire_at, row.last_scheduled_at);
    }
    let runs = w.store.occurrences(&project(), &trigger_id("t"), today("11:00"), today("13:00"), 500).await.unwrap();
    let times: Vec<_> = runs.iter().map(|run| run.scheduled_for.unwrap()).collect();
    assert_eq!(times, ["12:01", "12:05", "12:06", "12:20", "12:21"].map(today));
    let recorded: u32 = w.ledger("t").await.iter().map(|(.., count)| count).sum();
    assert_eq!(recorded, 3 + 13, "12:02 to 12:04, and 12:07 to 12:19");
}
