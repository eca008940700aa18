//! Rows that only a hand or a disk can have written: named by table, column and row, and nobody else is held up.

use runtime_core::{
    StoreError,
    ports::{
        control::ControlStore,
        definitions::DefinitionStore,
        dispatch::{DispatchClaim, DispatchStore},
        history::{HistoryStore, RunFilter},
        runs::RunReader,
    },
    run::{CancelReason, RunStatus},
    schedule::CommitOutcome,
};
use store_contract::{Fixture, SeededIds};

use crate::{
    fixture::SqliteFixture,
    kit::{MINUTE, claim, cycle, decide, dispatch_claim, minutely, operator, project, publish, session, start_task, task, trigger_id},
};
use runtime_core::ports::schedules::ScheduleStore;

#[tokio::test]
async fn every_kind_of_damage_is_named() {
    let fixture = SqliteFixture::fresh().await;
    let store = &fixture.store;
    publish(store, vec![task("a")], vec![]).await;
    let run = start_task(store, "a").await.unwrap();
    let raw = fixture.raw();
    let columns = [
        ("project_id", "'no project'"),
        ("task_digest", "'0123'"),
        ("trigger_type", "'lunar'"),
        ("status", "'resting'"),
        ("version", "9007199254740992"),
        ("version", "-1"),
        ("priority", "4294967296"),
        ("created_at_ms", "-1"),
        ("retry_of_run_id", "'0199c5f47b1e7c3d8f000123456789ab0000'"),
        ("cancel_reason", "'boredom'"),
        ("legacy_cron_id", "9007199254740992"),
    ];
    for (column, value) in columns {
        let before: rusqlite::types::Value = raw.query_row(&format!("SELECT {column} FROM runs"), [], |row| row.get(0)).unwrap();
        raw.execute_batch(&format!("UPDATE runs SET {column} = {value}")).unwrap();
        let expected = StoreError::corrupt("runs", column, run);
        assert_eq!(store.run(run).await.unwrap_err(), expected, "{column} = {value}");
        assert_eq!(store.runs(&RunFilter::default(), None, 10).await.unwrap_err(), expected, "in a list");
        raw.execute(&format!("UPDATE runs SET {column} = ?1"), [before]).unwrap();
    }
    assert!(store.run(run).await.unwrap().is_some());
}

#[tokio::test]
async fn two_marks_are_corrupt() {
    let fixture = SqliteFixture::fresh().await;
    publish(&fixture.store, vec![task("a")], vec![]).await;
    fixture.raw().execute_batch("INSERT INTO clock_mark VALUES (2, 0)").unwrap();
    assert_eq!(fixture.store.clock_mark().await.unwrap_err(), StoreError::corrupt("clock_mark", "*", 2));
}

#[tokio::test]
async fn an_unreadable_definition_holds_up_no_other_trigger() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![minutely("bad", "a"), minutely("good", "a")]).await;
    fixture.raw().execute_batch("UPDATE trigger_revisions SET canonical = '{}' WHERE trigger_id = 'bad'").unwrap();
    assert_eq!(cycle(store, &ids).await, [CommitOutcome::Initialized]);
    fixture.clock.advance(MINUTE);
    let outcomes = cycle(store, &ids).await;
    assert!(matches!(outcomes[..], [CommitOutcome::Admitted { .. }]), "{outcomes:?}");
    let refused = store.trigger(&project(), &trigger_id("bad")).await.unwrap_err();
    assert_eq!(refused, StoreError::corrupt("trigger_revisions", "canonical", "default/bad/1"));
    assert_eq!(store.heads(&project()).await.unwrap_err(), refused);
}

#[tokio::test]
async fn an_unreadable_run_holds_up_no_other_run() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![]).await;
    let bad = start_task(store, "a").await.unwrap();
    fixture.clock.advance(1);
    let good = start_task(store, "a").await.unwrap();
    fixture.raw().execute("UPDATE runs SET version = -1 WHERE id = ?1", [bad.to_string()]).unwrap();
    let session = session(store, &ids).await;
    let page = store.claim(&dispatch_claim(&session, &ids)).await.unwrap();
    assert_eq!(page.leases.iter().map(|lease| lease.run.id).collect::<Vec<_>>(), [good]);
    // The same for leases that have expired.
    fixture.raw().execute("UPDATE runs SET version = 2, status = 'queued' WHERE id = ?1", [bad.to_string()]).unwrap();
    store.claim(&dispatch_claim(&session, &ids)).await.unwrap();
    fixture.raw().execute("UPDATE runs SET version = -1 WHERE id = ?1", [bad.to_string()]).unwrap();
    fixture.clock.advance(30_000);
    let expired = store.expire(256).await.unwrap();
    assert_eq!(expired.lost.iter().map(|(_, run, _)| *run).collect::<Vec<_>>(), [good]);
    assert!(store.expire(256).await.unwrap().lost.is_empty(), "the other one is not found again and again");
}

