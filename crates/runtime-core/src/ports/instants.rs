//! What a store holds about one instant of one trigger: the facts from which [`crate::why::explain`] tells what became of it.

use async_trait::async_trait;

use super::{control::OperatorAct, history::TriggerItem};
use crate::{
    StoreError, TimestampMs,
    definition::{Head, TaskSpec, TriggerSpec},
    ids::{ProjectId, TriggerId},
    run::Run,
    schedule::LedgerEntry,
};

/// Everything about one instant, read in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstantFacts {
    /// The trigger as it is now, archived or not.
    pub trigger: TriggerItem,
    /// The revision that was current at the instant. An edit at the very instant counts, an archive at the very instant does not: so are
    /// occurrences assigned. `None`: before the first one.
    pub in_force: Option<Head<TriggerSpec>>,
    /// The revision after it, or the first one.
    pub followed_by: Option<Head<TriggerSpec>>,
    /// The revision of its task that was current at the instant.
    pub task: Option<Head<TaskSpec>>,
    /// The Run that was admitted for the instant.
    pub run: Option<Run>,
    /// The ledger entry whose stretch the instant is in.
    pub recorded: Option<LedgerEntry>,
    /// The Run that the entry speaks of, if it is still stored.
    pub recorded_run: Option<Run>,
    /// The revision that was current when the entry was recorded.
    pub recorded_under: Option<Head<TriggerSpec>>,
    /// The newest pause of the trigger up to the recording.
    pub pause: Option<OperatorAct>,
    /// Before which instant history may have been removed.
    pub pruned_before: Option<TimestampMs>,
    /// Authority time of the reading.
    pub observed_at: TimestampMs,
    /// Highest authority time that was committed.
    pub clock_mark: Option<TimestampMs>,
}

/// Instants of triggers.
#[async_trait]
pub trait InstantStore: Send + Sync {
    /// What is stored about `at`; `None` if there never was such a trigger. Writes nothing.
    async fn instant(&self, project_id: &ProjectId, trigger_id: &TriggerId, at: TimestampMs) -> Result<Option<InstantFacts>, StoreError>;
}
