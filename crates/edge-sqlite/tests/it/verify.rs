//! `verify` on what a hand has changed, and on what nobody has.

use runtime_core::{
    definition::{Overlap, TaskSpec, TriggerSpec},
    ports::{
        control::ControlStore,
        definitions::{DefinitionStore, Missed, PauseCommand},
        history::HistoryStore,
        schedules::ScheduleStore,
    },
    run::CancelReason,
    verify::verify,
};
use store_contract::{Fixture, SeededIds};

use crate::{
    fixture::SqliteFixture,
    kit::{MINUTE, cycle, minutely, operator, project, publish, task, trigger_id},
};

fn timers() -> Vec<TriggerSpec> {
    vec![minutely("t", "a"), TriggerSpec { overlap: Overlap::Skip, ..minutely("o", "a") }]
}

/// `t`: 12:01, 12:11 and 12:12 admitted, the ones between collapsed. `o`: 12:01 admitted and unfinished, all others recorded. Both
/// cursors at 12:13.
async fn some_minutes() -> SqliteFixture {
    let fixture = SqliteFixture::fresh().await;
    let ids = SeededIds::new(3);
    publish(&fixture.store, vec![task("a")], timers()).await;
    for minutes in [0, 1, 10, 1] {
        fixture.clock.advance(minutes * MINUTE);
        cycle(&fixture.store, &ids).await;
    }
    fixture
}

#[tokio::test]
async fn every_change_by_hand_is_found() {
    let of_t = "id = (SELECT min(id) FROM runs WHERE trigger_id = 't')";
    let changes = [
        ("occurrence_lost", format!("DELETE FROM runs WHERE {of_t}")),
        ("occurrence_lost", "DELETE FROM schedule_ledger WHERE trigger_id = 't'".to_owned()),
        ("occurrence_lost", "UPDATE trigger_schedules SET next_fire_at_ms = next_fire_at_ms + 60000 WHERE trigger_id = 't'".to_owned()),
        ("cursor_back", "UPDATE trigger_schedules SET next_fire_at_ms = next_fire_at_ms - 60000 WHERE trigger_id = 't'".to_owned()),
        ("cursor_back", "UPDATE trigger_schedules SET next_fire_at_ms = next_fire_at_ms - 60000 WHERE trigger_id = 'o'".to_owned()),
        ("proof_behind", "UPDATE trigger_schedules SET last_scheduled_at_ms = last_scheduled_at_ms - 60000".to_owned()),
        ("occurrence_twice", "UPDATE schedule_ledger SET to_ms = to_ms + 60000 WHERE trigger_id = 't'".to_owned()),
        ("ledger_entry", "UPDATE schedule_ledger SET count = 1".to_owned()),
        (
            "occurrence_doubled",
            "CREATE TEMP TABLE copy AS SELECT * FROM runs LIMIT 1;
             UPDATE copy SET id = 'ffffffff-ffff-7fff-bfff-ffffffffffff', trigger_revision = 2, idempotency_key = 'k';
             INSERT INTO runs SELECT * FROM copy"
                .to_owned(),
        ),
        ("occurrence_key", format!("UPDATE runs SET scheduled_for_ms = scheduled_for_ms + 1000 WHERE {of_t}")),
        ("pinned_digest", format!("UPDATE runs SET trigger_digest = replace(hex(zeroblob(32)), 'A', 'a') WHERE {of_t}")),
        ("digest_mismatch", "UPDATE trigger_revisions SET digest = hex(zeroblob(32))".to_owned()),
        ("digest_mismatch", "UPDATE task_revisions SET digest = hex(zeroblob(32))".to_owned()),
        ("revision_missing", "DELETE FROM task_revisions".to_owned()),
        ("event_sequence", format!("DELETE FROM run_events WHERE sequence = 2 AND run_{of_t}")),
        ("event_story", format!("UPDATE runs SET status = 'running' WHERE {of_t}")),
        ("run_finished", format!("UPDATE runs SET finished_at_ms = 1 WHERE {of_t}")),
        ("run_version", format!("UPDATE runs SET version = 3 WHERE {of_t}")),
        ("attempt_missing", format!("DELETE FROM run_attempts WHERE run_{of_t}")),
        ("attempt_status", format!("UPDATE run_attempts SET status = 'starting' WHERE run_{of_t}")),
        ("policy_missing", format!("DELETE FROM run_retry_policies WHERE run_{of_t}")),
        ("policy_next_attempt", format!("UPDATE run_retry_policies SET next_attempt_at_ms = 1 WHERE run_{of_t}")),
    ];
    for (code, change) in changes {
        let fixture = some_minutes().await;
        assert_eq!(verify(&fixture.store).await.unwrap().findings, []);
        fixture.raw().execute_batch(&change).unwrap();
        let found: Vec<_> = verify(&fixture.store).await.unwrap().findings.into_iter().map(|finding| finding.code).collect();
        assert!(found.contains(&code), "{change}: {found:?}");
    }
}

