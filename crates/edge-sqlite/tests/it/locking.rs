//! One scheduler, many writers, and a log that does not grow.

use std::time::Duration;

use edge_sqlite::{SqliteOptions, SqliteStore};
use runtime_core::{
    StoreError,
    ports::{
        control::ControlStore, dispatch::DispatchStore, history::HistoryStore, runs::RunReader, runs::RunRepositoryExt, runs::TxError,
        schedules::ScheduleStore,
    },
    schedule::CommitOutcome,
};
use store_contract::{Fixture, SeededIds};

use crate::{
    fixture::SqliteFixture,
    kit::{
        MINUTE, admission, claim, claim_command, cycle, decide, dispatch_claim, insert, minutely, operator, publish, session, start_task,
        task, trigger_id,
    },
};

#[tokio::test]
async fn a_second_scheduler_is_refused_and_told_who_holds_the_lock() {
    let fixture = SqliteFixture::fresh().await;
    let second = fixture.another().await;
    let refused = second.become_scheduler().await.unwrap_err();
    let holder = format!("pid {} since 2026-01-05T12:00:30Z", std::process::id());
    assert_eq!(second.scheduler().unwrap().as_ref(), Some(&holder));
    assert_eq!(refused, StoreError::AlreadyRunning { holder });
    let unentitled = second.claim_due(&claim_command(&SeededIds::new(3)), 1).await.unwrap_err();
    assert_eq!(unentitled.code().as_str(), "invalid_input");
    fixture.store.become_scheduler().await.expect("the holder may ask again");
    assert!(second.has_scheduler().unwrap() && fixture.store.has_scheduler().unwrap());
    fixture.store.close().await;
    assert!(!second.has_scheduler().unwrap(), "a look takes no lock");
    second.become_scheduler().await.expect("the lock went with its holder");
}

#[tokio::test]
async fn a_lock_goes_with_a_handle_that_is_dropped() {
    let fixture = SqliteFixture::fresh().await;
    let second = fixture.another().await;
    let SqliteFixture { store, folder: _folder, .. } = fixture;
    drop(store);
    // The thread of the dropped handle ends by itself.
    while second.become_scheduler().await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn others_write_while_one_schedules_and_it_notices() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    let other = fixture.another().await;
    let first = store.data_version().await.unwrap();
    publish(store, vec![task("a")], vec![minutely("t", "a")]).await;
    assert_eq!(store.data_version().await.unwrap(), first, "its own writes are no news");
    start_task(&other, "a").await.unwrap();
    assert_ne!(store.data_version().await.unwrap(), first);
    assert_eq!(cycle(store, &ids).await, [CommitOutcome::Initialized]);
    fixture.clock.advance(MINUTE);
    let page = claim(store, &ids).await;
    // Somebody edits between claim and commit, from elsewhere.
    publish(&other, vec![task("a")], vec![runtime_core::definition::TriggerSpec { enabled: false, ..minutely("t", "a") }]).await;
    let commits = page.claims.iter().map(|claim| decide(claim, &ids)).collect();
    assert_eq!(store.commit(commits).await.unwrap(), [CommitOutcome::Raced]);
    assert_eq!(store.run_ids(None, 10).await.unwrap().len(), 1, "only what was started by hand");
}

/// C31a: two that read and then write, a thousand times: nobody fails at once.
#[test]
fn writers_wait_for_each_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = SqliteFixture::fresh().await;
        let second = fixture.another().await;
        let count = |store: SqliteStore, seed| {
            let clock = fixture.clock.clone();
            async move {
                let ids = SeededIds::new(seed);
                for _ in 0..500 {
                    let new = admission(&ids, runtime_core::AuthorityClock::now(&*clock));
                    insert(&store, &new).await.expect("busy is waited for");
                    assert!(store.run(new.run.id).await.unwrap().is_some());
                }
            }
        };
        tokio::join!(count(fixture.store.clone(), 3), count(second.clone(), 4));
        let mut runs = 0;
        let mut after = None;
        loop {
            let page = second.run_ids(after, 500).await.unwrap();
            let Some(last) = page.last() else { break };
            (runs, after) = (runs + page.len(), Some(*last));
        }
        assert_eq!(runs, 1_000);
    });
}

