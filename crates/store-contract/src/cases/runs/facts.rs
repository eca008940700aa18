//! What is written is read back, and what may not be twice is refused by kind.

use runtime_core::{
    StoreError, TimestampMs,
    digest::Digest,
    ids::{EventId, ProjectId, RunId, WorkerId},
    limits::SAFE_INTEGER_MAX,
    payload::Payload,
    ports::{
        history::RunFacts,
        runs::{RunRepositoryExt, TxError},
    },
    run::{
        Actor, ActorType, Admission, AttemptStatus, Backoff, CancelReason, EventType, RetrySpec, Run, RunAttempt, RunEvent, RunStatus,
        Safety,
    },
};

use super::super::kit::{World, assert_unchanged, code, today, tx_code, world};
use crate::{Fixture, start};

/// What was written is there.
pub async fn an_admission_is_read_back_as_it_was_written(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.admission(Some("order-17"));
    w.insert(&new).await.unwrap();
    let id = new.run.id;
    assert_eq!(w.store.run(id).await.unwrap(), Some(new.run));
    assert_eq!(w.store.attempt(new.attempt.id).await.unwrap(), Some(new.attempt.clone()));
    assert_eq!(w.store.latest_attempt(id).await.unwrap(), Some(new.attempt));
    assert_eq!(w.store.retry_policy(id).await.unwrap(), Some(new.policy));
    assert_eq!(w.store.events(id, 0, 500).await.unwrap(), new.events);
}

/// Every column, also those that the product leaves empty today, keeps its value to the last bit and byte.
pub async fn every_field_survives(fixture: &impl Fixture) {
    let w = world(fixture);
    let parent = w.inserted().await;
    let mut new = w.admission(Some("k"));
    let text = |what: &str| Some(format!("{what} 'quoted' \"doubly\" \u{1f680} \u{e4}\n\t%s ?1 $1 \\"));
    let (max, at) = (SAFE_INTEGER_MAX.unsigned_abs(), TimestampMs::MAX);
    new.run = Run {
        task_name: text("name").unwrap(),
        task_snapshot_ref: text("snapshot"),
        parent_run_id: Some(parent.run.id),
        retry_of_run_id: Some(parent.run.id),
        trigger_id: Some("nightly".parse().unwrap()),
        trigger_revision: Some(7),
        trigger_digest: Some(Digest::of(b"t")),
        triggered_by: text("by"),
        request_id: text("request"),
        scheduled_for: Some(TimestampMs::EPOCH),
        status: RunStatus::Running,
        version: max,
        event_sequence: max,
        priority: -1_000,
        input_ref: text("in"),
        output_ref: text("out"),
        queued_at: Some(at),
        started_at: Some(at),
        finished_at: Some(at),
        cancel_requested_at: Some(at),
        cancel_reason: Some(CancelReason::Reconcile),
        error_code: text("code"),
        error_summary: text("summary"),
        legacy_cron_id: Some(max),
        ..new.run
    };
    new.attempt = RunAttempt {
        step_run_id: text("step"),
        attempt: 16,
        status: AttemptStatus::Running,
        worker_id: Some(WorkerId::new("w:1").unwrap()),
        executor_handle: text("handle"),
        pid: Some(u32::MAX),
        log_artifact_id: text("log"),
        lease_token: Some(Digest::of(b"lease")),
        lease_expires_at: Some(at),
        deadline_at: Some(at),
        callback_token_hash: Some(Digest::of(b"callback")),
        callback_sequence: max,
        started_at: Some(at),
        finished_at: Some(at),
        exit_code: Some(i32::MIN),
        error_code: text("code"),
        error_summary: text("summary"),
        ..new.attempt
    };
    let backoff = Backoff { base_ms: 1, max_ms: 86_400_000 };
    new.policy.spec = RetrySpec { max_attempts: 16, on_lost: true, safety: Safety::Deduplicated, backoff };
    (new.policy.next_attempt_at, new.policy.version) = (Some(at), max);
    new.events[0].dedupe_key = text("dedupe");
    new.events[1] = RunEvent {
        sequence: max,
        kind: EventType::LateCallbackIgnored,
        actor: Actor::named(ActorType::LegacyShell, "sh"),
        step_run_id: text("step"),
        ..new.events[1].clone()
    };
    w.insert(&new).await.unwrap();
    let Admission { run, attempt, policy, events } = new;
    let expected = RunFacts { run, attempts: vec![attempt], policy: Some(policy), events: events.into() };
    assert_eq!(w.store.facts(expected.run.id).await.unwrap(), Some(expected));
}

/// Absence is an answer, not an error.
pub async fn what_is_not_there_is_none(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.admission(None);
    let id = new.run.id;
    assert_eq!(w.store.run(id).await.unwrap(), None);
    assert_eq!(w.store.attempt(new.attempt.id).await.unwrap(), None);
    assert_eq!(w.store.latest_attempt(id).await.unwrap(), None);
    assert_eq!(w.store.retry_policy(id).await.unwrap(), None);
    assert_eq!(w.store.events(id, 0, 1).await.unwrap(), []);
    assert_eq!(w.store.cancellations(TimestampMs::MAX, 1).await.unwrap(), []);
}

