//! What is stored about one instant of one trigger.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    definition::Head,
    ids::{ProjectId, TriggerId},
    ports::instants::{InstantFacts, InstantStore},
};

use super::{Facts, MemoryStore};

/// The revision that was current at an instant; a tombstone of that very instant was not yet.
fn in_force<T: Clone>(revisions: &[Head<T>], at: TimestampMs) -> Option<Head<T>> {
    revisions.iter().rev().find(|head| head.created_at.plus_ms(u64::from(head.archived)) <= at).cloned()
}

impl Facts {
    fn instant(&self, project_id: &ProjectId, trigger_id: &TriggerId, at: TimestampMs, now: TimestampMs) -> Option<InstantFacts> {
        let key = (project_id.clone(), trigger_id.clone());
        let trigger = self.trigger_item(&key)?;
        let revisions = self.triggers.get(&key)?;
        let current = in_force(revisions, at);
        let followed_by = revisions.iter().find(|head| current.as_ref().is_none_or(|current| head.revision > current.revision));
        let task_id = current.as_ref().map_or(&trigger.head.spec.task_id, |head| &head.spec.task_id);
        let task = self.tasks.get(&(project_id.clone(), task_id.clone())).and_then(|revisions| in_force(revisions, at));
        let own = |run: &&runtime_core::run::Run| run.project_id == *project_id && run.trigger_id.as_ref() == Some(trigger_id);
        let run = self.runs.values().filter(own).find(|run| run.scheduled_for == Some(at)).cloned();
        let covers = |entry: &&runtime_core::schedule::LedgerEntry| {
            let stretch = &entry.stretch;
            entry.project_id == *project_id && entry.trigger_id == *trigger_id && (stretch.from..=stretch.to).contains(&at)
        };
        let recorded = self.ledger.iter().filter(covers).min_by_key(|entry| entry.stretch.to).cloned();
        let pauses = |until: TimestampMs| {
            self.acts.iter().rev().find(|act| {
                act.act == "pause" && act.project_id.as_ref() == Some(project_id) && act.object == trigger_id.as_str() && act.at <= until
            })
        };
        Some(InstantFacts {
            followed_by: followed_by.cloned(),
            task,
            run,
            recorded_run: recorded.as_ref().and_then(|entry| self.runs.get(&entry.stretch.run_id?)).cloned(),
            recorded_under: recorded.as_ref().and_then(|entry| in_force(revisions, entry.recorded_at)),
            pause: recorded.as_ref().and_then(|entry| pauses(entry.recorded_at)).cloned(),
            recorded,
            in_force: current,
            pruned_before: self.pruned_before,
            observed_at: now,
            clock_mark: self.clock_mark,
            trigger,
        })
    }
}

#[async_trait]
impl InstantStore for MemoryStore {
    async fn instant(&self, project_id: &ProjectId, trigger_id: &TriggerId, at: TimestampMs) -> Result<Option<InstantFacts>, StoreError> {
        let now = self.shared.clock.now();
        Ok(self.read(|facts| facts.instant(project_id, trigger_id, at, now)))
    }
}