/// C31b: what cannot be written is not lost: the cursor stays, and the occurrence is admitted once the lock is gone.
#[tokio::test]
async fn a_commit_that_cannot_be_written_is_tried_again() {
    let folder = SqliteFixture::fresh().await;
    publish(&folder.store, vec![task("a")], vec![minutely("t", "a")]).await;
    folder.store.close().await;
    let options = SqliteOptions { busy_timeout_ms: 50, ..folder.options() };
    let (store, ids) = (SqliteStore::open_existing(options, folder.authority.clone()).await.unwrap(), SeededIds::new(3));
    store.become_scheduler().await.unwrap();
    assert_eq!(cycle(&store, &ids).await, [CommitOutcome::Initialized]);
    folder.clock.advance(MINUTE);

    let raw = folder.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let page = claim(&store, &ids).await;
    assert_eq!(page.claims.len(), 1, "claiming waits for nobody");
    let commits: Vec<_> = page.claims.iter().map(|claim| decide(claim, &ids)).collect();
    let busy = store.commit(commits.clone()).await.unwrap_err();
    assert_eq!((busy.code().as_str(), busy.retry()), ("busy", runtime_core::Retry::WithBackoff));
    raw.execute_batch("ROLLBACK").unwrap();

    let outcomes = store.commit(commits).await.unwrap();
    assert!(matches!(outcomes[..], [CommitOutcome::Admitted { .. }]), "the same commits, while the claim lasts: {outcomes:?}");
}

/// C31c: a reader holds the log open; when it ends, the log is cut back.
#[tokio::test]
async fn the_log_is_cut_back_once_a_reader_lets_it() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    let reader = fixture.raw();
    reader.execute_batch("BEGIN; SELECT count(*) FROM runs").unwrap();
    let runs: i64 = reader.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap();
    let big = "x".repeat(16_000);
    for _ in 0..1_500 {
        let mut new = admission(&ids, runtime_core::AuthorityClock::now(&*fixture.clock));
        new.run.error_summary = Some(big.clone());
        insert(store, &new).await.unwrap();
    }
    let grown = store.file_facts().unwrap().wal_bytes;
    assert!(grown > 16 * 1024 * 1024, "the reader keeps {grown} bytes");
    assert_eq!(reader.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).unwrap(), runs, "its snapshot stays");
    reader.execute_batch("COMMIT").unwrap();
    // Nothing need be written for that: a scheduler that looks for what is due does it.
    for _ in 0..=64 {
        assert!(claim(store, &ids).await.claims.is_empty());
    }
    let cut = store.file_facts().unwrap().wal_bytes;
    assert!(cut <= 16 * 1024 * 1024, "{cut} bytes are left");
}

#[tokio::test]
async fn a_transaction_that_pauses_gives_the_lock_back() {
    let fixture = SqliteFixture::fresh().await;
    let options = SqliteOptions { transaction_idle_ms: 20, ..fixture.options() };
    let store = SqliteStore::open_existing(options, fixture.authority.clone()).await.unwrap();
    let new = admission(&SeededIds::new(3), runtime_core::AuthorityClock::now(&*fixture.clock));
    let ours = &new;
    let outcome = store
        .transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&ours.run).await?;
                // Until the other handle could write, which is only after this transaction was given up.
                start_task(&fixture.store, "nothing").await.expect_err("there is no such task");
                tx.insert_attempt(&ours.attempt).await
            })
        })
        .await;
    assert!(matches!(&outcome, Err(TxError::Work(StoreError::Busy { cause })) if cause.contains("20 ms")), "{outcome:?}");
    assert_eq!(store.run(new.run.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_closed_store_says_so_and_leaves_no_log() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![]).await;
    start_task(store, "a").await.unwrap();
    store.close().await;
    store.close().await;
    assert_eq!(store.file_facts().unwrap().wal_bytes, 0);
    assert_eq!(start_task(store, "a").await.unwrap_err(), StoreError::Closed);
    assert_eq!(store.run_ids(None, 1).await.unwrap_err(), StoreError::Closed);
    let in_transaction = insert(store, &admission(&ids, runtime_core::TimestampMs::EPOCH)).await;
    assert_eq!(in_transaction.unwrap_err(), TxError::Store(StoreError::Closed));
}

