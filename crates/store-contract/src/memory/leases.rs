//! Sessions and leases as they are kept.

use runtime_core::{
    Invalid, TimestampMs,
    digest::Digest,
    ids::{AttemptId, ProjectId, RunId, TaskId},
    ports::dispatch::{LeaseFence, Session},
    run::RunState,
};

use super::{Facts, page};

/// The latest start of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionRow {
    pub session: Session,
    pub closed: bool,
}

/// The latest lease of an attempt. It is the authority; what the attempt shows of it is a projection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseRow {
    pub session: Session,
    pub run_id: RunId,
    pub generation: u64,
    /// SHA-256 of the token and of the request, never either of them.
    pub token: Digest,
    pub request: Digest,
    pub acquired_at: TimestampMs,
    pub expires_at: TimestampMs,
    pub state: LeaseState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    Open,
    Released,
    /// Its own holder gave the result.
    Finished,
    /// Somebody else ended it: expiry, recovery, a cancellation.
    Taken,
}

pub(super) fn matches(lease: &LeaseRow, fence: &LeaseFence) -> bool {
    (&lease.session, lease.run_id, lease.generation) == (&fence.session, fence.run_id, fence.lease_generation)
        && lease.token == Digest::of(fence.token.as_bytes())
}

impl Facts {
    pub(super) fn current(&self, session: &Session) -> bool {
        self.sessions.get(&session.worker_id).is_some_and(|row| &row.session == session && !row.closed)
    }

    pub(super) fn check_current(&self, session: &Session) -> Result<(), Invalid> {
        if self.current(session) {
            return Ok(());
        }
        Err(Invalid::new("session", format!("{} is not the open session of worker {}", session.session_id, session.worker_id)))
    }

    pub(super) fn open_leases(&self) -> impl Iterator<Item = (&AttemptId, &LeaseRow)> {
        self.leases.iter().filter(|(_, lease)| lease.state == LeaseState::Open)
    }

    pub(super) fn fenced(&self, fence: &LeaseFence) -> Option<&LeaseRow> {
        let lease = self.leases.get(&fence.attempt_id).filter(|lease| lease.state == LeaseState::Open && matches(lease, fence));
        lease.filter(|_| self.current(&fence.session))
    }

    pub(super) fn run_state(&self, run_id: RunId) -> Option<RunState> {
        let run = self.runs.get(&run_id)?.clone();
        Some(RunState { attempt: self.latest_attempt(run_id)?.clone(), policy: self.policies.get(&run_id)?.clone(), run })
    }

    /// Whether so many attempts of the task run as may.
    pub(super) fn at_limit(&self, project_id: &ProjectId, task_id: &TaskId) -> bool {
        let Some(max) = self.task(project_id, task_id).and_then(|task| task.spec.max_concurrent) else { return false };
        let held = self.open_leases().filter_map(|(_, lease)| self.runs.get(&lease.run_id));
        let held = held.filter(|run| (&run.project_id, &run.task_id) == (project_id, task_id)).count();
        held >= page(max)
    }
}
