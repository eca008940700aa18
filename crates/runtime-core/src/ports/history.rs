//! Reading what happened: lists, the ledger, and the facts that `verify` checks.

use async_trait::async_trait;

use crate::{
    StoreError, TimestampMs,
    definition::{Head, TaskSpec, TriggerSpec},
    ids::{ProjectId, RunId, TaskId, TriggerId},
    run::{RetryPolicy, Run, RunAttempt, RunEvent, RunStatus},
    schedule::{LedgerEntry, ScheduleRow},
};

/// Which Runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of one project.
    pub project_id: Option<ProjectId>,
    /// In one of these states; empty: in any.
    pub statuses: Vec<RunStatus>,
    /// Of one task.
    pub task_id: Option<TaskId>,
    /// Of one trigger.
    pub trigger_id: Option<TriggerId>,
    /// Created at or after.
    pub since: Option<TimestampMs>,
}

/// Where a page of Runs ended: newest first, by creation and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCursor {
    /// Of the last Run of the page.
    pub created_at: TimestampMs,
    /// Of the last Run of the page.
    pub id: RunId,
}

/// A Run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListItem {
    /// The Run.
    pub run: Run,
    /// How many attempts it has had.
    pub attempts: u32,
}

/// A page of Runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// Newest first.
    pub runs: Vec<RunListItem>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<RunCursor>,
}

/// A trigger, where it stands, and how its last Run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerItem {
    /// The current revision.
    pub head: Head<TriggerSpec>,
    /// Where it stands.
    pub schedule: ScheduleRow,
    /// Whether the current revision of its task exists and is enabled.
    pub task_live: bool,
    /// Its newest Run.
    pub last_run: Option<(RunId, RunStatus)>,
}

impl TriggerItem {
    /// Whether the scheduler looks at it at all.
    pub fn schedulable(&self) -> bool {
        let Self { head, schedule, task_live, .. } = self;
        !head.archived && head.spec.enabled && *task_live && schedule.paused.is_none() && schedule.set_aside.is_none()
    }
}

/// A task, and how its last Run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskItem {
    /// The current revision.
    pub head: Head<TaskSpec>,
    /// Its newest Run.
    pub last_run: Option<(RunId, RunStatus)>,
}

/// Counts for one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Authority time of the reading.
    pub observed_at: Option<TimestampMs>,
    /// Highest authority time that was committed.
    pub clock_mark: Option<TimestampMs>,
    /// Runs by state, states without Runs left out.
    pub runs: Vec<(RunStatus, u64)>,
    /// Live triggers.
    pub triggers: u64,
    /// Of those, paused.
    pub paused: u64,
    /// Of those, set aside.
    pub set_aside: u64,
    /// Schedulable and due now.
    pub due: u64,
    /// The earliest cursor of a schedulable trigger.
    pub next_fire_at: Option<TimestampMs>,
}

/// Everything about one Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFacts {
    /// The Run.
    pub run: Run,
    /// Its attempts, lowest number first.
    pub attempts: Vec<RunAttempt>,
    /// Its policy.
    pub policy: Option<RetryPolicy>,
    /// Its events, lowest sequence first.
    pub events: Vec<RunEvent>,
}

/// History.
#[async_trait]
pub trait HistoryStore: Send + Sync {
    /// Runs, newest first; `limit` is 1 ..= 500.
    async fn runs(&self, filter: &RunFilter, after: Option<RunCursor>, limit: u32) -> Result<RunPage, StoreError>;

    /// The attempts of a Run, lowest number first.
    async fn attempts(&self, run_id: RunId) -> Result<Vec<RunAttempt>, StoreError>;

    /// Live tasks after `after`, by id; `limit` is 1 ..= 500.
    async fn tasks(&self, project_id: &ProjectId, after: Option<&TaskId>, limit: u32) -> Result<Vec<TaskItem>, StoreError>;

    /// Live triggers after `after`, by id; `limit` is 1 ..= 500.
    async fn triggers(&self, project_id: &ProjectId, after: Option<&TriggerId>, limit: u32) -> Result<Vec<TriggerItem>, StoreError>;

    /// One trigger, archived or not.
    async fn trigger(&self, project_id: &ProjectId, trigger_id: &TriggerId) -> Result<Option<TriggerItem>, StoreError>;

    /// Ledger entries of a trigger that end at or after `since`, newest first; `limit` is 1 ..= 500.
    async fn ledger(
        &self,
        project_id: &ProjectId,
        trigger_id: &TriggerId,
        since: TimestampMs,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>, StoreError>;

    /// Counts.
    async fn overview(&self) -> Result<Overview, StoreError>;

    /// Before which instant Runs and ledger entries may have been removed; `None`: nothing ever was. See [`super::retention`].
    async fn pruned_before(&self) -> Result<Option<TimestampMs>, StoreError>;

    /// Ids of Runs after `after`, in order; `limit` is 1 ..= 500. With [`Self::facts`], how `verify` walks everything in bounded memory.
    async fn run_ids(&self, after: Option<RunId>, limit: u32) -> Result<Vec<RunId>, StoreError>;

    /// Everything about one Run, read in one snapshot.
    async fn facts(&self, run_id: RunId) -> Result<Option<RunFacts>, StoreError>;

    /// Every trigger there ever was, archived ones included, after (`project`, `trigger`), in order; `limit` is 1 ..= 500.
    async fn all_triggers(&self, after: Option<(&ProjectId, &TriggerId)>, limit: u32) -> Result<Vec<TriggerItem>, StoreError>;

    /// The stored canonical text and digest of a revision: `kind` is a task or trigger.
    async fn revision_text(
        &self,
        project_id: &ProjectId,
        key: &crate::definition::DefinitionKey,
        revision: u32,
    ) -> Result<Option<(String, crate::digest::Digest)>, StoreError>;

    /// Runs of a trigger with their occurrence in `[from, to]`, in order of the occurrence; `limit` is 1 ..= 500.
    async fn occurrences(
        &self,
        project_id: &ProjectId,
        trigger_id: &TriggerId,
        from: TimestampMs,
        to: TimestampMs,
        limit: u32,
    ) -> Result<Vec<Run>, StoreError>;
}
