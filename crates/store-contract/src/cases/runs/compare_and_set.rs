//! The three compare-and-sets, each with a race that it loses, and the transition that joins them.

use runtime_core::{
    StoreError,
    digest::Digest,
    ids::WorkerId,
    ports::runs::{RunRepositoryExt, TxError},
    run::{
        Actor, ActorType, Admission, AttemptChange, AttemptStatus, Command, PolicyChange, RunChange, RunState, RunStatus, Transition,
        decide,
    },
};

use super::super::kit::{World, assert_unchanged, tx_code, world};
use crate::{Fixture, Store, start};

/// Two read version 2 and both write version 3: the second one lost, and what the first wrote stays.
pub async fn a_run_is_won_by_one(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    let [first, second] = ["first", "second"].map(|code| {
        let mut run = new.run.clone();
        (run.version, run.error_code) = (3, Some(code.to_owned()));
        RunChange { expected_version: 2, run }
    });
    assert_eq!(set_run(&*w.store, &first).await, Ok(true));
    let before = fixture.dump().await;
    assert_eq!(set_run(&*fixture.second_handle().await, &second).await, Ok(false));
    assert_unchanged!(fixture, before);
    assert_eq!(w.store.run(new.run.id).await.unwrap(), Some(first.run));
}

/// The status or the callback sequence moved on: either loses.
pub async fn an_attempt_is_won_by_one(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    let change = |expected_status, expected_callback_sequence, code: &str| {
        let mut attempt = new.attempt.clone();
        (attempt.status, attempt.callback_sequence) = (AttemptStatus::Starting, expected_callback_sequence + 1);
        attempt.error_code = Some(code.to_owned());
        AttemptChange { expected_status, expected_callback_sequence, attempt }
    };
    let first = change(AttemptStatus::Claimed, 0, "first");
    assert_eq!(set_attempt(&*w.store, &first).await, Ok(true));
    for second in [
        change(AttemptStatus::Claimed, 0, "same"),
        change(AttemptStatus::Starting, 0, "sequence"),
        change(AttemptStatus::Claimed, 1, "status"),
    ] {
        assert_eq!(set_attempt(&*w.store, &second).await, Ok(false), "{second:?}");
    }
    assert_eq!(w.store.attempt(new.attempt.id).await.unwrap(), Some(first.attempt));
    assert_eq!(set_attempt(&*w.store, &change(AttemptStatus::Starting, 1, "next")).await, Ok(true));
}

/// The next retry moves by the policy's own version.
pub async fn a_retry_policy_is_won_by_one(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    let [first, second] = [1_000, 2_000].map(|ms| {
        let mut policy = new.policy.clone();
        (policy.version, policy.next_attempt_at) = (2, Some(start().plus_ms(ms)));
        PolicyChange { expected_version: 1, policy }
    });
    assert_eq!(set_policy(&*w.store, &first).await, Ok(true));
    assert_eq!(set_policy(&*w.store, &second).await, Ok(false));
    assert_eq!(w.store.retry_policy(new.run.id).await.unwrap(), Some(first.policy));
}

/// What is not there cannot be won, and does not come to be.
pub async fn a_compare_and_set_of_nothing_is_lost(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut new = w.admission(None);
    new.run.version = 3;
    assert_eq!(set_run(&*w.store, &RunChange { expected_version: 2, run: new.run.clone() }).await, Ok(false));
    new.attempt.callback_sequence = 1;
    let change = AttemptChange { expected_status: new.attempt.status, expected_callback_sequence: 0, attempt: new.attempt };
    assert_eq!(set_attempt(&*w.store, &change).await, Ok(false));
    new.policy.version = 2;
    assert_eq!(set_policy(&*w.store, &PolicyChange { expected_version: 1, policy: new.policy }).await, Ok(false));
    assert_eq!(w.store.run(new.run.id).await.unwrap(), None);
}

/// A version that is not exactly one higher is refused, whether or not the expected one is stored.
pub async fn a_version_that_skips_is_refused_before_anything(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    let before = fixture.dump().await;
    for (expected, version) in [(2, 2), (2, 4), (2, 1), (7, 9), (u64::MAX, 0)] {
        let mut run = new.run.clone();
        run.version = version;
        assert_eq!(tx_code(set_run(&*w.store, &RunChange { expected_version: expected, run }).await), "invalid_input");
        let mut attempt = new.attempt.clone();
        attempt.callback_sequence = version;
        let change = AttemptChange { expected_status: attempt.status, expected_callback_sequence: expected, attempt };
        assert_eq!(tx_code(set_attempt(&*w.store, &change).await), "invalid_input");
        let mut policy = new.policy.clone();
        policy.version = version;
        assert_eq!(tx_code(set_policy(&*w.store, &PolicyChange { expected_version: expected, policy }).await), "invalid_input");
        let mut skips = dispatch(&w, &new);
        (skips.run.expected_version, skips.run.run.version) = (expected, version);
        assert_eq!(tx_code(transition(&*w.store, &skips).await), "invalid_input");
    }
    assert_unchanged!(fixture, before);
}

/// Run, attempt and event become durable together.
pub async fn a_transition_writes_run_attempt_and_event(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    let dispatch = dispatch(&w, &new);
    assert_eq!(transition(&*w.store, &dispatch).await, Ok(true));
    let found = w.store.facts(new.run.id).await.unwrap().unwrap();
    assert_eq!(found.run.status, RunStatus::Dispatching);
    assert_eq!(found.run, dispatch.run.run);
    assert_eq!(found.attempts, [dispatch.attempt.unwrap().attempt]);
    assert_eq!(found.events[2..], [dispatch.event]);
}

