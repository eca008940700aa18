//! One connection, all or nothing, and nothing left behind.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use runtime_core::{
    StoreError,
    ids::RunId,
    ports::runs::{RunRepositoryExt, TxError},
    run::{Admission, RunChange},
};
use tokio::sync::Notify;

use super::super::kit::{World, assert_unchanged, world};
use crate::{Fixture, Store, start};

/// What went wrong is the work's own business; the store hands it back as it is.
#[derive(Debug, PartialEq, Eq)]
struct Own(&'static str);

/// Run, attempt, policy and events were written, and then the work failed.
pub async fn a_failed_work_leaves_nothing_behind(fixture: &impl Fixture) {
    let w = world(fixture);
    let before = fixture.dump().await;
    let new = &w.admission(Some("k"));
    let answer = w
        .store
        .transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&new.run).await.unwrap();
                tx.insert_attempt(&new.attempt).await.unwrap();
                tx.insert_retry_policy(&new.policy).await.unwrap();
                tx.append_event(&new.events[0]).await.unwrap();
                Err::<(), _>(Own("no"))
            })
        })
        .await;
    assert_eq!(answer, Err(TxError::Work(Own("no"))));
    assert_unchanged!(fixture, before);
    w.insert(new).await.unwrap();
}

pub async fn work_runs_exactly_once_and_answers(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut ran = Vec::new();
    // The work borrows from its caller, mutably.
    let answer = w.store.transaction(|_| {
        ran.push("once");
        Box::pin(async { Ok::<_, Own>(17) })
    });
    assert_eq!(answer.await, Ok(17));
    assert_eq!(ran, ["once"]);
}

