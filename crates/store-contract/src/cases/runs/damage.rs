//! Stored values that the product cannot have written are reported, never guessed at.

use runtime_core::StoreError;

use super::super::kit::world;
use crate::{Corruption, Fixture};

/// 2^53 does not become 2^53 - 1, and not a real.
pub async fn an_integer_out_of_range_is_corrupt(fixture: &impl Fixture) {
    let w = world(fixture);
    let id = w.inserted().await.run.id;
    fixture.corrupt(Corruption::VersionOutOfRange(id)).await;
    assert_corrupt(w.store.run(id).await, "runs", "version", id);
}

pub async fn an_unknown_word_is_corrupt(fixture: &impl Fixture) {
    let w = world(fixture);
    let id = w.inserted().await.run.id;
    fixture.corrupt(Corruption::UnknownStatus(id)).await;
    assert_corrupt(w.store.run(id).await, "runs", "status", id);
    assert_corrupt(w.store.facts(id).await, "runs", "status", id);
}

pub async fn a_payload_that_is_no_object_is_corrupt(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    fixture.corrupt(Corruption::PayloadNotObject(new.run.id)).await;
    assert_corrupt(w.store.events(new.run.id, 0, 500).await, "run_events", "payload", new.events[0].id);
}

pub async fn two_rows_where_one_is_expected_are_corrupt(fixture: &impl Fixture) {
    let w = world(fixture);
    let id = w.inserted().await.run.id;
    fixture.corrupt(Corruption::TwoPolicies(id)).await;
    assert_corrupt(w.store.retry_policy(id).await, "run_retry_policies", "*", id);
}

/// The place is named: table, column, and a row that can be found again.
#[track_caller]
fn assert_corrupt<T: std::fmt::Debug>(answer: Result<T, StoreError>, table: &str, column: &str, row: impl std::fmt::Display) {
    match answer {
        Err(StoreError::Corrupt { table: t, column: c, row: r }) => {
            assert_eq!((t, c), (table, column));
            assert!(r.contains(&row.to_string()), "row `{r}` does not name {row}");
        }
        other => panic!("expected a corrupt {table}.{column}, got {other:?}"),
    }
}
