//! Runs, attempts, policies, events; transactions.

use std::{collections::btree_map::Entry, sync::Arc};

use async_trait::async_trait;
use runtime_core::{
    AuthorityClock, StoreError, TimestampMs,
    ids::{AttemptId, RunId},
    ports::{
        BoxFuture,
        runs::{
            RunReader, RunRepository, RunTx, Tx, Work, check_attempt_change, check_cancellation_page, check_event_page,
            check_policy_change, check_run_change,
        },
    },
    run::{Admission, AttemptChange, PolicyChange, RetryPolicy, Run, RunAttempt, RunChange, RunEvent, Transition},
};

use super::{Facts, MemoryStore, page};

fn constraint(rule: &str) -> StoreError {
    StoreError::Constraint { rule: rule.to_owned() }
}

impl Facts {
    pub(super) fn latest_attempt(&self, run_id: RunId) -> Option<&RunAttempt> {
        self.attempts.values().filter(|a| a.run_id == run_id).max_by_key(|a| a.attempt)
    }

    pub(super) fn events_of(&self, run_id: RunId, after: u64) -> impl Iterator<Item = &RunEvent> {
        self.events.range((run_id, after.saturating_add(1))..=(run_id, u64::MAX)).map(|(_, event)| event)
    }

    fn event_page(&self, run_id: RunId, after: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError> {
        check_event_page(limit)?;
        Ok(self.events_of(run_id, after).take(page(limit)).cloned().collect())
    }

    fn insert_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let same_key = |other: &&Run| other.project_id == run.project_id && other.idempotency_key == run.idempotency_key;
        if self.runs.contains_key(&run.id) {
            return Err(constraint("runs_id"));
        }
        if run.idempotency_key.is_some() && self.runs.values().any(|other| same_key(&other)) {
            return Err(StoreError::DuplicateIdempotencyKey);
        }
        self.runs.insert(run.id, run.clone());
        Ok(())
    }

    fn insert_attempt(&mut self, attempt: &RunAttempt) -> Result<(), StoreError> {
        if !self.runs.contains_key(&attempt.run_id) {
            return Err(constraint("run_attempts_run"));
        }
        if self.attempts.contains_key(&attempt.id) {
            return Err(constraint("run_attempts_id"));
        }
        if self.attempts.values().any(|a| (a.run_id, a.attempt) == (attempt.run_id, attempt.attempt)) {
            return Err(StoreError::DuplicateAttemptNumber);
        }
        self.attempts.insert(attempt.id, attempt.clone());
        Ok(())
    }

    fn insert_policy(&mut self, policy: &RetryPolicy) -> Result<(), StoreError> {
        if !self.runs.contains_key(&policy.run_id) {
            return Err(constraint("run_retry_policies_run"));
        }
        match self.policies.entry(policy.run_id) {
            Entry::Occupied(_) => Err(constraint("run_retry_policies_run_id")),
            Entry::Vacant(free) => {
                free.insert(policy.clone());
                Ok(())
            }
        }
    }

    fn append_event(&mut self, event: &RunEvent) -> Result<(), StoreError> {
        if !self.runs.contains_key(&event.run_id) || event.attempt_id.is_some_and(|id| !self.attempts.contains_key(&id)) {
            return Err(constraint("run_events_run"));
        }
        if self.events.values().any(|other| other.id == event.id) {
            return Err(constraint("run_events_id"));
        }
        if event.dedupe_key.is_some() && self.events_of(event.run_id, 0).any(|other| other.dedupe_key == event.dedupe_key) {
            return Err(StoreError::DuplicateEventDedupeKey);
        }
        match self.events.entry((event.run_id, event.sequence)) {
            Entry::Occupied(_) => Err(StoreError::DuplicateEventSequence),
            Entry::Vacant(free) => {
                free.insert(event.clone());
                Ok(())
            }
        }
    }

    pub(super) fn admit(&mut self, admission: &Admission) -> Result<(), StoreError> {
        self.insert_run(&admission.run)?;
        self.insert_attempt(&admission.attempt)?;
        self.insert_policy(&admission.policy)?;
        admission.events.iter().try_for_each(|event| self.append_event(event))
    }

    fn set_run(&mut self, change: &RunChange) -> Result<bool, StoreError> {
        check_run_change(change)?;
        let stored = self.runs.get_mut(&change.run.id).filter(|run| run.version == change.expected_version);
        Ok(stored.map(|run| run.clone_from(&change.run)).is_some())
    }

    fn set_attempt(&mut self, change: &AttemptChange) -> Result<bool, StoreError> {
        check_attempt_change(change)?;
        let expected = (change.expected_status, change.expected_callback_sequence);
        let stored = self.attempts.get_mut(&change.attempt.id).filter(|a| (a.status, a.callback_sequence) == expected);
        Ok(stored.map(|attempt| attempt.clone_from(&change.attempt)).is_some())
    }

    fn set_policy(&mut self, change: &PolicyChange) -> Result<bool, StoreError> {
        check_policy_change(change)?;
        let stored = self.policies.get_mut(&change.policy.run_id).filter(|policy| policy.version == change.expected_version);
        Ok(stored.map(|policy| policy.clone_from(&change.policy)).is_some())
    }

