//! Faults happen when they are said to, and leave what they say they leave.

use std::{sync::Arc, task::Poll};

use runtime_core::{
    StoreError,
    definition::TaskSpec,
    ids::{ProjectId, TaskId},
    ports::{
        control::{ControlStore, StartCommand, StartOutcome},
        definitions::{DefinitionStore, Operator, PublishCommand},
        executor::Command,
        history::HistoryStore,
        runs::{RunRepositoryExt, TxError},
    },
    run::TriggerType,
};
use store_contract::{Fault, FaultyStore, Fixture, MemoryFixture, Store};

type Faulty = FaultyStore<dyn Store>;

fn by() -> Operator {
    Operator { name: "ada".to_owned(), reason: None }
}

async fn faulty() -> Faulty {
    let store = FaultyStore::new(MemoryFixture::fresh().await.store());
    let task = TaskSpec::new(TaskId::new("a").unwrap(), Command::Shell("true".to_owned()));
    let (project_id, triggers) = (ProjectId::new("default").unwrap(), vec![]);
    let set = PublishCommand { project_id, tasks: vec![task], triggers, archive_absent: true, dry_run: false, by: by() };
    store.publish(&set).await.unwrap();
    store
}

async fn start(store: &Faulty) -> Result<StartOutcome, StoreError> {
    let (project_id, task_id) = (ProjectId::new("default").unwrap(), TaskId::new("a").unwrap());
    store.start(&StartCommand { project_id, task_id, trigger_type: TriggerType::Api, idempotency_key: None, by: by() }).await
}

async fn count(store: &Faulty) -> usize {
    store.run_ids(None, 500).await.unwrap().len()
}

#[tokio::test]
async fn each_fault_leaves_what_it_says() {
    let store = faulty().await;
    for (fault, code, runs) in [
        (Fault::Busy, "busy", 0),
        (Fault::Unavailable, "unavailable", 0),
        (Fault::CommitLost, "commit_unknown", 0),
        (Fault::AnswerLost, "commit_unknown", 1),
    ] {
        store.script("start", [None, Some(fault)]);
        assert!(start(&store).await.is_ok());
        let before = count(&store).await;
        assert_eq!(start(&store).await.unwrap_err().code().as_str(), code);
        assert_eq!(count(&store).await, before + runs, "{fault:?}");
    }
    assert_eq!(store.fired().len(), 4);
    assert!(start(&store).await.is_ok(), "a script ends");
}

#[tokio::test]
async fn a_call_that_hangs_has_happened_and_never_answers() {
    let store = faulty().await;
    store.script("start", [Some(Fault::Hangs)]);
    let mut call = Box::pin(start(&store));
    for _ in 0..10 {
        assert!(matches!(futures_poll(&mut call), Poll::Pending));
    }
    drop(call);
    assert_eq!(count(&store).await, 1);
}

fn futures_poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

/// What the store refuses before COMMIT is told, though the answer to a COMMIT would have been lost.
#[tokio::test]
async fn a_refusal_is_not_lost() {
    let store = faulty().await;
    store.script("archive", [Some(Fault::AnswerLost)]);
    let archived = store.archive(&ProjectId::new("default").unwrap(), &[], &Operator { name: String::new(), reason: None }).await;
    assert_eq!(archived.unwrap_err().code().as_str(), "invalid_input");
}

/// A transaction that fails before it begins does not run its work; one whose answer is lost has run it once.
#[tokio::test]
async fn a_faulty_transaction_runs_its_work_at_most_once() {
    let store = Arc::new(faulty().await);
    store.script("transaction", [Some(Fault::Busy), Some(Fault::AnswerLost)]);
    let mut ran = 0;
    for expected in ["busy", "commit_unknown"] {
        let answer = store.transaction(|_| {
            ran += 1;
            Box::pin(async { Ok::<_, StoreError>(()) })
        });
        match answer.await {
            Err(TxError::Store(error)) => assert_eq!(error.code().as_str(), expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ran, 1);
}

#[tokio::test]
async fn a_seed_repeats_itself() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let store = faulty().await;
        store.seed(7, 3);
        for _ in 0..60 {
            let _ = start(&store).await;
        }
        store.heal();
        assert!(start(&store).await.is_ok());
        seen.push((store.fired(), count(&store).await));
    }
    assert_eq!(seen[0], seen[1]);
    assert!((8..=40).contains(&seen[0].0.len()), "about a third: {}", seen[0].0.len());
}
