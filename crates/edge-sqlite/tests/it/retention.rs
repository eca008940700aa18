//! Pruning, seen in the rows of the file and in the size of its log.

use runtime_core::{
    AuthorityClock, TimestampMs,
    ids::RunId,
    ports::{
        control::ControlStore,
        dispatch::DispatchStore,
        history::HistoryStore,
        retention::{PruneCommand, RetentionStore},
        runs::RunReader,
    },
    run::CancelReason,
    schedule::CommitOutcome,
    verify::verify,
};
use store_contract::{Corruption, Fixture, SeededIds};

use crate::{
    fixture::{SqliteFixture, rows},
    kit::{MINUTE, admission, cycle, dispatch_claim, insert, minutely, operator, publish, session, start_task, task},
};

const TABLES: [&str; 5] = ["runs", "run_attempts", "run_events", "run_retry_policies", "run_dispatch_leases"];

fn everything(fixture: &SqliteFixture, page: u32) -> PruneCommand {
    PruneCommand { before: fixture.clock.now(), page, dry_run: false, by: None }
}

async fn ended(fixture: &SqliteFixture) -> RunId {
    let id = start_task(&fixture.store, "a").await.unwrap();
    fixture.store.cancel(id, CancelReason::User, &operator()).await.unwrap();
    id
}

/// No row of any table is left of a Run, whatever it went through.
#[tokio::test]
async fn nothing_is_left_of_a_run() {
    let fixture = SqliteFixture::fresh().await;
    let ids = SeededIds::new(3);
    publish(&fixture.store, vec![task("a")], vec![]).await;
    start_task(&fixture.store, "a").await.unwrap();
    let lease = fixture.store.claim(&dispatch_claim(&session(&fixture.store, &ids).await, &ids)).await.unwrap().leases.remove(0);
    fixture.store.cancel(lease.run.id, CancelReason::User, &operator()).await.unwrap();
    fixture.store.release(&lease.fence, "test").await.unwrap();
    let count = |table: &str| rows(&fixture.raw()).iter().filter(|row| row.starts_with(&format!("{table} "))).count();
    assert!(TABLES.iter().all(|table| count(table) > 0));
    fixture.clock.advance(1);
    assert_eq!(fixture.store.prune_runs(&everything(&fixture, 500), None).await.unwrap().runs, [lease.run.id]);
    for table in TABLES {
        assert_eq!(count(table), 0, "{table}");
    }
}

/// What cannot be read stays, and what can be read goes.
#[tokio::test]
async fn a_damaged_run_holds_up_no_other() {
    let fixture = SqliteFixture::fresh().await;
    publish(&fixture.store, vec![task("a")], vec![]).await;
    let (old, damaged, new) = (ended(&fixture).await, ended(&fixture).await, ended(&fixture).await);
    fixture.corrupt(Corruption::UnknownStatus(damaged)).await;
    fixture.clock.advance(1);
    let mut gone = fixture.store.prune_runs(&everything(&fixture, 500), None).await.unwrap().runs;
    gone.sort_unstable();
    assert_eq!(gone, [old, new]);
    assert_eq!(fixture.store.run_ids(None, 500).await.unwrap(), [damaged]);
}

/// Pruning excuses what is missing before its instant and nothing after it.
#[tokio::test]
async fn what_is_missing_after_a_prune_is_found() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![minutely("t", "a")]).await;
    cycle(store, &ids).await;
    for _ in 0..3 {
        fixture.clock.advance(MINUTE);
        let outcomes = cycle(store, &ids).await;
        let CommitOutcome::Admitted { run_id } = outcomes[0] else { panic!("{outcomes:?}") };
        store.cancel(run_id, CancelReason::User, &operator()).await.unwrap();
    }
    let command = PruneCommand { before: fixture.clock.now().minus_ms(MINUTE / 2), ..everything(&fixture, 500) };
    assert_eq!(store.prune_runs(&command, None).await.unwrap().runs.len(), 2);
    assert_eq!(verify(store).await.unwrap().findings, []);
    let raw = fixture.raw();
    for table in TABLES {
        raw.execute(&format!("DELETE FROM {table}"), []).unwrap();
    }
    let found = verify(store).await.unwrap().findings;
    let found: Vec<_> = found.iter().map(|finding| (finding.code, finding.detail.as_str())).collect();
    assert_eq!(found, [("occurrence_lost", "2026-01-05T12:03:00Z is neither admitted nor in the ledger")]);
}

/// C31c: much is removed, and the log stays within its bound all the while.
#[tokio::test]
async fn the_log_stays_bounded_while_much_is_removed() {
    let fixture = SqliteFixture::fresh().await;
    let ids = SeededIds::new(3);
    for _ in 0..1_500 {
        let mut new = admission(&ids, fixture.clock.now());
        new.run.error_summary = Some("x".repeat(16_000));
        insert(&fixture.store, &new).await.unwrap();
    }
    let at = fixture.clock.now().get();
    fixture.raw().execute("UPDATE runs SET status = 'failed', finished_at_ms = ?1", [at]).unwrap();
    fixture.clock.advance(1);
    let (mut gone, mut after, mut most) = (0, None, 0);
    loop {
        let page = fixture.store.prune_runs(&everything(&fixture, 100), after).await.unwrap();
        gone += page.runs.len();
        // The answer comes before the log is looked at; the next request comes after.
        assert_eq!(fixture.store.run(RunId::generate(&ids, TimestampMs::EPOCH)).await.unwrap(), None);
        fixture.store.data_version().await.unwrap();
        most = most.max(fixture.store.file_facts().unwrap().wal_bytes);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(gone, 1_500);
    assert!(most <= 20 * 1024 * 1024, "the log had {most} bytes");
}
