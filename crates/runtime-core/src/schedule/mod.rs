//! Schedules: what is due, what becomes of it, and why an occurrence did not run. Pure; stores persist what is decided here.

mod claim;
mod decision;
mod edit;
mod ledger;

pub use claim::{Candidate, ClaimCommand, ClaimPage, CommitOutcome, ScheduleClaim, ScheduleCommit, Verdict};
pub use decision::{Action, Decision, DecisionInput, decide};
pub use edit::{Edit, EditKind, edit, refresh_zone};
pub use ledger::{LedgerEntry, LedgerReason, Stretch};

use crate::{
    TimestampMs,
    cron::Schedule,
    ids::{ProjectId, TriggerId},
    limits::{LEASE_MS_MAX, MISFIRE_GRACE_MS_MAX, MISFIRE_GRACE_SLACK_MS},
};

/// One row of `trigger_schedules`: where a trigger stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Key.
    pub project_id: ProjectId,
    /// Key.
    pub trigger_id: TriggerId,
    /// The revision that it evaluates.
    pub trigger_revision: u32,
    /// Occurrences before this instant are not this revision's.
    pub activated_at: TimestampMs,
    /// The cursor: every occurrence before it is admitted or in the ledger. `None`: to be computed from `activated_at` and
    /// `last_scheduled_at`.
    pub next_fire_at: Option<TimestampMs>,
    /// The latest admitted occurrence: with the unique key, the proof of admission. Never goes back, never pruned.
    pub last_scheduled_at: Option<TimestampMs>,
    /// Since when, by whom, and why it is paused.
    pub paused: Option<Pause>,
    /// Since when and why it is set aside: its definition cannot be evaluated, or it has no further occurrence.
    pub set_aside: Option<SetAside>,
    /// Raised with every durable change of the row.
    pub state_version: u64,
    /// Raised with every claim.
    pub claim_version: u64,
    /// The zone data that `next_fire_at` was computed with.
    pub zone_data_version: String,
    /// Authority time of the last change.
    pub updated_at: TimestampMs,
}

impl ScheduleRow {
    /// The first occurrence that is neither admitted nor recorded: the cursor, or where the next look puts it.
    pub fn next_owed(&self, schedule: &Schedule) -> Option<TimestampMs> {
        self.next_fire_at.or_else(|| decision::first_owed(schedule, self.activated_at, self.last_scheduled_at))
    }
}

/// A pause is a fact of the schedule, not a revision of the definition: applying a file never touches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Authority time.
    pub at: TimestampMs,
    /// Who.
    pub by: String,
    /// Why, at most 1024 bytes.
    pub reason: Option<String>,
}

/// Why the scheduler leaves a trigger alone until it is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Authority time.
    pub at: TimestampMs,
    /// Why, at most 1024 bytes.
    pub reason: String,
}

/// Checks that a takeover cannot make a misfire: `2 * lease + 5 s <= grace <= 5 min`.
pub fn check_grace(grace_ms: u64, lease_ms: u64) -> Result<(), crate::Invalid> {
    let least = 2 * lease_ms.min(LEASE_MS_MAX) + MISFIRE_GRACE_SLACK_MS;
    if (least..=MISFIRE_GRACE_MS_MAX).contains(&grace_ms) {
        return Ok(());
    }
    Err(crate::Invalid::new(
        "misfire_grace_ms",
        format!("is {grace_ms}; with a lease of {lease_ms} ms {least} ..= {MISFIRE_GRACE_MS_MAX} is allowed"),
    )
    .hint("with less, every takeover from a dead scheduler would be a misfire"))
}
