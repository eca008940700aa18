//! Removing history.

use async_trait::async_trait;
use runtime_core::{
    StoreError, TimestampMs,
    ids::RunId,
    ports::{
        history::RunCursor,
        retention::{PruneCommand, PrunedLedger, PrunedRuns, RetentionStore},
    },
    run::Run,
};

use super::{Facts, MemoryStore, Turn, page};

impl Facts {
    /// Runs that repeat or descend from a Run.
    fn children(&self, id: RunId) -> impl Iterator<Item = &Run> {
        self.runs.values().filter(move |run| run.retry_of_run_id == Some(id) || run.parent_run_id == Some(id))
    }

    fn would_go(&self, command: &PruneCommand, run: &Run) -> bool {
        command.covers(run) && self.children(run.id).all(|child| self.would_go(command, child))
    }

    /// A page of the Runs created before the instant, newest first.
    fn prune_page(&self, command: &PruneCommand, after: Option<RunCursor>) -> (Vec<Run>, Option<RunCursor>) {
        let place = |run: &Run| (run.created_at, run.id);
        let beyond = |run: &&Run| after.is_none_or(|cursor| place(run) < (cursor.created_at, cursor.id));
        let mut runs: Vec<Run> = self.runs.values().filter(|run| run.created_at < command.before).filter(beyond).cloned().collect();
        runs.sort_by_key(|run| std::cmp::Reverse(place(run)));
        runs.truncate(page(command.page));
        let last = runs.last().filter(|_| runs.len() == page(command.page));
        let next = last.map(|run| RunCursor { created_at: run.created_at, id: run.id });
        (runs, next)
    }

    fn remove(&mut self, id: RunId) {
        self.runs.remove(&id);
        self.policies.remove(&id);
        self.events.retain(|(run_id, _), _| *run_id != id);
        let attempts: Vec<_> = self.attempts.values().filter(|attempt| attempt.run_id == id).map(|attempt| attempt.id).collect();
        for attempt in attempts {
            self.attempts.remove(&attempt);
            self.leases.remove(&attempt);
        }
    }
}

impl Turn<'_> {
    fn prune_runs(&mut self, command: &PruneCommand, after: Option<RunCursor>) -> PrunedRuns {
        let command = until_now(command, self.now);
        let (seen, next) = self.facts.prune_page(&command, after);
        let mut runs = Vec::new();
        for run in seen.iter().filter(|run| command.covers(run)) {
            let goes = if command.dry_run { self.facts.would_go(&command, run) } else { self.facts.children(run.id).next().is_none() };
            if goes {
                runs.push(run.id);
            }
            if goes && !command.dry_run {
                self.facts.remove(run.id);
            }
        }
        if !runs.is_empty() && !command.dry_run {
            self.pruned(&command);
        }
        PrunedRuns { runs, next }
    }

    fn prune_ledger(&mut self, command: &PruneCommand) -> PrunedLedger {
        let command = until_now(command, self.now);
        let mut old: Vec<_> = (0..self.facts.ledger.len()).filter(|n| self.facts.ledger[*n].stretch.to < command.before).collect();
        if command.dry_run {
            return PrunedLedger { entries: old.len() as u64, saturated: false };
        }
        old.sort_by_key(|n| (self.facts.ledger[*n].stretch.to, *n));
        old.truncate(page(command.page));
        let mut place = 0;
        self.facts.ledger.retain(|_| {
            place += 1;
            !old.contains(&(place - 1))
        });
        if !old.is_empty() {
            self.pruned(&command);
        }
        PrunedLedger { entries: old.len() as u64, saturated: old.len() == page(command.page) }
    }

    fn pruned(&mut self, command: &PruneCommand) {
        self.facts.pruned_before = self.facts.pruned_before.max(Some(command.before));
        if let Some(by) = &command.by {
            self.act("prune", None, "history", format!("what ended before {}", command.before), by);
        }
    }
}

/// What lies ahead has not ended.
fn until_now(command: &PruneCommand, now: TimestampMs) -> PruneCommand {
    PruneCommand { before: command.before.min(now), ..command.clone() }
}

#[async_trait]
impl RetentionStore for MemoryStore {
    async fn prune_runs(&self, command: &PruneCommand, after: Option<RunCursor>) -> Result<PrunedRuns, StoreError> {
        command.check()?;
        self.write(|turn| Ok(turn.prune_runs(command, after))).await
    }

    async fn prune_ledger(&self, command: &PruneCommand) -> Result<PrunedLedger, StoreError> {
        command.check()?;
        self.write(|turn| Ok(turn.prune_ledger(command))).await
    }
}
