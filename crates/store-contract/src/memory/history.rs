//! Reading what happened.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    definition::{DefinitionKey, DefinitionKind},
    digest::Digest,
    ids::{ProjectId, RunId, TaskId, TriggerId},
    limits::LIST_PAGE_MAX,
    ports::history::{HistoryStore, Overview, RunCursor, RunFacts, RunFilter, RunListItem, RunPage, TaskItem, TriggerItem},
    run::{Run, RunAttempt, RunStatus},
    schedule::LedgerEntry,
};

use super::{Facts, MemoryStore, TriggerKey, check_page, page};

impl Facts {
    fn attempts_of(&self, run_id: RunId) -> Vec<RunAttempt> {
        let mut attempts: Vec<_> = self.attempts.values().filter(|a| a.run_id == run_id).cloned().collect();
        attempts.sort_by_key(|a| a.attempt);
        attempts
    }

    fn last_run(&self, of: impl Fn(&Run) -> bool) -> Option<(RunId, RunStatus)> {
        self.runs.values().filter(|run| of(run)).max_by_key(|run| (run.created_at, run.id)).map(|run| (run.id, run.status))
    }

    pub(super) fn trigger_item(&self, key: &TriggerKey) -> Option<TriggerItem> {
        let head = self.trigger(key)?.clone();
        let task_live = self.task_live(&head);
        let last_run = self.last_run(|run| run.project_id == key.0 && run.trigger_id.as_ref() == Some(&key.1));
        Some(TriggerItem { head, schedule: self.schedules.get(key)?.clone(), task_live, last_run })
    }

    fn trigger_items(&self) -> impl Iterator<Item = (&TriggerKey, TriggerItem)> {
        self.triggers.keys().filter_map(|key| Some((key, self.trigger_item(key)?)))
    }

    fn overview(&self, now: TimestampMs) -> Overview {
        let mut overview = Overview { observed_at: Some(now), clock_mark: self.clock_mark, ..Overview::default() };
        for status in RunStatus::ALL {
            let count = self.runs.values().filter(|run| run.status == *status).count() as u64;
            if count > 0 {
                overview.runs.push((*status, count));
            }
        }
        for (_, item) in self.trigger_items().filter(|(_, item)| !item.head.archived) {
            overview.triggers += 1;
            overview.paused += u64::from(item.schedule.paused.is_some());
            overview.set_aside += u64::from(item.schedule.set_aside.is_some());
            let cursor = item.schedule.next_fire_at.filter(|_| item.schedulable());
            overview.due += u64::from(cursor.is_some_and(|at| at <= now));
            overview.next_fire_at = [overview.next_fire_at, cursor].into_iter().flatten().min();
        }
        overview
    }
}

fn fits(run: &Run, filter: &RunFilter) -> bool {
    let RunFilter { project_id, statuses, task_id, trigger_id, since } = filter;
    project_id.as_ref().is_none_or(|id| run.project_id == *id)
        && (statuses.is_empty() || statuses.contains(&run.status))
        && task_id.as_ref().is_none_or(|id| run.task_id == *id)
        && trigger_id.as_ref().is_none_or(|id| run.trigger_id.as_ref() == Some(id))
        && since.is_none_or(|since| run.created_at >= since)
}

