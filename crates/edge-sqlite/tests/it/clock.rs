//! A clock that was wrong, and what waits for the time that it showed.

use runtime_core::{
    definition::TaskSpec,
    ports::{control::ControlStore, dispatch::DispatchStore, runs::RunReader},
    run::{AttemptOutcome, AttemptResult, Backoff, RetrySpec, RunStatus},
};
use store_contract::{Fixture, SeededIds, start};

use crate::{
    fixture::SqliteFixture,
    kit::{dispatch_claim, operator, publish, session, start_task, task},
};

/// A retry that was put off by ten seconds of the year that the clock showed does not wait for that year.
#[tokio::test]
async fn an_accepted_clock_pulls_back_the_retries_that_wait() {
    let fixture = SqliteFixture::fresh().await;
    let (store, ids) = (&fixture.store, SeededIds::new(3));
    let retry = RetrySpec { max_attempts: 2, backoff: Backoff { base_ms: 10_000, max_ms: 10_000 }, ..RetrySpec::default() };
    publish(store, vec![TaskSpec { retry, ..task("a") }], vec![]).await;
    let run = start_task(store, "a").await.unwrap();
    let session = session(store, &ids).await;
    fixture.clock.set(start().plus_ms(365 * 86_400_000));
    let lease = store.claim(&dispatch_claim(&session, &ids)).await.unwrap().leases.remove(0);
    let failed = AttemptOutcome { result: AttemptResult::Failed, exit_code: Some(1), error_code: None, error_summary: None };
    store.finish(&lease.fence, &failed).await.unwrap();
    fixture.clock.set(start());
    store.accept_clock(&operator()).await.unwrap();
    let policy = store.retry_policy(run).await.unwrap().unwrap();
    assert_eq!((policy.next_attempt_at, policy.updated_at), (Some(start().plus_ms(10_000)), start()));
    let early = store.claim(&dispatch_claim(&session, &ids)).await.unwrap();
    assert_eq!((early.leases.len(), early.next_retry_ms), (0, Some(10_000)));
    fixture.clock.advance(10_000);
    assert_eq!(store.claim(&dispatch_claim(&session, &ids)).await.unwrap().leases[0].attempt.attempt, 2);
    assert_eq!(store.run(run).await.unwrap().unwrap().status, RunStatus::Dispatching);
}
