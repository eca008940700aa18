//! New zone data.

use runtime_core::{
    cron::zone_data_version,
    ports::schedules::MovedCursor,
    schedule::{Action, CommitOutcome, Decision, ScheduleCommit, Verdict},
};

use super::super::kit::{World, assert_unchanged, code, project, task, today, trigger, trigger_id, world};
use crate::Fixture;

/// Triggers whose cursors were computed with zone data that said 13:37 instead of 13:00.
async fn computed_with_other_data<F: Fixture>(w: &World<'_, F>, ids: &[&str]) {
    let triggers = ids.iter().map(|id| trigger(id, "a", "0 * * * *")).collect();
    w.publish(vec![task("a")], triggers).await;
    let commit = |claim: runtime_core::schedule::ScheduleClaim| {
        let next_fire_at = Some(today("13:37"));
        let decision = Decision { observed_at: claim.acquired_at, action: Action::Initialize, next_fire_at, ledger: None };
        ScheduleCommit::new(claim, Verdict::Decided(decision, None)).unwrap()
    };
    let commits = w.claim(256).await.claims.into_iter().map(commit).collect();
    assert_eq!(w.store.commit(commits).await.unwrap(), vec![CommitOutcome::Initialized; ids.len()]);
}

/// A cursor in the future is computed again and reported; a due one is left to the decision; what has no cursor needs none. Once is enough.
pub async fn new_zone_data_moves_cursors_in_the_future_once(fixture: &impl Fixture) {
    let w = world(fixture);
    computed_with_other_data(&w, &["moves"]).await;
    let all = ["due", "moves", "new"].map(|id| trigger(id, "a", if id == "due" { "* * * * *" } else { "0 * * * *" }));
    w.publish(vec![task("a")], all[..2].to_vec()).await;
    assert_eq!(w.cycle().await, [CommitOutcome::Initialized]);
    w.until("12:01").await;
    w.publish(vec![task("a")], all.to_vec()).await;
    let before = [w.row("due").await.next_fire_at, w.row("new").await.next_fire_at];
    assert_eq!(before, [Some(today("12:01")), None]);

    let moved = MovedCursor { project_id: project(), trigger_id: trigger_id("moves"), from: today("13:37"), to: today("13:00") };
    assert_eq!(w.store.refresh_zone_data("2099z", 256).await.unwrap(), (vec![moved], false));
    assert_eq!([w.row("due").await.next_fire_at, w.row("new").await.next_fire_at], before);
    let row = w.row("moves").await;
    assert_eq!((row.next_fire_at, row.zone_data_version.as_str()), (Some(today("13:00")), "2099z"));
    let after = fixture.dump().await;
    assert_eq!(w.store.refresh_zone_data("2099z", 256).await.unwrap(), (vec![], false));
    assert_unchanged!(fixture, after);
    assert_eq!(w.admitted().await.len(), 1, "what was due is admitted as it would have been");
}

/// What was computed with the current data is not looked at.
pub async fn the_same_zone_data_changes_nothing(fixture: &impl Fixture) {
    let w = world(fixture);
    computed_with_other_data(&w, &["a", "b"]).await;
    let before = fixture.dump().await;
    assert_eq!(w.store.refresh_zone_data(zone_data_version(), 256).await.unwrap(), (vec![], false));
    assert_unchanged!(fixture, before);
}

/// A great many cursors are moved a page at a time.
pub async fn new_zone_data_is_taken_over_in_pages(fixture: &impl Fixture) {
    let w = world(fixture);
    computed_with_other_data(&w, &["a", "b", "c"]).await;
    assert_eq!(code(w.store.refresh_zone_data("2099z", 0).await), "invalid_input");
    let mut moved = Vec::new();
    for round in 0.. {
        let (page, more) = w.store.refresh_zone_data("2099z", 2).await.unwrap();
        assert!(page.len() <= 2);
        moved.extend(page);
        if !more {
            break;
        }
        assert!(round < 3, "three rows are not that many pages");
    }
    assert_eq!(moved.iter().map(|m| m.trigger_id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}