#[async_trait]
impl HistoryStore for MemoryStore {
    async fn runs(&self, filter: &RunFilter, after: Option<RunCursor>, limit: u32) -> Result<RunPage, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let place = |run: &Run| (run.created_at, run.id);
        let beyond = |run: &Run| after.is_none_or(|cursor| place(run) < (cursor.created_at, cursor.id));
        let item = |facts: &Facts, run: &Run| RunListItem {
            run: run.clone(),
            attempts: u32::try_from(facts.attempts_of(run.id).len()).expect("attempts of a Run are few"),
        };
        let mut runs: Vec<RunListItem> =
            self.read(|facts| facts.runs.values().filter(|run| fits(run, filter) && beyond(run)).map(|run| item(facts, run)).collect());
        runs.sort_by_key(|item| std::cmp::Reverse(place(&item.run)));
        let more = runs.len() > page(limit);
        runs.truncate(page(limit));
        let last = runs.last().filter(|_| more);
        let next = last.map(|item| RunCursor { created_at: item.run.created_at, id: item.run.id });
        Ok(RunPage { runs, next })
    }

    async fn attempts(&self, run_id: RunId) -> Result<Vec<RunAttempt>, StoreError> {
        Ok(self.read(|facts| facts.attempts_of(run_id)))
    }

    async fn tasks(&self, project_id: &ProjectId, after: Option<&TaskId>, limit: u32) -> Result<Vec<TaskItem>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let item = |facts: &Facts, (project, id): &(ProjectId, TaskId)| {
            let head = facts.task(project, id).filter(|head| !head.archived)?.clone();
            Some(TaskItem { head, last_run: facts.last_run(|run| run.project_id == *project && run.task_id == *id) })
        };
        let wanted = |(project, id): &(ProjectId, TaskId)| project == project_id && after.is_none_or(|after| id > after);
        Ok(self.read(|facts| facts.tasks.keys().filter(|key| wanted(key)).filter_map(|key| item(facts, key)).take(page(limit)).collect()))
    }

    async fn triggers(&self, project_id: &ProjectId, after: Option<&TriggerId>, limit: u32) -> Result<Vec<TriggerItem>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let wanted = |(project, id): &TriggerKey| project == project_id && after.is_none_or(|after| id > after);
        Ok(self.read(|facts| {
            let items = facts.trigger_items().filter(|(key, item)| wanted(key) && !item.head.archived);
            items.map(|(_, item)| item).take(page(limit)).collect()
        }))
    }

    async fn trigger(&self, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<TriggerItem>, StoreError> {
        Ok(self.read(|facts| facts.trigger_item(&(project_id.clone(), trigger_id.clone()))))
    }

    async fn ledger(
        &self,
        project_id: &ProjectId,
        trigger_id: &TriggerId,
        since: TimestampMs,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let wanted = |e: &&LedgerEntry| e.project_id == *project_id && e.trigger_id == *trigger_id && e.stretch.to >= since;
        Ok(self.read(|facts| facts.ledger.iter().rev().filter(wanted).take(page(limit)).cloned().collect()))
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        let now = self.shared.clock.now();
        Ok(self.read(|facts| facts.overview(now)))
    }

    async fn pruned_before(&self) -> Result<Option<TimestampMs>, StoreError> {
        Ok(self.read(|facts| facts.pruned_before))
    }

    async fn run_ids(&self, after: Option<RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let beyond = |id: &&RunId| after.is_none_or(|after| **id > after);
        Ok(self.read(|facts| facts.runs.keys().filter(beyond).take(page(limit)).copied().collect()))
    }

    async fn facts(&self, run_id: RunId) -> Result<Option<RunFacts>, StoreError> {
        Ok(self.read(|facts| {
            Some(RunFacts {
                run: facts.runs.get(&run_id)?.clone(),
                attempts: facts.attempts_of(run_id),
                policy: facts.policies.get(&run_id).cloned(),
                events: facts.events_of(run_id, 0).cloned().collect(),
            })
        }))
    }

    async fn all_triggers(&self, after: Option<(&ProjectId, &TriggerId)>, limit: u32) -> Result<Vec<TriggerItem>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let beyond = |(project, id): &TriggerKey| after.is_none_or(|after| (project, id) > after);
        Ok(self.read(|facts| {
            let items = facts.trigger_items().filter(|(key, _)| beyond(key));
            items.map(|(_, item)| item).take(page(limit)).collect()
        }))
    }

    async fn revision_text(
        &self,
        project_id: &ProjectId,
        key: &DefinitionKey,
        revision: u32,
    ) -> Result<Option<(String, Digest)>, StoreError> {
        Ok(self.read(|facts| match key.kind {
            DefinitionKind::Task => {
                let head = facts.task_at(project_id, &TaskId::new(&key.id).ok()?, revision)?;
                Some((head.spec.canonical(), head.digest.clone()))
            }
            DefinitionKind::Trigger => {
                let revisions = facts.triggers.get(&(project_id.clone(), TriggerId::new(&key.id).ok()?))?;
                let head = revisions.iter().find(|head| head.revision == revision)?;
                Some((head.spec.canonical(), head.digest.clone()))
            }
        }))
    }

    async fn occurrences(
        &self,
        project_id: &ProjectId,
        trigger_id: &TriggerId,
        from: TimestampMs,
        to: TimestampMs,
        limit: u32,
    ) -> Result<Vec<Run>, StoreError> {
        check_page(limit, LIST_PAGE_MAX)?;
        let within = |run: &&Run| run.scheduled_for.is_some_and(|at| (from..=to).contains(&at));
        let wanted = |run: &&Run| run.project_id == *project_id && run.trigger_id.as_ref() == Some(trigger_id) && within(run);
        let mut runs: Vec<Run> = self.read(|facts| facts.runs.values().filter(wanted).cloned().collect());
        runs.sort_by_key(|run| (run.scheduled_for, run.id));
        runs.truncate(page(limit));
        Ok(runs)
    }
}
