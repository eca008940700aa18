//! What a crash leaves: the file and its log, as they were at some instant, opened by the next process.

use std::{fs, path::Path};

use edge_sqlite::{SqliteOptions, SqliteStore};
use runtime_core::{
    StoreError,
    ports::{
        history::HistoryStore,
        runs::{RunRepositoryExt, TxError},
    },
    schedule::CommitOutcome,
};
use store_contract::{Fixture, SeededIds, facts};

use crate::{
    fixture::SqliteFixture,
    kit::{MINUTE, admission, cycle, minutely, publish, task},
};

/// The file and its log, as a crash would leave them.
fn image(fixture: &SqliteFixture) -> (Vec<u8>, Vec<u8>) {
    (fs::read(fixture.path()).unwrap(), fs::read(fixture.folder.path().join("ql3.db-wal")).unwrap())
}

async fn facts_of(fixture: &SqliteFixture, folder: &Path, (database, wal): (&[u8], &[u8])) -> Vec<String> {
    let path = folder.join("ql3.db");
    fs::write(&path, database).unwrap();
    fs::write(folder.join("ql3.db-wal"), wal).unwrap();
    let _ = fs::remove_file(folder.join("ql3.db-shm"));
    let store = SqliteStore::open_existing(SqliteOptions::new(&path), fixture.authority.clone()).await.unwrap();
    let facts = facts(&store).await;
    store.close().await;
    facts
}

#[tokio::test]
async fn an_open_transaction_leaves_nothing() {
    let fixture = SqliteFixture::fresh().await;
    let ids = SeededIds::new(3);
    publish(&fixture.store, vec![task("a")], vec![minutely("t", "a")]).await;
    let before = facts(&fixture.store).await;
    let new = admission(&ids, runtime_core::AuthorityClock::now(&*fixture.clock));
    let (ours, here) = (&new, &fixture);
    let crashed = fixture
        .store
        .transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&ours.run).await?;
                tx.insert_attempt(&ours.attempt).await?;
                Ok::<_, StoreError>(image(here))
            })
        })
        .await;
    let (database, wal) = crashed.unwrap();
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(facts_of(&fixture, folder.path(), (&database, &wal)).await, before);
}

/// The log may end anywhere: a page of the scheduler is whole or absent.
#[tokio::test]
async fn a_page_is_whole_or_absent_wherever_the_log_ends() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    let triggers = (0..8).map(|n| minutely(&format!("t{n}"), "a")).collect();
    publish(store, vec![task("a")], triggers).await;
    cycle(store, &ids).await;
    fixture.clock.advance(3 * MINUTE);
    let before = facts(store).await;
    let (_, log_before) = image(&fixture);
    let outcomes = cycle(store, &ids).await;
    assert!(outcomes.len() == 8 && outcomes.iter().all(|o| matches!(o, CommitOutcome::Admitted { .. })), "{outcomes:?}");
    let after = facts(store).await;
    let (database, wal) = image(&fixture);
    assert!(wal.len() > log_before.len(), "the page is in the log");

    let folder = tempfile::tempdir().unwrap();
    let mut seen = [0, 0];
    for step in 0..=24 {
        let end = log_before.len() + (wal.len() - log_before.len()) * step / 24;
        // A torn last frame: cut in the middle of it as well as at its end.
        for end in [end, end.saturating_sub(17).max(log_before.len())] {
            let facts = facts_of(&fixture, folder.path(), (&database, &wal[..end])).await;
            let whole = facts == after;
            assert!(whole || facts == before, "neither whole nor absent with {end} bytes of the log");
            assert_eq!(whole, end == wal.len(), "the last frame carries the commit");
            seen[usize::from(whole)] += 1;
        }
    }
    assert!(seen[0] > 10 && seen[1] > 0);
}

/// A process that dies with claims: the next one finds their triggers due, and none of the old claims is valid.
#[tokio::test]
async fn claims_die_with_their_process() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    publish(store, vec![task("a")], vec![minutely("t", "a")]).await;
    cycle(store, &ids).await;
    fixture.clock.advance(MINUTE);
    let dead = crate::kit::claim(store, &ids).await;
    assert_eq!(dead.claims.len(), 1);
    store.close().await;

    let next = fixture.another().await;
    next.become_scheduler().await.unwrap();
    let commits: Vec<_> = dead.claims.iter().map(|claim| crate::kit::decide(claim, &ids)).collect();
    let outcomes = runtime_core::ports::schedules::ScheduleStore::commit(&next, commits).await.unwrap();
    assert_eq!(outcomes, [CommitOutcome::Raced]);
    assert!(matches!(cycle(&next, &ids).await[..], [CommitOutcome::Admitted { .. }]));
    assert_eq!(next.run_ids(None, 10).await.unwrap().len(), 1);
}

/// The work's own error comes back and nothing of it is left, also where the store would have had one of its own.
#[tokio::test]
async fn a_failed_work_leaves_the_connection_usable() {
    let fixture = SqliteFixture::fresh().await;
    let ids = SeededIds::new(3);
    for _ in 0..20 {
        let new = admission(&ids, runtime_core::AuthorityClock::now(&*fixture.clock));
        let ours = &new;
        let failed: Result<(), TxError<&str>> = fixture
            .store
            .transaction(move |mut tx| {
                Box::pin(async move {
                    tx.insert_run(&ours.run).await.map_err(|_| "insert")?;
                    Err("mine")
                })
            })
            .await;
        assert_eq!(failed, Err(TxError::Work("mine")));
    }
    assert!(fixture.store.run_ids(None, 10).await.unwrap().is_empty());
    crate::kit::insert(&fixture.store, &admission(&ids, runtime_core::TimestampMs::EPOCH)).await.unwrap();
}
