//! Removing history. The proof of admission is not history: cursor and latest admission stay, so nothing is ever admitted again.

use async_trait::async_trait;

use super::{definitions::Operator, history::RunCursor};
use crate::{Invalid, StoreError, TimestampMs, ids::RunId, limits::LIST_PAGE_MAX, run::Run};

/// Which history goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneCommand {
    /// What ended before this instant; an instant ahead counts as now.
    pub before: TimestampMs,
    /// Records to look at in one transaction, 1 ..= 500.
    pub page: u32,
    /// Answer what would go, and write nothing.
    pub dry_run: bool,
    /// Recorded as an act together with what this page removes, if it removes anything.
    pub by: Option<Operator>,
}

impl PruneCommand {
    /// Checks the bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        self.by.as_ref().map_or(Ok(()), Operator::check)?;
        super::runs::check_page(self.page, LIST_PAGE_MAX)
    }

    /// Whether a Run is old enough: it has ended, and it, its end and its occurrence lie before the instant.
    pub fn covers(&self, run: &Run) -> bool {
        let before = |at: Option<TimestampMs>| at.is_none_or(|at| at < self.before);
        run.status.is_final() && run.created_at < self.before && before(run.finished_at) && before(run.scheduled_for)
    }
}

/// A page of Runs that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedRuns {
    /// Which, newest first. What is kept about them outside of the store, such as their output, is the caller's to remove.
    pub runs: Vec<RunId>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<RunCursor>,
}

/// Ledger entries that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrunedLedger {
    /// How many. A dry run counts all that would go, not only a page.
    pub entries: u64,
    /// There may be more.
    pub saturated: bool,
}

/// Retention.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Removes finished Runs whole: attempts, events, policy and leases with them. Looks at a page of those created before the instant,
    /// newest first, after `after`. A Run that another one repeats or descends from stays until that one has gone, which is newer and
    /// therefore goes first. Durable together: all removals of the page, [`crate::ports::history::HistoryStore::pruned_before`], the act.
    async fn prune_runs(&self, command: &PruneCommand, after: Option<RunCursor>) -> Result<PrunedRuns, StoreError>;

    /// Removes a page of ledger entries whose last occurrence lies before the instant. Durable together: as above.
    async fn prune_ledger(&self, command: &PruneCommand) -> Result<PrunedLedger, StoreError>;
}
