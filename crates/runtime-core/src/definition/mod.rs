//! Tasks and triggers: immutable revisions, bound by a digest over canonical bytes.

mod canonical;
mod plan;
mod task;
mod trigger;

pub use plan::{Change, DefinitionKey, DefinitionKind, Heads, Plan, PlannedChange, ScheduleChange, plan};
pub use task::TaskSpec;
pub use trigger::{Misfire, Overlap, TriggerSpec};

use crate::{TimestampMs, digest::Digest, ids::ProjectId};

/// The current revision of a task or trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<T> {
    /// Namespace.
    pub project_id: ProjectId,
    /// 1 for the first; never restarts, not even after an archive.
    pub revision: u32,
    /// SHA-256 of the canonical bytes of `spec`.
    pub digest: Digest,
    /// What the revision says.
    pub spec: T,
    /// The newest revision is a tombstone; `spec` is what it buried.
    pub archived: bool,
    /// Authority time of the revision.
    pub created_at: TimestampMs,
}