/// Everything that was asked for before the close is done before it.
#[tokio::test]
async fn a_close_finishes_what_was_queued() {
    let fixture = SqliteFixture::fresh().await;
    let store = &fixture.store;
    publish(store, vec![task("a")], vec![]).await;
    let started = async {
        let mut done = Vec::new();
        for _ in 0..3 {
            done.push(start_task(store, "a"));
        }
        let [a, b, c] = <[_; 3]>::try_from(done).unwrap_or_else(|_| unreachable!("three were pushed"));
        tokio::join!(a, b, c)
    };
    let ((a, b, c), ()) = tokio::join!(started, store.close());
    assert!(a.is_ok() && b.is_ok() && c.is_ok(), "{a:?} {b:?} {c:?}");
    assert_eq!(fixture.another().await.run_ids(None, 10).await.unwrap().len(), 3);
}

/// With 100,000 triggers of which none is due, and with a full page: not a byte of the file or its log changes.
#[tokio::test]
async fn a_claim_writes_nothing() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    let triggers = (0..300).map(|n| minutely(&format!("t{n:03}"), "a")).collect();
    publish(store, vec![task("a")], triggers).await;
    while !cycle(store, &ids).await.is_empty() {}
    // Publishing so many takes long; copies that are due later do as well.
    fixture
        .raw()
        .execute_batch(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 100000) SELECT n FROM n;
             INSERT INTO trigger_revisions SELECT project_id, trigger_id || '-' || n, revision, digest, canonical, archived, created_at_ms
               FROM trigger_revisions, n WHERE trigger_id = 't000';
             INSERT INTO trigger_definitions SELECT project_id, trigger_id || '-' || n, revision, task_id, archived
               FROM trigger_definitions, n WHERE trigger_id = 't000';
             INSERT INTO trigger_schedules SELECT project_id, trigger_id || '-' || n, trigger_revision, activated_at_ms,
                 next_fire_at_ms + 3600000 + n, last_scheduled_at_ms, paused_at_ms, paused_by, paused_reason, set_aside_at_ms,
                 set_aside_reason, schedulable, state_version, claim_version, zone_data_version, updated_at_ms
               FROM trigger_schedules, n WHERE trigger_id = 't000';",
        )
        .unwrap();
    assert!(store.overview().await.unwrap().triggers > 100_000);
    // Settles whatever the log owes.
    claim(store, &ids).await;
    let bytes = || {
        let wal = fixture.folder.path().join("ql3.db-wal");
        (std::fs::read(fixture.path()).unwrap(), std::fs::read(wal).unwrap())
    };
    let before = bytes();
    assert!(claim(store, &ids).await.claims.is_empty(), "none is due");
    fixture.clock.advance(MINUTE);
    let page = claim(store, &ids).await;
    assert_eq!((page.claims.len(), page.saturated), (256, true));
    assert_eq!(store.release_claims(&page.claims).await.unwrap(), 256);
    assert!(bytes() == before, "a claim wrote to the file");
}

#[tokio::test]
async fn below_the_mark_nothing_is_claimed_or_leased() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![minutely("t", "a")]).await;
    start_task(store, "a").await.unwrap();
    let session = session(store, &ids).await;
    let mark = store.clock_mark().await.unwrap().unwrap();
    fixture.clock.set(mark.minus_ms(1));
    let page = claim(store, &ids).await;
    assert_eq!((page.claims.len(), page.clock_mark), (0, Some(mark)));
    assert!(store.claim(&dispatch_claim(&session, &ids)).await.unwrap().leases.is_empty());
    store.accept_clock(&operator()).await.unwrap();
    assert_eq!(claim(store, &ids).await.claims[0].candidate.trigger.id, trigger_id("t"));
    assert_eq!(store.claim(&dispatch_claim(&session, &ids)).await.unwrap().leases.len(), 1);
}
