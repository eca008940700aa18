//! Executing Runs: workers lease attempts, keep the leases alive, and give back results, each write under the lease's fence.

use async_trait::async_trait;

use crate::{
    Invalid, StoreError, TimestampMs,
    definition::TaskSpec,
    ids::{AttemptId, RequestId, RunId, SessionId, WorkerId},
    limits::{CLAIM_PAGE_MAX, LEASE_MS_MAX, LEASE_MS_MIN},
    run::{AttemptOutcome, Run, RunAttempt, RunStatus, Started},
};

/// One start of a worker. A later start of the same worker has a higher generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Which worker.
    pub worker_id: WorkerId,
    /// Which start.
    pub session_id: SessionId,
    /// 1 for the first.
    pub generation: u64,
}

/// Names one lease; every write of a worker carries it, and a stale one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFence {
    /// Whose lease.
    pub session: Session,
    /// Of which attempt.
    pub attempt_id: AttemptId,
    /// Of which Run.
    pub run_id: RunId,
    /// Raised each time the attempt is leased; 1 for the first.
    pub lease_generation: u64,
    /// Secret of the lease; stores keep only its SHA-256.
    pub token: String,
}

/// Asks for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchClaim {
    /// Who.
    pub session: Session,
    /// At most so many: 1 ..= 256.
    pub slots: u32,
    /// 1000 ..= 60000.
    pub lease_ms: u64,
    /// Makes the claim replayable: the same request by the same session answers with the same leases, as long as they are.
    pub request_id: RequestId,
}

impl DispatchClaim {
    /// Checks the bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        check_lease(self.lease_ms)?;
        if (1..=CLAIM_PAGE_MAX).contains(&self.slots) {
            return Ok(());
        }
        Err(Invalid::new("slots", format!("is {}, 1 ..= {CLAIM_PAGE_MAX} is allowed", self.slots)))
    }
}

/// Checks a dispatch lease.
pub fn check_lease(lease_ms: u64) -> Result<(), Invalid> {
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
        return Ok(());
    }
    Err(Invalid::new("lease_ms", format!("is {lease_ms}, {LEASE_MS_MIN} ..= {LEASE_MS_MAX} is allowed")))
}

/// The right to execute one attempt until `expires_at` by the authority's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Goes into every write.
    pub fence: LeaseFence,
    /// `dispatching`.
    pub run: Run,
    /// `starting`.
    pub attempt: RunAttempt,
    /// The task revision that the Run pins.
    pub task: TaskSpec,
    /// End of the lease.
    pub expires_at: TimestampMs,
}

/// A page of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchPage {
    /// The authority's clock, read once, after the locks.
    pub observed_at: TimestampMs,
    /// Ordered by priority (highest first), waiting time (longest first), id.
    pub leases: Vec<Lease>,
    /// Until the earliest retry that is not yet due; `None` if there is none.
    pub next_retry_ms: Option<u64>,
    /// All slots are used: there may be more.
    pub saturated: bool,
}

/// What became of a write under a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced<T> {
    /// It is durable.
    Applied(T),
    /// The lease is not the caller's any more: expired, released, finished, taken by a later session. Nothing changed but, for a
    /// finish, the record of the late result.
    Stale,
}

/// Answers of [`DispatchStore::renew`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Held, with their new expiry.
    pub renewed: Vec<AttemptId>,
    /// Not the caller's any more: their processes must stop.
    pub lost: Vec<AttemptId>,
    /// Held, and somebody wants their Run to end.
    pub cancel_requested: Vec<AttemptId>,
}

/// A lease that is open in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLease {
    /// Who held it.
    pub session: Session,
    /// `dispatching` or `running`.
    pub run: Run,
    /// `starting` or `running`; its handle names the guard.
    pub attempt: RunAttempt,
    /// See [`LeaseFence`].
    pub lease_generation: u64,
}

/// What the same worker, started again, found out about an attempt of an earlier session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Its guard never got the order to start it: it waits again, and no attempt is used up.
    NeverStarted,
    /// It ended, and the guard kept the result.
    Finished(AttemptOutcome),
    /// Nothing of it runs any more, and nobody knows how it ended.
    Gone {
        /// For people.
        summary: String,
    },
}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Attempts that are now `lost`, with what became of their Runs.
    pub lost: Vec<(AttemptId, RunId, RunStatus)>,
    /// There may be more.
    pub saturated: bool,
}

/// Execution. While the authority's clock is below the high-water mark nothing is leased, extended or expired: pages are empty.
#[async_trait]
pub trait DispatchStore: Send + Sync {
    /// Begins a session; its generation is one above the worker's last. Writes of earlier sessions are stale from here on. The same session id again
    /// answers with the same session while it is open.
    async fn open_session(&self, worker_id: &WorkerId, session_id: SessionId, capacity: u32) -> Result<Session, StoreError>;

    /// Ends a session. One that holds leases is refused as `Invalid`; one that is not open any more has ended, and nothing is written.
    async fn close_session(&self, session: &Session) -> Result<(), StoreError>;

    /// Leases Runs that are `queued` and not cancelled, by priority, then waiting time, then id. A task at its `max_concurrent` is passed over and holds up
    /// nobody else. First, retries that have become due are queued (at most a page). Durable together: each Run, its attempt,
    /// event and lease.
    ///
    /// A session that is not open is refused as `Invalid`. A repeat answers with those leases of the first answer that are still held, token by token
    /// (tokens follow from the request), and takes nothing new.
    async fn claim(&self, claim: &DispatchClaim) -> Result<DispatchPage, StoreError>;

    /// Makes the identity of a guard durable: only after this may the command start. Refused at or after expiry, and when a cancellation was requested
    /// meanwhile (`Stale`, and the Run is cancelled). `timeout_ms` sets the attempt's deadline by the authority's clock. A repeat with the same handle
    /// answers the same and writes nothing.
    async fn started(&self, fence: &LeaseFence, started: &Started, timeout_ms: Option<u64>) -> Result<Fenced<RunAttempt>, StoreError>;

    /// Extends leases in one transaction. At or after expiry a lease is lost.
    async fn renew(&self, session: &Session, fences: &[LeaseFence], lease_ms: u64) -> Result<Renewal, StoreError>;

    /// Gives the result; the Run follows by its policy. Accepted until the expiry has been committed. A stale one is recorded as
    /// `attempt.late_callback_ignored`, once an attempt, if the fence was the attempt's own and somebody else had ended it. A repeat of a finish that was
    /// applied is `Stale` and writes nothing.
    async fn finish(&self, fence: &LeaseFence, outcome: &AttemptOutcome) -> Result<Fenced<RunStatus>, StoreError>;

    /// Gives an attempt back that was not started: it waits again, and is not used up. If a cancellation was requested, its Run has ended.
    async fn release(&self, fence: &LeaseFence, reason: &str) -> Result<Fenced<()>, StoreError>;

    /// Finds expired leases, at most `page` (1 ..= 256), by the authority's clock: attempt `lost`, Run by its policy.
    async fn expire(&self, page: u32) -> Result<Expired, StoreError>;

    /// Leases of earlier sessions of the session's worker, oldest first, at most `page` (1 ..= 256).
    async fn earlier_leases(&self, session: &Session, page: u32) -> Result<Vec<OpenLease>, StoreError>;

    /// Settles a lease of an earlier session of the same worker, on evidence. `Stale` if it is not open any more; a session that is not open is
    /// refused as `Invalid`. If a cancellation was requested, an attempt that never started is cancelled.
    async fn settle(&self, session: &Session, lease: &OpenLease, evidence: &Evidence) -> Result<Fenced<RunStatus>, StoreError>;
}