#[tokio::test]
async fn nothing_is_found_whatever_operators_and_clocks_do() {
    let fixture = some_minutes().await;
    let (store, clock, ids) = (&fixture.store, &fixture.clock, SeededIds::new(4));
    let go = async |minutes: u64| {
        clock.advance(minutes * MINUTE);
        cycle(store, &ids).await;
        let found = verify(store).await.unwrap();
        assert_eq!(found.findings, []);
        found.runs
    };
    let off = || vec![TaskSpec { enabled: false, ..task("a") }];
    let pause = async |paused, missed| {
        for trigger in ["t", "o"] {
            let command = PauseCommand { project_id: project(), trigger_id: trigger_id(trigger), paused, missed, by: operator() };
            store.set_paused(&command).await.unwrap();
        }
    };
    // A task that rests, and one that comes back.
    publish(store, off(), timers()).await;
    go(7).await;
    publish(store, vec![task("a")], timers()).await;
    go(1).await;
    go(3).await;
    // Archived and revived, in the very millisecond of an occurrence too.
    clock.advance(MINUTE / 2);
    cycle(store, &ids).await;
    publish(store, vec![task("a")], vec![]).await;
    go(0).await;
    publish(store, vec![task("a")], timers()).await;
    go(5).await;
    publish(store, vec![task("b"), task("a")], vec![minutely("t", "b"), TriggerSpec { overlap: Overlap::Skip, ..minutely("o", "b") }])
        .await;
    go(2).await;
    // Other zone data, due and not due.
    for version in ["1999a", "1999b"] {
        while store.refresh_zone_data(version, 1).await.unwrap().1 {}
        clock.advance(3 * MINUTE);
    }
    go(0).await;
    // Paused, edited meanwhile, resumed with and without what was missed.
    pause(true, Missed::Skip).await;
    go(4).await;
    publish(store, vec![task("a")], timers()).await;
    go(4).await;
    pause(false, Missed::One).await;
    go(2).await;
    pause(true, Missed::Skip).await;
    clock.advance(4 * MINUTE);
    pause(false, Missed::Skip).await;
    go(2).await;
    // Repeated by hand.
    let run = store.run_ids(None, 1).await.unwrap()[0];
    store.cancel(run, CancelReason::User, &operator()).await.unwrap();
    store.retry(run, &operator()).await.unwrap();
    go(1).await;
    // A clock that goes back by half an hour, edits in the time that came twice, and an operator who accepts it.
    clock.set(store.clock_mark().await.unwrap().unwrap().minus_ms(30 * MINUTE));
    go(0).await;
    publish(store, vec![task("b")], vec![minutely("t", "b"), TriggerSpec { overlap: Overlap::Skip, ..minutely("o", "b") }]).await;
    pause(true, Missed::Skip).await;
    clock.advance(MINUTE);
    pause(false, Missed::One).await;
    store.accept_clock(&operator()).await.unwrap();
    let before = go(20).await;
    assert_eq!(go(5).await, before, "all of this was decided before");
    assert!(go(10).await > before);
}
