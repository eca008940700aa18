//! Claiming what is due and committing what was decided about it.

use async_trait::async_trait;

use crate::{
    StoreError, TimestampMs,
    ids::{ProjectId, TriggerId},
    schedule::{ClaimCommand, ClaimPage, CommitOutcome, ScheduleClaim, ScheduleCommit},
};

/// A cursor that moved because the zone data changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedCursor {
    /// Namespace.
    pub project_id: ProjectId,
    /// Whose.
    pub trigger_id: TriggerId,
    /// Before.
    pub from: TimestampMs,
    /// After.
    pub to: TimestampMs,
}

/// Schedules, as the scheduler uses them.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Claims up to `page` (1 ..= 256) triggers that are due or have no cursor, earliest due first, those without a cursor for at most a
    /// quarter of the page while others are due. Rows that are claimed and not expired, paused, set aside, archived, disabled, or stamped later than
    /// the observation are left out. The authority's clock is read once; it judges all of them and stamps the claims.
    ///
    /// The page is saturated if it is full, or if rows without a cursor were left out. While the clock is below the high-water mark nothing is
    /// claimed. Durable together: the claims of the page, where claims are durable at all; a claim does not raise the mark. A repeat with the same
    /// token claims further rows.
    async fn claim_due(&self, command: &ClaimCommand, page: u32) -> Result<ClaimPage, StoreError>;

    /// Commits a page; one outcome each, in order. After its locks the store reads the authority's clock once: a claim that expired by
    /// then, or whose row differs in any field, is `Raced` and nothing of it is written; a clock before the claim's acquisition fails
    /// the page as `Unavailable`. Of each valid commit becomes durable together: Run, attempt 1, policy, two events, ledger, cursor, and the end
    /// of the claim.
    ///
    /// A decision without a further occurrence sets the trigger aside as `no further occurrence`, after what it decided. If the key of the occurrence
    /// is taken by a Run of the same task, trigger, revisions and occurrence, the answer is `AlreadyAdmitted` and only the schedule and the ledger
    /// move; if that Run has other facts, the trigger is set aside.
    ///
    /// A repeat of the same commits with the same identities after a lost answer writes nothing and answers `Raced` or `AlreadyAdmitted` with the
    /// caller's own Run; after `Raced`, a Run under the caller's id is the proof that the first one was committed.
    async fn commit(&self, commits: Vec<ScheduleCommit>) -> Result<Vec<CommitOutcome>, StoreError>;

    /// Gives claims back unused, each under its fence; a claim that is not valid any more is left alone. Answers how many were released.
    async fn release_claims(&self, claims: &[ScheduleClaim]) -> Result<u64, StoreError>;

    /// Computes again ([`crate::schedule::refresh_zone`]) the cursors that were computed with other zone data than `zone_data_version`, at most `page` rows a call, and
    /// answers what moved and whether there may be more.
    async fn refresh_zone_data(&self, zone_data_version: &str, page: u32) -> Result<(Vec<MovedCursor>, bool), StoreError>;
}