/// A retry is one transition too: the policy's date goes, the next attempt comes.
pub async fn a_transition_writes_policy_and_next_attempt(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut new = w.admission(None);
    (new.run.status, new.attempt.status) = (RunStatus::RetryWait, AttemptStatus::Failed);
    new.policy.next_attempt_at = Some(start());
    w.insert(&new).await.unwrap();
    let requeue = decided(&w, &new, &Command::Requeue);
    assert_eq!(transition(&*w.store, &requeue).await, Ok(true));
    let found = w.store.facts(new.run.id).await.unwrap().unwrap();
    assert_eq!(found.attempts, [new.attempt, requeue.new_attempt.unwrap()]);
    assert_eq!(found.policy, Some(requeue.policy.unwrap().policy));
    assert_eq!(found.run.status, RunStatus::Queued);
}

/// Whichever of its compare-and-sets loses, nothing of a transition stays, and the transaction can go on.
pub async fn a_transition_that_loses_leaves_nothing_and_the_transaction_goes_on(fixture: &impl Fixture) {
    let w = world(fixture);
    let mut new = w.admission(None);
    (new.run.status, new.attempt.status) = (RunStatus::RetryWait, AttemptStatus::Failed);
    new.policy.next_attempt_at = Some(start());
    w.insert(&new).await.unwrap();
    let good = decided(&w, &new, &Command::Requeue);
    let mut stale_run = good.clone();
    (stale_run.run.expected_version, stale_run.run.run.version) = (5, 6);
    let mut stale_policy = good.clone();
    let policy = stale_policy.policy.as_mut().unwrap();
    (policy.expected_version, policy.policy.version) = (5, 6);
    let mut stale_attempt = good.clone();
    let mut attempt = new.attempt.clone();
    attempt.callback_sequence = 9;
    let expected_status = attempt.status;
    stale_attempt.attempt = Some(AttemptChange { expected_status, expected_callback_sequence: 8, attempt });
    let before = fixture.dump().await;
    for stale in [&stale_run, &stale_policy, &stale_attempt] {
        assert_eq!(transition(&*w.store, stale).await, Ok(false));
        assert_unchanged!(fixture, before);
    }
    let both = [&stale_attempt, &good];
    let answers = w.store.transaction(move |mut tx| {
        Box::pin(async move { Ok::<_, StoreError>([tx.transition(both[0]).await?, tx.transition(both[1]).await?]) })
    });
    assert_eq!(answers.await, Ok([false, true]));
    assert_eq!(w.store.run(new.run.id).await.unwrap(), Some(good.run.run));
}

/// An event that is there already fails the whole of it.
pub async fn a_transition_with_a_known_event_is_refused_whole(fixture: &impl Fixture) {
    let w = world(fixture);
    let new = w.inserted().await;
    let before = fixture.dump().await;
    let mut twice = dispatch(&w, &new);
    twice.event.sequence = 2;
    assert_eq!(tx_code(transition(&*w.store, &twice).await), "duplicate_event_sequence");
    assert_unchanged!(fixture, before);
}

/// Two handles, one version, at once: one wins.
pub async fn of_two_handles_one_wins_a_transition(fixture: &impl Fixture) {
    let w = world(fixture);
    let second = fixture.second_handle().await;
    for _ in 0..20 {
        let new = w.inserted().await;
        let (mine, theirs) = (dispatch(&w, &new), dispatch(&w, &new));
        let (a, b) = tokio::join!(transition(&*w.store, &mine), transition(&*second, &theirs));
        let wins = [&a, &b].into_iter().filter(|answer| matches!(answer, Ok(true))).count();
        assert_eq!(wins, 1, "{a:?} {b:?}");
        let events = w.store.events(new.run.id, 0, 500).await.unwrap();
        assert_eq!(events.len(), 3);
        assert!([mine.event, theirs.event].contains(&events[2]));
    }
}

fn decided<F: Fixture>(w: &World<'_, F>, new: &Admission, command: &Command) -> Transition {
    let state = RunState { run: new.run.clone(), attempt: new.attempt.clone(), policy: new.policy.clone() };
    decide(&state, command, &Actor::of(ActorType::System), start(), &w.ids).unwrap().remove(0)
}

fn dispatch<F: Fixture>(w: &World<'_, F>, new: &Admission) -> Transition {
    let worker_id = WorkerId::new("w").unwrap();
    decided(w, new, &Command::Dispatch { worker_id, lease_token: Digest::of(b"t"), lease_expires_at: start().plus_ms(1_000) })
}

type Answer = Result<bool, TxError<StoreError>>;

async fn set_run(store: &dyn Store, change: &RunChange) -> Answer {
    store.transaction(move |mut tx| Box::pin(async move { tx.compare_and_set_run(change).await })).await
}

async fn set_attempt(store: &dyn Store, change: &AttemptChange) -> Answer {
    store.transaction(move |mut tx| Box::pin(async move { tx.compare_and_set_attempt(change).await })).await
}

async fn set_policy(store: &dyn Store, change: &PolicyChange) -> Answer {
    store.transaction(move |mut tx| Box::pin(async move { tx.compare_and_set_retry_policy(change).await })).await
}

async fn transition(store: &dyn Store, transition: &Transition) -> Answer {
    store.transaction(move |mut tx| Box::pin(async move { tx.transition(transition).await })).await
}