/// One row of a page cannot be written: it is set aside with the reason, and the others are admitted.
#[tokio::test]
async fn a_row_that_cannot_be_written_holds_up_no_other_row_of_its_page() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![minutely("bad", "a"), minutely("good", "a")]).await;
    assert_eq!(cycle(store, &ids).await, [CommitOutcome::Initialized, CommitOutcome::Initialized]);
    fixture
        .raw()
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE INSERT ON runs WHEN NEW.trigger_id = 'bad' BEGIN SELECT RAISE(ABORT, 'refused by hand'); END",
        )
        .unwrap();
    fixture.clock.advance(MINUTE);
    let page = claim(store, &ids).await;
    let outcomes = store.commit(page.claims.iter().map(|claim| decide(claim, &ids)).collect()).await.unwrap();
    let [CommitOutcome::SetAside { reason }, CommitOutcome::Admitted { .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(reason.contains("refused by hand"), "{reason}");
    let item = store.trigger(&project(), &trigger_id("bad")).await.unwrap().unwrap();
    assert!(item.schedule.set_aside.is_some() && item.schedule.last_scheduled_at.is_none());
}

/// Damage that reads well but contradicts itself: the change of that Run fails, for whatever rule, and nobody else's does.
#[tokio::test]
async fn a_run_that_contradicts_itself_holds_up_no_other_run() {
    let damages = [
        ("a fact of the future", "UPDATE run_events SET sequence = 3 WHERE run_id = ?1 AND sequence = 2"),
        ("no room for another version", "UPDATE runs SET version = 9007199254740991 WHERE id = ?1"),
        ("an attempt that has ended", "UPDATE run_attempts SET status = 'failed' WHERE run_id = ?1"),
    ];
    for (name, damage) in damages {
        let fixture = SqliteFixture::fresh().await;
        let (store, ids) = (&fixture.store, SeededIds::new(3));
        publish(store, vec![task("a")], vec![]).await;
        let bad = start_task(store, "a").await.unwrap();
        fixture.clock.advance(1);
        let good = start_task(store, "a").await.unwrap();
        fixture.raw().execute(damage, [bad.to_string()]).unwrap();
        let session = session(store, &ids).await;
        // With one slot, the first in the queue would keep it for ever.
        let claim = DispatchClaim { slots: 1, ..dispatch_claim(&session, &ids) };
        let page = store.claim(&claim).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(page.leases.iter().map(|lease| lease.run.id).collect::<Vec<_>>(), [good], "{name}");
        assert_eq!(store.run(bad).await.unwrap().unwrap().status, RunStatus::Queued, "{name}: untouched");
    }
}

/// The same for a retry that is due.
#[tokio::test]
async fn a_retry_of_a_run_that_has_ended_holds_up_no_dispatch() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![]).await;
    let bad = start_task(store, "a").await.unwrap();
    store.cancel(bad, CancelReason::User, &operator()).await.unwrap();
    fixture.raw().execute("UPDATE run_retry_policies SET next_attempt_at_ms = 1 WHERE run_id = ?1", [bad.to_string()]).unwrap();
    let good = start_task(store, "a").await.unwrap();
    let session = session(store, &ids).await;
    let page = store.claim(&dispatch_claim(&session, &ids)).await.unwrap();
    assert_eq!(page.leases.iter().map(|lease| lease.run.id).collect::<Vec<_>>(), [good]);
}

/// And for leases: at expiry, and when a new session asks what the earlier ones left behind.
#[tokio::test]
async fn a_damaged_lease_holds_up_no_other_lease() {
    let damages = [
        ("the Run cannot change", "UPDATE run_events SET sequence = 4 WHERE run_id = ?1 AND sequence = 3"),
        ("the Run cannot be read", "UPDATE runs SET status = 'resting' WHERE id = ?1"),
        ("the lease cannot be read", "UPDATE run_dispatch_leases SET token_hash = 'x' WHERE run_id = ?1"),
    ];
    for (name, damage) in damages {
        let fixture = SqliteFixture::fresh().await;
        let (store, ids) = (&fixture.store, SeededIds::new(3));
        publish(store, vec![task("a")], vec![]).await;
        let bad = start_task(store, "a").await.unwrap();
        let good = start_task(store, "a").await.unwrap();
        let first = session(store, &ids).await;
        assert_eq!(store.claim(&dispatch_claim(&first, &ids)).await.unwrap().leases.len(), 2);
        fixture.raw().execute(damage, [bad.to_string()]).unwrap();
        let next = session(store, &ids).await;
        let open = store.earlier_leases(&next, 256).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(open.iter().any(|lease| lease.run.id == good), "{name}");
        fixture.clock.advance(30_000);
        let expired = store.expire(256).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(expired.lost.iter().map(|(_, run, _)| *run).collect::<Vec<_>>(), [good], "{name}");
    }
}
