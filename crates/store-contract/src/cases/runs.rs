//! Runs, attempts, policies and events; transactions.

use runtime_core::ports::runs::RunRepositoryExt;

use super::kit::{admission, world};
use crate::Fixture;

/// What was written is there, field by field.
pub async fn an_admission_is_read_back_as_it_was_written(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = admission(&w.ids, fixture.execution_owner(), Some("order-17"));
    w.store
        .transaction(|mut tx| {
            let new = new.clone();
            Box::pin(async move {
                tx.insert_run(&new.run).await?;
                tx.insert_attempt(&new.attempt).await?;
                tx.insert_retry_policy(&new.policy).await?;
                for event in &new.events {
                    tx.append_event(event).await?;
                }
                Ok::<_, runtime_core::StoreError>(())
            })
        })
        .await
        .unwrap();
    let id = new.run.id;
    assert_eq!(w.store.run(id).await.unwrap(), Some(new.run));
    assert_eq!(w.store.attempt(new.attempt.id).await.unwrap(), Some(new.attempt.clone()));
    assert_eq!(w.store.latest_attempt(id).await.unwrap(), Some(new.attempt));
    assert_eq!(w.store.retry_policy(id).await.unwrap(), Some(new.policy));
    assert_eq!(w.store.events(id, 0, 500).await.unwrap(), new.events);
    assert_eq!(w.store.events(id, 1, 500).await.unwrap(), new.events[1..]);
}
