//! What a cycle did, in the store's own times.

use runtime_core::{TimestampMs, schedule::ClaimPage};

/// Counts of one cycle. Every claim is in exactly one of the counts from `initialized` to `released`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleSummary {
    /// Observation of the first claim; `None` if nothing was claimed.
    pub first_claim_acquired_at: Option<TimestampMs>,
    /// Observation of the last claim; `None` if nothing was claimed.
    pub last_claim_acquired_at: Option<TimestampMs>,
    /// Triggers claimed.
    pub claimed: u32,
    /// Nothing was due: the cursor was stored.
    pub initialized: u32,
    /// No Run; the ledger says why.
    pub skipped: u32,
    /// Runs that this cycle made durable.
    pub admitted: u32,
    /// Occurrences whose Run was durable before.
    pub already_admitted: u32,
    /// Claims that were not valid any more.
    pub raced: u32,
    /// Triggers that are left alone until they are edited.
    pub set_aside: u32,
    /// Claims given back or dropped unused.
    pub released: u32,
    /// There may be more.
    pub saturated: bool,
    /// From the claim's observation to the earliest cursor that was not due then, those that this cycle stored included.
    pub next_due_ms: Option<u64>,
}

impl CycleSummary {
    pub(super) fn of(page: &ClaimPage) -> Self {
        Self {
            first_claim_acquired_at: page.claims.first().map(|claim| claim.acquired_at),
            last_claim_acquired_at: page.claims.last().map(|claim| claim.acquired_at),
            claimed: count(page.claims.len()),
            saturated: page.saturated,
            next_due_ms: page.next_due_ms,
            ..Self::default()
        }
    }

    /// Whether a next cycle at once would find other triggers than this one did.
    pub(super) fn progressed(&self) -> bool {
        self.initialized + self.skipped + self.admitted + self.already_admitted + self.set_aside > 0
    }

    pub(super) fn due_in(&mut self, ms: u64) {
        self.next_due_ms = Some(self.next_due_ms.map_or(ms, |earlier| earlier.min(ms)));
    }
}

pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a page holds at most 256 claims")
}