    /// The whole write-set, or nothing of it.
    pub(super) fn transition(&mut self, transition: &Transition) -> Result<bool, StoreError> {
        let before = self.clone();
        let mut write = || {
            let won = self.set_run(&transition.run)?
                && transition.attempt.as_ref().map_or(Ok(true), |change| self.set_attempt(change))?
                && transition.policy.as_ref().map_or(Ok(true), |change| self.set_policy(change))?;
            if won {
                transition.new_attempt.iter().try_for_each(|attempt| self.insert_attempt(attempt))?;
                self.append_event(&transition.event)?;
            }
            Ok(won)
        };
        let written = write();
        if !matches!(written, Ok(true)) {
            *self = before;
        }
        written
    }
}

#[async_trait]
impl RunReader for MemoryStore {
    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        Ok(self.read(|facts| facts.runs.get(&id).cloned()))
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<RunAttempt>, StoreError> {
        Ok(self.read(|facts| facts.attempts.get(&id).cloned()))
    }

    async fn latest_attempt(&self, run_id: RunId) -> Result<Option<RunAttempt>, StoreError> {
        Ok(self.read(|facts| facts.latest_attempt(run_id).cloned()))
    }

    async fn retry_policy(&self, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError> {
        Ok(self.read(|facts| facts.policies.get(&run_id).cloned()))
    }

    async fn events(&self, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError> {
        self.read(|facts| facts.event_page(run_id, after_sequence, limit))
    }

    async fn cancellations(&self, before: TimestampMs, limit: u32) -> Result<Vec<Run>, StoreError> {
        check_cancellation_page(limit)?;
        let waits = |run: &&Run| !run.status.is_final() && run.cancel_requested_at.is_some_and(|at| at < before);
        let mut runs: Vec<Run> = self.read(|facts| facts.runs.values().filter(waits).cloned().collect());
        runs.sort_by_key(|run| (run.cancel_requested_at, run.id));
        runs.truncate(page(limit));
        Ok(runs)
    }
}

impl RunRepository for MemoryStore {
    fn transaction_erased<'w>(&'w self, work: Work<'w>) -> BoxFuture<'w, Result<(), StoreError>> {
        Box::pin(async move {
            let _turn = self.shared.turns.lock().await;
            let before = self.read(Clone::clone);
            let mut tx = MemoryTx { facts: before.clone(), clock: self.shared.clock.clone() };
            if work(Tx::new(&mut tx)).await.is_ok() && tx.facts != before {
                tx.facts.clock_mark = tx.facts.clock_mark.max(Some(tx.clock.now()));
                self.shared.state().facts = tx.facts;
            }
            Ok(())
        })
    }
}

/// A working copy; it is forgotten unless the work succeeds.
struct MemoryTx {
    facts: Facts,
    clock: Arc<dyn AuthorityClock>,
}

#[async_trait]
impl RunTx for MemoryTx {
    async fn now(&mut self) -> Result<TimestampMs, StoreError> {
        Ok(self.clock.now())
    }

    async fn insert_run(&mut self, run: &Run) -> Result<(), StoreError> {
        self.facts.insert_run(run)
    }

    async fn insert_attempt(&mut self, attempt: &RunAttempt) -> Result<(), StoreError> {
        self.facts.insert_attempt(attempt)
    }

    async fn insert_retry_policy(&mut self, policy: &RetryPolicy) -> Result<(), StoreError> {
        self.facts.insert_policy(policy)
    }

    async fn append_event(&mut self, event: &RunEvent) -> Result<(), StoreError> {
        self.facts.append_event(event)
    }

    async fn compare_and_set_run(&mut self, change: &RunChange) -> Result<bool, StoreError> {
        self.facts.set_run(change)
    }

    async fn compare_and_set_attempt(&mut self, change: &AttemptChange) -> Result<bool, StoreError> {
        self.facts.set_attempt(change)
    }

    async fn compare_and_set_retry_policy(&mut self, change: &PolicyChange) -> Result<bool, StoreError> {
        self.facts.set_policy(change)
    }

    async fn transition(&mut self, transition: &Transition) -> Result<bool, StoreError> {
        self.facts.transition(transition)
    }

    async fn run(&mut self, id: RunId) -> Result<Option<Run>, StoreError> {
        Ok(self.facts.runs.get(&id).cloned())
    }

    async fn attempt(&mut self, id: AttemptId) -> Result<Option<RunAttempt>, StoreError> {
        Ok(self.facts.attempts.get(&id).cloned())
    }

    async fn latest_attempt(&mut self, run_id: RunId) -> Result<Option<RunAttempt>, StoreError> {
        Ok(self.facts.latest_attempt(run_id).cloned())
    }

    async fn retry_policy(&mut self, run_id: RunId) -> Result<Option<RetryPolicy>, StoreError> {
        Ok(self.facts.policies.get(&run_id).cloned())
    }

    async fn events(&mut self, run_id: RunId, after_sequence: u64, limit: u32) -> Result<Vec<RunEvent>, StoreError> {
        self.facts.event_page(run_id, after_sequence, limit)
    }
}
