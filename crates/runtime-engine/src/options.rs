//! What a composition chooses.

use runtime_core::{
    Invalid,
    clock::ClockLimits,
    ids::{OwnerId, WorkerId},
    limits::{CLAIM_PAGE_DEFAULT, CLAIM_PAGE_MAX, LEASE_MS_DEFAULT, MISFIRE_GRACE_MS_DEFAULT},
    ports::dispatch::check_lease,
    schedule::check_grace,
};

/// Bounds of an engine. All times in milliseconds.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Unique per process start.
    pub owner_id: OwnerId,
    /// The same at every start.
    pub worker_id: WorkerId,
    /// Lease of schedule claims and of attempts, 1000 ..= 60000.
    pub lease_ms: u64,
    /// How late an occurrence may be admitted before it counts as a misfire.
    pub misfire_grace_ms: u64,
    /// Claims a page, 1 ..= 256; doubles up to 256 while there is more.
    pub page: u32,
    /// Attempts at once, 1 ..= 256.
    pub max_concurrent: u32,
    /// How long running attempts may go on once the engine is asked to stop.
    pub drain_ms: u64,
    /// Between TERM and KILL at a timeout, a cancellation and the end of the drain.
    pub kill_grace_ms: u64,
    /// When the authority's clock is not trusted.
    pub clock: ClockLimits,
}

impl EngineOptions {
    /// The defaults.
    pub fn new(owner_id: OwnerId, worker_id: WorkerId) -> Self {
        Self {
            owner_id,
            worker_id,
            lease_ms: LEASE_MS_DEFAULT,
            misfire_grace_ms: MISFIRE_GRACE_MS_DEFAULT,
            page: CLAIM_PAGE_DEFAULT,
            max_concurrent: 16,
            drain_ms: 10_000,
            kill_grace_ms: 5_000,
            clock: ClockLimits::default(),
        }
    }

    /// Checks the bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        check_lease(self.lease_ms)?;
        check_grace(self.misfire_grace_ms, self.lease_ms)?;
        for (field, value) in [("page", self.page), ("max_concurrent", self.max_concurrent)] {
            if !(1..=CLAIM_PAGE_MAX).contains(&value) {
                return Err(Invalid::new(field, format!("is {value}, 1 ..= {CLAIM_PAGE_MAX} is allowed")));
            }
        }
        Ok(())
    }

    /// How long after *sending* a request a lease may be used. What is kept back is for stopping the processes ([`Self::lost_grace_ms`])
    /// and, a twentieth, for clocks that do not run at the same speed.
    pub(crate) fn usable_ms(&self) -> u64 {
        self.lease_ms - self.lease_ms / 20 - self.lease_ms / 4
    }

    /// Between TERM and KILL where the lease is lost or about to end.
    pub(crate) fn lost_grace_ms(&self) -> u64 {
        self.kill_grace_ms.min(self.lease_ms / 4)
    }
}