pub async fn a_transaction_sees_its_own_writes(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = &w.admission(None);
    w.store
        .transaction(move |mut tx| {
            Box::pin(async move {
                assert_eq!(tx.run(new.run.id).await?, None);
                tx.insert_run(&new.run).await?;
                assert_eq!(tx.run(new.run.id).await?.as_ref(), Some(&new.run));
                tx.insert_attempt(&new.attempt).await?;
                assert_eq!(tx.attempt(new.attempt.id).await?.as_ref(), Some(&new.attempt));
                assert_eq!(tx.latest_attempt(new.run.id).await?.as_ref(), Some(&new.attempt));
                tx.insert_retry_policy(&new.policy).await?;
                assert_eq!(tx.retry_policy(new.run.id).await?.as_ref(), Some(&new.policy));
                tx.append_event(&new.events[0]).await?;
                assert_eq!(tx.events(new.run.id, 0, 500).await?, new.events[..1]);
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
}

/// While one handle is in the middle of a transaction, another reads what was committed before.
pub async fn nobody_sees_what_is_not_committed(fixture: &impl Fixture) {
    let w = world(fixture);
    let second = fixture.second_handle().await;
    let new = &w.admission(None);
    let observer = &second;
    w.store
        .transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&new.run).await?;
                assert_eq!(observer.run(new.run.id).await?, None);
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
    assert_eq!(second.run(new.run.id).await.unwrap().as_ref(), Some(&new.run));
}

/// Two handles raise the same version at once: whatever each is told, no raise is lost and none is made up.
pub async fn two_transactions_at_once_lose_no_update(fixture: &impl Fixture) {
    let w = world(fixture);
    let second = fixture.second_handle().await;
    let id = w.inserted().await.run.id;
    let mut won = 0;
    for _ in 0..20 {
        let (a, b) = tokio::join!(raise(&*w.store, id), raise(&*second, id));
        won += [a, b].into_iter().filter(raised).count() as u64;
    }
    assert!(won > 0, "somebody gets on");
    assert_eq!(w.store.run(id).await.unwrap().unwrap().version, 2 + won);
}

/// Won, as far as it was told; a loser or a busy store is no failure.
fn raised(answer: &Result<bool, TxError<StoreError>>) -> bool {
    match answer {
        Ok(won) => *won,
        Err(TxError::Work(StoreError::Busy { .. }) | TxError::Store(StoreError::Busy { .. })) => false,
        Err(other) => panic!("{other:?}"),
    }
}

async fn raise(store: &dyn Store, id: RunId) -> Result<bool, TxError<StoreError>> {
    store
        .transaction(move |mut tx| {
            Box::pin(async move {
                let mut run = tx.run(id).await?.unwrap();
                let expected_version = run.version;
                run.version += 1;
                tokio::task::yield_now().await;
                tx.compare_and_set_run(&RunChange { expected_version, run }).await
            })
        })
        .await
}

/// It is the store's clock, read when it is asked: after a wait it has moved on.
pub async fn a_transaction_reads_the_authoritys_clock(fixture: &impl Fixture) {
    let w = world(fixture);
    w.store
        .transaction(move |mut tx| {
            Box::pin(async move {
                assert_eq!(tx.now().await?, start());
                fixture.elapse(7).await;
                assert_eq!(tx.now().await?, start().plus_ms(7));
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
}

/// C28: the caller goes away while its work waits, with everything written and nothing committed.
pub async fn a_transaction_that_is_dropped_is_rolled_back(fixture: &impl Fixture) {
    let w = world(fixture);
    let before = fixture.dump().await;
    for _ in 0..200 {
        let (new, written) = (&w.admission(None), &Notify::new());
        let transaction = w.store.transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&new.run).await?;
                tx.insert_attempt(&new.attempt).await?;
                written.notify_one();
                std::future::pending::<Result<(), StoreError>>().await
            })
        });
        tokio::select! {
            biased;
            () = written.notified() => {}
            answer = transaction => panic!("it waits for ever, and answered {answer:?}"),
        }
    }
    assert_unchanged!(fixture, before);
    usable(&w).await;
}

/// C28: the caller goes away at any moment, in the middle of BEGIN or COMMIT too: each transaction is whole or absent, and the store
/// works on.
pub async fn a_transaction_that_is_dropped_anywhere_is_whole_or_absent(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut tried = Vec::new();
    for n in 0..200 {
        let new = w.admission(None);
        let finished = {
            let mut transaction = pin!(insert_slowly(w.store.clone(), &new));
            let mut finished = false;
            // Never woken, only polled: where it stands after so many polls is as good as chance, and it is dropped there.
            for _ in 0..n % 12 {
                tokio::task::yield_now().await;
                if let Poll::Ready(answer) = transaction.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    answer.unwrap();
                    finished = true;
                    break;
                }
            }
            finished
        };
        tried.push((new, finished));
    }
    usable(&w).await;
    let second = fixture.second_handle().await;
    for (new, finished) in &tried {
        let found = second.facts(new.run.id).await.unwrap();
        assert!(found.is_some() || !finished, "what was acknowledged is there");
        if let Some(found) = found {
            assert_eq!((found.attempts.len(), found.policy.is_some(), found.events.len()), (1, true, 2), "whole");
        }
    }
    assert!(tried.iter().any(|(_, finished)| !finished), "some were dropped in the middle");
}

/// An insertion with many moments at which its caller may go away.
async fn insert_slowly(store: Arc<dyn Store>, new: &Admission) -> Result<(), TxError<StoreError>> {
    store
        .transaction(move |mut tx| {
            Box::pin(async move {
                tx.insert_run(&new.run).await?;
                tokio::task::yield_now().await;
                tx.insert_attempt(&new.attempt).await?;
                tokio::task::yield_now().await;
                tx.insert_retry_policy(&new.policy).await?;
                for event in &new.events {
                    tokio::task::yield_now().await;
                    tx.append_event(event).await?;
                }
                Ok(())
            })
        })
        .await
}

/// Both handles read and write, and see what the other wrote.
async fn usable<F: Fixture>(w: &World<'_, F>) {
    let second = w.fixture.second_handle().await;
    let mine = w.inserted().await;
    assert_eq!(second.run(mine.run.id).await.unwrap(), Some(mine.run));
    let theirs = w.admission(None);
    insert_slowly(second, &theirs).await.unwrap();
    assert_eq!(w.store.run(theirs.run.id).await.unwrap(), Some(theirs.run));
}