pub async fn the_latest_attempt_is_the_one_with_the_highest_number(fixture: &impl Fixture) {
    let w = world(fixture);
    let first = w.inserted().await;
    let [third, second] = [3, 2].map(|attempt| RunAttempt { attempt, id: w.admission(None).attempt.id, ..first.attempt.clone() });
    let both = [&third, &second];
    w.store
        .transaction(|mut tx| {
            Box::pin(async move {
                for attempt in both {
                    tx.insert_attempt(attempt).await?;
                }
                assert_eq!(tx.latest_attempt(first.run.id).await?.as_ref(), Some(both[0]));
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
    assert_eq!(w.store.latest_attempt(first.run.id).await.unwrap(), Some(third));
}

pub async fn events_are_paged_by_sequence(fixture: &impl Fixture) {
    let w = world(fixture);
    let (mine, other) = (w.inserted().await, w.inserted().await);
    let more: Vec<RunEvent> = (3..=7).rev().map(|sequence| event(&w.admission(None).events[0], mine.run.id, sequence)).collect();
    for event in &more {
        append(&w, event).await.unwrap();
    }
    let sequences = |events: Vec<RunEvent>| events.iter().map(|e| e.sequence).collect::<Vec<_>>();
    assert_eq!(sequences(w.store.events(mine.run.id, 0, 500).await.unwrap()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(sequences(w.store.events(mine.run.id, 2, 3).await.unwrap()), [3, 4, 5]);
    assert_eq!(sequences(w.store.events(mine.run.id, 7, 3).await.unwrap()), [0; 0]);
    assert_eq!(sequences(w.store.events(mine.run.id, u64::MAX, 3).await.unwrap()), [0; 0], "a sequence beyond any is no error");
    assert_eq!(sequences(w.store.events(other.run.id, 0, 500).await.unwrap()), [1, 2]);
}

/// 1 ..= 500, outside and inside of a transaction.
pub async fn event_pages_are_bounded(fixture: &impl Fixture) {
    let w = world(fixture);
    let id = w.inserted().await.run.id;
    for limit in [0, 501, u32::MAX] {
        assert_eq!(code(w.store.events(id, 0, limit).await), "invalid_input", "{limit}");
        let inside = w.store.transaction(|mut tx| Box::pin(async move { tx.events(id, 0, limit).await }));
        assert_eq!(tx_code(inside.await), "invalid_input", "{limit}");
    }
    assert_eq!(w.store.events(id, 0, 1).await.unwrap().len(), 1);
    assert_eq!(w.store.events(id, 0, 500).await.unwrap().len(), 2);
}

/// Recovery reads requests that are older than an instant, oldest first, of Runs that have not ended.
pub async fn cancellations_are_paged_oldest_request_first(fixture: &impl Fixture) {
    let w = world(fixture);
    let requested = |at: &str, status: RunStatus| {
        let mut new = w.admission(None);
        (new.run.cancel_requested_at, new.run.cancel_reason) = (Some(today(at)), Some(CancelReason::User));
        new.run.status = status;
        new
    };
    let late = requested("12:20", RunStatus::Running);
    let early = requested("12:10", RunStatus::Dispatching);
    let twin = requested("12:10", RunStatus::Running);
    let ended = requested("12:05", RunStatus::Cancelled);
    for new in [&late, &early, &twin, &ended, &w.admission(None)] {
        w.insert(new).await.unwrap();
    }
    let read = async |before: &str, limit| -> Vec<RunId> {
        w.store.cancellations(today(before), limit).await.unwrap().into_iter().map(|run| run.id).collect()
    };
    let [first, second] = if early.run.id < twin.run.id { [early.run.id, twin.run.id] } else { [twin.run.id, early.run.id] };
    assert_eq!(read("12:30", 500).await, [first, second, late.run.id]);
    assert_eq!(read("12:30", 1).await, [first]);
    assert_eq!(read("12:20", 500).await, [first, second], "before, not at");
    assert_eq!(read("12:10", 500).await, []);
}

pub async fn cancellation_pages_are_bounded(fixture: &impl Fixture) {
    let w = world(fixture);
    for limit in [0, 501, u32::MAX] {
        assert_eq!(code(w.store.cancellations(start(), limit).await), "invalid_input", "{limit}");
    }
    assert!(w.store.cancellations(start(), 500).await.is_ok());
}

/// A key is taken in its project and nowhere else; no key is never taken.
pub async fn an_idempotency_key_is_unique_in_its_project(fixture: &impl Fixture) {
    let w = world(fixture);
    w.insert(&w.admission(Some("k"))).await.unwrap();
    let before = fixture.dump().await;
    assert_eq!(tx_code(w.insert(&w.admission(Some("k"))).await), "duplicate_idempotency_key");
    assert_unchanged!(fixture, before);
    let mut other = w.admission(Some("k"));
    other.run.project_id = ProjectId::new("other").unwrap();
    w.insert(&other).await.unwrap();
    for _ in 0..2 {
        w.insert(&w.admission(None)).await.unwrap();
    }
    w.insert(&w.admission(Some("K"))).await.unwrap();
}

pub async fn an_attempt_number_is_unique_in_its_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let (mine, other) = (w.inserted().await, w.admission(None));
    let twin = RunAttempt { run_id: mine.run.id, ..other.attempt };
    let inserted = w.store.transaction(|mut tx| Box::pin(async move { tx.insert_attempt(&twin).await }));
    assert_eq!(tx_code(inserted.await), "duplicate_attempt_number");
}

pub async fn an_event_sequence_is_unique_in_its_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let run_id = w.inserted().await.run.id;
    let new = w.admission(None);
    assert_eq!(tx_code(append(&w, &event(&new.events[0], run_id, 2)).await), "duplicate_event_sequence");
    append(&w, &event(&new.events[0], run_id, 3)).await.unwrap();
}

pub async fn an_event_dedupe_key_is_unique_in_its_run(fixture: &impl Fixture) {
    let w = world(fixture);
    let (mine, other) = (w.inserted().await.run.id, w.inserted().await.run.id);
    let keyed = |run_id, sequence| RunEvent { dedupe_key: Some("once".into()), ..event(&w.admission(None).events[0], run_id, sequence) };
    append(&w, &keyed(mine, 3)).await.unwrap();
    assert_eq!(tx_code(append(&w, &keyed(mine, 4)).await), "duplicate_event_dedupe_key");
    append(&w, &keyed(other, 3)).await.unwrap();
}

/// A duplicate that is none of the four, and a reference into nothing, are not dressed up as one.
pub async fn any_other_integrity_rule_is_a_constraint(fixture: &impl Fixture) {
    let w = world(fixture);
    let (mine, absent) = (w.inserted().await, w.admission(None));
    let before = fixture.dump().await;
    let policy = w.store.transaction(|mut tx| Box::pin(async move { tx.insert_retry_policy(&mine.policy).await }));
    assert_eq!(tx_code(policy.await), "constraint", "one policy a Run");
    let mut twin = w.admission(None);
    twin.run.id = mine.run.id;
    assert_eq!(tx_code(w.insert(&twin).await), "constraint", "one Run an id");
    let attempt = w.store.transaction(|mut tx| Box::pin(async move { tx.insert_attempt(&absent.attempt).await }));
    assert_eq!(tx_code(attempt.await), "constraint", "an attempt of no Run");
    assert_eq!(tx_code(append(&w, &absent.events[0]).await), "constraint", "an event of no Run");
    assert_unchanged!(fixture, before);
}

/// C29, C30: what core accepts is kept value for value; what any store would change is refused before it is asked.
pub async fn payloads_are_kept_value_for_value(fixture: &impl Fixture) {
    let w = world(fixture);
    let run_id = w.inserted().await.run.id;
    let depth = format!("{}1{}", "{\"a\":".repeat(64), "}".repeat(64));
    let largest = format!("{{\"a\":\"{}\"}}", "x".repeat(16 * 1024 - 8));
    let texts = [
        r#"{"b":1,"a":{"d":null,"c":[true,false,{}]}}"#,
        r#"{"n":[1.0,1.00,1e3,1.5e-7,0.1,5e-324,2.2250738585072014e-308,123456.789]}"#,
        r#"{"max":9007199254740991,"min":-9007199254740991,"zero":0}"#,
        "{\"\u{1f680}\":\"\\u0001 \\ud83d\\ude80 \u{feff} \\\" \\\\ '\"}",
        r#"{"":""}"#,
        &depth,
        &largest,
    ];
    for (n, text) in texts.iter().enumerate() {
        let payload = Payload::parse(text).unwrap();
        let event = RunEvent { payload: payload.clone(), ..event(&w.admission(None).events[0], run_id, n as u64 + 3) };
        append(&w, &event).await.unwrap();
        let found = w.store.events(run_id, n as u64 + 2, 1).await.unwrap().remove(0);
        assert_eq!(found.payload, payload);
        assert_eq!(found, event);
    }
    let too_large = format!("{{\"a\":\"{}\"}}", "x".repeat(16 * 1024 - 7));
    let refused =
        [r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"a":1,"a":2}"#, r#"{"a":9007199254740992}"#, r#"{"a":-0}"#, "[]", &too_large];
    for text in refused {
        assert_eq!(Payload::parse(text).map_err(StoreError::from).map_err(|e| e.code().as_str()), Err("invalid_input"), "{text:.20}");
    }
}

fn event(like: &RunEvent, run_id: RunId, sequence: u64) -> RunEvent {
    RunEvent { id: EventId::from_uuid(like.id.as_uuid()), run_id, sequence, ..like.clone() }
}

async fn append<F: Fixture>(w: &World<'_, F>, event: &RunEvent) -> Result<(), TxError<StoreError>> {
    w.store.transaction(move |mut tx| Box::pin(async move { tx.append_event(event).await })).await
}
