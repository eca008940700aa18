//! Publishing definitions, and pausing triggers.

use async_trait::async_trait;

use crate::{
    Invalid, StoreError, TimestampMs,
    definition::{DefinitionKey, Heads, PlannedChange, TaskSpec, TriggerSpec},
    ids::{ProjectId, RunId, TriggerId},
    limits::{ID_BYTES_MAX, SUMMARY_BYTES_MAX},
    schedule::LedgerEntry,
};

/// Who does something to the product, for the record of operator acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// As they are known: a user name, a service account; at most 128 bytes.
    pub name: String,
    /// Why, at most 1024 bytes.
    pub reason: Option<String>,
}

impl Operator {
    /// Checks the bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        let refuse = |field: &str, text: &str, max: usize| {
            if text.is_empty() || text.len() > max || text.contains('\0') {
                return Err(Invalid::new(field, format!("is {} bytes long, 1 ..= {max} are allowed", text.len())));
            }
            Ok(())
        };
        refuse("operator", &self.name, ID_BYTES_MAX)?;
        self.reason.as_deref().map_or(Ok(()), |reason| refuse("reason", reason, SUMMARY_BYTES_MAX))
    }
}

/// A set of definitions to make current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishCommand {
    /// Whose.
    pub project_id: ProjectId,
    /// Tasks to make current.
    pub tasks: Vec<TaskSpec>,
    /// Triggers to make current.
    pub triggers: Vec<TriggerSpec>,
    /// Archive what is not named: the set is the whole project.
    pub archive_absent: bool,
    /// Answer what would change, and write nothing.
    pub dry_run: bool,
    /// Who.
    pub by: Operator,
}

/// What a publish changed, or would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Every definition of the set and every one that was archived, tasks first, by id.
    pub changes: Vec<PlannedChange>,
    /// Occurrences that were due and are now recorded instead of run.
    pub ledger: Vec<LedgerEntry>,
    /// Authority time of the publish.
    pub at: TimestampMs,
}

/// What becomes of the occurrences that a pause kept back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They stay recorded as `paused`.
    #[default]
    Skip,
    /// One Run for the latest of them; the others stay recorded.
    One,
}

/// Pauses or resumes a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseCommand {
    /// Namespace.
    pub project_id: ProjectId,
    /// Which.
    pub trigger_id: TriggerId,
    /// Pause, or resume.
    pub paused: bool,
    /// Only for a resume.
    pub missed: Missed,
    /// Who, and why.
    pub by: Operator,
}

/// What a pause or resume did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseOutcome {
    /// False: it was so before, and nothing was written.
    pub changed: bool,
    /// Occurrences that are now recorded instead of run.
    pub ledger: Option<LedgerEntry>,
    /// The Run that makes up for them, if one was asked for and one was missed.
    pub admitted: Option<RunId>,
}

/// Definitions.
///
/// Each edit locks the schedule rows, *then* reads the authority's clock: that is the new activation. See [`crate::schedule::edit`] for
/// what it does to a schedule, and [`crate::definition::Plan::schedules`] for which schedules a publish edits: also those whose own revision
/// stays while their task begins or ceases to rest.
#[async_trait]
pub trait DefinitionStore: Send + Sync {
    /// Makes the set current. Durable together: every new revision and tombstone, the schedules that follow from them, the
    /// ledger, and the operator's act (if anything changed). The same set again changes nothing. Invalid sets are refused whole.
    async fn publish(&self, command: &PublishCommand) -> Result<Published, StoreError>;

    /// Archives single definitions; a task takes its triggers with it. An unknown or archived key is `NotFound`, and nothing is archived.
    async fn archive(&self, project_id: &ProjectId, keys: &[DefinitionKey], by: &Operator) -> Result<Published, StoreError>;

    /// Pauses or resumes. Durable together: the schedule, the ledger, the Run if one is asked for, the operator's act. With [`Missed::One`] the
    /// latest missed occurrence is admitted on the operator's account and stands in no ledger, unless the trigger's policy is to skip overlaps and it has an
    /// unfinished Run. An unknown or archived trigger is `NotFound`.
    async fn set_paused(&self, command: &PauseCommand) -> Result<PauseOutcome, StoreError>;

    /// The current revisions of a project, tombstones included.
    async fn heads(&self, project_id: &ProjectId) -> Result<Heads, StoreError>;

    /// The task revision that a Run pins, by project, task and revision.
    async fn task_revision(
        &self,
        project_id: &ProjectId,
        task_id: &crate::ids::TaskId,
        revision: u32,
    ) -> Result<Option<TaskSpec>, StoreError>;
}
